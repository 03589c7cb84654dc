//! Modems, the hosts behind them, their keys: what a worker looks packets up in.

use std::net::IpAddr;
use std::sync::Arc;

use crypto::{Direction, Engine, Key, KeyId};
use frame::Arena;
use table::bulk::{BulkMap, Full, Hash, Seed};
use table::hint::prefetch_index;
use wire::Mac;
use wire::docsis::{BondedPrivacy, Privacy};

use crate::flow::FlowSpec;
use dataplane::hqos::NONE;

/// Service flows a modem has at most, downstream.
pub const MAX_FLOWS: usize = 16;
/// Keys of one security association: even and odd.
pub const KEYS: usize = 2;

/// A modem as control describes it to a worker.
#[derive(Clone, Debug)]
pub struct ModemSpec {
    /// Its number, on all workers.
    pub handle: u32,
    /// Its service group.
    pub service_group: u16,
    /// Our hardware address towards the hosts behind it.
    pub cmts_mac: Mac,
    /// The hosts behind it; they may not learn others (DOCS-SUBMGT3-MIB, learnable off).
    pub hosts: Vec<(IpAddr, Mac)>,
    /// Filter groups downstream; 0: none.
    pub filters_down: [u8; 4],
    /// Filter groups upstream.
    pub filters_up: [u8; 4],
    /// Its set of classifiers.
    pub classifiers: u32,
    /// Its service flows by their places, the primary first; none: no flow is there. Flow `n` has the number
    /// `first_flow + n`. At most [`MAX_FLOWS`].
    pub flows: Vec<Option<FlowSpec>>,
    /// See `flows`.
    pub first_flow: u32,
    /// Its security association and keys; none: nothing is encrypted.
    pub security: Option<SecuritySpec>,
    /// Its SID clusters upstream.
    pub clusters: Vec<ClusterSpec>,
}

/// A security association.
#[derive(Clone, Debug)]
pub struct SecuritySpec {
    /// Its identifier, 14 bits: downstream the SAID, upstream the SID of the primary flow stands in its place.
    pub said: u16,
    /// Keys by the lowest bit of their sequence number.
    pub keys: [Option<(u8, Key)>; KEYS],
    /// The key that is sent by.
    pub active: u8,
}

/// A SID cluster: the service identifiers that one upstream service flow is granted by, on all its channels.
#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Service identifiers, on whichever of the service group's channels.
    pub sids: Vec<u16>,
    /// DSCP and ECN to set: bits kept, bits set (TLV 24.23, type of service overwrite).
    pub tos: Option<(u8, u8)>,
}

/// A host behind a modem.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Its modem.
    pub modem: u32,
    /// Its hardware address.
    pub mac: Mac,
}

/// What packets touch of a modem: one line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Modem {
    /// First of its service flows.
    pub first_flow: u32,
    /// Its set of classifiers.
    pub classifiers: u32,
    /// Filter groups downstream and upstream.
    pub filters: [[u8; 4]; 2],
    /// Our hardware address towards its hosts.
    pub cmts_mac: Mac,
    /// Its service group.
    pub service_group: u16,
    /// Hosts behind it.
    pub hosts: u16,
    /// The places of its service flows, one bit each.
    pub flows: u16,
    /// It is there.
    pub in_use: bool,
    /// Packets and bytes of its hosts, downstream as they came and upstream as they went.
    pub packets: [u64; 2],
    /// See `packets`.
    pub bytes: [u64; 2],
}

const _: () = assert!(size_of::<Modem>() == 64);

impl Modem {
    const NONE: Self = Self {
        first_flow: NONE,
        flows: 0,
        in_use: false,
        service_group: 0,
        classifiers: 0,
        filters: [[0; 4]; 2],
        cmts_mac: Mac::ZERO,
        hosts: 0,
        packets: [0; 2],
        bytes: [0; 2],
    };
}

