//! Watching: what happens to resources, in order, each event once, whichever node tells it.
//!
//! A watch goes on at another node by itself when its own falls silent, stops, or loses touch with the
//! cluster: it carries a [`Cursor`], and every node can go on from one. When no node can any more,
//! because the history no longer reaches back that far, the watch says so
//! ([`ErrorKind::HistoryLost`](super::ErrorKind::HistoryLost)) and never skips anything silently.

mod free;
mod stream;
mod words;

use super::Client;
use super::error::Error;
use crate::grant::{ClusterId, ClusterIdError, EndedHow, LeftHow, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::token::Token;
use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_stream::Stream;

use stream::Watcher;

/// A place in the history of one cluster: everything up to this log index. As text `<cluster>:<index>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The cluster. A restore from a backup founds another one, whose history is another.
    pub cluster: ClusterId,
    /// The log index.
    pub index: u64,
}

/// What is to be watched, from where on.
#[derive(Debug, Clone)]
pub struct Watching {
    what: What,
    after: Option<Cursor>,
    renewals: bool,
}

#[derive(Debug, Clone)]
enum What {
    Resource(ResourceName),
    Prefix(String),
}

/// All that one log entry changed for those who are watched. Without events it is a mark of progress:
/// everything up to its cursor has been told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Go on from here with [`Watching::after`], in this process or a later one.
    pub cursor: Cursor,
    /// What happened, in order.
    pub events: Vec<WatchEvent>,
}

/// One thing that happened to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// To which.
    pub resource: ResourceName,
    /// Whose grant or place in the queue it is about.
    pub holder: Holder,
    /// What.
    pub change: Change,
    /// When, by the leader's wall clock, milliseconds since 1970. For people: nothing is decided by it.
    pub at_unix_ms: u64,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It was granted.
    Granted {
        /// The token of the grant.
        token: Token,
        /// The lease it starts with.
        lease: Duration,
        /// It came after waiting in line; the lease is short until its first renewal.
        after_wait: bool,
    },
    /// Its lease was renewed. Told on request only.
    Renewed {
        /// The token of the grant.
        token: Token,
        /// The lease from there on.
        lease: Ttl,
    },
    /// A grant of it ended.
    Ended {
        /// The token of the grant.
        token: Token,
        /// How it ended.
        how: EndedHow,
        /// Why an operator revoked it, if one said so.
        reason: Option<String>,
    },
    /// Somebody joined the queue.
    Queued {
        /// Where in line, from 1.
        position: u32,
    },
    /// Somebody left the queue without a grant.
    Left {
        /// How.
        how: LeftHow,
    },
}

/// A watch that is open, or opens itself anew. See [`Client::watch`].
///
/// It is a [`Stream`], and [`next`](Self::next) is enough without its extensions. Whoever does not read
/// is told nothing and costs nothing; the node keeps what happens only for so long.
pub struct Watch {
    state: State,
    cursor: Option<Cursor>,
}

/// A read under way: it gives the watcher back with what it found.
type Reading = Pin<Box<dyn Future<Output = (Box<Watcher>, Result<Moment, Error>)> + Send>>;

enum State {
    Idle(Box<Watcher>),
    Reading(Reading),
    Over,
}

impl Watching {
    /// One resource.
    #[must_use]
    pub fn resource(name: &ResourceName) -> Self {
        Self::new(What::Resource(name.clone()))
    }

    /// All whose names begin like this; an empty prefix watches everything. At most 160 characters.
    #[must_use]
    pub fn prefix(prefix: impl Into<String>) -> Self {
        Self::new(What::Prefix(prefix.into()))
    }

    fn new(what: What) -> Self {
        Self {
            what,
            after: None,
            renewals: false,
        }
    }

    /// Begins behind an earlier moment. Without it a watch begins now: after everything that was
    /// acknowledged before it was opened.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Tells renewals, too: there are many.
    #[must_use]
    pub fn renewals(mut self, renewals: bool) -> Self {
        self.renewals = renewals;
        self
    }
}

