//! What a refused request is answered with.

use pfcp::Element;
use pfcp::ie::{Cause, FailedRuleId, OffendingIe};

/// Why a request is refused: the Cause, and what it blames (3GPP TS 29.244, 8.2.1, 8.2.22, 8.2.80).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The cause.
    pub cause: Cause,
    /// The type of the IE to blame, if one is.
    pub ie: Option<OffendingIe>,
    /// The rule to blame, if one is.
    pub rule: Option<FailedRuleId>,
}

impl Problem {
    /// A cause that says it all.
    pub fn of(cause: Cause) -> Self {
        Self { cause, ie: None, rule: None }
    }

    /// An IE that has to be there in this case is not.
    pub fn missing<E: Element>() -> Self {
        Self { ie: Some(OffendingIe(E::TYPE)), ..Self::of(Cause::CONDITIONAL_IE_MISSING) }
    }

    /// An IE has an invalid value.
    pub fn incorrect<E: Element>() -> Self {
        Self { ie: Some(OffendingIe(E::TYPE)), ..Self::of(Cause::MANDATORY_IE_INCORRECT) }
    }

    /// A rule is not created or changed as requested.
    pub fn rule(rule: FailedRuleId) -> Self {
        Self { rule: Some(rule), ..Self::of(Cause::RULE_CREATION_MODIFICATION_FAILURE) }
    }

    /// As it is, but blaming a rule.
    pub(crate) fn in_rule(self, rule: FailedRuleId) -> Self {
        Self { rule: Some(rule), ..self }
    }
}
