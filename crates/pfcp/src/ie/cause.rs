//! Why: Cause and what it blames.

use crate::{Element, Fault, Reader};
use std::fmt;

/// Cause (8.2.1): what became of a request. Values nobody has named here are kept.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cause(pub u8);

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Cause {
            $($(#[$doc])* pub const $name: Cause = Cause($value);)*

            /// The standard's words.
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    0..64 => "some kind of acceptance",
                    _ => "some kind of rejection",
                }
            }

            /// Its identifier in snake case, such as `no_resources_available`; `cause_N` where this release has no name.
            pub fn id(self) -> String {
                match self.0 {
                    $($value => stringify!($name).to_ascii_lowercase(),)*
                    value => format!("cause_{value}"),
                }
            }
        }
    };
}

causes! {
    /// Done as asked.
    REQUEST_ACCEPTED = 1, "request accepted";
    /// The session is deleted, but its last usage reports don't fit into this response.
    MORE_USAGE_REPORT_TO_SEND = 2, "more usage report to send";
    /// Done for some, not for others (6.3.2).
    REQUEST_PARTIALLY_ACCEPTED = 3, "request partially accepted";
    /// Refused for a reason that has no name.
    REQUEST_REJECTED = 64, "request rejected";
    /// There is no session with that SEID.
    SESSION_CONTEXT_NOT_FOUND = 65, "session context not found";
    /// See Offending IE.
    MANDATORY_IE_MISSING = 66, "mandatory IE missing";
    /// See Offending IE.
    CONDITIONAL_IE_MISSING = 67, "conditional IE missing";
    /// See Offending IE.
    INVALID_LENGTH = 68, "invalid length";
    /// See Offending IE.
    MANDATORY_IE_INCORRECT = 69, "mandatory IE incorrect";
    /// The user plane has no forwarding policy of that name.
    INVALID_FORWARDING_POLICY = 70, "invalid forwarding policy";
    /// The F-TEIDs of the session are partly given, partly to be chosen.
    INVALID_F_TEID_ALLOCATION_OPTION = 71, "invalid F-TEID allocation option";
    /// The peer has not set up an association.
    NO_ESTABLISHED_PFCP_ASSOCIATION = 72, "no established PFCP association";
    /// See Failed Rule ID.
    RULE_CREATION_MODIFICATION_FAILURE = 73, "rule creation/modification failure";
    /// Too much to do; try another or later.
    PFCP_ENTITY_IN_CONGESTION = 74, "PFCP entity in congestion";
    /// No room.
    NO_RESOURCES_AVAILABLE = 75, "no resources available";
    /// Not something this node does.
    SERVICE_NOT_SUPPORTED = 76, "service not supported";
    /// Something broke.
    SYSTEM_FAILURE = 77, "system failure";
    /// Ask another.
    REDIRECTION_REQUESTED = 78, "redirection requested";
    /// No address is left for the subscriber.
    ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED = 79, "all dynamic addresses are occupied";
    /// The user plane has no predefined rule of that name.
    UNKNOWN_PRE_DEFINED_RULE = 80, "unknown pre-defined rule";
    /// The user plane has no application of that name.
    UNKNOWN_APPLICATION_ID = 81, "unknown application ID";
    /// The tunnel to the LNS did not come up.
    L2TP_TUNNEL_ESTABLISHMENT_FAILURE = 82, "L2TP tunnel establishment failure";
    /// The session at the LNS did not come up.
    L2TP_SESSION_ESTABLISHMENT_FAILURE = 83, "L2TP session establishment failure";
    /// The tunnel to the LNS is gone.
    L2TP_TUNNEL_RELEASE = 84, "L2TP tunnel release";
    /// The session at the LNS is gone.
    L2TP_SESSION_RELEASE = 85, "L2TP session release";
    /// What the restored session asks for is no longer available (5.22).
    PFCP_SESSION_RESTORATION_FAILURE = 86, "PFCP session restoration failure, requested resource not available";
}

impl Cause {
    /// Whether the request was done, at least in part: values below 64.
    pub const fn is_acceptance(self) -> bool {
        self.0 < 64
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({}: {})", self.0, self.text())
    }
}

impl Element for Cause {
    const TYPE: u16 = 19;

    fn parse(content: &mut Reader<'_>) -> Result<Cause, Fault> {
        content.u8().map(Cause)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.0);
    }
}

numbers! {
    /// Offending IE (8.2.22): the type of the IE to blame.
    OffendingIe(u16) = 40;
}

/// Failed Rule ID (8.2.80): the rule that could not be created or modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedRuleId {
    /// A PDR.
    Pdr(u16),
    /// A FAR.
    Far(u32),
    /// A QER.
    Qer(u32),
    /// A URR.
    Urr(u32),
    /// A BAR.
    Bar(u8),
    /// A MAR.
    Mar(u16),
    /// An SRR.
    Srr(u8),
}

impl Default for FailedRuleId {
    fn default() -> FailedRuleId {
        FailedRuleId::Pdr(0)
    }
}

impl Element for FailedRuleId {
    const TYPE: u16 = 114;

    fn parse(content: &mut Reader<'_>) -> Result<FailedRuleId, Fault> {
        Ok(match content.u8()? & 0x1f {
            0 => FailedRuleId::Pdr(content.u16()?),
            1 => FailedRuleId::Far(content.u32()?),
            2 => FailedRuleId::Qer(content.u32()?),
            3 => FailedRuleId::Urr(content.u32()?),
            4 => FailedRuleId::Bar(content.u8()?),
            5 => FailedRuleId::Mar(content.u16()?),
            6 => FailedRuleId::Srr(content.u8()?),
            _ => return Err(content.incorrect()),
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let mut put = |kind: u8, id: &[u8]| {
            out.push(kind);
            out.extend(id);
        };
        match *self {
            FailedRuleId::Pdr(id) => put(0, &id.to_be_bytes()),
            FailedRuleId::Far(id) => put(1, &id.to_be_bytes()),
            FailedRuleId::Qer(id) => put(2, &id.to_be_bytes()),
            FailedRuleId::Urr(id) => put(3, &id.to_be_bytes()),
            FailedRuleId::Bar(id) => put(4, &[id]),
            FailedRuleId::Mar(id) => put(5, &id.to_be_bytes()),
            FailedRuleId::Srr(id) => put(6, &[id]),
        }
    }
}
