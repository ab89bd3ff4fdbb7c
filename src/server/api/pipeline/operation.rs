//! One operation: what it asks for, how much room it takes, and its answer.

use std::time::{Duration, Instant};

use tonic::Status;

use super::{Leaving, Share};
use crate::{
    limits::LIST_PAGE_DEFAULT,
    server::{
        api::{
            Api,
            calls::Kind,
            issuer::{Acquire, Inspect, List, Release, Renew, Withdraw},
            method::Method,
        },
        clock,
    },
    wire::{
        failure::Failure,
        v1::{
            PipelineFailure, PipelineRequest, PipelineResponse, pipeline_request::Operation,
            pipeline_response::Answer,
        },
    },
};

/// Renewals or listed grants that take the room of one more operation: with the longest names about
/// 4 KiB, as much as anything else may take.
const ITEMS_PER_SHARE: usize = 4;

/// How much room a request takes.
pub(super) fn share(operation: Option<&Operation>) -> Share {
    match operation {
        Some(Operation::Acquire(acquire)) if acquire.wait_ms > 0 => Share::Wait,
        Some(Operation::Renew(renew)) => Share::Operation(1 + renew.items.len() / ITEMS_PER_SHARE),
        Some(Operation::List(list)) => {
            let page = match usize::try_from(list.page_size).unwrap_or(usize::MAX) {
                0 => LIST_PAGE_DEFAULT,
                // A larger one is refused.
                page => page.min(crate::limits::LIST_PAGE_MAX),
            };
            Share::Operation(1 + page / ITEMS_PER_SHARE)
        }
        Some(_) | None => Share::Operation(1),
    }
}

/// What a request is about, when there are too many; as a call of its own would say.
pub(super) fn kind(operation: Option<&Operation>) -> Kind {
    match operation {
        Some(Operation::Renew(_)) => Renew::KIND,
        Some(Operation::Release(_)) => Release::KIND,
        Some(Operation::Withdraw(_)) => Withdraw::KIND,
        Some(Operation::Acquire(_) | Operation::Inspect(_) | Operation::List(_)) | None => {
            Kind::Starts
        }
    }
}

/// Carries out a request that was let in, as a call of its own would be.
pub(super) async fn carry_out(api: &Api, request: PipelineRequest, share: Share) -> Leaving {
    let PipelineRequest {
        id,
        timeout_ms,
        operation,
    } = request;
    let began = clock::now();
    let named = (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms));
    let answer = match operation {
        Some(operation) => answer(api, operation, began, named).await,
        None => {
            let empty = Failure::invalid("operation", "one of the operations of a PipelineRequest");
            Err(api.failed(empty))
        }
    };
    let answer = Some(answer.unwrap_or_else(|status| failed(&status)));
    let response = PipelineResponse { id, answer };
    Leaving { response, share }
}

async fn answer(
    api: &Api,
    operation: Operation,
    began: Instant,
    named: Option<Duration>,
) -> Result<Answer, Status> {
    Ok(match operation {
        Operation::Acquire(mut request) => {
            Answer::Acquire(api.carry_out::<Acquire>(&mut request, began, named).await?)
        }
        Operation::Renew(mut request) => {
            Answer::Renew(api.carry_out::<Renew>(&mut request, began, named).await?)
        }
        Operation::Release(mut request) => {
            Answer::Release(api.carry_out::<Release>(&mut request, began, named).await?)
        }
        Operation::Inspect(mut request) => {
            Answer::Inspect(api.carry_out::<Inspect>(&mut request, began, named).await?)
        }
        Operation::List(mut request) => {
            Answer::List(api.carry_out::<List>(&mut request, began, named).await?)
        }
        Operation::Withdraw(mut request) => Answer::Withdraw(
            api.carry_out::<Withdraw>(&mut request, began, named)
                .await?,
        ),
    })
}

/// A request that is not let in.
pub(super) fn refused(id: u64, status: &Status) -> Leaving {
    let answer = Some(failed(status));
    Leaving {
        response: PipelineResponse { id, answer },
        share: Share::Operation(1),
    }
}

fn failed(status: &Status) -> Answer {
    Answer::Failure(PipelineFailure {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec().into(),
    })
}
