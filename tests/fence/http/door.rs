//! The contract on the wire: what a guarded service answers to whom.

use std::sync::Arc;

use axum::{Router, extract::Extension, routing::any};
use fencepost::fence::{Guard, Mark, Verdict, context, http::GuardLayer, memory::MemoryGuard};
use fencepost::resource::ResourceName;
use fencepost::sequencer::Sequencer;
use http::HeaderMap;
use tower::Layer as _;

use super::scene::{Served, plain, request, whole};
use crate::scene::{issuer, rules, sequencer, sequencer_for};

/// Says whose request it was: by the extension and by the context, which must agree.
pub(crate) async fn whose(admitted: Option<Extension<Sequencer>>) -> String {
    let admitted = admitted.map(|Extension(sequencer)| sequencer);
    assert_eq!(admitted, context::current());
    admitted.map_or("nobody".to_owned(), |sequencer| sequencer.to_string())
}

pub(crate) fn layer() -> GuardLayer<MemoryGuard> {
    GuardLayer::new(MemoryGuard::new(rules()), issuer("bank"))
}

pub(crate) async fn serve<G: Guard + Send + Sync + 'static>(layer: GuardLayer<G>) -> Served {
    let router = Router::new().route("/{*path}", any(whose)).layer(layer);
    Served::axum(router).await
}

/// A name and a raw value.
type Header<'h> = (&'h str, &'h [u8]);

async fn ask(served: &Served, method: &str, headers: &[(&str, &[u8])]) -> (u16, HeaderMap, String) {
    let request = request(method, &served.url("/accounts/1"), headers);
    whole(plain().request(request).await.unwrap()).await
}

/// The headers of a sequencer.
pub(crate) fn fenced(sequencer: &Sequencer) -> Vec<(&'static str, Vec<u8>)> {
    let headers = sequencer.to_headers();
    headers
        .map(|(name, value)| (name, value.into_bytes()))
        .to_vec()
}

async fn post(served: &Served, sequencer: &Sequencer) -> (u16, HeaderMap, String) {
    let headers = fenced(sequencer);
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(n, v)| (*n, v.as_slice())).collect();
    ask(served, "POST", &headers).await
}

#[tokio::test]
async fn the_handler_gets_what_was_admitted() {
    let served = serve(layer()).await;
    for name in ["account/1", "nächtlich, 100 %"] {
        let sent = sequencer_for("bank", name, 7);
        let (status, _, said) = post(&served, &sent).await;
        assert_eq!((status, said), (200, sent.to_string()));
    }
}

#[tokio::test]
async fn a_stale_token_is_answered_by_the_token_that_is_required() {
    let served = serve(layer()).await;
    assert_eq!(post(&served, &sequencer(9)).await.0, 200);
    let (status, headers, said) = post(&served, &sequencer(7)).await;
    assert_eq!(
        (status, headers["x-required-token"].to_str().unwrap()),
        (409, "9")
    );
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(
        said,
        r#"{"error":"stale fencing token","presented":7,"required":9}"#
    );
}

