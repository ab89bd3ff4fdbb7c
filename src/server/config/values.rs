//! Texts to values: one function for each kind of value, each error naming what would be right.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

/// A whole number.
pub(super) fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    text.parse::<u64>()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("must be a whole number from {min} to {max}, not `{text}`"))
}

/// `true` or `false`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("must be true or false, not `{text}`"))
}

/// A length of time with its unit.
pub(super) fn time(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 3] = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let wrong = || {
        format!(
            "must be a time with its unit (ms, s or m) from {min:?} to {max:?}, such as 250ms, not `{text}`"
        )
    };
    let millis = scaled(text, &UNITS).ok_or_else(wrong)?;
    let time = Duration::from_millis(millis);
    if (min..=max).contains(&time) {
        Ok(time)
    } else {
        Err(wrong())
    }
}

/// A number of bytes, with its unit.
pub(super) fn size(text: &str, min: u64, max: u64) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ];
    let bytes = if text == "0" {
        Some(0)
    } else {
        scaled(text, &UNITS)
    };
    bytes
        .filter(|bytes| (min..=max).contains(bytes))
        .ok_or_else(|| {
            format!(
                "must be a size with its unit (B, KiB, MiB, GiB, ...) from {} to {}, such as 64MiB, not `{text}`",
                size_text(min),
                size_text(max)
            )
        })
}

/// Digits and a unit, without anything between that could be misread.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A size as one would write it.
pub(super) fn size_text(bytes: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// An address to listen on: a number, so that what is bound is what was checked.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(str::parse);
    if let Some(Ok(port)) = local {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse()
        .map_err(|_| format!("must be IP:PORT, such as 127.0.0.1:7100 or [::1]:7100, not `{text}`"))
}

/// The longest DNS name, plus `:` and a port.
const ADDRESS_LEN_MAX: usize = 253 + 6;

/// An address that others can reach: host names are for them to look up.
pub(super) fn reachable(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "must be HOST:PORT with a port from 1 to 65535, such as node-1.example:7200, not `{text}`"
        )
    };
    if let Ok(address) = text.parse::<SocketAddr>() {
        if address.ip().is_unspecified() {
            return Err(format!(
                "must be an address that others can reach, and nobody can reach {}",
                address.ip()
            ));
        }
        return if address.port() == 0 {
            Err(wrong())
        } else {
            Ok(text.to_owned())
        };
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host_fits = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    let port_fits = port.parse::<u16>().is_ok_and(|port| port > 0);
    if host_fits && port_fits && text.len() <= ADDRESS_LEN_MAX {
        Ok(text.to_owned())
    } else {
        Err(wrong())
    }
}

/// The founding list: `1=host:port,2=host:port`.
pub(super) fn peers(text: &str) -> Result<BTreeMap<u64, String>, String> {
    let mut peers = BTreeMap::new();
    for part in text.split(',').map(str::trim) {
        let (id, address) = part.split_once('=').ok_or_else(|| {
            format!(
                "must be a list such as 1=host:7200,2=host:7200,3=host:7200; `{part}` has no `=`"
            )
        })?;
        let id = number(id.trim(), 1, u64::MAX).map_err(|error| format!("a node id {error}"))?;
        let address = reachable(address.trim())
            .map_err(|error| format!("the address of node {id} {error}"))?;
        if peers.values().any(|other| *other == address) {
            return Err(format!("names the address {address} twice"));
        }
        if peers.insert(id, address).is_some() {
            return Err(format!("names node {id} twice"));
        }
    }
    match peers.len() {
        1 | 3 | 5 => Ok(peers),
        2 => Err(
            "has 2 nodes: with two, the loss of either stops the cluster, so two are worse than \
                  one; list 3 or 5 (1 for experiments)"
                .to_owned(),
        ),
        4 => Err(
            "has 4 nodes: a fourth adds no node that may fail (both 3 and 4 bear one), and one \
                  more that can; list 3 or 5"
                .to_owned(),
        ),
        count => Err(format!("has {count} nodes: list 1, 3 or 5")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit_and_stay_in_their_limits() {
        let (min, max) = (Duration::from_millis(10), Duration::from_secs(60));
        assert_eq!(time("50ms", min, max), Ok(Duration::from_millis(50)));
        assert_eq!(time("1m", min, max), Ok(Duration::from_secs(60)));
        for wrong in [
            "50",
            "",
            "ms",
            "-1s",
            "1.5s",
            "9ms",
            "61s",
            "99999999999999999999s",
            "18446744073709551615m",
        ] {
            assert!(time(wrong, min, max).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_need_a_unit_and_never_wrap() {
        assert_eq!(size("64MiB", 0, u64::MAX), Ok(64 << 20));
        assert_eq!(size("1 GB", 0, u64::MAX), Ok(1_000_000_000));
        assert_eq!(size("0", 0, 10), Ok(0));
        for wrong in ["64", "MiB", "18446744073709551615KiB", "1mib"] {
            assert!(size(wrong, 0, u64::MAX).is_err(), "{wrong}");
        }
        assert_eq!(size_text(64 << 20), "64MiB");
        assert_eq!(size_text(0), "0B");
    }

    #[test]
    fn reachable_addresses_are_names_or_numbers_with_a_port() {
        for right in [
            "node-1.example:7200",
            "10.0.0.1:1",
            "[::1]:7200",
            "localhost:7200",
        ] {
            assert_eq!(reachable(right), Ok(right.to_owned()));
        }
        for wrong in [
            "",
            "host",
            "host:0",
            "host:65536",
            ":7200",
            "0.0.0.0:7200",
            "[::]:7200",
            "a b:1",
            "http://x:1",
        ] {
            assert!(reachable(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_and_four_nodes_are_refused_with_the_reason() {
        let list = |count: u64| {
            (1..=count)
                .map(|id| format!("{id}=host-{id}:7200"))
                .collect::<Vec<_>>()
                .join(",")
        };
        for right in [1, 3, 5] {
            assert!(peers(&list(right)).is_ok());
        }
        assert!(peers(&list(2)).unwrap_err().contains("worse than one"));
        assert!(peers(&list(4)).unwrap_err().contains("fourth"));
        assert!(peers(&list(7)).is_err());
    }

    #[test]
    fn a_list_that_repeats_itself_is_refused() {
        assert!(
            peers("1=a:1,1=b:1,3=c:1")
                .unwrap_err()
                .contains("node 1 twice")
        );
        assert!(
            peers("1=a:1,2=a:1,3=c:1")
                .unwrap_err()
                .contains("a:1 twice")
        );
        assert!(peers("0=a:1").is_err());
    }
}
