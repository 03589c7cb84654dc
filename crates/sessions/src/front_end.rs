//! What a protocol of control planes says of its messages.

use std::fmt::Debug;
use std::hash::Hash;

/// A protocol by which control planes ask for sessions. A session is kept as the message that would establish it.
pub trait FrontEnd: Clone + Debug + Default + PartialEq + 'static {
    /// A session's rules, as the protocol has them.
    type Rules;
    /// What a rule has used, as it is reported.
    type Report: Clone + Debug + PartialEq;
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

    /// Octets in a report.
    fn octets(report: &Self::Report) -> u64;

    /// Reports as they are written down until they are sent.
    fn write_reports(reports: &[Self::Report]) -> Vec<u8>;

    /// What [`write_reports`](Self::write_reports) wrote; nothing, if it cannot be read.
    fn read_reports(octets: &[u8]) -> Vec<Self::Report>;
}
