//! What the door says to those who may not go on.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, request::Parts};
use serde::Serialize;

use crate::fence::Foreign;
use crate::sequencer::headers::REQUIRED_TOKEN;

use super::body::GuardBody;
use super::grpc::{self, Code};
use super::stale::StaleAnswer;

/// Why a request goes no further.
#[derive(Debug)]
pub(super) enum TurnedAway {
    /// Headers that are missing or cannot be read, with the complaint.
    Bad(String),
    /// A newer holder has been here.
    Stale(StaleAnswer),
    /// The token is for something else.
    Foreign(Foreign),
    /// No resource is bound to what the request asks for, so that no token can be for it.
    Unbound,
    /// The guard failed. Why is for the log, and no business of the caller's.
    Unasked,
}

/// What of a request decides the form of its answer.
#[derive(Debug)]
pub(super) struct Form {
    grpc: Option<HeaderValue>,
    head: bool,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
}

const UNBOUND: &str = "foreign fencing token: there is no resource behind this request's target that a token could be for";
const UNASKED: &str = "the guard of this resource could not be asked, so nothing was done; the request may be sent again";

impl Form {
    pub(super) fn of(request: &Parts) -> Self {
        Self {
            grpc: grpc::answer_type(&request.headers),
            head: request.method == Method::HEAD,
        }
    }
}

impl TurnedAway {
    /// The answer, in the form that the caller understands.
    pub(super) fn answer<B>(&self, form: Form) -> Response<GuardBody<B>> {
        match form.grpc {
            Some(kind) => self.in_grpc(kind),
            None => self.in_http(form.head),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Bad(complaint) => complaint.clone(),
            Self::Stale(stale) => stale.to_string(),
            Self::Foreign(foreign) => format!("foreign fencing token: {foreign}"),
            Self::Unbound => UNBOUND.to_owned(),
            Self::Unasked => UNASKED.to_owned(),
        }
    }

    fn in_http<B>(&self, head: bool) -> Response<GuardBody<B>> {
        let status = match self {
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::Stale(_) => StatusCode::CONFLICT,
            Self::Foreign(_) | Self::Unbound => StatusCode::FORBIDDEN,
            Self::Unasked => StatusCode::SERVICE_UNAVAILABLE,
        };
        let body = match self {
            Self::Stale(stale) => stale.to_json(),
            other => {
                let error = &*other.message();
                serde_json::to_string(&ErrorBody { error }).expect("a text is JSON")
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // An answer to HEAD tells the length of the body that it leaves out (RFC 9110, 9.3.2).
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        if let Self::Stale(stale) = self {
            insert(&mut headers, REQUIRED_TOKEN, stale.required.get());
        }
        let body = if head {
            Bytes::new()
        } else {
            Bytes::from(body)
        };
        respond(status, headers, body)
    }

    fn in_grpc<B>(&self, kind: HeaderValue) -> Response<GuardBody<B>> {
        let code = match self {
            Self::Bad(_) => Code::InvalidArgument,
            Self::Stale(_) => Code::FailedPrecondition,
            Self::Foreign(_) | Self::Unbound => Code::PermissionDenied,
            Self::Unasked => Code::Unavailable,
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, kind);
        insert(&mut headers, grpc::STATUS, code as u64);
        headers.insert(grpc::MESSAGE, grpc::message(&self.message()));
        if let Self::Stale(stale) = self {
            headers.extend(stale.to_metadata());
        }
        respond(StatusCode::OK, headers, Bytes::new())
    }
}

fn insert(headers: &mut HeaderMap, name: &'static str, number: u64) {
    headers.insert(HeaderName::from_static(name), HeaderValue::from(number));
}

fn respond<B>(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response<GuardBody<B>> {
    let mut response = Response::new(GuardBody::of_guard(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
