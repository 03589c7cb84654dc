//! Steering by the device: rules of `rte_flow` that lead packets to the queues of the workers that own them.
//!
//! A device has its rules once each of its queues has a port, and all of them or none: what it refuses, workers hand
//! over.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

use port::PortError;
use port::flows::{FlowKey, FlowRule, Flows};

use crate::{device, sys};

/// The most rules of a device: beyond, what devices have room for differs by far.
const MOST: usize = 512;
/// GTP-U's port (3GPP TS 29.281, 4.4.2), the one tunnel over UDP that devices know by identifier.
const GTPU: u16 = 2152;

/// A rule that a device has.
struct Installed {
    rule: FlowRule,
    queue: u16,
    at: NonNull<sys::Flow>,
}

/// What is told of how a device steers.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// For people; empty where there was nothing to steer by.
    pub words: String,
    /// Why it does not, though it was asked to.
    pub refused: Option<String>,
}

/// How a device steers.
#[derive(Default)]
pub struct Steering {
    /// Each port's worker and queue.
    members: Vec<(u16, u16)>,
    /// Each of several queues has a port: from then on the device is asked, at every change anew.
    asked: bool,
    installed: Vec<Installed>,
    /// Not wanted any more, and the device did not destroy them.
    stuck: Vec<Installed>,
    /// Why it does not, though it was asked to.
    refused: Option<String>,
}

// SAFETY: rules are the device's, and may be made and destroyed by any thread, one at a time: the device's lock is
// held.
unsafe impl Send for Steering {}

impl Steering {
    /// A port was opened. With that of the device's last queue, the device is asked to steer.
    pub fn join(&mut self, port: u16, queues: u16, member: (u16, u16), flows: &Flows) {
        self.members.push(member);
        if self.members.len() == usize::from(queues) && queues > 1 {
            self.asked = true;
            // The reason is kept.
            let _ = self.change(port, flows);
        }
    }

    /// Makes the rules those of `flows`; returns how many there are.
    ///
    /// # Errors
    /// Why the device refuses: it has no rules any more, but those that it does not destroy.
    pub fn change(&mut self, port: u16, flows: &Flows) -> Result<usize, String> {
        let done = self.wanted(flows).and_then(|wanted| self.replace(port, &wanted));
        if let Err(why) = &done {
            self.clear(port);
            self.refused = Some(why.clone());
        } else {
            self.refused = None;
        }
        done.map(|()| self.installed.len())
    }

    /// The rules, with the queues they lead to.
    fn wanted(&self, flows: &Flows) -> Result<Vec<(FlowRule, u16)>, String> {
        let rules = flows.rules();
        if rules.len() > MOST {
            return Err(format!("{} rules, more than {MOST}", rules.len()));
        }
        let queue = |rule: FlowRule| {
            let member = self.members.iter().find(|(worker, _)| *worker == rule.worker);
            member.map(|(_, queue)| (rule, *queue)).ok_or_else(|| format!("worker {} has no queue of it", rule.worker))
        };
        rules.into_iter().map(queue).collect()
    }

    /// Rules that stay are left alone; others go before new ones come, for devices refuse two of one pattern.
    fn replace(&mut self, port: u16, wanted: &[(FlowRule, u16)]) -> Result<(), String> {
        // Asked first: few refuse what they have said they would take.
        for (rule, queue) in wanted {
            make(port, rule, *queue, true)?;
        }
        let stays = |at: &Installed| wanted.contains(&(at.rule, at.queue));
        self.installed.extend(self.stuck.extract_if(.., |at| stays(at)));
        self.stuck.extend(self.installed.extract_if(.., |at| !stays(at)));
        self.stuck.retain(|at| !destroy(port, at));
        for (rule, queue) in wanted {
            if !self.installed.iter().any(|at| (at.rule, at.queue) == (*rule, *queue)) {
                let at = make(port, rule, *queue, false)?;
                self.installed.push(Installed { rule: *rule, queue: *queue, at });
            }
        }
        Ok(())
    }

