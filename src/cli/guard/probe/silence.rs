//! Why a request had no answer, in words that say what to look at.
//!
//! Where no connection was made, nobody was asked, and nothing is known of the service. Where one was
//! made and no answer came, the service may have done anything with the request; whether that is its
//! answer to just this request, or it answers nobody, is for [`super::course`] to find out.

use std::io::ErrorKind;
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, Timeout};

/// What fails before there is a connection is wrapped in this, so that it is told from what fails on one.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconnected {
    /// The host's name led to no address.
    #[error(transparent)]
    Unresolved(Error),
    /// No address led to a connection, TLS included.
    #[error(transparent)]
    Unreached(Error),
}

impl From<Unconnected> for Error {
    fn from(unconnected: Unconnected) -> Self {
        Self::Other(Box::new(unconnected))
    }
}

/// Resolves names as usual, and wraps what fails.
#[derive(Debug, Default)]
pub(super) struct Names(DefaultResolver);

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = self.0.resolve(uri, config, timeout);
        resolved.map_err(|error| Unconnected::Unresolved(error).into())
    }
}

/// No answer, and whether anybody was asked at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silence {
    /// Whether there was a connection to send the request over.
    pub(super) was_connected: bool,
    /// A sentence's end, as in "no answer: ...".
    pub(super) why: String,
}

impl Silence {
    /// Reads an error of the client's library; `is_tls` is whether the URL begins with https, and `patience`
    /// how long each phase of the request could take.
    pub(super) fn of(error: &Error, is_tls: bool, patience: Duration) -> Self {
        let within = humantime::format_duration(patience);
        let unconnected = match error {
            Error::Other(other) => other.downcast_ref::<Unconnected>(),
            _ => None,
        };
        let within = within.to_string();
        Self {
            was_connected: unconnected.is_none(),
            why: match unconnected {
                Some(Unconnected::Unresolved(error)) => no_address(error, &within),
                Some(Unconnected::Unreached(error)) => no_connection(error, is_tls, &within),
                None => no_answer(error, &within),
            },
        }
    }
}

fn no_address(error: &Error, within: &str) -> String {
    match error {
        Error::Timeout(_) => format!("the host name was not resolved within {within}"),
        Error::Io(error) => format!("the host name is not known ({error})"),
        _ => "the host name is not known".to_owned(),
    }
}

fn no_connection(error: &Error, is_tls: bool, within: &str) -> String {
    match error {
        Error::Timeout(_) if is_tls => {
            format!("no TLS connection came about within {within}")
        }
        Error::Timeout(_) => format!(
            "no connection came about within {within}: something drops the packets, or the service's listen backlog is full"
        ),
        Error::Io(error) => match error.kind() {
            ErrorKind::ConnectionRefused => "nobody listens there (connection refused)".to_owned(),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                format!("no way leads there ({error})")
            }
            _ if is_tls => no_handshake(error),
            _ => format!("no connection could be made: {error}"),
        },
        Error::Tls(_) | Error::Rustls(_) => format!("the TLS handshake failed: {error}"),
        other => format!("no connection could be made: {other}"),
    }
}

/// What to do about a failed handshake, by what the library's words for it contain.
const ADVICE: [(&str, &str); 4] = [
    (
        "UnknownIssuer",
        "; the authority that vouches for the service is named with --ca FILE",
    ),
    (
        "BadSignature",
        "; the authority of --ca has the same name as the one that vouches for the service, and another key",
    ),
    (
        "CaUsedAsEndEntity",
        "; the service shows an authority's certificate, and needs one of its own that the authority has signed",
    ),
    ("corrupt message", "; it may speak plain http"),
];

/// What went wrong between the TCP connection and the first byte of HTTP.
fn no_handshake(error: &std::io::Error) -> String {
    if error.kind() != ErrorKind::InvalidData {
        return format!("the connection was closed in the middle of the TLS handshake ({error})");
    }
    let text = error.to_string();
    let advice = ADVICE.iter().find(|(part, _)| text.contains(part));
    let advice = advice.map_or("", |(_, advice)| advice);
    format!("the TLS handshake failed: {text}{advice}")
}

fn no_answer(error: &Error, within: &str) -> String {
    match error {
        Error::Timeout(Timeout::RecvBody) => {
            format!("it began to answer, and the answer did not end within {within}")
        }
        Error::Timeout(Timeout::SendRequest | Timeout::SendBody) => {
            format!("it took the connection, and did not read the request within {within}")
        }
        Error::Timeout(_) => {
            format!("it took the connection, and no whole answer came within {within}")
        }
        Error::Io(error) if is_hang_up(error) => {
            "it closed the connection before a whole answer had come".to_owned()
        }
        Error::Protocol(_) | Error::Http(_) | Error::LargeResponseHeader(..) => {
            format!("what came is no answer in HTTP/1.1 ({error})")
        }
        other => other.to_string(),
    }
}

fn is_hang_up(error: &std::io::Error) -> bool {
    let kind = error.kind();
    let kinds = [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::BrokenPipe,
    ];
    kinds.contains(&kind)
}
