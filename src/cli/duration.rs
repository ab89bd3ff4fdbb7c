//! Durations as people write them: `500ms`, `30s`, `5m`, `1h 30m`.

use fencepost::grant::Ttl;
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
    Ttl::try_from(parse(text)?).map_err(|error| error.to_string())
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
    }

    #[test]
    fn a_ttl_is_refused_outside_its_limits() {
        assert_eq!(parse_ttl("30s").unwrap(), Ttl::default());
        for text in ["0s", "99ms", "25h", "2000years"] {
            let error = parse_ttl(text).unwrap_err();
            assert!(error.contains("between 100 ms"), "{error}");
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
