//! Packets of the gateway's own to the core, such as those to DHCP servers: routed like all others.

use super::{Control, Refusal};
use crate::gateway::Command;

impl Control {
    /// Has the worker that owns a group route an IP packet to the core, in the group's VRF.
    ///
    /// # Errors
    /// There is no such group.
    pub(crate) fn originate(&mut self, group: u16, packet: Vec<u8>) -> Result<(), Refusal> {
        let worker = self.worker(group)?;
        let instance = self.layout.groups.get(usize::from(group)).map(|group| group.instance).unwrap_or_default();
        self.links[worker].post(Command::Originate(instance, packet));
        Ok(())
    }
}
