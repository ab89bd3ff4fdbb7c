//! The one place where the server reads a clock.
//!
//! Everything else takes the time as an argument. Deadlines are kept in monotonic time, so that
//! setting the wall clock moves none of them (etcd#6700); the wall clock is read for people, and for
//! the bound that keeps a raised floor below what a restore would choose.

use std::time::{Duration, Instant, SystemTime};

/// Now, on the monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the server's one reading of the monotonic clock"
)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Whole milliseconds, as messages carry them.
#[must_use]
pub fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 by the wall clock, for people. 0 before 1970.
#[must_use]
pub fn wall_ms() -> u64 {
    whole_ms(since_1970())
}

/// Microseconds since 1970 by the wall clock. 0 before 1970.
#[must_use]
pub fn wall_us() -> u64 {
    u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the server's one reading of the wall clock"
)]
fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Notices that the process stood still: its own regular tick came late.
///
/// A stopped process or a frozen machine cannot notice that while it lasts. Afterwards it must not
/// trust what it counted in between about others.
#[derive(Debug)]
pub struct GapDetector {
    last: Instant,
    longest: Duration,
}

impl GapDetector {
    /// Ticks are expected more often than every `longest`.
    #[must_use]
    pub fn new(now: Instant, longest: Duration) -> Self {
        GapDetector { last: now, longest }
    }

    /// The tick is here. `Some`: it came too late, so long after the one before.
    pub fn tick(&mut self, now: Instant) -> Option<Duration> {
        let gap = now.saturating_duration_since(self.last);
        // A clock that steps back does not make the next gap longer (tikv#14518).
        self.last = now;
        (gap > self.longest).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_is_a_gap_and_a_step_back_is_none() {
        let start = now();
        let mut detector = GapDetector::new(start, Duration::from_millis(500));
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(detector.tick(at(500)), None);
        assert_eq!(detector.tick(at(1_600)), Some(Duration::from_millis(1_100)));
        assert_eq!(detector.tick(at(1_500)), None);
        assert_eq!(detector.tick(at(1_700)), None);
    }
}
