//! What a run uses up: names of resources, tokens, values.
//!
//! Tokens rise over the whole run, whatever the resource. So a service that forgets to keep resources
//! apart fails the check of that name, and not every check after the first.

use std::sync::atomic::{AtomicU64, Ordering};

use fencepost::resource::ResourceName;

/// Tokens begin here unless the user says otherwise: nine digits, below a power of ten that one of
/// the checks steps over, and with room for a run below 2^31, which another one steps over.
pub(super) const FIRST_TOKEN: u64 = 999_000_000;

/// Where names, tokens and values come from.
#[derive(Debug)]
pub(super) struct Supply {
    /// In every name and value of this run and in no other's.
    run: String,
    /// Names to use instead of new ones; empty if the run may make names up.
    fixed: Vec<ResourceName>,
    next_token: AtomicU64,
    drawn: AtomicU64,
    values: AtomicU64,
}

impl Supply {
    pub(super) fn new(run: String, fixed: Vec<ResourceName>, first_token: u64) -> Self {
        Self {
            run,
            fixed,
            next_token: AtomicU64::new(first_token),
            drawn: AtomicU64::new(0),
            values: AtomicU64::new(0),
        }
    }

    /// The names that the user insists on.
    pub(super) fn fixed(&self) -> &[ResourceName] {
        &self.fixed
    }

    /// What every name of this run begins with.
    pub(super) fn prefix(&self) -> String {
        format!("fencepost-probe-{}", self.run)
    }

    /// A resource that this run has not used yet, or the next of the fixed ones in turn. `purpose`
    /// tells people who look at the service's data what it was for.
    pub(super) fn resource(&self, purpose: &str) -> ResourceName {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        if self.fixed.is_empty() {
            return self.named(&format!("{purpose}-{drawn}"));
        }
        let turn = usize::try_from(drawn).unwrap_or(0) % self.fixed.len();
        self.fixed[turn].clone()
    }

    /// A name of this run that ends in `suffix`, exactly.
    pub(super) fn named(&self, suffix: &str) -> ResourceName {
        let name = format!("{}-{suffix}", self.prefix());
        ResourceName::new(name).expect("a prefix and a suffix of ours make a name")
    }

    /// The first of `count` tokens in a row that nobody used, all above those that were handed out.
    pub(super) fn tokens(&self, count: u64) -> u64 {
        self.next_token.fetch_add(count, Ordering::Relaxed)
    }

    /// Makes all further tokens at least `least`.
    pub(super) fn raise(&self, least: u64) {
        self.next_token.fetch_max(least, Ordering::Relaxed);
    }

    /// The lowest token that was not handed out.
    pub(super) fn peek(&self) -> u64 {
        self.next_token.load(Ordering::Relaxed)
    }

    /// A value that nobody else writes, and that is part of no other value.
    pub(super) fn value(&self) -> String {
        let number = self.values.fetch_add(1, Ordering::Relaxed);
        format!("{}-v{number:07}", self.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_handed_out_twice() {
        let supply = Supply::new("r".to_owned(), Vec::new(), 5);
        assert_ne!(supply.resource("a"), supply.resource("a"));
        assert_eq!((supply.tokens(3), supply.tokens(1)), (5, 8));
        supply.raise(7);
        assert_eq!(supply.tokens(1), 9);
        supply.raise(100);
        assert_eq!(supply.tokens(1), 100);
        assert_ne!(supply.value(), supply.value());
    }

    #[test]
    fn fixed_names_take_turns() {
        let names = ["a", "b"].map(|name| name.parse().unwrap());
        let supply = Supply::new("r".to_owned(), names.to_vec(), 5);
        let drawn = [(); 3].map(|()| supply.resource("x").to_string());
        assert_eq!(drawn, ["a", "b", "a"]);
    }
}
