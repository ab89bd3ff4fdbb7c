//! A call as it is recorded, and what came of it.

use std::time::{Duration, SystemTime};

use crate::sequencer::Sequencer;

use super::key::IdempotencyKey;
use super::operation::Operation;

/// A call to something that cannot be fenced, as its durable record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What the service knows it by.
    pub key: IdempotencyKey,
    /// The grant under which it was recorded.
    pub sequencer: Sequencer,
    /// Which call of that grant it is.
    pub operation: Operation,
    /// What is asked of the service, in the caller's own form; sent again exactly so.
    pub request: String,
    /// How far it has come.
    pub state: CallState,
    /// How often it was begun to be sent.
    pub attempts: u32,
    /// When it was recorded, by the clock of whoever did.
    pub recorded_at: SystemTime,
    /// When it was first begun to be sent. The service's retention of the key is counted from here.
    pub sent_at: Option<SystemTime>,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallState {
    /// Recorded, and certainly never sent.
    Pending,
    /// Begun to be sent, and no answer was recorded: it may have had its effect, or may still have it.
    Unknown,
    /// It had its effect. Holds the service's answer.
    Done(String),
    /// It had no effect, and never will. Holds the answer that says so.
    Refused(String),
}

impl CallState {
    /// Whether nothing is left to find out.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Refused(_))
    }

    /// As it is stored.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::Done(_) => "done",
            Self::Refused(_) => "refused",
        }
    }
}

impl Call {
    /// How long ago it was recorded; zero if the clock is behind that of the record.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.recorded_at).unwrap_or_default()
    }
}

/// What the code that calls the service is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// To be sent as the service's idempotency key.
    pub key: IdempotencyKey,
    /// What is asked.
    pub request: String,
    /// 1 for the first time. Anything above may be a repetition.
    pub attempt: u32,
}

/// What the service said, as the code that called it understands it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done, now or when it was first sent. The text is kept.
    Done(String),
    /// It was refused for good: it had no effect, and the same key would never have one. A declined
    /// card, say; *not* a time-out, a 429 or a 5xx. The text is kept.
    Refused(String),
    /// Anything else: no answer, half an answer, an error that leaves open what happened. The call
    /// stays [`CallState::Unknown`].
    Unknown,
}
