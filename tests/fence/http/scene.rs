//! Servers on free ports, clients that reach them, and a gRPC service that needs no generated code.

use std::{convert::Infallible, net::SocketAddr, pin::Pin, task::Poll};

use bytes::{Buf, BufMut, Bytes};
use fencepost::fence::{
    Guard,
    http::{FencingLayer, FencingService, GuardLayer},
};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Request, Response, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::NamedService,
    transport::{Channel, server::TcpIncoming},
};
use tower::{Layer as _, Service};

/// A client as a program has it, without a word of fencing.
pub(crate) type Plain = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn plain() -> Plain {
    Client::builder(TokioExecutor::new()).build_http()
}

/// The same behind the layer.
pub(crate) fn fencing() -> FencingService<Plain> {
    FencingLayer::new().layer(plain())
}

/// A server that ends with the test.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn axum(router: axum::Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, task }
    }

    /// A service of one gRPC method behind a guard.
    pub(crate) async fn grpc<G, H, F>(layer: GuardLayer<G>, handler: H) -> Self
    where
        G: Guard + Send + Sync + 'static,
        H: Fn(Request<String>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<String>, Status>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tonic::transport::Server::builder()
            .layer(layer)
            .add_service(GrpcMethod(handler))
            .serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move { server.await.unwrap() });
        Self { address, task }
    }

    /// A gRPC client of it, as generated code makes one, behind the layer.
    pub(crate) fn grpc_client(&self) -> Grpc<FencingService<Channel>> {
        let channel = Channel::from_shared(self.url("")).unwrap().connect_lazy();
        Grpc::new(FencingLayer::new().layer(channel))
    }

    /// Any service that hyper can serve, by either version of HTTP.
    pub(crate) async fn hyper<S, B>(service: S) -> Self
    where
        S: Service<
                http::Request<hyper::body::Incoming>,
                Response = http::Response<B>,
                Error = Infallible,
            > + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = hyper_util::service::TowerToHyperService::new(service.clone());
                tokio::spawn(async move {
                    let socket = hyper_util::rt::TokioIo::new(socket);
                    let builder =
                        hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // A client that hangs up is no failure of the test.
                    let _ = builder.serve_connection(socket, service).await;
                });
            }
        });
        Self { address, task }
    }
}

/// A request with these headers.
pub(crate) fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &[u8])],
) -> http::Request<Full<Bytes>> {
    let mut request = http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::default()).unwrap()
}

/// Status, headers and whole body of an answer.
pub(crate) async fn whole<B>(answer: http::Response<B>) -> (u16, http::HeaderMap, String)
where
    B: http_body::Body,
    B::Error: std::fmt::Debug,
{
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    (parts.status.as_u16(), parts.headers, text)
}

/// Texts as gRPC messages.
#[derive(Clone, Copy, Default)]
struct TextCodec;

impl Codec for TextCodec {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for TextCodec {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for TextCodec {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let text = String::from_utf8(bytes.to_vec());
        text.map(Some).map_err(|_| Status::internal("not a text"))
    }
}

/// What generated code does for a service with one method.
#[derive(Clone)]
struct GrpcMethod<H>(H);

impl<H> NamedService for GrpcMethod<H> {
    const NAME: &'static str = "scene.Accounts";
}

const METHOD: &str = "/scene.Accounts/Write";

impl<H, F> Service<http::Request<tonic::body::Body>> for GrpcMethod<H>
where
    H: Fn(Request<String>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<String>, Status>> + Send + 'static,
{
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let handler = tower::service_fn(self.0.clone());
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(TextCodec);
            Ok(grpc.unary(handler, request).await)
        })
    }
}

/// What a generated client does for that method.
pub(crate) async fn write_by_grpc<S>(client: &mut Grpc<S>, text: &str) -> Result<String, Status>
where
    S: tonic::client::GrpcService<tonic::body::Body>,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    call_by_grpc(client, Request::new(text.to_owned())).await
}

/// The same with metadata of the caller's own.
pub(crate) async fn call_by_grpc<S>(
    client: &mut Grpc<S>,
    request: Request<String>,
) -> Result<String, Status>
where
    S: tonic::client::GrpcService<tonic::body::Body>,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.into().to_string()))?;
    let path = http::uri::PathAndQuery::from_static(METHOD);
    Ok(client.unary(request, path, TextCodec).await?.into_inner())
}
