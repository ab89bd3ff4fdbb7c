//! `Pipeline` of the scripted node: each operation takes the way of a call of its own.

use super::Node;
use fencepost::wire::v1::issuer_server::Issuer;
use fencepost::wire::v1::pipeline_request::Operation;
use fencepost::wire::v1::pipeline_response::Answer;
use fencepost::wire::v1::*;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

type Answers = mpsc::UnboundedSender<Result<PipelineResponse, Status>>;

/// The answers of one stream; counted while it is open.
pub(crate) struct PipelineAnswers {
    node: Node,
    answers: mpsc::UnboundedReceiver<Result<PipelineResponse, Status>>,
}

impl Stream for PipelineAnswers {
    type Item = Result<PipelineResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.answers.poll_recv(context)
    }
}

impl Drop for PipelineAnswers {
    fn drop(&mut self) {
        self.node.0.lock().unwrap().open_streams -= 1;
    }
}

/// Serves one stream, unless the node is too old to know it.
pub(super) fn serve(
    node: Node,
    requests: Streaming<PipelineRequest>,
) -> Result<PipelineAnswers, Status> {
    let mut inner = node.0.lock().unwrap();
    if inner.character.old {
        return Err(Status::unimplemented(""));
    }
    inner.streams += 1;
    inner.open_streams += 1;
    drop(inner);
    let (out, answers) = mpsc::unbounded_channel();
    tokio::spawn(run(node.clone(), requests, out));
    Ok(PipelineAnswers { node, answers })
}

/// Ends with the stream, whichever side ends it, and then drops what is under way.
async fn run(node: Node, mut requests: Streaming<PipelineRequest>, out: Answers) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            request = requests.next() => match request {
                Some(Ok(request)) => under_way.spawn(carry_out(node.clone(), request)),
                _ => return,
            },
            Some(answer) = under_way.join_next() => {
                let Some(answer) = answer.unwrap() else { return };
                let _ = out.send(Ok(answer));
                continue;
            }
            () = out.closed() => return,
        };
    }
}

/// `None` breaks the stream.
async fn carry_out(node: Node, request: PipelineRequest) -> Option<PipelineResponse> {
    let within = Duration::from_millis(request.timeout_ms);
    let answer = match request.operation.unwrap() {
        Operation::Acquire(one) => node.acquire(call(one, within)).await.map(acquire),
        Operation::Renew(one) => node.renew(call(one, within)).await.map(renew),
        Operation::Release(one) => node.release(call(one, within)).await.map(release),
        Operation::Withdraw(one) => node.withdraw(call(one, within)).await.map(withdraw),
        Operation::Inspect(one) => node.inspect(call(one, within)).await.map(inspect),
        Operation::List(one) => node.list(call(one, within)).await.map(list),
    };
    let answer = match answer {
        Err(status) if status.message() == BROKEN => return None,
        Err(status) => Answer::Failure(PipelineFailure {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: status.details().to_vec().into(),
        }),
        Ok(answer) => answer,
    };
    let (id, answer) = (request.id, Some(answer));
    Some(PipelineResponse { id, answer })
}

fn call<T>(message: T, within: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(within);
    request
}

macro_rules! answers {
    ($($name:ident: $response:ident -> $variant:ident;)*) => {$(
        fn $name(response: Response<$response>) -> Answer {
            Answer::$variant(response.into_inner())
        }
    )*};
}

answers! {
    acquire: AcquireResponse -> Acquire;
    renew: RenewResponse -> Renew;
    release: ReleaseResponse -> Release;
    withdraw: WithdrawResponse -> Withdraw;
    inspect: InspectResponse -> Inspect;
    list: ListResponse -> List;
}

const BROKEN: &str = "the script breaks the stream";

/// Stands for an answer that never comes because its stream has ended.
pub(super) fn broken() -> Status {
    Status::new(Code::Aborted, BROKEN)
}
