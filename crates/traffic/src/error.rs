//! What can be wrong with a profile.

use thiserror::Error;

/// Why a [`crate::Profile`] can't be played; every variant names the key to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A count must be at least one.
    #[error("`{key}` must be at least 1")]
    Zero { key: &'static str },
    /// A number above what is possible.
    #[error("`{key}`: {value} is above the most that is possible, {max}")]
    TooLarge {
        key: &'static str,
        /// What it would come to.
        value: u64,
        /// The most it may.
        max: u64,
    },
    /// A number below what is possible.
    #[error("`{key}`: {value} is below the least that is possible, {min}")]
    TooSmall {
        key: &'static str,
        value: u64,
        /// The least it may be.
        min: u64,
    },
    /// A range of addresses runs past the end of the address space.
    #[error("`{key}`: {count} addresses from {first} run past the end of the address space")]
    Addresses {
        key: &'static str,
        /// The first address.
        first: String,
        count: u32,
    },
    /// Two ranges of addresses overlap.
    #[error("`{key}` and `{other}` overlap")]
    Overlap {
        key: &'static str,
        /// The other key.
        other: &'static str,
    },
    /// A share that is not between 0 and 1.
    #[error("`{key}` must be a share from 0 to 1")]
    NotAShare { key: &'static str },
    /// A ratio with negative, infinite or no parts.
    #[error("`{key}`: both parts must be finite and not negative, and one of them above 0")]
    Ratio { key: &'static str },
    /// A mix without any size or weight.
    #[error("`{key}`: a mix needs at least one size with a weight")]
    NoSizes { key: &'static str },
    /// gNBs and gateway are of different address families.
    #[error("`gnb_first` and `upf_n3` must be of one address family")]
    Families,
    /// One QoS flow identifier a bearer, or none at all.
    #[error("`qfis` needs one identifier for each of {bearers} bearers, or none at all; it has {given}")]
    Qfis {
        bearers: u16,
        /// Identifiers given.
        given: usize,
    },
    /// A list of tunnel identifiers is too short.
    #[error("`{key}` lists {given} tunnel identifiers, {needed} are needed")]
    TeidList {
        key: &'static str,
        /// Identifiers given.
        given: usize,
        /// Identifiers needed.
        needed: usize,
    },
    /// An IPv6 tunnel's checksum is made from the user's packet's, so that one can't be left out.
    #[error("`user_checksums` can't be off when the gNBs are reached over IPv6")]
    ChecksumNeeded,
    /// A link carries only smaller packets.
    #[error("`{key}` needs an MTU of {needed} on {port}, which has {mtu}")]
    Mtu {
        key: &'static str,
        /// The port's name.
        port: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// What the largest packet needs.
        needed: usize,
    },
    /// The packet memory's slots are too small.
    #[error("`{key}` needs slots with {needed} bytes behind the headroom, these have {room}")]
    Slot {
        key: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        room: usize,
    },
    /// A subset of no users, or with users the profile doesn't have.
    #[error("a plan needs at least one user, and only users the profile has")]
    Subset,
}
