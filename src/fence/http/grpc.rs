//! What of gRPC can be said in headers alone, so that no gRPC library is needed here.
//!
//! A call that fails before any message is answered by headers only ("trailers-only" in the gRPC over
//! HTTP/2 specification): HTTP status 200, and the gRPC status where a message would begin.

use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// The status of a call, as digits.
pub(super) const STATUS: &str = "grpc-status";
/// What is wrong, percent-encoded.
pub(super) const MESSAGE: &str = "grpc-message";

/// The content type of gRPC proper.
pub(super) const PLAIN: HeaderValue = HeaderValue::from_static("application/grpc");

/// What a message encodes: all but visible ASCII and the blank, and the escape itself.
const IN_MESSAGES: &AsciiSet = &CONTROLS.add(b'%');

/// The statuses that a guard gives, by their numbers in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    PermissionDenied = 7,
    FailedPrecondition = 9,
    Unavailable = 14,
}

/// The content type to answer a gRPC call with; none if the request is no such call. A call of
/// gRPC-Web gets its own type back, since its client looks for it.
pub(super) fn answer_type(headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get(CONTENT_TYPE)?;
    let kind = asked.as_bytes();
    let starts = |prefix: &str| {
        kind.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    if starts("application/grpc-web") {
        return Some(asked.clone());
    }
    let ends = matches!(kind.get(PLAIN.len()), None | Some(b'+' | b';' | b' '));
    (starts("application/grpc") && ends).then_some(PLAIN)
}

/// A message in the form that its header takes.
pub(super) fn message(text: &str) -> HeaderValue {
    let encoded = utf8_percent_encode(text, IN_MESSAGES).to_string();
    HeaderValue::try_from(encoded).expect("percent-encoded text is visible ASCII and blanks")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(kind: &'static str) -> Option<HeaderValue> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        answer_type(&headers)
    }

    #[test]
    fn a_grpc_call_is_known_by_its_content_type() {
        for kind in [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;x",
        ] {
            assert_eq!(answered(kind), Some(PLAIN), "{kind}");
        }
        let web = "application/grpc-web-text";
        assert_eq!(answered(web), Some(HeaderValue::from_static(web)));
        for kind in ["application/json", "application/grpcish", "text/plain", ""] {
            assert_eq!(answered(kind), None, "{kind}");
        }
        assert_eq!(answer_type(&HeaderMap::new()), None);
    }

    #[test]
    fn a_message_travels_as_ascii() {
        assert_eq!(message("100 % für\n\"a\""), "100 %25 f%C3%BCr%0A\"a\"");
    }
}