/// A security association in a worker's hands.
#[derive(Clone, Copy, Debug)]
pub struct Security {
    /// It is there.
    pub in_use: bool,
    /// Its identifier.
    pub said: u16,
    /// Sequence number of the key we send by.
    pub active: u8,
    /// Sequence numbers of the keys there are, by their lowest bit; 255: none.
    pub sequences: [u8; KEYS],
    /// Their places in the engine that encrypts.
    pub down: [KeyId; KEYS],
    /// Their places in the engine that decrypts.
    pub up: [KeyId; KEYS],
    /// What frames are sent by; none: the key that is active is not there.
    sends: Option<Sends>,
}

/// The key that frames are sent by.
#[derive(Clone, Copy, Debug)]
pub struct Sends {
    /// Its place in the engine that encrypts.
    pub key: KeyId,
    /// What frames say of it.
    pub privacy: BondedPrivacy,
}

impl Security {
    const NONE: Self = Self {
        in_use: false,
        said: 0,
        active: 0,
        sequences: [255; KEYS],
        down: [KeyId::CLEAR; KEYS],
        up: [KeyId::CLEAR; KEYS],
        sends: None,
    };

    /// A key came, or another is sent by.
    fn changed(&mut self) {
        let half = usize::from(self.active & 1);
        self.sends = (self.sequences[half] == self.active).then(|| Sends {
            key: self.down[half],
            privacy: BondedPrivacy::new(Privacy::encrypted(self.active, self.said)),
        });
    }
}

/// Why a worker did not take a modem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// An index can not grow.
    #[error("no memory for another modem")]
    Memory,
    /// An address or service identifier is another modem's.
    #[error("an address or service identifier of it is another modem's")]
    Taken,
}

/// The places of a modem's service flows, one bit each.
fn places(spec: &ModemSpec) -> u16 {
    spec.flows.iter().take(MAX_FLOWS).enumerate().fold(0, |bits, (n, flow)| bits | u16::from(flow.is_some()) << n)
}

const _: () = assert!(MAX_FLOWS <= u16::BITS as usize);

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self::Memory
    }
}

/// Modems of one worker. Index of everything: the handle.
pub struct Modems {
    by_v4: BulkMap<u32, u32>,
    by_v6: BulkMap<u128, u32>,
    hosts: Vec<Host>,
    free_hosts: Vec<u32>,
    modems: Vec<Modem>,
    securities: Vec<Security>,
    /// Each modem's addresses, to take them out again.
    addresses: Vec<Vec<IpAddr>>,
    /// What encrypts.
    pub encrypt: Engine,
    /// What decrypts.
    pub decrypt: Engine,
}