    /// Takes all rules back; before the device is closed too.
    pub fn clear(&mut self, port: u16) {
        self.stuck.append(&mut self.installed);
        self.stuck.retain(|at| !destroy(port, at));
    }

    /// What is told of it.
    pub fn told(&self) -> Told {
        let words = match (&self.refused, self.installed.len()) {
            (Some(why), _) => format!(", no rte_flow rules: {why}"),
            (None, 0) => String::new(),
            (None, 1) => ", 1 rte_flow rule".to_owned(),
            (None, count) => format!(", {count} rte_flow rules"),
        };
        let stuck = match self.stuck.len() {
            0 => "",
            1 => ", 1 rule could not be taken back",
            count => &format!(", {count} rules could not be taken back"),
        };
        Told { words: words + stuck, refused: self.refused.clone() }
    }
}

fn make(port: u16, rule: &FlowRule, queue: u16, only_ask: bool) -> Result<NonNull<sys::Flow>, String> {
    let kind = match rule.key {
        FlowKey::Tunnel { udp_port: GTPU, over6 } => u8::from(over6),
        FlowKey::Tunnel { udp_port, .. } => return Err(format!("no rule knows tunnels to UDP port {udp_port}")),
        FlowKey::Session => 2,
        FlowKey::To4 => 3,
        FlowKey::To6 => 4,
        FlowKey::Vlan => 5,
    };
    let tags = if rule.key == FlowKey::Vlan { 1 } else { rule.tags };
    let raw = sys::FlowRule { kind, tags, queue, value: rule.value, mask: rule.mask };
    let mut why: [c_char; 256] = [0; 256];
    // SAFETY: the device is open; the rule and the text's room outlive the call.
    let flow = unsafe { sys::weir_flow_create(port, &raw const raw, only_ask.into(), why.as_mut_ptr(), why.len()) };
    // What the driver logged besides stands in its answer.
    crate::eal::forget_log();
    NonNull::new(flow).ok_or_else(|| {
        // SAFETY: the shim has ended the text.
        let why = unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy().into_owned();
        format!("{why} ({rule} to queue {queue})")
    })
}

/// False: the device still has it.
fn destroy(port: u16, at: &Installed) -> bool {
    // SAFETY: the rule is the device's, which is open, and has not been destroyed.
    let failed = unsafe { sys::weir_flow_destroy(port, at.at.as_ptr()) };
    crate::eal::forget_log();
    failed == 0
}

/// Whether an open device steers, or is asked to at the next change.
pub fn is_on(device: &str) -> bool {
    let all = device::lock();
    let device = all.as_ref().and_then(|all| all.get(device)?.upgrade());
    device.is_some_and(|device| device.steer(|steering| steering.asked))
}

/// Has an open device steer by other owners, if each of its queues has a port: see [`port::flows::change_flows`]. One
/// that has refused is asked again; that it refuses still, for the same reason, is no news and no error.
///
/// # Errors
/// [`PortError::Device`]: why it refuses.
pub fn change(device: &str, flows: &Flows) -> Result<usize, PortError> {
    // Nobody closes the device meanwhile.
    let all = device::lock();
    let Some(device) = all.as_ref().and_then(|all| all.get(device)?.upgrade()) else { return Ok(0) };
    let (before, changed) = device.steer(|steering| {
        let before = steering.refused.clone();
        (before, if steering.asked { steering.change(device.port, flows) } else { Ok(0) })
    });
    match changed {
        Err(why) if before.as_ref() == Some(&why) => Ok(0),
        changed => changed.map_err(|why| PortError::Device {
            doing: format!("changing the rte_flow rules of DPDK device {}", device.name),
            why,
            advice: "workers hand packets over; the device is asked again at the next change of owners".to_owned(),
        }),
    }
}
