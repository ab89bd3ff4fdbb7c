//! The client's one clock.
//!
//! A holder's deadline must go on while its machine sleeps, or a laptop that wakes up would believe in
//! a lease that ended hours ago. CLOCK_BOOTTIME counts suspension; `std::time::Instant` does not.

use std::fmt;
use std::pin::Pin;
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

    /// The moment `duration` earlier; the machine's start when there is no such moment.
    #[must_use]
    pub const fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }

    /// The time since the machine started.
    #[must_use]
    pub const fn since_boot(self) -> Duration {
        self.0
    }
}

impl fmt::Debug for BootInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{:?}", self.0)
    }
}

/// A wait for a moment, see [`Clock::sleep_until`].
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The longest slice of a wait on timers that stand still while the machine sleeps: so late may the end
/// of a wait be noticed after it wakes.
const SLICE: Duration = Duration::from_millis(50);

/// Where the client reads the time. A simulation brings its own.
pub trait Clock: Send + Sync {
    /// The moment it is now.
    fn now(&self) -> BootInstant;

    /// Waits until `moment` by this clock; also when the clock jumps there because the machine slept.
    ///
    /// What is provided looks at the clock every 50 ms. It is right for every clock, and may be late by
    /// that much.
    fn sleep_until(&self, moment: BootInstant) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                match moment.since(self.now()) {
                    Duration::ZERO => return,
                    left => tokio::time::sleep(left.min(SLICE)).await,
                }
            }
        })
    }
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

    #[cfg(target_os = "linux")]
    fn sleep_until(&self, moment: BootInstant) -> Sleep<'_> {
        Box::pin(async move {
            while self.now() < moment {
                // Without a descriptor for a timer (all are used up) short waits do it, too.
                if alarm::ring_at(moment).await.is_err() {
                    tokio::time::sleep(moment.since(self.now()).min(SLICE)).await;
                }
            }
        })
    }
}

/// Waits on the clock that counts suspension: a timer of the kernel's, which rings at once when a machine
/// wakes too late. The timers of tokio stand still with the machine.
#[cfg(target_os = "linux")]
mod alarm {
    use super::BootInstant;
    use std::io;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::{Interest, unix::AsyncFd};

    pub(super) async fn ring_at(moment: BootInstant) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let since_boot = moment.since_boot();
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                // The end of time is far enough away for whoever waits for it.
                tv_sec: i64::try_from(since_boot.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: since_boot.subsec_nanos().into(),
            },
        };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe code, for descriptors that may change; an OwnedFd cannot"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        timer.readable().await?.retain_ready();
        Ok(())
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

    /// A clock that only knows the time, as a simulation's.
    struct Plain;

    impl Clock for Plain {
        fn now(&self) -> BootInstant {
            BootClock.now()
        }
    }

    #[tokio::test]
    async fn a_wait_ends_when_its_moment_has_come_and_at_once_when_it_is_past() {
        let start = BootClock.now();
        BootClock.sleep_until(start).await;
        for clock in [&BootClock as &dyn Clock, &Plain] {
            let moment = clock.now().plus(Duration::from_millis(120));
            clock.sleep_until(moment).await;
            assert!(clock.now() >= moment);
        }
    }

    #[tokio::test]
    async fn the_end_of_time_is_not_reached() {
        let never = BootClock.sleep_until(BootInstant::from_boot(Duration::MAX));
        let waited = tokio::time::timeout(Duration::from_millis(50), never).await;
        assert!(waited.is_err());
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
