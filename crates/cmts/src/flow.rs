//! Downstream service flows (CM-SP-MULPI): what is cable's of a flow of [`dataplane::hqos`].

use dataplane::hqos::{self, Label, NONE};

use crate::channels::Channels;

/// The downstream scheduler: service flows that leave by channels.
pub type Scheduler = hqos::Scheduler<Channels, FlowLabel>;

/// What a service flow is given; made by control. `qos.group` is the bonding group, among the service group's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSpec {
    /// Maximum sustained rate, burst and peak rate (TLV 25.8, 25.9, 25.27), reserved rate (25.10), priority (25.7).
    pub qos: hqos::FlowSpec,
    /// Its downstream service identifier: its packets are numbered. None: they are not, and it has one channel.
    pub dsid: Option<u32>,
}

/// What is kept with a service flow for its packets' MAC headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLabel {
    /// Whose it is.
    pub modem: u32,
    /// What encrypts it, as a number of the modem's security association; [`NONE`]: nothing.
    pub security: u32,
    /// [`FlowSpec::dsid`]; [`NONE`]: its packets are not numbered.
    pub dsid: u32,
    /// Number of its next packet.
    pub sequence: u16,
}

const _: () = assert!(size_of::<hqos::Flow<FlowLabel>>() == 128, "two cache lines");

impl FlowLabel {
    /// Of a service flow none of whose packets was sent yet.
    pub fn new(modem: u32, security: u32, dsid: Option<u32>) -> Self {
        Self { modem, security, dsid: dsid.unwrap_or(NONE), sequence: 0 }
    }
}

impl Label for FlowLabel {
    const NONE: Self = Self { modem: NONE, security: NONE, dsid: NONE, sequence: 0 };

    #[inline(always)]
    fn pulled(&mut self) -> Self {
        let this = *self;
        self.sequence = this.sequence.wrapping_add(1);
        this
    }

    /// Its packets are numbered on.
    fn change(&mut self, to: Self) {
        *self = Self { sequence: self.sequence, ..to };
    }
}
