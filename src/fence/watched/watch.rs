//! What guards and doors share: the mode, the counts, the highest token.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt,
    str::FromStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::{
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use super::counts::{Counters, Counts, Kind};
use crate::fence::{Foreign, Unjudged};

/// Issuers whose highest token is kept. A guard that was told its issuer sees one.
const ISSUERS_MAX: usize = 16;

/// Whether a guard refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Count and log what would be refused, and let it pass. Protects nothing.
    Observe,
    /// Refuse it.
    Enforce,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        })
    }
}

/// The text is no mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a guard's mode is \"observe\" or \"enforce\"")]
pub struct ModeError;

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "observe" => Ok(Self::Observe),
            "enforce" => Ok(Self::Enforce),
            _ => Err(ModeError),
        }
    }
}

/// Mode, counts and highest tokens of one or more guards and doors. Share it in an `Arc`.
#[derive(Debug)]
pub struct Watch {
    name: String,
    enforcing: AtomicBool,
    counters: Counters,
    highest: Mutex<BTreeMap<IssuerName, TokenValue>>,
    feedback: watch::Sender<Option<Sequencer>>,
}

impl Watch {
    /// Nothing was seen yet. The name is what logs and metrics call it, such as the service's.
    #[must_use]
    pub fn new(name: impl Into<String>, mode: Mode) -> Self {
        Self {
            name: name.into(),
            enforcing: AtomicBool::new(mode == Mode::Enforce),
            counters: Counters::default(),
            highest: Mutex::default(),
            feedback: watch::Sender::new(None),
        }
    }

    /// What logs and metrics call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What holds for calls from now on.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.enforcing.load(Ordering::Relaxed) {
            true => Mode::Enforce,
            false => Mode::Observe,
        }
    }

    /// Switches. Calls under way are treated by the one or the other mode.
    pub fn set_mode(&self, mode: Mode) {
        let enforce = mode == Mode::Enforce;
        if self.enforcing.swap(enforce, Ordering::Relaxed) != enforce {
            info!(guard = self.name, %mode, "the guard's mode was switched");
        }
    }

    /// The counts. Each is exact; together they may be a few calls apart.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// The highest token that was admitted, of any resource, for each issuer.
    #[must_use]
    pub fn highest(&self) -> BTreeMap<IssuerName, TokenValue> {
        let highest = self.highest.lock();
        highest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The highest admitted sequencer, whenever it rises: for a task that reports it to the issuer and
    /// brings the answer to [`Watch::ahead`]. `None` until one was admitted.
    ///
    /// The channel holds the newest value and nothing else, so that nobody waits for whoever reads.
    /// Tokens of one issuer are in order over all resources; with several issuers, which number
    /// independently, give each a watch of its own.
    #[must_use]
    pub fn feedback(&self) -> watch::Receiver<Option<Sequencer>> {
        self.feedback.subscribe()
    }

    /// The issuer was told of this sequencer, and says that the last token it issued is lower, or that
    /// it has issued none. Counts it, and logs an error with the remedy: somebody must act before the issuer gets there by itself.
    pub fn ahead(&self, sequencer: &Sequencer, last_token: Option<TokenValue>) {
        self.counters.add(Kind::Ahead);
        error!(
            guard = self.name,
            issuer = %sequencer.issuer,
            resource = %sequencer.resource,
            token = sequencer.token.get(),
            last_token = last_token.map_or(0, TokenValue::get),
            "a token was admitted that its issuer never issued: the issuer lost grants, in a restore \
             perhaps, and may issue their tokens again; run `fencepost raise-floor` with \
             the highest token of all guards"
        );
    }

    /// A call came without a token. Counts and logs it, and says whether it may pass. Doors that know
    /// a [`Guard`](crate::fence::Guard) use its `overlooks` instead, which comes here.
    pub fn missing(&self, resource: Option<&ResourceName>) -> Mode {
        let resource = resource.map_or("", ResourceName::as_str);
        self.unjudged(Kind::Missing, &format_args!("no token"), resource)
    }

    /// A call that no guard judged.
    pub(super) fn overlooks(&self, why: &Unjudged) -> bool {
        let mode = match why {
            Unjudged::Missing => self.missing(None),
            Unjudged::Invalid => {
                self.unjudged(Kind::Invalid, &format_args!("unreadable token"), "")
            }
            Unjudged::Foreign(foreign) => self.unjudged(Kind::Foreign, foreign, ""),
        };
        mode == Mode::Observe
    }

    fn unjudged(&self, kind: Kind, why: &dyn fmt::Display, resource: &str) -> Mode {
        self.counters.add(kind);
        let mode = self.overlooking();
        warn!(guard = self.name, %mode, %why, resource, "a call without a valid token");
        mode
    }

    pub(super) fn admitted(&self, sequencer: &Sequencer) {
        self.counters.add(Kind::Admitted);
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        let issuers = highest.len();
        match highest.get_mut(&sequencer.issuer) {
            Some(token) if *token >= sequencer.token => return,
            Some(token) => *token = sequencer.token,
            None if issuers >= ISSUERS_MAX => return,
            None => {
                highest.insert(sequencer.issuer.clone(), sequencer.token);
            }
        }
        // Under the lock, so that what is sent rises.
        self.feedback.send_replace(Some(sequencer.clone()));
    }

    pub(super) fn stale(&self, sequencer: &Sequencer, required: TokenValue) -> Mode {
        self.counters.add(Kind::Stale);
        let mode = self.overlooking();
        warn!(
            guard = self.name,
            %mode,
            issuer = %sequencer.issuer,
            resource = %sequencer.resource,
            token = sequencer.token.get(),
            required = required.get(),
            "a stale token"
        );
        mode
    }

    pub(super) fn foreign(&self, sequencer: &Sequencer, foreign: &Foreign) -> Mode {
        self.counters.add(Kind::Foreign);
        let mode = self.overlooking();
        warn!(
            guard = self.name,
            %mode,
            issuer = %sequencer.issuer,
            resource = %sequencer.resource,
            token = sequencer.token.get(),
            why = %foreign,
            "a foreign token"
        );
        mode
    }

    /// A failure that the caller is told of, who will log it.
    pub(super) fn failed(&self) {
        self.counters.add(Kind::Errors);
    }

    /// A failure that the caller is not told of.
    pub(super) fn failed_unheard(&self, sequencer: &Sequencer, error: &(dyn Error + 'static)) {
        self.counters.add(Kind::Errors);
        self.counters.add(Kind::Overlooked);
        warn!(
            guard = self.name,
            resource = %sequencer.resource,
            token = sequencer.token.get(),
            error,
            "the guard failed while it observes"
        );
    }

    /// The mode, which decides about a call that is to be refused.
    fn overlooking(&self) -> Mode {
        let mode = self.mode();
        if mode == Mode::Observe {
            self.counters.add(Kind::Overlooked);
        }
        mode
    }
}
