//! How long a call may take: what its caller says, within what a node allows.

use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;

/// For callers that name no deadline.
const DEFAULT: Duration = Duration::from_secs(10);

/// The longest that a call may occupy a node beyond its wait, whatever its caller says.
const LONGEST: Duration = Duration::from_secs(60);

/// A caller stops listening at its deadline; an answer that says what is known must come before.
const ANSWER_BEFORE_MAX: Duration = Duration::from_millis(50);

/// How long its caller gives a call, if it says so.
pub(super) fn named(metadata: &MetadataMap) -> Option<Duration> {
    let value = metadata.get("grpc-timeout")?;
    parse(value.to_str().ok()?)
}

/// When a call that arrives at `now` must be answered, which may wait in line for `wait`.
pub(super) fn of(named: Option<Duration>, wait: Duration, now: Instant) -> Instant {
    let left = named.unwrap_or(wait.saturating_add(DEFAULT));
    before(left.min(wait.saturating_add(LONGEST)), now)
}

/// The same for a caller who has so much time left.
pub(super) fn within(left: Duration, now: Instant) -> Instant {
    before(left.min(LONGEST), now)
}

fn before(left: Duration, now: Instant) -> Instant {
    now + left.saturating_sub((left / 10).min(ANSWER_BEFORE_MAX))
}

/// Up to eight digits and a unit, as gRPC over HTTP/2 defines it. Anything else counts as not there.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<u64>().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3_600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        assert_eq!(parse("100m"), Some(Duration::from_millis(100)));
        assert_eq!(parse("2S"), Some(Duration::from_secs(2)));
        assert_eq!(
            parse("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3_600))
        );
        for odd in ["", "S", "1", "123456789S", "-1S", "1 S", "1s", "é", "1é"] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn an_answer_comes_before_the_caller_stops_listening() {
        let now = clock::now();
        let left = |ms| within(Duration::from_millis(ms), now) - now;
        assert_eq!(left(100), Duration::from_millis(90));
        assert_eq!(left(10_000), Duration::from_millis(9_950));
        assert_eq!(left(u64::MAX), Duration::from_millis(59_950));
        assert_eq!(left(0), Duration::ZERO);
    }

    #[test]
    fn a_wait_puts_off_what_its_caller_left_open_and_the_longest() {
        let now = clock::now();
        let minute = Duration::from_secs(60);
        let ms = |named, wait| (of(named, wait, now) - now).as_millis();
        assert_eq!(ms(None, Duration::ZERO), 9_950);
        assert_eq!(ms(None, minute), 69_950);
        assert_eq!(ms(Some(minute), 2 * minute), 59_950);
        assert_eq!(ms(Some(Duration::MAX), minute), 119_950);
        assert_eq!(ms(Some(Duration::MAX), Duration::ZERO), 59_950);
    }
}
