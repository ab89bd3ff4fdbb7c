//! Where a node can be reached: `host:port`, checked once.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest address that is accepted, in bytes: a DNS name has at most 253, and a port five digits.
const ADDRESS_BYTES_MAX: usize = 300;

/// The address of a node's client listener, `host:port`. Cloning shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

impl Address {
    /// The text, `host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads `host:port`, `[v6]:port`, or either behind `http://`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why| AddressError {
            address: text.chars().take(ADDRESS_BYTES_MAX).collect(),
            why,
        };
        if text.starts_with("https://") {
            return Err(refuse("TLS is not offered yet, write host:port"));
        }
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        if bare.len() > ADDRESS_BYTES_MAX {
            return Err(refuse("it is longer than 300 bytes"));
        }
        let Some((host, port)) = bare.rsplit_once(':') else {
            return Err(refuse("it has no port, write host:port"));
        };
        if port.parse::<u16>().map_or(true, |port| port == 0) {
            return Err(refuse("its port is not a number from 1 to 65535"));
        }
        if !is_host(host) {
            return Err(refuse(
                "its host is not a name or an address, write host:port",
            ));
        }
        Ok(Self(bare.into()))
    }
}

/// A DNS name or IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    if let Some(inner) = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !host.is_empty() && host.bytes().all(plain)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not the address of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {address:?} cannot be used: {why}")]
pub struct AddressError {
    /// The text as given, cut at 300 characters.
    pub address: String,
    /// What is wrong with it, and what to write.
    pub why: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_taken_with_or_without_a_scheme() {
        for text in [
            "127.0.0.1:7100",
            "http://127.0.0.1:7100",
            "http://127.0.0.1:7100/",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().as_str(), "127.0.0.1:7100");
        }
        assert!("[::1]:7100".parse::<Address>().is_ok());
        assert!("node-1.example.org:7100".parse::<Address>().is_ok());
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        let long = format!("{}:7100", "a".repeat(400));
        for text in [
            "",
            "host",
            "host:",
            "host:0",
            "host:65536",
            ":7100",
            "a b:7100",
            "::1:7100",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
        assert!(long.parse::<Address>().unwrap_err().address.len() <= 300);
        let tls = "https://host:7100".parse::<Address>().unwrap_err();
        assert!(tls.to_string().contains("TLS is not offered"), "{tls}");
    }
}
