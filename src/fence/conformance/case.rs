//! The cases: what each is called, the sentence that it checks, and what usually breaks it.
//!
//! The texts are for somebody who has never read a page about fencing: they stand in the report
//! beside what happened.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that every guard must do. The order is that in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    missing_docs,
    reason = "`Case::promise` says it, in a sentence that the report prints"
)]
pub enum Case {
    FirstToken,
    StaleToken,
    EqualToken,
    ReorderedDelivery,
    LongerToken,
    WideTokens,
    ExactTokens,
    LargestToken,
    ResourcesApart,
    ForeignResource,
    ForeignIssuer,
    MissingIssuer,
    ResourceNames,
    RefusedChangesNothing,
    SharedMarks,
    ManyResources,
    Restart,
    ConcurrentWriters,
    InterleavedWrites,
    CrashBetweenCheckAndWrite,
    RestoredBackup,
}

impl Case {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 21] = [
        Self::FirstToken,
        Self::StaleToken,
        Self::EqualToken,
        Self::ReorderedDelivery,
        Self::LongerToken,
        Self::WideTokens,
        Self::ExactTokens,
        Self::LargestToken,
        Self::ResourcesApart,
        Self::ForeignResource,
        Self::ForeignIssuer,
        Self::MissingIssuer,
        Self::ResourceNames,
        Self::RefusedChangesNothing,
        Self::SharedMarks,
        Self::ManyResources,
        Self::Restart,
        Self::ConcurrentWriters,
        Self::InterleavedWrites,
        Self::CrashBetweenCheckAndWrite,
        Self::RestoredBackup,
    ];

    /// Its name in reports and on command lines.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.texts().0
    }

    /// The sentence that it checks.
    #[must_use]
    pub fn promise(self) -> &'static str {
        self.texts().1
    }

    /// What is usually wrong where it is broken.
    #[must_use]
    pub fn usual_cause(self) -> &'static str {
        self.texts().2
    }

    /// The case of that name.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.id() == id)
    }

    fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::FirstToken
            | Self::StaleToken
            | Self::EqualToken
            | Self::ReorderedDelivery
            | Self::LongerToken
            | Self::WideTokens
            | Self::ExactTokens
            | Self::LargestToken => self.of_tokens(),
            Self::ResourcesApart
            | Self::ForeignResource
            | Self::ForeignIssuer
            | Self::MissingIssuer
            | Self::ResourceNames
            | Self::RefusedChangesNothing
            | Self::ManyResources => self.of_scope(),
            Self::SharedMarks
            | Self::ConcurrentWriters
            | Self::InterleavedWrites
            | Self::CrashBetweenCheckAndWrite
            | Self::Restart
            | Self::RestoredBackup => self.of_atomicity(),
        }
    }

    fn of_tokens(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::FirstToken => (
                "first-token",
                "A resource that nobody has written yet admits the first token that comes, whatever it is, and the write happens.",
                "The statement only updates what is there: a row, a file or a key that does not exist yet is never made.",
            ),
            Self::StaleToken => (
                "stale-token",
                "Once a token was admitted, a lower one is refused, and the refusal says which token is required.",
                "The token is not compared at all, or the comparison is the wrong way round.",
            ),
            Self::EqualToken => (
                "equal-token",
                "A token equal to the highest one admitted may write again, or each token is admitted once: as the guard declares.",
                "`<` where `<=` was meant. A holder does several things under one grant, and repeats what got no answer.",
            ),
            Self::ReorderedDelivery => (
                "reordered-delivery",
                "In whatever order writes arrive, exactly those are admitted that are not below the highest token so far.",
                "The token is compared with the previous one rather than with the highest, or a refused token becomes the mark.",
            ),
            Self::LongerToken => (
                "longer-token",
                "Tokens are compared as numbers: 10 is above 9.",
                "Tokens are stored or compared as text, where \"10\" sorts before \"9\".",
            ),
            Self::WideTokens => (
                "wide-tokens",
                "Tokens above 2^31 and 2^32 keep their value and their order.",
                "A 32-bit column or variable cuts the token or wraps it. Use 64 bits (SQL: BIGINT).",
            ),
            Self::ExactTokens => (
                "exact-tokens",
                "Neighbouring tokens above 2^53 stay different.",
                "Tokens pass through a floating-point number (a JavaScript Number, a Lua number, a JSON reader), which cannot tell neighbours beyond 2^53 apart.",
            ),
            _ => (
                "largest-token",
                "The highest token, 2^63 - 1, is admitted, and everything below it is refused from then on.",
                "The range is smaller than a signed 64-bit integer's, or something is added to the token.",
            ),
        }
    }

    fn of_scope(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::ResourcesApart => (
                "resources-apart",
                "A token admitted for one resource says nothing about another: each has a mark of its own.",
                "One mark is kept for everything, so that a high token here refuses the rightful holder there.",
            ),
            Self::ForeignResource => (
                "foreign-resource",
                "A token that was granted for another resource is refused as foreign and never compared, however high it is.",
                "Only the number is looked at, not what it was granted for.",
            ),
            Self::ForeignIssuer => (
                "foreign-issuer",
                "A token of another issuer is refused as foreign and never compared: two issuers number independently.",
                "Only the number is looked at, not whose it is. A token of a test cluster then locks out production, or passes for its own.",
            ),
            Self::MissingIssuer => (
                "missing-issuer",
                "A token without its issuer is refused, unless the guard was set up to accept it.",
                "A missing issuer is taken for the right one.",
            ),
            Self::ResourceNames => (
                "resource-names",
                "Names of resources are exact: two that differ in anything are two resources with two marks.",
                "The store folds case, blanks, accents or numbers (a collation, a file system, a URL that is decoded twice), cuts long names, or takes % and _ for wildcards.",
            ),
            Self::RefusedChangesNothing => (
                "refused-changes-nothing",
                "A refused write changes nothing: not the value, and not the mark.",
                "The mark is set before everything is checked, or by a statement that sets it whatever it was.",
            ),
            _ => (
                "many-resources",
                "Many resources in one place keep their marks apart, through every handle.",
                "Marks are kept under a shortened or hashed name, in a cache that forgets, or for a limited number of resources.",
            ),
        }
    }

    fn of_atomicity(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::SharedMarks => (
                "shared-marks",
                "What one process has raised counts for every other that writes to the same place.",
                "Each process keeps a mark of its own, or a cached copy. The mark belongs where the data is.",
            ),
            Self::ConcurrentWriters => (
                "concurrent-writers",
                "Among writers that race, no lower token takes effect after a higher one, every acknowledged write happened, and the highest token's write is what remains.",
                "The mark is read, compared, and then written: between the two, a newer holder can come and go. Compare in the statement that writes, or under a lock that is kept until it has written.",
            ),
            Self::InterleavedWrites => (
                "interleaved-writes",
                "However the steps of two writes interleave, a lower token has no effect once a higher one was admitted.",
                "The check is not in the same transaction as the write, or the transaction does not hold the mark until it commits.",
            ),
            Self::CrashBetweenCheckAndWrite => (
                "crash-between-check-and-write",
                "When a process dies in the middle of a write, the value and the mark have both changed or neither has, and the next holder can write.",
                "Mark and value are committed apart, or whatever keeps others out during the write outlives its process.",
            ),
            Self::Restart => (
                "restart",
                "A restart forgets no mark: what was stale before is stale afterwards.",
                "Marks live in memory only, while the data outlives the process.",
            ),
            _ => (
                "restored-backup",
                "After a restore the mark that came back belongs to the value that came back, can be read, and tokens from a raised floor are fenced against as before.",
                "Marks and data are in different stores, or the backup has only one of them.",
            ),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}
