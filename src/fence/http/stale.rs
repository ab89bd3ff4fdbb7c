//! The answer to a stale token, written and read back.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde::Serialize;

use crate::fence::{Refusal, context};
use crate::sequencer::headers::{FENCING_TOKEN, REQUIRED_TOKEN};
use crate::token::TokenValue;

/// A service refused a token as stale: a newer holder has been there. The request had no effect. No
/// retry will help: the holder has lost its lease, and what it goes on doing under this token is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stale fencing token: presented {presented}, required at least {required}")]
pub struct StaleAnswer {
    /// The token that was sent.
    pub presented: TokenValue,
    /// The lowest token that would have been admitted.
    pub required: TokenValue,
}

#[derive(Serialize)]
struct StaleBody {
    error: &'static str,
    presented: TokenValue,
    required: TokenValue,
}

impl StaleAnswer {
    /// Reads the answer to an HTTP request that carried the token `presented`, for clients that
    /// [`FencingLayer`](super::FencingLayer) cannot go around. Such an answer is a 409 with one
    /// `X-Required-Token` that is a token and not below the presented one; any other 409 is the
    /// service's own.
    #[must_use]
    pub fn in_response(
        status: StatusCode,
        headers: &HeaderMap,
        presented: TokenValue,
    ) -> Option<Self> {
        if status != StatusCode::CONFLICT {
            return None;
        }
        Self::consistent(presented, token(headers, REQUIRED_TOKEN)?)
    }

    /// Reads the answer to a gRPC call from the metadata of its status: with tonic,
    /// `StaleAnswer::in_metadata(status.metadata().as_ref())`.
    ///
    /// The presented token is the one in the metadata, as a [`GuardLayer`](super::GuardLayer) sends it,
    /// or that of the [context](crate::fence::context) of the caller.
    #[must_use]
    pub fn in_metadata(metadata: &HeaderMap) -> Option<Self> {
        let required = token(metadata, REQUIRED_TOKEN)?;
        let presented = token(metadata, FENCING_TOKEN)
            .or_else(|| context::current().map(|sequencer| sequencer.token))?;
        Self::consistent(presented, required)
    }

    /// The answer to an HTTP request, for a handler whose guarded write was refused: the same that a
    /// [`GuardLayer`](super::GuardLayer) gives at the door.
    #[must_use]
    pub fn to_response(self) -> Response<String> {
        let mut response = Response::new(self.to_json());
        *response.status_mut() = StatusCode::CONFLICT;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(REQUIRED_TOKEN, HeaderValue::from(self.required.get()));
        response
    }

    /// The metadata of a gRPC status `FAILED_PRECONDITION` that says the same: with tonic,
    /// `Status::with_metadata(Code::FailedPrecondition, stale.to_string(), MetadataMap::from_headers(stale.to_metadata()))`.
    #[must_use]
    pub fn to_metadata(self) -> HeaderMap {
        let number = |token: TokenValue| HeaderValue::from(token.get());
        HeaderMap::from_iter([
            (
                HeaderName::from_static(REQUIRED_TOKEN),
                number(self.required),
            ),
            (
                HeaderName::from_static(FENCING_TOKEN),
                number(self.presented),
            ),
        ])
    }

    /// An answer that requires less than what was presented contradicts itself, and says nothing.
    fn consistent(presented: TokenValue, required: TokenValue) -> Option<Self> {
        (required >= presented).then_some(Self {
            presented,
            required,
        })
    }

    pub(super) fn to_json(self) -> String {
        let body = StaleBody {
            error: "stale fencing token",
            presented: self.presented,
            required: self.required,
        };
        serde_json::to_string(&body).expect("a text and two tokens are JSON")
    }
}

impl From<StaleAnswer> for Refusal {
    fn from(stale: StaleAnswer) -> Self {
        Self::Stale {
            presented: stale.presented,
            required: stale.required,
        }
    }
}

/// The token in a header that is there exactly once.
pub(super) fn token(headers: &HeaderMap, name: &str) -> Option<TokenValue> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    value.to_str().ok()?.trim().parse().ok()
}
