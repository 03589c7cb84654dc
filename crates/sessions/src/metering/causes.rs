//! What makes a rule report.

use std::ops::{BitOr, BitOrAssign};

/// A set of what makes a rule report, by whatever names its protocol has for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes(u16);

impl Causes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// So many octets have passed.
    pub const VOLUME_THRESHOLD: Self = Self(1);
    /// So many seconds were metered.
    pub const TIME_THRESHOLD: Self = Self(1 << 1);
    /// There were so many events.
    pub const EVENT_THRESHOLD: Self = Self(1 << 2);
    /// As many octets have passed as may.
    pub const VOLUME_QUOTA: Self = Self(1 << 3);
    /// As many seconds were metered as may.
    pub const TIME_QUOTA: Self = Self(1 << 4);
    /// There were as many events as may.
    pub const EVENT_QUOTA: Self = Self(1 << 5);
    /// There was no traffic for so long that quotas are used up.
    pub const HOLDING: Self = Self(1 << 6);
    /// Quotas hold no longer.
    pub const VALIDITY: Self = Self(1 << 7);
    /// A period is over.
    pub const PERIOD: Self = Self(1 << 8);
    /// Traffic has started.
    pub const START: Self = Self(1 << 9);
    /// Traffic has stopped.
    pub const STOP: Self = Self(1 << 10);
    /// The monitoring time has come.
    pub const MONITORING: Self = Self(1 << 11);
    /// A rule that this one is linked to reports.
    pub const LINKED: Self = Self(1 << 12);
    /// The control plane asks.
    pub const QUERY: Self = Self(1 << 13);
    /// The control plane has ended the rule or its session.
    pub const ENDED: Self = Self(1 << 14);
    /// We have ended the session.
    pub const ENDED_HERE: Self = Self(1 << 15);

    /// Quotas that are used up.
    pub(super) const QUOTAS: Self =
        Self(Self::VOLUME_QUOTA.0 | Self::TIME_QUOTA.0 | Self::EVENT_QUOTA.0 | Self::HOLDING.0);

    /// Whether all of those are in it.
    pub fn contains(self, those: Self) -> bool {
        self.0 & those.0 == those.0
    }

    /// Whether any of those is in it.
    pub fn intersects(self, those: Self) -> bool {
        self.0 & those.0 != 0
    }
}

impl BitOr for Causes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Causes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
