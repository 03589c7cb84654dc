//! What the lanes of all gateways have in common.

use engine::{Burst, Kind};

use crate::forward::NONE;
use crate::parse::HasIp as _;
use crate::route::HasHop;

/// Implements [`HasIp`](crate::parse::HasIp) and [`HasHop`](crate::route::HasHop) for a lane by its fields `ip`, `hop`
/// and `instance`: arrays with a place for each packet. What it overrides of [`HasHop`](crate::route::HasHop) follows.
///
/// ```
/// use dataplane::route::HasHop;
///
/// struct Lane {
///     ip: dataplane::parse::UserIp,
///     instance: [u16; frame::BURST],
///     hop: [u32; frame::BURST],
///     label: [u16; frame::BURST],
/// }
/// dataplane::lane! {
///     Lane {
///         // An MPLS label in front of each packet.
///         fn overhead(&self, i: usize) -> u16 {
///             if self.label[i] == 0 { 0 } else { 4 }
///         }
///     }
/// }
/// ```
///
/// The same macro declares a lane that needs nothing else: a struct with those fields and an array for each of its own, with
/// what its places hold at first.
///
/// ```
/// dataplane::lane! {
///     /// What the gateway keeps of each packet.
///     pub struct Lane {
///         /// The subscriber's number.
///         subscriber: u32 = u32::MAX,
///     }
/// }
/// assert_eq!(Lane::default().subscriber[7], u32::MAX);
/// ```
#[macro_export]
macro_rules! lane {
    ($(#[$about:meta])* $vis:vis struct $lane:ident { $($(#[$doc:meta])* $field:ident: $kind:ty = $first:expr),* $(,)? }) => {
        $(#[$about])*
        $vis struct $lane {
            /// What the first stage has parsed of each packet.
            pub ip: $crate::parse::UserIp,
            /// The routing domain it is forwarded in.
            pub instance: [$crate::forward::InstanceId; $crate::lane::BURST],
            /// Its next hop.
            pub hop: [u32; $crate::lane::BURST],
            $($(#[$doc])* pub $field: [$kind; $crate::lane::BURST],)*
        }

        impl Default for $lane {
            fn default() -> Self {
                Self {
                    ip: Default::default(),
                    instance: [0; $crate::lane::BURST],
                    hop: [$crate::forward::NONE; $crate::lane::BURST],
                    $($field: [$first; $crate::lane::BURST],)*
                }
            }
        }

        $crate::lane! { $lane {} }
    };
    ($lane:ident { $($own:tt)* }) => {
        impl $crate::parse::HasIp for $lane {
            #[inline]
            fn ip(&self, i: usize) -> &$crate::lane::L3L4 {
                &self.ip.0[i]
            }
            #[inline]
            fn ip_mut(&mut self, i: usize) -> &mut $crate::lane::L3L4 {
                &mut self.ip.0[i]
            }
        }

        impl $crate::route::HasHop for $lane {
            #[inline]
            fn hop(&self, i: usize) -> u32 {
                self.hop[i]
            }
            #[inline]
            fn set_hop(&mut self, i: usize, hop: u32) {
                self.hop[i] = hop;
            }
            #[inline]
            fn instance(&self, i: usize) -> $crate::forward::InstanceId {
                self.instance[i]
            }
            #[inline]
            fn set_instance(&mut self, i: usize, instance: $crate::forward::InstanceId) {
                self.instance[i] = instance;
            }
            $($own)*
        }
    };
}

/// A packet in words, for a trace: its headers, what its gateway adds to `words`, and where it goes.
pub fn describe<K: Kind>(burst: &Burst<K>, i: usize, own: impl FnOnce(&mut Vec<String>)) -> String
where
    K::Lane: HasHop,
{
    let (ip, hop, mut words) = (burst.lane.ip(i), burst.lane.hop(i), Vec::new());
    if ip.version != 0 {
        let (version, protocol, len) = (ip.version, ip.protocol, ip.total_len);
        words.push(format!("ipv{version} proto {protocol} ports {}→{} len {len}", ip.src_port, ip.dst_port));
    }
    own(&mut words);
    if hop != NONE {
        words.push(format!("hop {hop} by port {}", burst.out(i)));
    }
    words.join(", ")
}

#[doc(hidden)]
pub use frame::BURST;
#[doc(hidden)]
pub use wire::L3L4;
