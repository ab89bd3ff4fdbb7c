//! How long to wait before the next round of tries.
//!
//! A *round* asks each node once, without a pause. Only when all of them have failed does the client
//! wait: briefly through an election, which is over in less than a second, and longer when the cluster
//! itself has said that it is overloaded. Jitter keeps clients that failed together from returning
//! together.

use std::time::Duration;

/// The first wait of a call.
const FIRST: Duration = Duration::from_millis(10);
/// The longest wait for a leader: it bounds what the client adds to a failover.
const LEADER_MAX: Duration = Duration::from_millis(100);
/// The longest wait for an overloaded cluster.
const OVERLOAD_MAX: Duration = Duration::from_secs(1);
/// The longest hint of a server that is followed.
const HINT_MAX: Duration = Duration::from_secs(5);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A leader, or a node that answers.
    Leader,
    /// Less load; with the time after which the cluster says it is worth trying again.
    Load(Option<Duration>),
}

/// The wait after round `round` (from 0), between half of its nominal length and all of it.
pub(crate) fn delay(wait: Wait, round: u32, fraction: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1_u32.checked_shl(round.min(20)).unwrap_or(u32::MAX));
    let nominal = match wait {
        Wait::Leader => doubled.min(LEADER_MAX),
        Wait::Load(hint) => doubled
            .min(OVERLOAD_MAX)
            .max(hint.unwrap_or_default().min(HINT_MAX)),
    };
    nominal.mul_f64(0.5 + fraction.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_limit() {
        let full = |round| delay(Wait::Leader, round, 1.0);
        assert_eq!(full(0), FIRST);
        assert_eq!(full(1), FIRST * 2);
        assert_eq!(full(10), LEADER_MAX);
        assert_eq!(full(u32::MAX), LEADER_MAX);
        assert_eq!(delay(Wait::Load(None), 30, 1.0), OVERLOAD_MAX);
    }

    #[test]
    fn jitter_takes_away_at_most_half() {
        assert_eq!(delay(Wait::Leader, 1, 0.0), FIRST);
        let between = delay(Wait::Leader, 1, 0.3);
        assert!(between > FIRST && between < FIRST * 2);
    }

    #[test]
    fn a_hint_lengthens_the_wait_within_reason() {
        let hint = |ms| Wait::Load(Some(Duration::from_millis(ms)));
        assert_eq!(delay(hint(250), 0, 1.0), Duration::from_millis(250));
        assert_eq!(delay(hint(3_600_000), 0, 1.0), HINT_MAX);
    }
}
