//! The layer before an HTTP service: requests over loopback to a handler that answers at once, which is the
//! harshest comparison there is for a layer. The service has a thread of its own, the guard is in memory.

use std::{net::SocketAddr, thread};

use axum::{Router, routing::post};
use fencepost::fence::{http::GuardLayer, memory::MemoryGuard};
use http::Request;
use http_body_util::BodyExt as _;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::{
    at, body, issuer,
    rounds::{self, Variant, Writes},
    rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    let plain = || Router::new().route("/", post(async || "written"));
    let guarded = move || plain().layer(GuardLayer::new(MemoryGuard::new(rules()), issuer()));
    let (plain, guarded) = (serve(plain).await, serve(guarded).await);
    let all = |address| {
        (0..writers)
            .map(move |writer| posts(writer, address))
            .collect()
    };
    let variants = vec![
        Variant::new("a request, no layer", 0, all(plain)),
        Variant::new("GuardLayer<MemoryGuard>", 0, all(guarded)),
    ];
    rounds::measure("http", 10, variants).await;
}

/// Serves on a thread and a port of its own until the bench ends.
async fn serve(router: impl FnOnce() -> Router + Send + 'static) -> SocketAddr {
    let (tell, told) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, router()).await.unwrap();
        });
    });
    told.await.unwrap()
}

/// Both services are sent the same headers.
fn posts(writer: u64, address: SocketAddr) -> Box<dyn Writes> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, String> = Client::builder(TokioExecutor::new()).build(connector);
    let (url, sequencers) = (format!("http://{address}/"), sequencers(writer));
    Box::new(async move |n| {
        let mut request = Request::post(&url);
        for (name, value) in sequencers[at(n)].to_headers() {
            request = request.header(name, value);
        }
        let answer = client
            .request(request.body(body(n)).unwrap())
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.unwrap();
    })
}
