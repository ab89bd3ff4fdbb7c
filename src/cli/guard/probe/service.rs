//! The service that is held to the contract: how it is asked, and what counts as reaching it.

use std::io::Read as _;
use std::time::Duration;

use ureq::http::{HeaderName, HeaderValue, Request as Head};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::transport::{Connector as _, DefaultConnector};
use ureq::{Agent, Error};

use super::backlog::{Late, Punctual};
use super::exchange::{Answer, BODY_BYTES_MAX, Exchange, Request};
use super::silence::{Names, Silence};
use super::spelling::{Speller, Spelling};

/// Nobody answers at the address: no verdict can be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {why}")]
pub(super) struct Unreachable {
    pub(super) url: String,
    pub(super) why: String,
}

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
    /// How long each phase of a request may take.
    patience: Duration,
    /// Headers of the user's, on every request: never printed, because they may be credentials.
    extra: Vec<(HeaderName, HeaderValue)>,
}

impl Service {
    /// `writers` is how many write at once; `patience` bounds each phase of a request, so that a
    /// connection that cannot be made is told from an answer that does not come; `roots` are the authorities
    /// that may vouch for the service.
    pub(super) fn new(
        patience: Duration,
        writers: usize,
        extra: Vec<(HeaderName, HeaderValue)>,
        roots: RootCerts,
    ) -> Self {
        let tls = TlsConfig::builder().root_certs(roots).build();
        let late = Late::default();
        let agent = |spelling, kept| {
            // No proxy: one could merge or drop the very headers that this is about.
            let config = Agent::config_builder()
                .http_status_as_error(false)
                .proxy(None)
                .tls_config(tls.clone())
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_resolve(Some(patience))
                .timeout_connect(Some(patience))
                .timeout_send_request(Some(patience))
                .timeout_send_body(Some(patience))
                .timeout_recv_response(Some(patience))
                .timeout_recv_body(Some(patience))
                .max_idle_connections(kept)
                .max_idle_connections_per_host(kept)
                .user_agent(concat!("fencepost-probe/", env!("CARGO_PKG_VERSION")))
                .build();
            let punctual = Punctual {
                inner: DefaultConnector::new(),
                late: late.clone(),
            };
            let connector = punctual.chain(Speller(spelling));
            Agent::with_parts(config, connector, Names::default())
        };
        Self {
            title: agent(Spelling::Title, 0),
            lower: agent(Spelling::Lower, 0),
            upper: agent(Spelling::Upper, 0),
            kept: agent(Spelling::Title, writers),
            late,
            patience,
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
        let answer = match self.ask(agent, &request) {
            Ok(answer) => Ok(answer),
            Err(error) => match self.silence(&error, &request) {
                Silence {
                    was_connected: false,
                    why,
                } => {
                    return Err(Unreachable {
                        url: request.url,
                        why,
                    });
                }
                Silence { why, .. } => Err(why),
            },
        };
        Ok(Exchange { request, answer })
    }

    /// As [`Service::exchange`], spelled as the contract does, over a connection that is kept.
    ///
    /// Where many ask at once, one that finds no connection says nothing about the others: it is one
    /// without an answer.
    pub(super) fn exchange_at_once(&self, request: Request) -> Exchange {
        let answer = self.ask(&self.kept, &request);
        let answer = answer.map_err(|error| self.silence(&error, &request).why);
        Exchange { request, answer }
    }

    fn silence(&self, error: &Error, request: &Request) -> Silence {
        let scheme = request.url.get(..6).unwrap_or_default();
        Silence::of(error, scheme.eq_ignore_ascii_case("https:"), self.patience)
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