impl Modems {
    /// None, with room for so many hosts.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with_capacity(modems: usize, hosts: usize) -> Result<Self, Full> {
        let seed = Seed::random();
        Ok(Self {
            by_v4: BulkMap::with_capacity(hosts, seed)?,
            by_v6: BulkMap::with_capacity(hosts, seed)?,
            hosts: Vec::with_capacity(hosts),
            free_hosts: Vec::new(),
            modems: Vec::with_capacity(modems),
            securities: Vec::with_capacity(modems),
            addresses: Vec::with_capacity(modems),
            encrypt: Engine::new(Direction::Encrypt),
            decrypt: Engine::new(Direction::Decrypt),
        })
    }

    /// Asks for the place of an IPv4 address.
    #[inline(always)]
    pub(crate) fn prefetch4(&self, address: u32) -> Hash {
        self.by_v4.prefetch(address)
    }

    /// Asks for the place of an IPv6 address.
    #[inline(always)]
    pub(crate) fn prefetch6(&self, address: u128) -> Hash {
        self.by_v6.prefetch(address)
    }

    /// The host of an IPv4 address.
    #[inline(always)]
    pub fn host4(&self, hash: Hash, address: u32) -> Option<u32> {
        self.by_v4.get_hashed(hash, address)
    }

    /// The host of an IPv6 address.
    #[inline(always)]
    pub fn host6(&self, hash: Hash, address: u128) -> Option<u32> {
        self.by_v6.get_hashed(hash, address)
    }

    /// Asks for the line of a host.
    #[inline(always)]
    pub(crate) fn prefetch_host(&self, host: u32) {
        prefetch_index(&self.hosts, host as usize);
    }

    /// Asks for the lines of a modem.
    #[inline(always)]
    pub(crate) fn prefetch_modem(&self, modem: u32) {
        prefetch_index(&self.modems, modem as usize);
    }

    /// Asks for the line of a modem's security association.
    #[inline(always)]
    pub(crate) fn prefetch_security(&self, modem: u32) {
        prefetch_index(&self.securities, modem as usize);
    }

    /// A host.
    #[inline(always)]
    pub fn host(&self, host: u32) -> Option<&Host> {
        self.hosts.get(host as usize)
    }

    /// A modem.
    #[inline(always)]
    pub fn modem(&self, modem: u32) -> Option<&Modem> {
        self.modems.get(modem as usize).filter(|modem| modem.in_use)
    }

    /// A modem, to count.
    #[inline(always)]
    pub(crate) fn modem_mut(&mut self, modem: u32) -> Option<&mut Modem> {
        self.modems.get_mut(modem as usize).filter(|modem| modem.in_use)
    }

    /// A modem's security association.
    #[inline(always)]
    pub fn security(&self, modem: u32) -> Option<&Security> {
        self.securities.get(modem as usize).filter(|security| security.in_use)
    }

    /// What a modem's frames are sent by, if they are encrypted and the key is there.
    #[inline(always)]
    pub fn sends(&self, modem: u32) -> Option<&Sends> {
        self.securities.get(modem as usize)?.sends.as_ref()
    }

    /// Bytes of modems, hosts and keys, with their indexes.
    pub fn bytes(&self) -> usize {
        let addresses = self.addresses.iter().map(Vec::capacity).sum::<usize>() * size_of::<IpAddr>();
        self.by_v4.bytes()
            + self.by_v6.bytes()
            + self.hosts.capacity() * size_of::<Host>()
            + self.free_hosts.capacity() * size_of::<u32>()
            + self.modems.capacity() * size_of::<Modem>()
            + self.securities.capacity() * size_of::<Security>()
            + self.addresses.capacity() * size_of::<Vec<IpAddr>>()
            + addresses
            + self.encrypt.bytes()
            + self.decrypt.bytes()
    }

    /// All places, with and without a modem.
    pub fn all(&self) -> &[Modem] {
        &self.modems
    }

    /// How many modems there are.
    pub fn len(&self) -> usize {
        self.modems.iter().filter(|modem| modem.in_use).count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => self.by_v4.get(address.into()),
            IpAddr::V6(address) => self.by_v6.get(address.into()),
        }
    }

    /// The modem that a host is behind.
    pub fn of_host(&self, address: IpAddr) -> Option<u32> {
        Some(self.host(self.find(address)?)?.modem)
    }

    /// Takes a modem in, or replaces what is known of it; its counts stay.
    ///
    /// # Errors
    /// Reason for which it is refused. Where an address is another's, nothing has changed; without memory the modem is
    /// incomplete.
    pub fn install(&mut self, spec: &ModemSpec, arena: &Arc<Arena>) -> Result<(), Refused> {
        let owner = |host: u32| self.hosts.get(host as usize).map(|host| host.modem);
        let taken =
            |(address, _): &(IpAddr, Mac)| self.find(*address).is_some_and(|host| owner(host) != Some(spec.handle));
        if spec.hosts.iter().any(taken) {
            return Err(Refused::Taken);
        }
        let at = spec.handle as usize;
        while self.modems.len() <= at {
            self.modems.push(Modem::NONE);
            self.securities.push(Security::NONE);
            self.addresses.push(Vec::new());
        }
        self.forget_hosts(spec.handle);
        for (address, mac) in &spec.hosts {
            let host = Host { modem: spec.handle, mac: *mac };
            let place = match self.free_hosts.pop() {
                Some(place) => {
                    self.hosts[place as usize] = host;
                    place
                }
                None => {
                    self.hosts.push(host);
                    self.hosts.len() as u32 - 1
                }
            };
            match address {
                IpAddr::V4(address) => self.by_v4.insert((*address).into(), place)?,
                IpAddr::V6(address) => self.by_v6.insert((*address).into(), place)?,
            };
            self.addresses[at].push(*address);
        }
        let before = self.modems[at];
        self.modems[at] = Modem {
            first_flow: spec.first_flow,
            flows: places(spec),
            in_use: true,
            service_group: spec.service_group,
            classifiers: spec.classifiers,
            filters: [spec.filters_down, spec.filters_up],
            cmts_mac: spec.cmts_mac,
            hosts: spec.hosts.len() as u16,
            packets: before.packets,
            bytes: before.bytes,
        };
        self.forget_keys(spec.handle, arena);
        if let Some(security) = &spec.security {
            let place = &mut self.securities[at];
            (place.in_use, place.said, place.active) = (true, security.said, security.active);
            for (sequence, key) in security.keys.iter().flatten() {
                self.set_key(spec.handle, *sequence, key, arena);
            }
        }
        Ok(())
    }

    /// Takes a modem's service flows, filter groups and classifiers; all else stays. False when there is no such modem.
    pub fn change(&mut self, spec: &ModemSpec) -> bool {
        let Some(modem) = self.modem_mut(spec.handle) else { return false };
        modem.flows = places(spec);
        modem.filters = [spec.filters_down, spec.filters_up];
        modem.classifiers = spec.classifiers;
        true
    }

    /// Gives a security association a key; the one with the same lowest bit of its number goes. False when there is no
    /// such association.
    pub fn set_key(&mut self, modem: u32, sequence: u8, key: &Key, arena: &Arc<Arena>) -> bool {
        let Some(security) = self.securities.get_mut(modem as usize).filter(|security| security.in_use) else {
            return false;
        };
        let half = usize::from(sequence & 1);
        if security.sequences[half] != 255 {
            self.encrypt.remove(arena, security.down[half]);
            self.decrypt.remove(arena, security.up[half]);
        }
        security.sequences[half] = sequence & 0x0f;
        security.down[half] = self.encrypt.insert(key);
        security.up[half] = self.decrypt.insert(key);
        security.changed();
        true
    }

    /// Sends by another key from now on; the receiver finds it by its number. False when there is none of that number.
    pub(crate) fn set_active(&mut self, modem: u32, sequence: u8) -> bool {
        let security = self.securities.get_mut(modem as usize).filter(|security| security.in_use);
        let Some(security) = security.filter(|s| s.sequences[usize::from(sequence & 1)] == sequence & 0x0f) else {
            return false;
        };
        security.active = sequence & 0x0f;
        security.changed();
        true
    }

    /// Takes a modem out; false when there is none.
    pub fn remove(&mut self, modem: u32, arena: &Arc<Arena>) -> bool {
        if self.modem(modem).is_none() {
            return false;
        }
        self.forget_hosts(modem);
        self.forget_keys(modem, arena);
        self.modems[modem as usize] = Modem::NONE;
        true
    }

    fn forget_hosts(&mut self, modem: u32) {
        for address in std::mem::take(&mut self.addresses[modem as usize]) {
            let place = match address {
                IpAddr::V4(address) => self.by_v4.remove(address.into()),
                IpAddr::V6(address) => self.by_v6.remove(address.into()),
            };
            if let Some(place) = place {
                self.hosts[place as usize].modem = NONE;
                self.free_hosts.push(place);
            }
        }
    }

    fn forget_keys(&mut self, modem: u32, arena: &Arc<Arena>) {
        let security = std::mem::replace(&mut self.securities[modem as usize], Security::NONE);
        for half in (0..KEYS).filter(|half| security.in_use && security.sequences[*half] != 255) {
            self.encrypt.remove(arena, security.down[half]);
            self.decrypt.remove(arena, security.up[half]);
        }
    }
}
