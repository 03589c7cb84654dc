//! What a protocol of control planes says of its messages.

use std::fmt::Debug;
use std::hash::Hash;

/// A protocol by which control planes ask for sessions. A session is kept as the message that would establish it.
pub trait FrontEnd: Debug + Default + 'static {
    /// A session's rules, as the protocol has them.
    type Rules;
    /// The account of what is measured for a rule.
    type Meter: Debug;
    /// What is asked of a session and has to wait until its worker has answered.
    type Deferred: Debug;
    /// The name of a set of connections, without the type of its node.
    type Set: Copy + Debug + Eq + Hash;

    /// The rules in a message that [`write`](Self::write) wrote.
    fn parse(message: &[u8]) -> Self::Rules;

    /// Writes the message that would establish a session, but for what [`stamp`](Self::stamp) puts into it; false: it is longer
    /// than a message may be.
    fn write(rules: &Self::Rules, out: &mut Vec<u8>) -> bool;

    /// Puts a session's SEID and the [`mark`](crate::store::mark) of its association into its message.
    fn stamp(message: &mut [u8], seid: u64, mark: u32);

    /// The control plane's number of the session.
    fn peer_seid(rules: &Self::Rules) -> u64;

    /// The sets of connections that the session belongs to, each with the type of its node, if it is given.
    fn sets(rules: &Self::Rules) -> Vec<(Self::Set, Option<u8>)>;
}
