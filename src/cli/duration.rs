//! Durations as people write them: `500ms`, `30s`, `5m`, `1h 30m`.

use fencepost::grant::Ttl;
use fencepost::limits::{TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX};
use std::time::Duration;

/// Parses a duration argument. A bare number is refused, because nobody knows what it counts.
///
/// # Errors
///
/// A sentence that names the accepted form.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, such as 500ms, 30s or 5m"))
}

/// Parses a TTL argument.
///
/// # Errors
///
/// A sentence that names the accepted form, or the limits.
pub(crate) fn parse_ttl(text: &str) -> Result<Ttl, String> {
    let range = || {
        let (least, most) = (human_ms(TTL_MS_MIN), TTL_MS_MAX / 3_600_000);
        format!("a TTL must lie between {least} and {most}h")
    };
    // Below zero is out of range, and not a number without a unit.
    if text.starts_with('-') {
        return Err(range());
    }
    Ttl::try_from(parse(text)?).map_err(|_| range())
}

/// Parses how long to stand in line.
///
/// # Errors
///
/// A sentence that names the accepted form, or the limits.
pub(crate) fn parse_wait(text: &str) -> Result<Duration, String> {
    let most = Duration::from_millis(WAIT_MS_MAX);
    match parse(text) {
        Ok(wait) if !wait.is_zero() && wait <= most => Ok(wait),
        Err(malformed) if !text.starts_with('-') => Err(malformed),
        _ => Err(format!(
            "a wait must be longer than 0s, and at most {}h",
            most.as_secs() / 3_600
        )),
    }
}

/// Parses a duration that must not be zero.
///
/// # Errors
///
/// A sentence that names the accepted form.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("it must be longer than 0s".to_owned()),
        duration => Ok(duration),
    }
}

/// A duration as [`parse`] reads it, without loss and in one word: `30s`, `1m30s`.
pub(crate) fn exact(duration: Duration) -> String {
    humantime::format_duration(duration)
        .to_string()
        .replace(' ', "")
}

/// A duration for people, as [`human_ms`].
pub(crate) fn human(duration: Duration) -> String {
    human_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Milliseconds for people: `850ms`, `2.3s`, `30s`, `2m 5s`.
pub(crate) fn human_ms(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..10_000 if !ms.is_multiple_of(1_000) => {
            format!("{}.{}s", ms / 1_000, ms % 1_000 / 100)
        }
        1_000..60_000 => format!("{}s", ms / 1_000),
        _ => humantime::format_duration(Duration::from_secs(ms / 1_000)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_required() {
        assert_eq!(parse("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(parse("5m").unwrap(), Duration::from_secs(300));
        assert!(parse("30").unwrap_err().contains("such as 500ms"));
        assert!(parse("-1s").is_err());
        assert!(parse_positive("0s").is_err());
        let odd = Duration::from_millis(90_500);
        assert_eq!(
            (exact(odd).as_str(), parse(&exact(odd))),
            ("1m30s500ms", Ok(odd))
        );
    }

    #[test]
    fn a_ttl_is_refused_outside_its_limits() {
        assert_eq!(parse_ttl("30s").unwrap(), Ttl::default());
        for text in ["0s", "99ms", "25h", "2000years", "-1s"] {
            let error = parse_ttl(text).unwrap_err();
            assert!(error.contains("between 100ms and 24h"), "{error}");
        }
    }

    #[test]
    fn milliseconds_are_readable() {
        assert_eq!(human_ms(850), "850ms");
        assert_eq!(human_ms(30_000), "30s");
        assert_eq!(human_ms(2_345), "2.3s");
        assert_eq!(human_ms(12_345), "12s");
        assert_eq!(human_ms(125_000), "2m 5s");
    }
}
