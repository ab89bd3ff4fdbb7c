//! The HTTP port: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever runs the process.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::server::port::{Connection, Entrance, Patience};

/// What the HTTP port asks of a node.
pub trait Probe: Send + Sync + 'static {
    /// All metrics, in the OpenMetrics text format.
    fn metrics(&self) -> String;

    /// Whether the process should be left running. `Err` says what is broken.
    fn healthy(&self) -> Result<(), String>;

    /// Whether calls should be sent here. `Err` says what is missing.
    fn ready(&self) -> Result<(), String>;
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a request may take to arrive, or an answer to be taken. Longer than the usual time between
/// two scrapes, so that a scraper keeps its connection.
const PATIENCE: Patience = Patience::Ask {
    within: Duration::from_secs(75),
};

/// The port, as axum takes it.
struct Port {
    listener: TcpListener,
    entrance: Entrance,
}

impl axum::serve::Listener for Port {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        self.entrance.accept(&self.listener, PATIENCE).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Serves until `shutdown`.
///
/// # Errors
///
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    entrance: Entrance,
    probe: Arc<dyn Probe>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(probe);
    axum::serve(Port { listener, entrance }, router)
        .with_graceful_shutdown(shutdown)
        .await
}

async fn metrics(State(probe): State<Arc<dyn Probe>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], probe.metrics())
}

async fn healthz(State(probe): State<Arc<dyn Probe>>) -> impl IntoResponse {
    verdict(probe.healthy())
}

async fn readyz(State(probe): State<Arc<dyn Probe>>) -> impl IntoResponse {
    verdict(probe.ready())
}

fn verdict(verdict: Result<(), String>) -> (StatusCode, String) {
    match verdict {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}
