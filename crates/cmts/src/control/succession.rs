//! What a standby is told.

use std::net::IpAddr;

use wire::Mac;

use super::{Control, Purpose};
use crate::gateway::Command;
use crate::standby::{ExportedModem, ExportedState, Sequences};

impl Control {
    /// Goes on with handles that are free, downstream service identifiers from there on, and neighbours that another has
    /// learnt. They are asked for again.
    pub fn go_on(&mut self, free: Vec<u32>, next_dsid: u32, neighbours: &[(u8, IpAddr, [u8; 6])]) {
        let here = |handle: &u32| !free.contains(handle);
        let modems = self.layout.modems.iter().filter(|modem| here(&modem.spec.handle));
        self.by_mac = modems.map(|modem| (modem.mac, modem.spec.handle)).collect();
        (self.free, self.next_dsid) = (free, next_dsid);
        for (port, address, mac) in neighbours {
            self.neighbourhood.suppose(*port, *address, Mac(*mac));
        }
        if let Some(tables) = self.neighbourhood.tables() {
            self.forwarding.publish(tables);
        }
    }

    /// All that is not in the configuration, as it is now.
    pub fn book(&self) -> ExportedState {
        let mut modems: Vec<_> = self.all().collect();
        modems.sort_by_key(|modem| modem.spec.handle);
        ExportedState {
            modems: modems.into_iter().map(ExportedModem::of).collect(),
            next_dsid: self.next_dsid,
            neighbours: self
                .neighbourhood
                .plan()
                .neighbours()
                .iter()
                .map(|(port, address, mac)| (*port, *address, mac.0))
                .collect(),
        }
    }

    /// Grows with every change of [`book`](Self::book).
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Asks all workers where their numbers stand; [`sequences`](Self::sequences) has it when all have answered.
    pub fn ask_sequences(&mut self) {
        for (link, known) in self.links.iter_mut().zip(&mut self.sequences) {
            link.post(Command::Sequences(known.take().unwrap_or_default()), Purpose::Sequences);
        }
    }

    /// Where each worker's numbers stood when it was asked; none: one has not answered yet.
    pub fn sequences(&self) -> Option<Vec<&Sequences>> {
        self.sequences.iter().map(|known| known.as_deref()).collect()
    }
}
