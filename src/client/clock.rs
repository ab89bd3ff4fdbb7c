//! The client's one clock.
//!
//! A holder's deadline must go on while its machine sleeps, or a laptop that wakes up would believe in
//! a lease that ended hours ago. CLOCK_BOOTTIME counts suspension; `std::time::Instant` does not.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Linux calls the clock that counts suspension BOOTTIME; elsewhere the monotonic clock is the best there is.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// A moment, counted since the machine started, its sleep included. Meaningless on another machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The moment `since_boot` after the machine started.
    #[must_use]
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `duration` later; the end of time when that overflows.
    #[must_use]
    pub const fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl fmt::Debug for BootInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{:?}", self.0)
    }
}

/// Where the client reads the time. A simulation brings its own.
pub trait Clock: Send + Sync {
    /// The moment it is now.
    fn now(&self) -> BootInstant;
}

/// The machine's clock that counts suspension (CLOCK_BOOTTIME on Linux).
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> BootInstant {
        let time = clock_gettime(BOOT_CLOCK);
        // Neither can be negative on this clock; zero is a safe reading even if one were.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
        BootInstant(Duration::new(seconds, nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back() {
        let readings: Vec<_> = (0..1_000).map(|_| BootClock.now()).collect();
        assert!(readings.is_sorted());
        assert!(readings[0] > BootInstant::from_boot(Duration::ZERO));
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let (early, late) = (
            BootInstant::from_boot(Duration::ZERO),
            BootInstant::from_boot(Duration::MAX),
        );
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.plus(Duration::from_secs(1)), late);
    }
}
