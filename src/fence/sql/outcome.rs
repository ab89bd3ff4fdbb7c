//! What became of a write to a row that carries its own mark.

use crate::{fence::Foreign, token::TokenValue};

/// What became of a write to a row that carries its own mark.
#[must_use = "only `Written` has had an effect"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The row was written, and its mark is now the presented token.
    Written,
    /// A newer holder has written this row. Nothing was changed. This comes before a version
    /// conflict: who has lost the lease need not read again.
    Stale {
        /// The token that was presented.
        presented: TokenValue,
        /// The lowest token with which this row can be written.
        required: TokenValue,
    },
    /// The token is good, but the row is no longer the one that was read: somebody under the same
    /// lease, or one before it, has written it since. Nothing was changed; read it again, and decide
    /// again. Only for a write that is [`expecting`](super::RowWrite::expecting) a version.
    VersionConflict {
        /// The version that the write expected.
        expected: i64,
        /// The version that the row has.
        found: i64,
    },
    /// There is no row with this key. Nothing was changed.
    NoSuchRow,
    /// The sequencer belongs elsewhere, and was not compared. Nothing was changed.
    Foreign(Foreign),
}
