//! What a node has done and refused, by name.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// How often what happened. Nothing is refused or ignored without moving one of these.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Counters {
            /// All of them, with a sentence each.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
                [$((stringify!($name), self.$name, concat!($($doc),+).trim_ascii())),*].into_iter()
            }
        }
    };
}

counters! {
    /// Messages received from addresses that are allowed, at rates that are.
    received,
    /// Messages sent, those sent again included.
    sent,
    /// Requests sent again because no response had come.
    retransmitted,
    /// Requests given up because no response came at all.
    timed_out,
    /// Requests received again and answered as before.
    duplicates_answered,
    /// Requests received again that are not answered yet.
    duplicates_waiting,
    /// Datagrams ignored because their source is not allowed.
    not_allowed,
    /// Datagrams ignored because their source sends too many.
    too_many,
    /// Datagrams ignored because they are no PFCP.
    malformed,
    /// Messages of another version, answered with Version Not Supported.
    other_version,
    /// Messages ignored because their type is unknown.
    unknown_message,
    /// Requests refused because an IE is missing or wrong.
    refused,
    /// Requests refused because the peer has no association.
    no_association,
    /// Association setups refused because there are too many.
    associations_full,
    /// Association setups refused because their address has as many as it may.
    associations_full_address,
    /// Association setups refused because the Node ID is configured for other addresses.
    pinned_elsewhere,
    /// Requests refused because they name the Node ID of a peer at another address.
    names_of_others,
    /// Associations without sessions, never confirmed, that gave way because there were too many.
    associations_displaced,
    /// Heartbeats sent to confirm a request that would end or take over sessions.
    probes,
    /// Confirmations given up because forged answers came.
    probes_forged,
    /// Associations taken over by another address because the one before did not answer.
    associations_taken_over,
    /// Association setups refused because the peer answers at another address.
    takeovers_refused,
    /// Association setups refused because the peer, asked at its own address, contradicts them.
    setups_refused,
    /// Association releases and deletions of session sets refused because the peer contradicts them.
    releases_refused,
    /// Heartbeats with a later Recovery Time Stamp that the peer, asked at its own address, did not confirm.
    restarts_not_confirmed,
    /// Requests not considered because too many wait for the same confirmation.
    claims_dropped,
    /// Responses ignored because they answer nothing.
    unexpected_responses,
    /// Responses that cannot be used; what they answer has failed.
    unusable_responses,
    /// Messages not sent because they would be too long.
    too_long,
    /// Heartbeats that were not answered.
    heartbeats_unanswered,
    /// Associations lost.
    associations_lost,
    /// Peers that have restarted.
    peers_restarted,
}
