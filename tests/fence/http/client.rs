//! The client's layer: what it sends to whom, and which answers it takes for stale.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::Request, response::Response, routing::any};
use fencepost::fence::{
    Refusal, context,
    http::{FencingError, FencingLayer, StaleAnswer},
};
use http::HeaderMap;
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::door::{layer, serve};
use super::scene::{Served, fencing, plain, request, whole};
use crate::scene::{sequencer, sequencer_for, token};

/// A server that answers by a fixed status and headers, and keeps the headers that came.
struct Scripted {
    served: Served,
    came: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Scripted {
    async fn new(status: u16, headers: &'static [(&'static str, &'static str)]) -> Self {
        let came: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
        let keep = Arc::clone(&came);
        let answer = move |request: Request| async move {
            keep.lock().unwrap().push(request.headers().clone());
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(*name, *value);
            }
            answer
                .body(String::from("the service's own words"))
                .unwrap()
        };
        let router = Router::new().route("/", any(answer));
        let served = Served::axum(router).await;
        Self { served, came }
    }

    /// The fencing headers of the last request, if it carried any.
    fn last(&self) -> [Option<String>; 3] {
        let came = self.came.lock().unwrap();
        let headers = came.last().unwrap();
        ["x-fencing-token", "x-resource-id", "x-fencing-issuer"].map(|name| {
            let value = headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        })
    }
}

fn sent(token: &str, resource: &str, issuer: &str) -> [Option<String>; 3] {
    [token, resource, issuer].map(|value| Some(value.to_owned()))
}

#[tokio::test]
async fn a_request_carries_the_sequencer_of_its_context_and_none_outside() {
    let server = Scripted::new(200, &[]).await;
    let mut client = fencing();
    let url = server.served.url("/");
    client.call(request("POST", &url, &[])).await.unwrap();
    assert_eq!(server.last(), [None, None, None]);
    let grant = sequencer_for("bank", "kühl, 5 %", 7);
    context::scope(grant, async {
        client.call(request("POST", &url, &[])).await.unwrap();
        assert_eq!(server.last(), sent("7", "k%C3%BChl%2C%205%20%25", "bank"));
        context::apart(async { client.call(request("POST", &url, &[])).await.unwrap() }).await;
        assert_eq!(server.last(), [None, None, None]);
    })
    .await;
}

#[tokio::test]
async fn headers_that_are_there_stay_and_another_resource_is_never_mixed_in() {
    let server = Scripted::new(200, &[]).await;
    let mut client = fencing();
    let url = server.served.url("/");
    let (seven, eight) = (
        ("x-fencing-token", &b"7"[..]),
        ("x-fencing-token", &b"8"[..]),
    );
    let (own, other) = (
        ("x-resource-id", &b"account/1"[..]),
        ("x-resource-id", &b"a"[..]),
    );
    let (bank, mint) = (
        ("x-fencing-issuer", &b"bank"[..]),
        ("x-fencing-issuer", &b"mint"[..]),
    );
    context::scope(sequencer(7), async {
        for there in [
            &[][..],
            &[seven],
            &[own],
            &[bank],
            &[own, bank],
            &[seven, bank],
        ] {
            client.call(request("POST", &url, there)).await.unwrap();
            assert_eq!(server.last(), sent("7", "account/1", "bank"), "{there:?}");
        }
        client
            .call(request("POST", &url, &[eight, own, bank]))
            .await
            .unwrap();
        assert_eq!(server.last(), sent("8", "account/1", "bank"));
        let requests = server.came.lock().unwrap().len();
        for (there, header) in [
            (&[other][..], "x-resource-id"),
            (&[seven, other, bank], "x-resource-id"),
            (&[own, other], "x-resource-id"),
            (&[seven, own, mint], "x-fencing-issuer"),
            (&[eight], "x-fencing-token"),
        ] {
            let unsent = client.call(request("POST", &url, there)).await.unwrap_err();
            let FencingError::OtherSequencer(unsent) = unsent else {
                panic!("{unsent}");
            };
            assert_eq!(unsent.header, header, "{there:?}");
        }
        assert_eq!(server.came.lock().unwrap().len(), requests);
    })
    .await;
    // Outside, a program may send what it likes.
    client
        .call(request("POST", &url, &[seven, other]))
        .await
        .unwrap();
    assert_eq!(server.last()[1].as_deref(), Some("a"));
}

