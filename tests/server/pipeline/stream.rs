//! A `Pipeline` stream by hand: what a client in another language would do.

use std::{collections::BTreeMap, time::Duration};

use fencepost::wire::v1::{
    self, PipelineRequest, PipelineResponse, issuer_client::IssuerClient,
    pipeline_request::Operation, pipeline_response::Answer,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

/// How long an answer may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// One stream.
pub(crate) struct Stream {
    requests: Option<mpsc::UnboundedSender<PipelineRequest>>,
    answers: Streaming<PipelineResponse>,
    /// Came while another one was waited for.
    early: BTreeMap<u64, Answer>,
}

impl Stream {
    pub(crate) async fn open(mut issuer: IssuerClient<Channel>) -> Self {
        let (requests, queue) = mpsc::unbounded_channel();
        let answers = issuer.pipeline(UnboundedReceiverStream::new(queue)).await;
        Stream {
            requests: Some(requests),
            answers: answers.unwrap().into_inner(),
            early: BTreeMap::new(),
        }
    }

    pub(crate) fn send(&self, id: u64, operation: Operation) {
        self.send_within(id, 0, operation);
    }

    pub(crate) fn send_within(&self, id: u64, timeout_ms: u64, operation: Operation) {
        self.send_raw(PipelineRequest {
            id,
            timeout_ms,
            operation: Some(operation),
        });
    }

    pub(crate) fn send_raw(&self, request: PipelineRequest) {
        self.requests.as_ref().unwrap().send(request).unwrap();
    }

    /// Closes the sending half.
    pub(crate) fn close(&mut self) {
        self.requests = None;
    }

    /// The next answer, whose ever it is; `None` when the stream is over.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Answer)>, Status> {
        let next = tokio::time::timeout(PATIENCE, self.answers.message());
        let next = next.await.expect("an answer in time")?;
        Ok(next.map(|response| (response.id, response.answer.expect("an answer in it"))))
    }

    /// The answer to this request.
    pub(crate) async fn answer(&mut self, id: u64) -> Answer {
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let (id, answer) = self.next().await.unwrap().expect("the stream goes on");
            let before = self.early.insert(id, answer);
            assert!(before.is_none(), "two answers to {id}");
        }
    }

    /// Sends, and waits for the answer.
    pub(crate) async fn ask(&mut self, id: u64, operation: Operation) -> Answer {
        self.send(id, operation);
        self.answer(id).await
    }
}

pub(crate) fn acquire(resource: &str, holder: &str, ttl_ms: u64) -> Operation {
    Operation::Acquire(crate::nodes::acquire(resource, holder, ttl_ms))
}

pub(crate) fn renew(resource: &str, holder: &str, token: u64) -> Operation {
    let item = v1::RenewItem {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        token,
        ttl_ms: 0,
    };
    Operation::Renew(v1::RenewRequest { items: vec![item] })
}

pub(crate) fn release(resource: &str, holder: &str, token: u64) -> Operation {
    Operation::Release(v1::ReleaseRequest {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        token,
    })
}

pub(crate) fn inspect(resource: &str) -> Operation {
    Operation::Inspect(v1::InspectRequest {
        resource: resource.to_owned(),
        ..v1::InspectRequest::default()
    })
}

/// The token of an acquire that must have been granted.
pub(crate) fn granted(answer: &Answer) -> u64 {
    match answer {
        Answer::Acquire(v1::AcquireResponse {
            outcome: Some(v1::acquire_response::Outcome::Granted(granted)),
            ..
        }) => crate::nodes::value(granted.token.as_ref()),
        other => panic!("not granted: {other:?}"),
    }
}

/// Whether the one item of a renewal was renewed.
pub(crate) fn renewed(answer: &Answer) -> bool {
    let Answer::Renew(response) = answer else {
        panic!("no answer to a renewal: {answer:?}");
    };
    let outcome = response.outcomes[0].outcome.as_ref();
    matches!(outcome, Some(v1::renew_outcome::Outcome::Renewed(_)))
}

pub(crate) fn released(answer: &Answer) -> bool {
    let Answer::Release(response) = answer else {
        panic!("no answer to a release: {answer:?}");
    };
    let outcome = response.outcome.as_ref();
    matches!(outcome, Some(v1::release_response::Outcome::Released(_)))
}

/// Code, reason and metadata of a failure.
pub(crate) fn failed(answer: Answer) -> (Code, String, std::collections::HashMap<String, String>) {
    let Answer::Failure(failure) = answer else {
        panic!("not a failure: {answer:?}");
    };
    let code = Code::from_i32(failure.code);
    let status = Status::with_details(code, failure.message, failure.details);
    crate::nodes::error_info(&status)
}
