//! What an author declares of a subject: its rules, and what it can do.

use crate::{fence::EqualTokens, resource::IssuerName, sequencer::MissingIssuer};

/// The issuer whose tokens are presented where the guard was told none.
const ANY_ISSUER: &str = "conformance";

/// What a subject is called, which rules it was set up with, and what it can do.
///
/// A case that needs something which was not declared is listed as *not tried*, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub(super) name: String,
    pub(super) told: Option<IssuerName>,
    pub(super) compares_issuers: bool,
    pub(super) missing_issuer: Option<MissingIssuer>,
    pub(super) equal: EqualTokens,
    pub(super) values: bool,
    pub(super) marks: bool,
    pub(super) target_apart: bool,
    pub(super) door: bool,
    pub(super) durable: bool,
    pub(super) backed_up: bool,
}

impl Profile {
    /// A subject with values and marks that can be read, equal tokens that may write again, and an
    /// issuer that is compared with the first that a resource saw.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            told: None,
            compares_issuers: true,
            missing_issuer: None,
            equal: EqualTokens::default(),
            values: true,
            marks: true,
            target_apart: false,
            door: false,
            durable: false,
            backed_up: false,
        }
    }

    /// It was told its issuer: tokens of any other are foreign from the first write on.
    #[must_use]
    pub fn issued_by(mut self, issuer: IssuerName) -> Self {
        self.told = Some(issuer);
        self
    }

    /// It does not look at issuers. Only where nothing else can ever issue tokens for its resources.
    #[must_use]
    pub fn ignores_issuers(mut self) -> Self {
        self.compares_issuers = false;
        self
    }

    /// A write can be presented to it without an issuer, and this is what it makes of that.
    #[must_use]
    pub fn missing_issuer(mut self, missing: MissingIssuer) -> Self {
        self.missing_issuer = Some(missing);
        self
    }

    /// What a token equal to the mark may do.
    #[must_use]
    pub fn equal_tokens(mut self, equal: EqualTokens) -> Self {
        self.equal = equal;
        self
    }

    /// It keeps marks only: a guard by itself, before a resource that is elsewhere.
    #[must_use]
    pub fn without_values(mut self) -> Self {
        self.values = false;
        self
    }

    /// Its marks cannot be read; they show in its answers alone.
    #[must_use]
    pub fn without_marks(mut self) -> Self {
        self.marks = false;
        self
    }

    /// A write names the resource that it writes apart from the one in its sequencer, so that the
    /// two can differ.
    #[must_use]
    pub fn names_target_apart(mut self) -> Self {
        self.target_apart = true;
        self
    }

    /// A door with marks of its own stands before the guarded write, as a layer does before a service.
    ///
    /// A write that the door let in may be refused behind it, for a newer one that overtook it there.
    /// It has raised the door's mark by then, and whoever is lower is rightly refused for that. Without
    /// this, a refusal for a token that was itself refused counts as one without a cause.
    #[must_use]
    pub fn guards_its_door(mut self) -> Self {
        self.door = true;
        self
    }

    /// Values and marks outlive its processes; see [`Place::restart`](super::Place::restart).
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// It can be backed up and restored; see [`Place::back_up`](super::Place::back_up).
    #[must_use]
    pub fn backed_up(mut self) -> Self {
        self.backed_up = true;
        self
    }

    /// Whose tokens the kit presents.
    pub(super) fn issuer(&self) -> IssuerName {
        let any = || IssuerName::new(ANY_ISSUER).expect("a short word is a name");
        self.told.clone().unwrap_or_else(any)
    }
}
