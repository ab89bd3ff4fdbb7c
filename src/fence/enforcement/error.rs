//! What cannot be enforced, and why.

/// Why no statements were written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnforcementError {
    /// A name that this database does not take, or that could not be reviewed.
    #[error("\"{name}\" cannot be the name of a {what} in {dialect}: {reason}")]
    Name {
        /// `table`, `schema` or `column`.
        what: &'static str,
        /// The name as given, cut to 80 characters, control characters escaped.
        name: String,
        /// The database.
        dialect: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The parts do not go together.
    #[error("{0}")]
    Contradiction(&'static str),
}
