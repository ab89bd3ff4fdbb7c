//! `Watch` of the scripted node: what it tells, step by step, and then nothing.

use super::{Act, Node};
use fencepost::wire::failure::Failure;
use fencepost::wire::v1::*;
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// One step of a scripted watch.
pub(crate) enum Step {
    /// A message whose cursor is this index; a mark of progress without events.
    Tell(u64, Vec<WatchEvent>),
    /// It ends as fencepost itself explains.
    Fail(Failure),
    /// It ends without a word.
    Cut,
}

pub(crate) type Told = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

/// An event of "jobs" and "me".
pub(crate) fn event(kind: WatchEventKind, value: u64) -> WatchEvent {
    WatchEvent {
        kind: kind.into(),
        resource: "jobs".to_owned(),
        holder: "me".to_owned(),
        token: super::token(value),
        lease_ms: 30_000,
        at_unix_ms: 1_700_000_000_000,
        ..WatchEvent::default()
    }
}

/// A message with one grant, at the index that is also its token.
pub(crate) fn granted(index: u64) -> Step {
    Step::Tell(index, vec![event(WatchEventKind::Granted, index)])
}

pub(super) async fn serve(
    node: &Node,
    request: Request<WatchRequest>,
) -> Result<Response<Told>, Status> {
    let asked = request.get_ref().clone();
    node.0.lock().unwrap().watches.push(asked.clone());
    let (header, act) = node.enter("watch", &request).await?;
    let steps = match act {
        Act::Watch(steps) => steps,
        _ => {
            let begins = asked
                .after
                .map_or(header.applied_index, |cursor| cursor.index);
            vec![Step::Tell(begins, Vec::new())]
        }
    };
    let message = move |index, events| WatchResponse {
        cursor: Some(Cursor {
            cluster_id: header.cluster_id.clone(),
            index,
        }),
        header: Some(ResponseHeader {
            applied_index: index,
            ..header.clone()
        }),
        events,
    };
    let cut = steps.iter().any(|step| matches!(step, Step::Cut));
    let told = tokio_stream::iter(steps).filter_map(move |step| match step {
        Step::Tell(index, events) => Some(Ok(message(index, events))),
        Step::Fail(failure) => Some(Err(failure.into_status())),
        Step::Cut => None,
    });
    let stream: Told = match cut {
        true => Box::pin(told),
        false => Box::pin(told.chain(tokio_stream::pending())),
    };
    Ok(Response::new(stream))
}
