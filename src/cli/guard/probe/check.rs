//! What a check is, and what it finds.

use std::fmt;

use super::exchange::Exchange;
use super::service::Unreachable;
use super::session::Session;

/// One sentence of the contract, and how it is tried.
pub(super) struct Check {
    /// Stable: scripts name it in `--only` and `--skip`.
    pub(super) name: &'static str,
    /// What a service promises.
    pub(super) promise: &'static str,
    /// What goes wrong where the promise is not kept.
    pub(super) why: &'static str,
    /// Checks without which this one says nothing of its own: where one of them found something, this
    /// one is not run.
    pub(super) needs: &'static [&'static str],
    /// What the user must have allowed or told.
    pub(super) takes: &'static [Takes],
    pub(super) run: fn(&Session<'_>) -> Result<Findings, Stop>,
}

/// What a check takes that not every run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// The name of the issuer that the service expects.
    Issuer,
    /// A way to read what was written.
    ReadUrl,
    /// A command that restarts the service.
    RestartCommand,
    /// A time in which nothing happens.
    Idle,
    /// A URL that says which resource is written.
    UrlOfResource,
    /// Names that the run may make up, or at least two to choose from.
    TwoResources,
    /// Names that the run may make up: the check needs special ones, or leaves marks so high that no
    /// real token would ever pass again.
    OwnResources,
}

impl Takes {
    /// What is missing, for people.
    pub(super) fn missing(self) -> &'static str {
        match self {
            Self::Issuer => "it takes --issuer",
            Self::ReadUrl => "it takes --read-url",
            Self::RestartCommand => "it takes --restart-command",
            Self::Idle => "it takes --idle",
            Self::UrlOfResource => "it takes {resource} in the URL",
            Self::TwoResources => "it takes two resources, and one --resource is given",
            Self::OwnResources => {
                "it takes names of its own, and --resource is given; --only with its name runs it anyway"
            }
        }
    }
}

/// Why a run ends before its checks are through.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    /// Nobody answers at the address, or nobody any more.
    #[error("the service does not answer: {0}")]
    Unreachable(#[from] Unreachable),
    /// The user's command did not restart the service.
    #[error("the restart command failed: {0}")]
    Restart(String),
}

/// Something that the service did wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) exchange: Exchange,
    /// What a service that keeps the contract would have done, and why just here.
    pub(super) expected: String,
    /// What led there, a line each.
    pub(super) story: Vec<String>,
}

/// All that one check found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    seen: Option<String>,
}

impl Findings {
    pub(super) fn into_inner(self) -> Vec<Finding> {
        self.found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What was seen where nothing was found, if that is less than the promise says.
    pub(super) fn seen(&self) -> Option<&str> {
        self.seen.as_deref()
    }

    /// Whether one of them is that no answer came.
    pub(super) fn lack_answers(&self) -> bool {
        let mut exchanges = self.found.iter().map(|finding| &finding.exchange);
        exchanges.any(|exchange| exchange.answer.is_err())
    }

    /// Says what was seen, where the promise would claim more than was shown.
    pub(super) fn note_seen(&mut self, seen: String) {
        self.seen = Some(seen);
    }

    /// Notes a finding unless something holds; says whether it does.
    pub(super) fn expect(
        &mut self,
        holds: bool,
        exchange: &Exchange,
        expected: impl fmt::Display,
    ) -> bool {
        if !holds {
            self.add(exchange, expected, Vec::new());
        }
        holds
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.found.push(finding);
    }

    /// Notes a finding with what led there.
    pub(super) fn add(
        &mut self,
        exchange: &Exchange,
        expected: impl fmt::Display,
        story: Vec<String>,
    ) {
        self.found.push(Finding {
            exchange: exchange.clone(),
            expected: expected.to_string(),
            story,
        });
    }

    /// The write must have been admitted.
    pub(super) fn admitted(&mut self, exchange: &Exchange, because: impl fmt::Display) -> bool {
        self.expect(
            exchange.is_admitted(),
            exchange,
            format_args!("2xx: {because}"),
        )
    }

    /// The write must have been refused as stale.
    pub(super) fn stale(&mut self, exchange: &Exchange, because: impl fmt::Display) -> bool {
        let is_stale = exchange.status() == Some(409);
        self.expect(is_stale, exchange, format_args!("409: {because}"))
    }

    /// The request must have been refused as malformed.
    pub(super) fn bad_request(&mut self, exchange: &Exchange, because: impl fmt::Display) -> bool {
        let is_refused = exchange.status() == Some(400);
        self.expect(is_refused, exchange, format_args!("400: {because}"))
    }
}
