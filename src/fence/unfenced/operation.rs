//! Which of a grant's calls one is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The longest name of an operation, in Unicode scalar values.
pub const OPERATION_CHARS_MAX: usize = 64;

/// What stays as it is in a key: the unreserved characters of RFC 3986, section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Which call of its grant a call is. There is no default on purpose: two calls of one grant without a
/// name would have one key, and the service would take the second for a repetition of the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The only call that is ever made under this grant. A second one under another name is refused
    /// when it is recorded.
    Only,
    /// One of several, by a name that tells it from the others and is the same when the work is done
    /// again: the number of an invoice, not that of an attempt.
    Named(OperationName),
}

impl Operation {
    /// One of several, by its name.
    ///
    /// # Errors
    ///
    /// As [`OperationName::new`].
    pub fn named(name: &str) -> Result<Self, OperationError> {
        OperationName::new(name).map(Self::Named)
    }

    /// As it is stored: empty for the only one.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Only => "",
            Self::Named(name) => name.as_str(),
        }
    }

    /// Reads back what was stored.
    pub(super) fn stored(text: &str) -> Result<Self, OperationError> {
        match text {
            "" => Ok(Self::Only),
            name => Self::named(name),
        }
    }
}

/// The name of an operation: 1 to 64 Unicode scalar values, without control characters, without a
/// blank at either end, otherwise exact.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OperationName(Arc<str>);

/// Why a text is no name of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "operation is not a name: it needs 1 to {OPERATION_CHARS_MAX} characters, no control character, and no blank at either end"
)]
pub struct OperationError;

impl OperationName {
    /// Checks a text.
    ///
    /// # Errors
    ///
    /// [`OperationError`], which names the limit.
    pub fn new(name: &str) -> Result<Self, OperationError> {
        let fits = name.chars().nth(OPERATION_CHARS_MAX).is_none();
        let plain = !name.is_empty() && name.trim() == name && !name.chars().any(char::is_control);
        match fits && plain {
            true => Ok(Self(name.into())),
            false => Err(OperationError),
        }
    }

    /// The text, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in a key, in which it holds no colon.
    pub(super) fn encoded(&self) -> String {
        utf8_percent_encode(&self.0, ENCODED).to_string()
    }
}

impl FromStr for OperationName {
    type Err = OperationError;

    fn from_str(name: &str) -> Result<Self, OperationError> {
        Self::new(name)
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
