//! Watches: every event in order, once, from any cursor, at any node; or an explicit end.

mod ending;
mod losing;
mod queueing;
mod telling;

use std::time::Duration;

use fencepost::wire::v1::{
    self, WatchEventKind as Kind, issuer_client::IssuerClient, watch_request::What,
};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    cut::Cable,
    nodes::{Nodes, acquire, granted, value},
};

pub(crate) const TTL: u64 = 60_000;

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An event as the tests compare it: log index, kind, resource, token value.
pub(crate) type Seen = (u64, Kind, String, u64);

/// An open watch.
pub(crate) struct Watch {
    stream: Streaming<v1::WatchResponse>,
}

/// Everything, from now on.
pub(crate) fn everything() -> v1::WatchRequest {
    v1::WatchRequest {
        what: Some(What::Prefix(String::new())),
        ..v1::WatchRequest::default()
    }
}

pub(crate) fn after(cursor: v1::Cursor) -> v1::WatchRequest {
    v1::WatchRequest {
        after: Some(cursor),
        ..everything()
    }
}

impl Watch {
    /// Opens one, and reads the message that says where it begins.
    pub(crate) async fn open(
        mut issuer: IssuerClient<Channel>,
        request: v1::WatchRequest,
    ) -> (Self, v1::Cursor) {
        let stream = issuer.watch(request).await.unwrap().into_inner();
        let mut watch = Watch { stream };
        let first = watch.message().await.unwrap();
        assert!(
            first.events.is_empty(),
            "the first message is a mark: {first:?}"
        );
        (watch, first.cursor.unwrap())
    }

    /// The next message, or why there is none.
    pub(crate) async fn message(&mut self) -> Result<v1::WatchResponse, Status> {
        let message = tokio::time::timeout(PATIENCE, self.stream.message()).await;
        Ok(message
            .expect("a message, or an end")?
            .expect("no watch ends without a status"))
    }

    /// The next message with events. Marks of progress are passed over, and are no reason to wait on.
    async fn filled(&mut self) -> v1::WatchResponse {
        let filled = async {
            loop {
                let message = self.message().await.unwrap();
                if !message.events.is_empty() {
                    return message;
                }
            }
        };
        let filled = tokio::time::timeout(PATIENCE, filled).await;
        filled.expect("something is told")
    }

    /// The next events.
    pub(crate) async fn events(&mut self) -> Vec<Seen> {
        seen(&self.filled().await)
    }

    /// The events of the next entry that has any, as they came.
    pub(crate) async fn happening(&mut self) -> Vec<v1::WatchEvent> {
        self.filled().await.events
    }

    /// Events until there are so many.
    pub(crate) async fn first(&mut self, count: usize) -> Vec<Seen> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.events().await);
        }
        events
    }

    /// Reads on until the watch ends, which it must.
    pub(crate) async fn end(&mut self) -> (Vec<Seen>, v1::Cursor, Status) {
        let (mut events, mut cursor) = (Vec::new(), v1::Cursor::default());
        let end = async {
            loop {
                match self.message().await {
                    Ok(message) => {
                        events.extend(seen(&message));
                        cursor = message.cursor.unwrap();
                    }
                    Err(status) => return status,
                }
            }
        };
        let status = tokio::time::timeout(PATIENCE, end).await;
        (events, cursor, status.expect("the watch ends"))
    }
}

pub(crate) fn seen(message: &v1::WatchResponse) -> Vec<Seen> {
    let index = message.cursor.as_ref().unwrap().index;
    let one = |event: &v1::WatchEvent| {
        let token = event.token.as_ref().map_or(0, |token| token.value);
        (index, event.kind(), event.resource.clone(), token)
    };
    message.events.iter().map(one).collect()
}

/// Gives a grant back.
pub(crate) async fn release(issuer: &mut IssuerClient<Channel>, resource: &str, token: u64) {
    let request = v1::ReleaseRequest {
        resource: resource.to_owned(),
        holder: "h".to_owned(),
        token,
    };
    issuer.release(request).await.unwrap();
}

/// A grant that is given back at once; its token.
pub(crate) async fn round(issuer: &mut IssuerClient<Channel>, resource: &str) -> u64 {
    let grant = granted(issuer, acquire(resource, "h", TTL)).await;
    let token = value(grant.token.as_ref());
    release(issuer, resource, token).await;
    token
}

/// Three nodes, of which the third hears the others through a cable, and never stands for election
/// within a test.
pub(crate) async fn behind_a_cable(patient: bool) -> (Nodes, Cable) {
    let mut nodes = Nodes::prepare(3);
    let direct = nodes.flag(2, "peer-listen").to_owned();
    let cable = Cable::before(direct.clone()).await;
    for n in 0..3 {
        let peers = nodes.flag(n, "peers").replace(&direct, &cable.address);
        nodes.set(n, "peers", &peers);
        nodes.set(n, "snapshot-entries", "100");
    }
    if patient {
        nodes.set(2, "election-min", "30s");
        nodes.set(2, "election-max", "60s");
    }
    for n in 0..3 {
        nodes.run(n).await.unwrap();
    }
    assert_ne!(
        nodes.leader().await,
        2,
        "the founding node leads, or its neighbour"
    );
    (nodes, cable)
}

/// The last index applied by a node.
pub(crate) fn applied(nodes: &Nodes, n: usize) -> u64 {
    nodes
        .node(n)
        .raft()
        .status()
        .applied
        .map_or(0, |at| at.index)
}