#[tokio::test]
async fn tokens_beyond_what_a_float_holds_are_written_as_strings() {
    let served = serve(layer()).await;
    assert_eq!(post(&served, &sequencer((1 << 53) + 2)).await.0, 200);
    let (status, headers, said) = post(&served, &sequencer((1 << 53) + 1)).await;
    assert_eq!(status, 409);
    assert_eq!(headers["x-required-token"], "9007199254740994");
    assert!(said.ends_with(r#""presented":"9007199254740993","required":"9007199254740994"}"#));
}

#[tokio::test]
async fn bad_headers_are_answered_by_header_and_limit_and_admit_nothing() {
    let guard = Arc::new(MemoryGuard::new(rules()));
    let served = serve(GuardLayer::new(Arc::clone(&guard), issuer("bank"))).await;
    let (token, resource, by): (_, _, (&str, &[u8])) = (
        ("x-fencing-token", &b"7"[..]),
        ("x-resource-id", &b"account/1"[..]),
        ("x-fencing-issuer", b"bank"),
    );
    let huge = "9".repeat(20_000);
    let long = "a".repeat(161);
    let cases: [(&[Header<'_>], &str); 14] = [
        (
            &[],
            "x-fencing-token is missing: this request needs a fencing token, an integer from 1 to 9223372036854775807",
        ),
        (&[resource, by], "x-fencing-token is missing"),
        (&[token, by], "x-resource-id is missing"),
        (&[token, resource], "x-fencing-issuer: issuer is missing"),
        (
            &[token, token, resource, by],
            "x-fencing-token is there more than once",
        ),
        (
            &[token, resource, resource, by],
            "x-resource-id is there more than once",
        ),
        (
            &[("x-fencing-token", b"7, 8"), resource, by],
            "x-fencing-token: token is not",
        ),
        (
            &[("x-fencing-token", b"-7"), resource, by],
            "x-fencing-token: token is not",
        ),
        (
            &[("x-fencing-token", b"0"), resource, by],
            "between 1 and 9223372036854775807",
        ),
        (
            &[("x-fencing-token", b"9223372036854775808"), resource, by],
            "9223372036854775807",
        ),
        (
            &[("x-fencing-token", huge.as_bytes()), resource, by],
            "9223372036854775807",
        ),
        (
            &[token, ("x-resource-id", long.as_bytes()), by],
            "x-resource-id: resource is too long: it may have at most 160",
        ),
        (
            &[token, ("x-resource-id", b"\xff"), by],
            "x-resource-id has bytes",
        ),
        (
            &[token, ("x-resource-id", b"a%0Ab"), by],
            "x-resource-id: resource has the control character",
        ),
    ];
    for (headers, complaint) in cases {
        let (status, answered, said) = ask(&served, "POST", headers).await;
        assert_eq!(status, 400, "{said}");
        assert!(said.contains(complaint), "{complaint}: {said}");
        let read: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(read["error"].is_string());
        assert!(!answered.contains_key("x-required-token"));
        assert!(said.len() < 400, "an answer repeats what came: {said}");
    }
    let mark = guard.high_water(&"account/1".parse().unwrap()).await;
    assert_eq!(mark, Ok(None::<Mark>));
}

#[tokio::test]
async fn a_foreign_token_is_forbidden_and_not_compared() {
    let served = serve(layer()).await;
    let (status, headers, said) = post(&served, &sequencer_for("other", "account/1", 99)).await;
    assert_eq!(status, 403);
    assert!(
        said.starts_with(r#"{"error":"foreign fencing token: issued by"#),
        "{said}"
    );
    assert!(!headers.contains_key("x-required-token"));
    assert_eq!(post(&served, &sequencer(1)).await.0, 200);
}

struct Broken;

#[derive(Debug, thiserror::Error)]
#[error("the password of the database is wrong")]
struct Secret;

impl Guard for Broken {
    type Error = Secret;

    async fn admit(&self, _: &Sequencer) -> Result<Verdict, Secret> {
        Err(Secret)
    }

    async fn high_water(&self, _: &ResourceName) -> Result<Option<Mark>, Secret> {
        Err(Secret)
    }
}

#[tokio::test]
async fn a_guard_that_fails_admits_nobody_and_tells_callers_nothing_of_itself() {
    let served = serve(GuardLayer::new(Broken, issuer("bank"))).await;
    let (status, _, said) = post(&served, &sequencer(7)).await;
    assert_eq!(status, 503);
    assert!(said.contains("could not be asked"), "{said}");
    assert!(!said.contains("password"), "{said}");
    assert_eq!(ask(&served, "GET", &[]).await.0, 200);
}

#[tokio::test]
async fn head_is_answered_without_a_body_and_with_its_length() {
    let served = serve(layer()).await;
    assert_eq!(ask(&served, "HEAD", &[]).await.0, 200);
    assert_eq!(post(&served, &sequencer(9)).await.0, 200);
    let headers = fenced(&sequencer(7));
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(n, v)| (*n, v.as_slice())).collect();
    let (status, answered, body) = ask(&served, "HEAD", &headers).await;
    assert_eq!((status, &*body), (409, ""));
    assert_eq!(answered["x-required-token"], "9");
    let whole = r#"{"error":"stale fencing token","presented":7,"required":9}"#;
    assert_eq!(answered["content-length"], whole.len().to_string().as_str());
    // The connection is still good for the next request.
    assert_eq!(ask(&served, "GET", &headers).await.2, whole);
}

#[tokio::test]
async fn hyper_alone_is_guarded_by_both_versions_of_http() {
    let service = tower::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        let admitted = request.extensions().get::<Sequencer>().cloned();
        let mut said = whose(admitted.map(Extension)).await;
        if request.method() == http::Method::HEAD {
            said.clear();
        }
        Ok::<_, std::convert::Infallible>(http::Response::new(said))
    });
    let served = Served::hyper(layer().layer(service)).await;
    for second in [false, true] {
        let client =
            hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
                .http2_only(second)
                .build_http();
        for (token, wanted) in [(8, 200), (7, 409)] {
            let headers = fenced(&sequencer(token));
            let headers: Vec<(&str, &[u8])> =
                headers.iter().map(|(n, v)| (*n, v.as_slice())).collect();
            for method in ["POST", "HEAD"] {
                let request = request(method, &served.url("/"), &headers);
                let (status, _, said) = whole(client.request(request).await.unwrap()).await;
                assert_eq!(status, wanted, "{said}");
                assert_eq!(said.is_empty(), method == "HEAD");
            }
        }
    }
}