#[tokio::test]
async fn a_stale_answer_is_read_back() {
    let served = serve(layer()).await;
    let mut client = fencing();
    let mut post = async |token: u64| {
        let request = request("POST", &served.url("/a"), &[]);
        context::scope(sequencer(token), async { client.call(request).await }).await
    };
    assert_eq!(post(9).await.unwrap().status(), 200);
    let FencingError::Stale(stale) = post(7).await.unwrap_err() else {
        panic!("not stale");
    };
    let (presented, required) = (token(7), token(9));
    assert_eq!(
        stale,
        StaleAnswer {
            presented,
            required
        }
    );
    assert_eq!(Refusal::from(stale).to_string(), stale.to_string());
}

#[tokio::test]
async fn what_a_handler_answers_about_its_write_is_read_back_too() {
    let (presented, required) = (token(7), token(9));
    let stale = StaleAnswer {
        presented,
        required,
    };
    let router = Router::new().route("/", any(async move || stale.to_response()));
    let served = Served::axum(router).await;
    let request = request("POST", &served.url("/"), &[]);
    let answer = context::scope(sequencer(7), fencing().oneshot(request)).await;
    assert!(matches!(answer, Err(FencingError::Stale(read)) if read == stale));
}

#[tokio::test]
async fn every_other_conflict_passes_through_untouched() {
    let cases: [(u16, &'static [(&'static str, &'static str)]); 7] = [
        (409, &[]),
        (409, &[("etag", "9")]),
        (409, &[("x-required-token", "nine")]),
        (409, &[("x-required-token", "0")]),
        (409, &[("x-required-token", "9"), ("x-required-token", "9")]),
        // Lower than what was presented: the answer contradicts itself.
        (409, &[("x-required-token", "6")]),
        (412, &[("x-required-token", "9")]),
    ];
    for (status, headers) in cases {
        let server = Scripted::new(status, headers).await;
        let request = request("POST", &server.served.url("/"), &[]);
        let answer = context::scope(sequencer(7), fencing().oneshot(request)).await;
        let (answered, came, said) = whole(answer.unwrap()).await;
        assert_eq!((answered, &*said), (status, "the service's own words"));
        for (name, value) in headers {
            assert_eq!(came[*name], *value);
        }
    }
}

#[tokio::test]
async fn an_unfenced_request_is_never_told_that_its_token_is_stale() {
    let server = Scripted::new(409, &[("x-required-token", "9")]).await;
    let request = request("POST", &server.served.url("/"), &[]);
    let answer = fencing().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 409);
}

#[tokio::test]
async fn only_chosen_hosts_receive_the_sequencer_and_a_redirect_is_judged_anew() {
    let third_party = Scripted::new(200, &[]).await;
    let port = third_party.served.address.port();
    let layer = FencingLayer::new().only_to(move |uri| uri.port_u16() != Some(port));
    let redirect = format!("http://127.0.0.1:{port}/");
    let away: &'static str = Box::leak(redirect.into_boxed_str());
    let headers: &'static [(&str, &str)] = Box::leak(Box::new([("location", away)]));
    let ours = Scripted::new(307, headers).await;

    let mut client = layer.layer(plain());
    context::scope(sequencer(7), async {
        // What follows redirects does so outside of the layer, and each hop comes by there.
        let first = request("POST", &ours.served.url("/"), &[]);
        let answer = client.call(first).await.unwrap();
        let to = answer.headers()["location"].to_str().unwrap();
        client.call(request("POST", to, &[])).await.unwrap();
    })
    .await;
    assert_eq!(ours.last(), sent("7", "account/1", "bank"));
    assert_eq!(third_party.last(), [None, None, None]);
}

#[tokio::test]
async fn a_client_that_fails_says_so_itself() {
    let request = request("POST", "http://127.0.0.1:1/", &[]);
    let failed = context::scope(sequencer(7), fencing().oneshot(request)).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, FencingError::Service(_)), "{failed}");
}
