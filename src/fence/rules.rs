//! What all guards have in common: whose tokens count, for what, and what an equal token may do.
//!
//! Everything here is pure. A guard asks [`Rules::foreign`] first, which needs no mark; then it
//! compares within its store's atomic step, by [`Rules::judge`] or by the same rule in SQL.

use crate::{
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use super::{Foreign, Mark, Verdict};

/// What a token equal to the mark may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EqualTokens {
    /// One grant may write as often as it likes. The usual choice: a holder does more than one
    /// thing under its lease, and retries.
    #[default]
    MayWriteAgain,
    /// Each token is admitted once. For resources on which one grant stands for exactly one
    /// effect, such as starting a nightly job; a retry after a lost answer is then refused.
    Once,
}

/// Which sequencers a guard compares at all, and how.
///
/// The default takes tokens of any issuer and holds each resource to the first issuer that it saw
/// there. Prefer [`Rules::issued_by`]: a guard that knows its issuer cannot be led by the first
/// caller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    issuer: Option<IssuerName>,
    only: Option<ResourceName>,
    equal: EqualTokens,
}

impl Rules {
    /// Only tokens of this issuer are compared; those of another are foreign.
    #[must_use]
    pub fn issued_by(issuer: IssuerName) -> Self {
        Self {
            issuer: Some(issuer),
            ..Self::default()
        }
    }

    /// The guard stands before this one resource; sequencers for any other are foreign.
    #[must_use]
    pub fn only(mut self, resource: ResourceName) -> Self {
        self.only = Some(resource);
        self
    }

    /// What a token equal to the mark may do.
    #[must_use]
    pub fn equal_tokens(mut self, equal: EqualTokens) -> Self {
        self.equal = equal;
        self
    }

    /// Whose tokens are compared, if that was told.
    #[must_use]
    pub fn issuer(&self) -> Option<&IssuerName> {
        self.issuer.as_ref()
    }

    /// What a token equal to the mark may do here.
    #[must_use]
    pub fn equal(&self) -> EqualTokens {
        self.equal
    }

    /// Why a sequencer is foreign to this guard whatever the mark is, if it is.
    #[must_use]
    pub fn foreign(&self, sequencer: &Sequencer) -> Option<Foreign> {
        if let Some(expected) = &self.only
            && *expected != sequencer.resource
        {
            return Some(Foreign::Resource {
                presented: sequencer.resource.clone(),
                expected: expected.clone(),
            });
        }
        let expected = self.issuer.as_ref()?;
        foreign_issuer(&sequencer.issuer, expected)
    }

    /// The verdict against the mark of the sequencer's resource.
    pub fn judge(&self, sequencer: &Sequencer, mark: Option<&Mark>) -> Verdict {
        if let Some(foreign) = self.foreign(sequencer) {
            return Verdict::Foreign(foreign);
        }
        let Some(mark) = mark else {
            return Verdict::Admitted;
        };
        if let Some(foreign) = foreign_issuer(&sequencer.issuer, &mark.issuer) {
            return Verdict::Foreign(foreign);
        }
        if self.passes(sequencer.token, mark.token) {
            return Verdict::Admitted;
        }
        Verdict::Stale {
            presented: sequencer.token,
            required: self.required(mark.token),
        }
    }

    /// Whether a token may pass a mark.
    pub(super) fn passes(&self, presented: TokenValue, mark: TokenValue) -> bool {
        match self.equal {
            EqualTokens::MayWriteAgain => presented >= mark,
            EqualTokens::Once => presented > mark,
        }
    }

    /// The lowest token that passes a mark. At the end of the number line it stays the highest
    /// token, which [`EqualTokens::Once`] refuses too: nothing follows it.
    pub(super) fn required(&self, mark: TokenValue) -> TokenValue {
        match self.equal {
            EqualTokens::MayWriteAgain => mark,
            EqualTokens::Once => TokenValue::new(mark.get() + 1).unwrap_or(mark),
        }
    }
}

fn foreign_issuer(presented: &IssuerName, expected: &IssuerName) -> Option<Foreign> {
    (presented != expected).then(|| Foreign::Issuer {
        presented: presented.clone(),
        expected: expected.clone(),
    })
}
