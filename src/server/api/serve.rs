//! The client port: the services, health and reflection, within their limits.

use std::{future::Future, time::Duration};

use tokio::net::TcpListener;
use tonic::{
    service::{Routes, RoutesBuilder},
    transport::{Error, Server},
};
use tonic_health::{pb::health_server, server::HealthService};

use super::{Api, unreadable::Readable};
use crate::server::port::Patience;
use crate::wire::{
    V1_DESCRIPTORS,
    v1::{cluster_server::ClusterServer, guard_server::GuardServer, issuer_server::IssuerServer},
};

/// The largest message taken in or sent out, gRPC's own default. A renewal of 400 of the longest names
/// takes about 400 KiB, a page of 1,000 grants about 1 MiB.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Calls under way on one connection; further ones wait in the caller's HTTP/2 stack.
const STREAMS_MAX: u32 = 4_096;

/// Of these, calls that wait in line: the other half stays free for what cannot wait (hyper#3559).
pub(super) const LONG_CALLS_MAX: usize = 2_048;

/// How often an idle connection is asked whether its other end is still there, and how long it has to
/// answer. The callers' own pings are answered however often they come (llm-d-kv-cache#359).
const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(10);

/// What a connection begins with, the preface of HTTP/2 and an empty frame of settings, must be there in
/// time; afterwards the pings above find out who is gone.
const BEGIN: Patience = Patience::Begin {
    bytes: 24 + 9,
    within: Duration::from_secs(10),
};

/// What one stream may send before it is read, and all streams of a connection together: a stream that
/// is not read must not keep the others from sending. h2 ends a connection on which very many small frames
/// lie unread (its budget is half of the connection's window, and a frame of 20 bytes takes 236 of it), so
/// flow control has to come first: a whole stream of such frames takes less than 1 MiB.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Room for the head of a call: ours are a few hundred bytes.
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// The names under which health is told, beside the empty one for the whole node.
pub const HEALTH_NAMES: [&str; 3] = [
    "fencepost.v1.Issuer",
    "fencepost.v1.Cluster",
    "fencepost.v1.Guard",
];

/// Serves clients until `shutdown`, then lets the calls under way end.
///
/// # Errors
///
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    api: Api,
    health: HealthService,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Error> {
    let incoming = api.entrance.clone().stream(listener, BEGIN);
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_WITHIN))
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .add_routes(routes(api, health))
        .serve_with_incoming_shutdown(incoming, shutdown)
        .await
}

fn routes(api: Api, health: HealthService) -> Routes {
    let mut routes = RoutesBuilder::default();
    routes
        .add_service(Readable(
            IssuerServer::new(api.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        ))
        .add_service(Readable(
            ClusterServer::new(api.clone())
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        ))
        .add_service(Readable(
            GuardServer::new(api)
                .max_decoding_message_size(MESSAGE_BYTES_MAX)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
        ))
        .add_service(health_server::HealthServer::new(health));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(V1_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let sound = "the descriptors were generated together with the code";
    routes
        .add_service(reflection().build_v1().expect(sound))
        .add_service(reflection().build_v1alpha().expect(sound));
    routes.routes()
}
