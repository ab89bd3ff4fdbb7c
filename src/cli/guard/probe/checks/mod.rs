//! All checks, in the order in which they run.
//!
//! Each is one sentence of the contract, so that a service with one mistake fails one of them: tokens
//! rise over the whole run, have equally many digits wherever that is not the point, and a check whose
//! ground another one has found missing is not judged.

mod input;
mod memory;
mod order;
mod race;
mod restart;
mod round;
mod scope;
mod values;
mod width;

use super::check::Check;

/// Those that send very high tokens come last.
pub(super) fn all() -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(order::CHECKS);
    all.extend(input::CHECKS);
    all.extend(scope::CHECKS);
    all.extend(values::CHECKS);
    all.extend(race::CHECKS);
    all.extend(memory::CHECKS);
    all.extend(restart::CHECKS);
    all.extend(width::CHECKS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_check_needs_only_earlier_ones() {
        let mut earlier: Vec<&str> = Vec::new();
        for check in all() {
            assert!(!earlier.contains(&check.name), "{} twice", check.name);
            for needed in check.needs {
                assert!(earlier.contains(needed), "{} needs {needed}", check.name);
            }
            earlier.push(check.name);
        }
    }

    #[test]
    fn names_are_words_with_hyphens() {
        for check in all() {
            let plain = check
                .name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(plain, "{}", check.name);
            assert!(!check.promise.ends_with('.') && !check.why.ends_with('.'));
        }
    }
}
