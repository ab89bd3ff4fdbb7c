//! The guards' rule for equal tokens, in SQL.

use crate::fence::{EqualTokens, Rules};

/// What stands between mark and presented token where SQL lets a write pass: the same rule as
/// [`Rules::judge`].
pub(in crate::fence) fn comparison(rules: &Rules) -> &'static str {
    match rules.equal() {
        EqualTokens::MayWriteAgain => " <= ",
        EqualTokens::Once => " < ",
    }
}
