//! A packet as it was before it was translated: what its sender knows it by.

use wire::{Fragment, L3L4};

use super::kind::Kind;
use super::mapping::key;
use super::rewrite::{self, End};
use super::tables::Nat;
use crate::forward::InstanceId;
use table::records::LineId;

/// Which way a translated packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From a subscriber: its source was translated.
    Out,
    /// To a subscriber: its destination was.
    In,
}

impl Nat {
    /// Gives a translated packet back the end it came with, so that an ICMP error may quote it as its sender sent it
    /// (RFC 5508, 4.1). One that was not translated, or whose mapping is gone, stays as it is; nothing is refreshed.
    pub fn undo(&self, instance: InstanceId, side: Side, packet: &mut [u8]) {
        let _ = self.try_undo(instance, side, packet);
    }

    fn try_undo(&self, instance: InstanceId, side: Side, packet: &mut [u8]) -> Option<()> {
        let domain = self.blocks.domain(instance)?;
        let ip = L3L4::parse(packet).ok().filter(|ip| ip.version == 4)?;
        if ip.fragment == Fragment::Later {
            return None; // errors are about first fragments only
        }
        let (Kind::Flow(protocol), src_port, dst_port) = Kind::of(&ip, packet) else { return None };
        let (end, new) = match side {
            Side::Out => {
                let id = self.outside.get(key(domain, protocol, ip.src, src_port))?;
                let mapping = self.mapping(LineId(id))?;
                (End::Source, (mapping.private, mapping.private_port))
            }
            Side::In => {
                let id = self.inside.get(key(domain, protocol, ip.dst, dst_port))?;
                let mapping = self.mapping(LineId(id))?;
                (End::Destination, (mapping.public, mapping.public_port))
            }
        };
        rewrite::end(packet, ip.l4.into(), protocol, end, new)
    }
}
