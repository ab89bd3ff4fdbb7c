//! What a check works with: the service, the supply, and the ways to put a question.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fencepost::fence::EqualTokens;
use fencepost::resource::{IssuerName, ResourceName};
use fencepost::sequencer::{MissingIssuer, headers};

use super::exchange::{Exchange, Request};
use super::service::{Service, Unreachable};
use super::spelling::Spelling;
use super::supply::Supply;
use super::template::{Filling, Template};

/// As many writers with new connections as even a backlog of five has room for.
const WRITERS_CROWDED: u32 = 4;
/// After so many rounds with late connections the writers become fewer: the first alone may be late, where
/// connections are kept after it.
const ROUNDS_CROWDED: u32 = 2;

/// How the service is written to, as the user told it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) method: &'static str,
    pub(super) url: Template,
    pub(super) body: Template,
    pub(super) read_url: Option<Template>,
    pub(super) issuer: Option<IssuerName>,
    pub(super) missing_issuer: MissingIssuer,
    pub(super) equal: EqualTokens,
    pub(super) rounds: u32,
    pub(super) writers: u32,
    /// How many other resources are written to before a mark must still be there.
    pub(super) others: u32,
    pub(super) idle: Option<Duration>,
    pub(super) restart_command: Option<String>,
    pub(super) restart_timeout: Duration,
}

/// One run.
pub(super) struct Session<'a> {
    pub(super) service: &'a Service,
    pub(super) shape: &'a Shape,
    pub(super) supply: Supply,
    /// Whether what `X-Required-Token` says was found to be true, so that other checks may lean on it.
    pub(super) required_is_trusted: bool,
    asked: AtomicU64,
    /// The last single write without an answer, as people read it.
    unanswered: Mutex<Option<String>>,
    /// Rounds in which connections were late.
    crowded: AtomicU32,
}

/// A write, with the value by which a reader knows it.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) exchange: Exchange,
    pub(super) token: u64,
    pub(super) value: String,
}

/// The headers of a request, ready to be bent.
pub(super) type Headers = Vec<(&'static str, Vec<u8>)>;

impl<'a> Session<'a> {
    pub(super) fn new(service: &'a Service, shape: &'a Shape, supply: Supply) -> Self {
        Self {
            service,
            shape,
            supply,
            required_is_trusted: true,
            asked: AtomicU64::new(0),
            unanswered: Mutex::new(None),
            crowded: AtomicU32::new(0),
        }
    }

    /// How many requests were sent.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// How many write at once in the next round.
    pub(super) fn writers(&self) -> u32 {
        let writers = self.shape.writers;
        if self.is_crowded() {
            return writers.min(WRITERS_CROWDED);
        }
        writers
    }

    /// How many write at once where nothing depends on their number: new connections wait for nobody.
    pub(super) fn few_writers(&self) -> u32 {
        self.shape.writers.min(WRITERS_CROWDED)
    }

    /// Whether the service's backlog was too short for all writers.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) >= ROUNDS_CROWDED
    }

    /// Notes a round in which connections were late.
    pub(super) fn note_crowded(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    /// The headers of a well-formed write.
    pub(super) fn headers(&self, resource: &ResourceName, token: u64) -> Headers {
        let mut all = vec![
            (headers::FENCING_TOKEN, token.to_string().into_bytes()),
            (headers::RESOURCE_ID, resource.header_encoded().into_bytes()),
        ];
        if let Some(issuer) = &self.shape.issuer {
            all.push((
                headers::FENCING_ISSUER,
                issuer.header_encoded().into_bytes(),
            ));
        }
        all
    }

    /// A well-formed write.
    pub(super) fn write(&self, resource: &ResourceName, token: u64) -> Result<Write, Unreachable> {
        let headers = self.headers(resource, token);
        self.write_with(Spelling::Title, resource, token, headers)
    }

    /// A well-formed write beside others, over a connection that is kept for the next one.
    pub(super) fn write_at_once(&self, resource: &ResourceName, token: u64) -> Write {
        let headers = self.headers(resource, token);
        let (request, value) = self.request(Spelling::Title, resource, token, headers);
        Write {
            exchange: self.service.exchange_at_once(request),
            token,
            value,
        }
    }

    /// A well-formed write that anybody who is there answers, in whatever way.
    pub(super) fn answer_to(&self, resource: &ResourceName) -> Result<Exchange, Unreachable> {
        let exchange = self.write(resource, self.supply.tokens(1))?.exchange;
        match exchange.answer {
            Ok(_) => Ok(exchange),
            Err(why) => Err(Unreachable {
                url: exchange.request.url,
                why,
            }),
        }
    }

    /// A write with these headers, whatever they say; URL and body speak of `resource` and `token`.
    pub(super) fn write_with(
        &self,
        spelling: Spelling,
        resource: &ResourceName,
        token: u64,
        headers: Headers,
    ) -> Result<Write, Unreachable> {
        let (request, value) = self.request(spelling, resource, token, headers);
        let exchange = self.service.exchange(spelling, request)?;
        if exchange.answer.is_err() {
            *self
                .unanswered
                .lock()
                .unwrap_or_else(|lock| lock.into_inner()) = Some(exchange.sent());
        }
        Ok(Write {
            exchange,
            token,
            value,
        })
    }

    /// The last single write that had no answer: where nobody answers after it, it may be the reason.
    pub(super) fn last_unanswered(&self) -> Option<String> {
        let unanswered = self.unanswered.lock();
        unanswered.unwrap_or_else(|lock| lock.into_inner()).clone()
    }

    /// A request that is about to be sent, and the value in it.
    fn request(
        &self,
        spelling: Spelling,
        resource: &ResourceName,
        token: u64,
        headers: Headers,
    ) -> (Request, String) {
        let value = self.supply.value();
        let filling = Filling {
            resource,
            token,
            value: &value,
        };
        let spelled = headers.into_iter();
        let request = Request {
            method: self.shape.method,
            url: self.shape.url.url(&filling),
            headers: spelled
                .map(|(name, value)| (spelling.name(name), value))
                .collect(),
            body: Some(self.shape.body.body(&filling)),
        };
        self.asked.fetch_add(1, Ordering::Relaxed);
        (request, value)
    }

    /// Reads a resource back; `None` where the user did not say how.
    pub(super) fn read(&self, resource: &ResourceName) -> Result<Option<Exchange>, Unreachable> {
        let Some(template) = &self.shape.read_url else {
            return Ok(None);
        };
        let filling = Filling {
            resource,
            token: 0,
            value: "",
        };
        let request = Request {
            method: "GET",
            url: template.url(&filling),
            headers: Vec::new(),
            body: None,
        };
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.service.exchange(Spelling::Title, request).map(Some)
    }
}

impl Session<'_> {
    /// The `X-Required-Token` that a refusal must carry when the mark is at `mark`.
    pub(super) fn required_at(&self, mark: u64) -> u64 {
        match self.shape.equal {
            EqualTokens::MayWriteAgain => mark,
            EqualTokens::Once => mark.saturating_add(1),
        }
    }
}
