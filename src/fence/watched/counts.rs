//! What was seen so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of a [`Watch`](super::Watch), since it was made.
///
/// Each call that carried a token is one of admitted, stale, foreign or an error; each that did not
/// get that far is missing, invalid or foreign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Admitted, by the rules.
    pub admitted: u64,
    /// Below the mark.
    pub stale: u64,
    /// Of another issuer, or for another resource.
    pub foreign: u64,
    /// Came without a token.
    pub missing: u64,
    /// Came with something that cannot be read as a token, a resource or an issuer.
    pub invalid: u64,
    /// The store of the marks failed, so that nothing is known.
    pub errors: u64,
    /// Those of the five before this one that went through all the same, because the guard was only
    /// observing.
    pub overlooked: u64,
    /// Tokens that their issuer, when it was told, said to have never issued.
    pub ahead: u64,
}

/// One of the kinds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Admitted,
    Stale,
    Foreign,
    Missing,
    Invalid,
    Errors,
    Overlooked,
    Ahead,
}

/// Counted by many at once.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; 8]);

impl Counters {
    pub(super) fn add(&self, kind: Kind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Counts {
        let of = |kind: Kind| self.0[kind as usize].load(Ordering::Relaxed);
        Counts {
            admitted: of(Kind::Admitted),
            stale: of(Kind::Stale),
            foreign: of(Kind::Foreign),
            missing: of(Kind::Missing),
            invalid: of(Kind::Invalid),
            errors: of(Kind::Errors),
            overlooked: of(Kind::Overlooked),
            ahead: of(Kind::Ahead),
        }
    }
}
