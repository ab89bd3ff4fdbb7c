//! How long a call may take: what its caller says, within what a node allows.

use std::time::{Duration, Instant};

use tonic::metadata::MetadataMap;

/// For callers that name no deadline.
const DEFAULT: Duration = Duration::from_secs(10);

/// The longest that a call may occupy a node, whatever its caller says.
const LONGEST: Duration = Duration::from_secs(60);

/// A caller stops listening at its deadline; an answer that says what is known must come before.
const ANSWER_BEFORE_MAX: Duration = Duration::from_millis(50);

/// When a call that arrives at `now` must be answered.
pub(super) fn of(metadata: &MetadataMap, now: Instant) -> Instant {
    let named = metadata
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok())
        .and_then(parse);
    within(named.unwrap_or(DEFAULT), now)
}

/// The same for an operation on a stream, whose request names so many milliseconds; 0 is none.
pub(super) fn of_operation(timeout_ms: u64, now: Instant) -> Instant {
    let named = match timeout_ms {
        0 => DEFAULT,
        ms => Duration::from_millis(ms),
    };
    within(named, now)
}

/// The same for a caller who has so much time left.
pub(super) fn within(left: Duration, now: Instant) -> Instant {
    let left = left.min(LONGEST);
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
}
