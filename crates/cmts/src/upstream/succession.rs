//! What is under way upstream when another process goes on: pieces of bursts, frames begun, segments that wait.

use std::collections::HashMap;

use engine::{Drop, Env, Io};
use wire::{ccf, uepi};

use super::cluster::Cluster;
use super::unit::Unit;
use super::{Upstream, refuse};
use crate::standby::UnderWay;
use crate::{drops, punts};

impl Upstream {
    /// Takes out what is under way, for another process to go on with. Nothing stays that a packet was taken in for.
    pub(crate) fn export_upstream(&mut self, env: &mut Env) -> Vec<UnderWay> {
        let mut all = Vec::new();
        let mut hand_out = |begun: bool, under_way| {
            if begun {
                env.stats.add(Io::Released, 1);
                env.stats.add(Io::HandedOut, 1);
            }
            all.push(under_way);
        };
        for wire in &mut self.wires {
            let Some(next) = wire.unit.expected() else { continue };
            let header = wire.unit.begun();
            let (_, payload) = wire.unit.complete();
            hand_out(header.is_some(), UnderWay::Burst { session: wire.spec.session, next, header, payload });
        }
        for cluster in &mut self.clusters {
            let (service_group, Some(sid)) = (cluster.service_group, cluster.spec().sids.first().copied()) else {
                continue;
            };
            let Some((next, begun)) = cluster.take() else { continue };
            let is_begun = begun.as_ref().is_some_and(|bytes| !bytes.is_empty());
            hand_out(is_begun, UnderWay::Stream { service_group, sid, next, begun });
        }
        for (at, sequence, bytes) in self.order.take_all() {
            let Some(cluster) = self.clusters.get(at as usize) else { continue };
            let Some(sid) = cluster.spec().sids.first().copied() else { continue };
            hand_out(true, UnderWay::Segment { service_group: cluster.service_group, sid, sequence, bytes });
        }
        all
    }

    /// Goes on with what was under way in another process, for the modems there are.
    pub fn inherit(&mut self, all: Vec<UnderWay>, env: &mut Env) {
        for under_way in all {
            let bytes = under_way.bytes();
            if let Some(bytes) = bytes {
                env.stats.add(Io::HandedIn, 1);
                env.stats.terminated(punts::UEPI);
                if let Err(why) = self.resume(under_way, env.now) {
                    refuse(why, bytes, env);
                }
            } else {
                // Numbers alone: of who has gone meanwhile, they are nobody's.
                let _ = self.resume(under_way, env.now);
            }
        }
    }

    fn resume(&mut self, under_way: UnderWay, now: u64) -> Result<(), Drop> {
        match under_way {
            UnderWay::Burst { session, next, header, payload } => {
                let wire = self.by_session.get(session).and_then(|at| self.wires.get_mut(at as usize));
                let wire = wire.ok_or(drops::UNKNOWN_PSEUDOWIRE)?;
                let header = header.map(|bytes| uepi::Header::parse(&bytes)).transpose();
                wire.unit.resume(next, header.map_err(|_| drops::UEPI_MALFORMED)?, &payload);
            }
            UnderWay::Stream { service_group, sid, next, begun } => {
                let at = self.cluster_of(service_group, sid)?;
                self.clusters[at as usize].resume(next, begun);
            }
            UnderWay::Segment { service_group, sid, sequence, bytes } => {
                ccf::Repr::parse(&bytes).map_err(|_| drops::UEPI_MALFORMED)?;
                let at = self.cluster_of(service_group, sid)?;
                self.order.hold(at, sequence, &bytes, now)?;
            }
        }
        Ok(())
    }

    /// Each modem's clusters, by their places.
    pub(crate) fn clusters_of(&self) -> HashMap<u32, Vec<u32>> {
        let mut all: HashMap<u32, Vec<u32>> = HashMap::new();
        for (at, cluster) in (0..).zip(&self.clusters) {
            all.entry(cluster.modem).or_default().push(at);
        }
        all
    }

    /// The cluster that a service identifier is in.
    pub(crate) fn cluster_mut(&mut self, service_group: u16, sid: u16) -> Option<&mut Cluster> {
        let at = self.cluster_of(service_group, sid).ok()?;
        self.clusters.get_mut(at as usize)
    }

    /// Data units of all pseudowires, with the session's number.
    pub(crate) fn units(&self) -> impl Iterator<Item = (u32, &Unit)> {
        self.wires.iter().map(|wire| (wire.spec.session, &wire.unit))
    }

    /// The data unit of a session.
    pub(crate) fn unit_mut(&mut self, session: u32) -> Option<&mut Unit> {
        let at = self.by_session.get(session)?;
        self.wires.get_mut(at as usize).map(|wire| &mut wire.unit)
    }

    /// Shows segments that wait for earlier ones: service group and first SID of the cluster, number, since when,
    /// bytes.
    pub(crate) fn each_segment(&self, mut show: impl FnMut((u16, u16), u16, u64, &[u8])) {
        self.order.each(|at, sequence, since, bytes| {
            let Some(cluster) = self.clusters.get(at as usize) else { return };
            let sid = cluster.spec().sids.first().copied().unwrap_or(0);
            show((cluster.service_group, sid), sequence, since, bytes);
        });
    }

    /// Keeps a segment until its turn, of the cluster that a service identifier is in.
    ///
    /// # Errors
    /// There is no such cluster, or no room.
    pub(crate) fn hold(
        &mut self,
        (service_group, sid): (u16, u16),
        sequence: u16,
        bytes: &[u8],
        since: u64,
    ) -> Result<(), Drop> {
        let at = self.cluster_of(service_group, sid)?;
        self.order.hold(at, sequence, bytes, since)
    }

    fn cluster_of(&self, service_group: u16, sid: u16) -> Result<u32, Drop> {
        self.by_sid.get((service_group.into(), sid.into())).ok_or(drops::UNKNOWN_SID)
    }
}
