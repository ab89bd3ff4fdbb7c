//! Bodies that stream: they pass unread, and what an answer still does is done under the same grant.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{Router, body::Body as Pieces, extract::Request, response::Response, routing::post};
use bytes::Bytes;
use fencepost::fence::context;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::sync::mpsc;

use super::door::{fenced, layer};
use super::scene::Served;
use crate::scene::sequencer;

/// Sends each piece back as it comes, with the token of the context in which the answer is polled.
struct Echo(Pieces);

impl Body for Echo {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(frame) = ready!(Pin::new(&mut self.0).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        let piece = frame?.into_data().unwrap();
        let by = context::current().map(|sequencer| sequencer.token);
        let text = format!("{} by {by:?}", String::from_utf8_lossy(&piece));
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }
}

/// A body that is fed while it is sent.
struct Fed(mpsc::Receiver<Bytes>);

impl Body for Fed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = ready!(self.0.poll_recv(cx));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[tokio::test]
async fn a_stream_passes_piece_by_piece_in_the_context_of_its_request() {
    let echo = async |request: Request| Response::new(Pieces::new(Echo(request.into_body())));
    let router = Router::new().route("/", post(echo)).layer(layer());
    let served = Served::axum(router).await;

    let (feed, fed) = mpsc::channel(1);
    let mut request = http::Request::post(served.url("/"));
    for (name, value) in fenced(&sequencer(7)) {
        request = request.header(name, value);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client
        .request(request.body(Fed(fed)).unwrap())
        .await
        .unwrap();
    let mut answer = answer.into_body();
    // Each piece comes back before the next is sent: nothing on the way waits for the whole.
    for piece in ["one", "two", "three"] {
        feed.send(piece.into()).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        let said = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        assert_eq!(said, format!("{piece} by Some(TokenValue(7))"));
    }
    drop(feed);
    assert!(answer.frame().await.is_none());
}

#[tokio::test]
async fn a_refused_request_is_answered_before_its_body_came() {
    let refusing = layer();
    let echo = async |request: Request| Response::new(Pieces::new(Echo(request.into_body())));
    let served = Served::axum(Router::new().route("/", post(echo)).layer(refusing)).await;
    let (feed, fed) = mpsc::channel(1);
    let request = http::Request::post(served.url("/")).body(Fed(fed)).unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await.unwrap();
    assert_eq!(answer.status(), 400);
    drop(feed);
}
