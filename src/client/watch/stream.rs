//! One watch over all of its streams: it opens them, reads them, and gives up those that are dead.

use super::words;
use super::{Cursor, Moment, Watching, What};
use crate::client::address::Address;
use crate::client::backoff::{self, Wait};
use crate::client::call::Shared;
use crate::client::clock::BootInstant;
use crate::client::error::{Cause, Error};
use crate::client::method::Repeat;
use crate::client::trial::{Fault, Next, Trial};
use crate::wire::v1::{self, WatchResponse, issuer_client::IssuerClient, watch_request};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::Streaming;

/// How often a node marks its progress while nothing happens.
const PROGRESS: Duration = Duration::from_secs(2);

/// A node that has said nothing at all for so long is given up: two marks in a row are missing. The
/// connection may be half open, and never say so by itself.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// A stream that ends sooner than this was not worth opening.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// One watch.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    what: What,
    renewals: bool,
    /// Everything up to here was told. `None`: it begins now.
    cursor: Option<Cursor>,
    told_begin: bool,
    open: Option<Open>,
    /// How many streams in a row ended as soon as they had begun.
    short_lived: u32,
    /// The search for the next node; over when that one has told something.
    trial: Trial,
}

/// A stream that a node has begun.
struct Open {
    address: Address,
    since: BootInstant,
    stream: Streaming<WatchResponse>,
}

impl Watcher {
    pub(super) fn new(shared: Arc<Shared>, watching: Watching) -> Self {
        let trial = begin(&shared);
        Self {
            shared,
            what: watching.what,
            renewals: watching.renewals,
            cursor: watching.after,
            told_begin: false,
            open: None,
            short_lived: 0,
            trial,
        }
    }

    /// The next moment. Marks that say nothing new are not told, save the first.
    pub(super) async fn next(&mut self) -> Result<Moment, Error> {
        loop {
            let (open, limit) = match self.open.take() {
                Some(open) => (open, SILENCE_MAX),
                None => {
                    let open = self.find().await.inspect_err(|_| {
                        // Whoever reads on gives it the time of another call.
                        self.trial = begin(&self.shared);
                    })?;
                    (open, self.shared.options.attempt_timeout.min(SILENCE_MAX))
                }
            };
            if let Some(moment) = self.read(open, limit).await? {
                return Ok(moment);
            }
        }
    }

    /// Reads one message. `None`: there is nothing to tell, and the stream may have ended.
    async fn read(&mut self, mut open: Open, limit: Duration) -> Result<Option<Moment>, Error> {
        let message = timeout(limit, open.stream.message()).await;
        let now = self.shared.clock.now();
        let fault = match message {
            Ok(Ok(Some(message))) => {
                let header = message.header.as_ref();
                match self.shared.accept(header, &open.address, now) {
                    Ok(()) => {
                        let moment = self.take(message)?;
                        self.open = Some(open);
                        return Ok(moment);
                    }
                    Err(fault) => fault,
                }
            }
            Ok(Ok(None)) => broken(&open.address),
            Ok(Err(status)) => self.shared.failed(&status, &open.address, now),
            Err(_) => self.shared.silent(&open.address, limit, now),
        };
        self.pace(open.since, now).await;
        self.note(open.address, fault)?;
        Ok(None)
    }

    /// Nodes that begin watches and end them at once are not asked again as fast as they answer.
    async fn pace(&mut self, since: BootInstant, now: BootInstant) {
        if now.since(since) >= SHORT_LIFE {
            self.short_lived = 0;
            return;
        }
        let fraction = self.shared.dice.fraction();
        let delay = backoff::delay(Wait::Leader, self.short_lived, fraction);
        self.short_lived += 1;
        tokio::time::sleep(delay).await;
    }

    /// Judges a message: a node that went back, or told something twice, breaks the contract.
    fn take(&mut self, message: WatchResponse) -> Result<Option<Moment>, Error> {
        let moment = match words::moment(message) {
            Ok(moment) => moment,
            Err(unreadable) => return Err(self.shared.unreadable(&self.trial, unreadable.0)),
        };
        let before = self.cursor;
        if let Some(before) = before {
            let told_before = match moment.events.is_empty() {
                true => moment.cursor.index < before.index,
                false => moment.cursor.index <= before.index,
            };
            if told_before || moment.cursor.cluster != before.cluster {
                let (now, before) = (moment.cursor, before);
                let detail = format!("the watch was at {before} and was told {now}");
                return Err(self.shared.unreadable(&self.trial, detail));
            }
        }
        self.trial = begin(&self.shared);
        self.cursor = Some(moment.cursor);
        let news = !self.told_begin || !moment.events.is_empty() || before != self.cursor;
        self.told_begin = true;
        Ok(news.then_some(moment))
    }

    /// Takes note of a stream that failed, or could not be opened.
    fn note(&mut self, address: Address, fault: Fault) -> Result<(), Error> {
        match self.trial.take(address, fault) {
            Some(kind) => Err(self.shared.end(&self.trial, kind)),
            None => Ok(()),
        }
    }

    /// Looks for a node that goes on from the cursor.
    async fn find(&mut self) -> Result<Open, Error> {
        self.shared.verify(&mut self.trial).await?;
        loop {
            let now = self.shared.clock.now();
            let limit = self.trial.limit(self.shared.options.attempt_timeout, now);
            if limit.is_zero() {
                return Err(self.shared.out_of_time(&self.trial));
            }
            // Any node tells the same, so the leader is left in peace.
            let next = self
                .shared
                .known()
                .route
                .next_of_any(&self.trial.tried, now);
            let Some(address) = next else {
                self.shared.pause(&mut self.trial).await?;
                continue;
            };
            self.trial.attempts += 1;
            match self.ask(&address, limit).await {
                Ok(stream) => {
                    let since = self.shared.clock.now();
                    return Ok(Open {
                        address,
                        since,
                        stream,
                    });
                }
                Err(fault) => self.note(address, fault)?,
            }
        }
    }

    /// Asks one node. A deadline is not sent along: it would end the watch.
    async fn ask(
        &self,
        address: &Address,
        limit: Duration,
    ) -> Result<Streaming<WatchResponse>, Fault> {
        let channel = self.shared.nodes.channel(address);
        let mut client = IssuerClient::new(channel);
        let answer = timeout(limit, client.watch(self.request())).await;
        let now = self.shared.clock.now();
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.shared.failed(&status, address, now)),
            Err(_) => Err(self.shared.silent(address, limit, now)),
        }
    }

    fn request(&self) -> v1::WatchRequest {
        v1::WatchRequest {
            what: Some(match &self.what {
                What::Resource(name) => watch_request::What::Resource(name.to_string()),
                What::Prefix(prefix) => watch_request::What::Prefix(prefix.clone()),
            }),
            after: self.cursor.map(|cursor| v1::Cursor {
                cluster_id: cursor.cluster.to_string(),
                index: cursor.index,
            }),
            renewals: self.renewals,
            progress_ms: u32::try_from(PROGRESS.as_millis()).unwrap_or(0),
        }
    }
}

fn begin(shared: &Shared) -> Trial {
    let (now, patience) = (shared.clock.now(), shared.options.timeout);
    Trial::new("watch", Repeat::Read, now, patience)
}

/// A watch never ends without a status; something in between ended it.
fn broken(address: &Address) -> Fault {
    Fault {
        cause: Cause::Broken {
            address: address.clone(),
            detail: "the watch ended without a word".to_owned(),
        },
        open: false,
        next: Next::Elsewhere,
    }
}