impl Client {
    /// Watches. The first moment has no events and says where the watch begins: whatever is acknowledged
    /// after it came is told.
    ///
    /// ```no_run
    /// # use fencepost::client::{Client, Watching};
    /// # async fn example(client: Client) -> Result<(), fencepost::client::Error> {
    /// let mut watch = client.watch(Watching::prefix("jobs/"));
    /// while let Some(moment) = watch.next().await {
    ///     for event in moment?.events {
    ///         println!("{} of {}: {:?}", event.resource, event.holder, event.change);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn watch(&self, watching: Watching) -> Watch {
        let cursor = watching.after;
        let watcher = Watcher::new(self.shared.clone(), watching);
        Watch {
            state: State::Idle(Box::new(watcher)),
            cursor,
        }
    }
}

impl Watch {
    /// The next moment. It may be dropped and called again; nothing is lost by that.
    ///
    /// An error that [may be retried](Error::may_retry) means that no node could tell anything for as
    /// long as a call may take; the watch is where it was, and goes on when it is read on. After any
    /// other error it is over, and gives `None`.
    pub async fn next(&mut self) -> Option<Result<Moment, Error>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// Everything up to here has been told; `None` before the first moment of a watch from now on.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Moment, Error>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Idle(mut watcher) => {
                    self.state = State::Reading(Box::pin(async move {
                        let moment = watcher.next().await;
                        (watcher, moment)
                    }));
                }
                State::Reading(mut reading) => match reading.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    }
                    Poll::Ready((watcher, moment)) => {
                        let goes_on = moment.as_ref().map_or_else(Error::may_retry, |_| true);
                        if goes_on {
                            self.state = State::Idle(watcher);
                        }
                        if let Ok(moment) = &moment {
                            self.cursor = Some(moment.cursor);
                        }
                        return Poll::Ready(Some(moment));
                    }
                },
            }
        }
    }
}

impl Stream for Watch {
    type Item = Result<Moment, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

impl Change {
    /// The word for it, as metrics, logs and the command line have it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Renewed { .. } => "renewed",
            Self::Ended { how, .. } => how.as_str(),
            Self::Queued { .. } => "queued",
            Self::Left { how } => match how {
                LeftHow::Withdrawn => "withdrawn",
                LeftHow::WaitedOut => "waited_out",
                // A grant is superseded, too; which of the two it is must be told by the word.
                LeftHow::Superseded => "place_superseded",
                LeftHow::Detached => "detached",
            },
        }
    }

    /// The token of the grant that it is about; events of the queue have none.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        match self {
            Self::Granted { token, .. }
            | Self::Renewed { token, .. }
            | Self::Ended { token, .. } => Some(*token),
            Self::Queued { .. } | Self::Left { .. } => None,
        }
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// It has not the shape.
    #[error("a cursor is <cluster id>:<log index>, as a watch prints it")]
    Shape,
    /// Its cluster is none.
    #[error(transparent)]
    Cluster(#[from] ClusterIdError),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cluster, self.index)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (cluster, index) = text.split_once(':').ok_or(CursorError::Shape)?;
        Ok(Self {
            cluster: cluster.parse()?,
            index: index.parse().map_err(|_| CursorError::Shape)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_from_its_text_and_nothing_else_is_one() {
        let cursor = Cursor {
            cluster: ClusterId::new(7),
            index: u64::MAX,
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        let cluster = ClusterId::new(7).to_string();
        for odd in [
            "",
            ":",
            "7",
            &cluster,
            &format!("{cluster}:"),
            &format!("{cluster}:-1"),
            &format!("{cluster}:1:2"),
            "xyz:1",
        ] {
            assert!(odd.parse::<Cursor>().is_err(), "{odd:?}");
        }
    }
}
