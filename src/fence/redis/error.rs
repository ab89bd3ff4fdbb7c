//! What can break between a guard and Redis.

use crate::resource::ResourceName;

use super::VALUE_BYTES_MAX;

/// A failure of a Redis guard. Refusals are not among them.
///
/// After [`RedisError::Redis`] the script may have been carried out, or may be carried out yet; after
/// any other, nothing was changed. Repeating the call with the same sequencer is safe in each case.
#[derive(Debug, thiserror::Error)]
pub enum RedisError {
    /// Redis failed, or could not be reached in time.
    #[error("Redis failed: {0}")]
    Redis(#[source] redis::RedisError),
    /// What lies at a key is no mark, so that nothing can be compared with it; or a key of the value
    /// is not a string. Nothing is admitted for its resource until somebody has looked: an unknown
    /// mark is not the same as none.
    #[error("a key in Redis is damaged: {0}")]
    Damaged(String),
    /// The server is not set up to keep marks.
    #[error("this Redis cannot keep marks: {0}")]
    Unfit(String),
    /// The prefix cannot be part of a key here.
    #[error("the prefix \"{prefix}\" cannot be used: {reason}")]
    Prefix {
        /// The prefix, cut to 80 characters.
        prefix: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The value is longer than it may be here.
    #[error("the value for \"{resource}\" has {found} bytes, and the limit is {VALUE_BYTES_MAX}")]
    TooLong {
        /// What it was for.
        resource: ResourceName,
        /// Its length in bytes.
        found: usize,
    },
    /// The script's answer was none of those that it gives: a proxy in between, or another script.
    #[error("Redis answered \"{0}\", which is no answer of the guard's script")]
    Answer(String),
}

/// Error codes of the script.
const SCRIPTS_OWN: [&str; 3] = ["FENCEMARK", "FENCETYPE", "WRONGTYPE"];

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        match error.code() {
            Some(code) if SCRIPTS_OWN.contains(&code) => {
                Self::Damaged(error.detail().unwrap_or(code).to_owned())
            }
            _ => Self::Redis(error),
        }
    }
}

impl RedisError {
    /// True where the same call may succeed in a moment: the connection broke, or Redis is starting,
    /// failing over, or busy.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::Redis(error) => {
                error.is_io_error()
                    || matches!(
                        error.code(),
                        Some(
                            "LOADING"
                                | "TRYAGAIN"
                                | "CLUSTERDOWN"
                                | "MASTERDOWN"
                                | "READONLY"
                                | "BUSY"
                        )
                    )
            }
            _ => false,
        }
    }
}
