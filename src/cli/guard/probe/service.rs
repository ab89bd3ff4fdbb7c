//! The service that is held to the contract: how it is asked, and what counts as reaching it.

use std::io::Read as _;
use std::time::Duration;

use ureq::http::{HeaderName, HeaderValue, Request as Head};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, DefaultConnector};
use ureq::{Agent, Error, Timeout};

use super::backlog::{Late, Punctual};
use super::exchange::{Answer, BODY_BYTES_MAX, Exchange, Request};
use super::spelling::{Speller, Spelling};

/// Nothing that could answer was found at the address: no verdict can be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreachable(pub(super) String);

/// A way to the service. It may be used by many threads at once.
///
/// A connection that is kept may be closed by the service just as the next request leaves, which is
/// nobody's mistake and looks like a service that hangs up. So each question has a connection of its
/// own. Only the writers of a round keep theirs, to be as near to each other as can be; there a write
/// without an answer is one whose outcome is unknown.
pub(super) struct Service {
    title: Agent,
    lower: Agent,
    upper: Agent,
    kept: Agent,
    late: Late,
    /// Headers of the user's, on every request: never printed, because they may be credentials.
    extra: Vec<(HeaderName, HeaderValue)>,
}

impl Service {
    /// `writers` is how many write at once; `timeout` bounds each phase of a request, so that a
    /// connection that cannot be made is told from an answer that does not come.
    pub(super) fn new(
        timeout: Duration,
        writers: usize,
        extra: Vec<(HeaderName, HeaderValue)>,
    ) -> Self {
        let late = Late::default();
        let agent = |spelling, kept| {
            // No proxy: one could merge or drop the very headers that this is about.
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .proxy(None)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_resolve(Some(timeout))
                .timeout_connect(Some(timeout))
                .timeout_send_request(Some(timeout))
                .timeout_send_body(Some(timeout))
                .timeout_recv_response(Some(timeout))
                .timeout_recv_body(Some(timeout))
                .max_idle_connections(kept)
                .max_idle_connections_per_host(kept)
                .user_agent(concat!("fencepost-probe/", env!("CARGO_PKG_VERSION")))
                .build();
            let punctual = Punctual {
                inner: DefaultConnector::new(),
                late: late.clone(),
            };
            let connector = punctual.chain(Speller(spelling));
            Agent::with_parts(config, connector, DefaultResolver::default())
        };
        Self {
            title: agent(Spelling::Title, 0),
            lower: agent(Spelling::Lower, 0),
            upper: agent(Spelling::Upper, 0),
            kept: agent(Spelling::Title, writers),
            late,
            extra,
        }
    }

    /// How many connections so far were late as where a backlog is full.
    pub(super) fn late_connections(&self) -> u32 {
        self.late.count()
    }

    /// Sends a request whose headers are spelled so, and takes the answer in.
    ///
    /// # Errors
    ///
    /// [`Unreachable`] if there was no connection. Anything that went wrong later is part of the
    /// exchange, because it is the service's answer to this request.
    pub(super) fn exchange(
        &self,
        spelling: Spelling,
        request: Request,
    ) -> Result<Exchange, Unreachable> {
        let agent = match spelling {
            Spelling::Title => &self.title,
            Spelling::Lower => &self.lower,
            Spelling::Upper => &self.upper,
        };
        self.exchange_by(agent, request)
    }

    /// As [`Service::exchange`], spelled as the contract does, over a connection that is kept.
    pub(super) fn exchange_at_once(&self, request: Request) -> Result<Exchange, Unreachable> {
        self.exchange_by(&self.kept, request)
    }

    fn exchange_by(&self, agent: &Agent, request: Request) -> Result<Exchange, Unreachable> {
        let answer = match self.ask(agent, &request) {
            Ok(answer) => Ok(answer),
            Err(error) if is_unreachable(&error) => {
                return Err(Unreachable(format!("{}: {error}", request.url)));
            }
            Err(error) => Err(error.to_string()),
        };
        Ok(Exchange { request, answer })
    }

    fn ask(&self, agent: &Agent, request: &Request) -> Result<Answer, Error> {
        let mut head = Head::builder().method(request.method).uri(&request.url);
        for (name, value) in &self.extra {
            head = head.header(name, value);
        }
        for (name, value) in &request.headers {
            head = head.header(*name, value.as_slice());
        }
        let response = match &request.body {
            Some(body) => agent.run(head.body(body.as_str()).map_err(Error::Http)?)?,
            None => agent.run(head.body(()).map_err(Error::Http)?)?,
        };
        let (parts, body) = response.into_parts();
        let mut kept = Vec::new();
        body.into_reader()
            .take(BODY_BYTES_MAX)
            .read_to_end(&mut kept)?;
        let headers = parts.headers.iter();
        Ok(Answer {
            status: parts.status.as_u16(),
            headers: headers
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: kept,
        })
    }
}

/// Whether an error came before a connection was there.
fn is_unreachable(error: &Error) -> bool {
    match error {
        Error::HostNotFound
        | Error::ConnectionFailed
        | Error::Timeout(Timeout::Resolve | Timeout::Connect)
        | Error::Tls(_)
        | Error::Rustls(_)
        | Error::TlsRequired => true,
        Error::Io(error) => matches!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable
                | std::io::ErrorKind::AddrNotAvailable
        ),
        _ => false,
    }
}
