//! What a service promises about keys.

use std::time::{Duration, SystemTime};

use super::call::Call;
use super::key::KeyForm;

/// How long one send may take, unless told otherwise.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What the service promises, and how it wants to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub(super) retention: Option<Duration>,
    pub(super) form: KeyForm,
    pub(super) timeout: Duration,
}

impl Terms {
    /// A service that does a call at most once for each key, and remembers a key for at least
    /// `retention` after it came first. State less than it promises, by the time that one send may
    /// take and by what the clocks of the senders may differ: with a day promised, 23 hours.
    #[must_use]
    pub fn remembers_keys_for(retention: Duration) -> Self {
        Self {
            retention: Some(retention),
            form: KeyForm::default(),
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// A service that promises nothing: mail, a device, a printer. What may have been sent is never
    /// sent again by itself; it can only be asked about, or concluded by a person.
    #[must_use]
    pub fn no_promise() -> Self {
        Self {
            retention: None,
            form: KeyForm::default(),
            timeout: TIMEOUT_DEFAULT,
        }
    }

    /// The form of its keys; readable ones of at most 255 bytes unless set.
    #[must_use]
    pub fn keys(mut self, form: KeyForm) -> Self {
        self.form = form;
        self
    }

    /// How long one send, or one question, may take; 30 s unless set. What takes longer is unknown.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Whether a call may be sent, once more if need be: it never was, or the service still knows its
    /// key. A clock that is behind the first send says nothing about that.
    #[must_use]
    pub fn may_send(&self, call: &Call, now: SystemTime) -> bool {
        let Some(first) = call.sent_at else {
            return true;
        };
        match (self.retention, now.duration_since(first)) {
            (Some(retention), Ok(since)) => since < retention,
            _ => false,
        }
    }
}
