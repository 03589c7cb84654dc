//! In the place of libipsec-mb, where it was not found: nobody.

use std::convert::Infallible;

use crate::key::Key;

/// As with lanes.
pub(crate) const BURST: usize = 64;

/// As with lanes.
pub(crate) const MOST: usize = 255;

/// No key.
#[derive(Clone, Default)]
pub(crate) struct LaneKey([u8; 0]);

/// No jobs.
#[derive(Default)]
pub(crate) struct Burst([u8; 0]);

impl Burst {
    pub(crate) fn is_full(&self) -> bool {
        false
    }

    /// # Safety
    /// Never called: there are no lanes.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn push(&mut self, _: &mut [u8], _: (&LaneKey, u8), _: u8, _: bool, _: u8) {}
}

/// Can not be made.
pub(crate) struct Lanes(Infallible);

impl Lanes {
    pub(crate) fn new(_: bool) -> Option<Self> {
        None
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.0 {}
    }

    pub(crate) fn expand(&mut self, _: &Key) -> LaneKey {
        match self.0 {}
    }

    pub(crate) fn in_flight(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn submit(&mut self, _: &mut Burst, _: impl FnMut(u8, bool)) {
        match self.0 {}
    }

    pub(crate) fn submit_in_turn(&mut self, _: &mut Burst, _: impl FnMut(u8, bool)) {
        match self.0 {}
    }

    pub(crate) fn flush(&mut self, _: usize, _: impl FnMut(u8, bool)) {
        match self.0 {}
    }
}
