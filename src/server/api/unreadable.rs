//! What cannot be read as a request is refused like any other wrong input.
//!
//! The transport finds a message that is too large, or no protobuf, before any method sees it, and ends
//! the call with a status of its own. A caller would have to take that for an unknown outcome, although
//! certainly nothing happened. So such a status is replaced here by one that says so.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tonic::{
    Code, Status,
    body::Body,
    codegen::{Service, http},
    server::NamedService,
};

use crate::wire::failure::Failure;

/// A service whose unreadable requests are told so.
#[derive(Clone, Debug)]
pub(super) struct Readable<S>(pub(super) S);

impl<S: NamedService> NamedService for Readable<S> {
    const NAME: &'static str = S::NAME;
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

impl<S> Service<http::Request<Body>> for Readable<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let response = answer.await?;
            match refusal(&response) {
                Some(failure) => Ok(failure.into_status().into_http()),
                None => Ok(response),
            }
        })
    }
}

/// What to say instead of a status that the transport made up. Ours have details.
fn refusal(response: &http::Response<Body>) -> Option<Failure> {
    let status = Status::from_header_map(response.headers())?;
    if !status.details().is_empty() {
        return None;
    }
    unreadable(&status)
}

/// What an unreadable message is told; `None` when the status is about something else.
pub(super) fn unreadable(status: &Status) -> Option<Failure> {
    let limit = match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => "at most 4 MiB",
        Code::Internal => "a message as the protocol defines it",
        _ => return None,
    };
    let mut failure = Failure::invalid("message", limit);
    failure.message = format!("the request cannot be read: {}", status.message());
    Some(failure)
}
