//! What operators' tools see: health, reflection, metrics, readiness.

use std::time::Duration;

use fencepost::server::telemetry::{METRICS, MetricKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};

use crate::nodes::{Nodes, acquire, eventually, granted};

/// Status code and body of an HTTP answer.
pub(crate) async fn get(nodes: &Nodes, n: usize, path: &str) -> (u16, String) {
    let address = nodes.node(n).addresses().http;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

async fn serving(nodes: &Nodes, n: usize, service: &str) -> ServingStatus {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(nodes.raw(n))
        .check(request)
        .await
        .unwrap();
    answer.into_inner().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_follow_the_leader() {
    let mut nodes = Nodes::start(3).await;
    for n in 0..3 {
        assert_eq!(get(&nodes, n, "/readyz").await.0, 200);
        assert_eq!(get(&nodes, n, "/healthz").await.0, 200);
        for service in [
            "",
            "fencepost.v1.Issuer",
            "fencepost.v1.Cluster",
            "fencepost.v1.Guard",
        ] {
            eventually("it says that it serves", || async {
                (serving(&nodes, n, service).await == ServingStatus::Serving).then_some(())
            })
            .await;
        }
    }
    nodes.crash(1).await;
    nodes.crash(2).await;
    eventually("a node that is left alone is not ready", || async {
        let (code, why) = get(&nodes, 0, "/readyz").await;
        assert_eq!(get(&nodes, 0, "/healthz").await.0, 200);
        (code == 503 && why.contains("leader")).then_some(())
    })
    .await;
    eventually("it says so over gRPC too", || async {
        (serving(&nodes, 0, "").await == ServingStatus::NotServing).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_speaks_both_versions() {
    let nodes = Nodes::start(1).await;
    let wanted = [
        "fencepost.v1.Issuer",
        "fencepost.v1.Cluster",
        "fencepost.v1.Guard",
        "grpc.health.v1.Health",
    ];

    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(nodes.raw(0));
    let stream = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap();
    let answer = stream.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list");
    };
    for name in wanted {
        assert!(
            list.service.iter().any(|service| service.name == name),
            "{name}"
        );
    }

    use v1alpha::server_reflection_request::MessageRequest as OldRequest;
    use v1alpha::server_reflection_response::MessageResponse as OldResponse;
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(OldRequest::FileContainingSymbol(wanted[0].to_owned())),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(nodes.raw(0));
    let stream = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .unwrap();
    let answer = stream.into_inner().message().await.unwrap().unwrap();
    assert!(matches!(
        answer.message_response,
        Some(OldResponse::FileDescriptorResponse(file)) if !file.file_descriptor_proto.is_empty()
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_shows_what_happened() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    granted(&mut issuer, acquire("r", "a", 60_000)).await;
    issuer.acquire(acquire("r", "b", 60_000)).await.unwrap();
    issuer.acquire(acquire("", "b", 60_000)).await.unwrap_err();
    let (code, text) = get(&nodes, 0, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "fencepost_grants_total 1",
        "fencepost_live_leases 1",
        "fencepost_role{role=\"leader\"} 1",
        "fencepost_leader_id 1",
        "fencepost_voters 1",
        "fencepost_refusals_total{reason=\"held\"} 1",
        "fencepost_failures_total{reason=\"INVALID_FIELD\"} 1",
        "fencepost_proposals_total{command=\"acquire\"} 2",
        "fencepost_commit_seconds_count 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let number = |name: &str| -> f64 {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}\n{text}"))
            .parse()
            .unwrap()
    };
    for name in [
        "fencepost_process_resident_bytes",
        "fencepost_process_cpu_seconds_total",
        "fencepost_fsync_seconds_count",
        "fencepost_applied_index",
        "fencepost_last_token",
    ] {
        assert!(number(name) > 0.0, "{name}");
    }
    for row in METRICS.iter().filter(|row| row.kind == MetricKind::Gauge) {
        assert!(
            text.contains(&format!("# TYPE {} gauge", row.name)),
            "{}",
            row.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_health_follows_the_node_to_its_end_through_any_number_of_pings() {
    let mut nodes = Nodes::start(1).await;
    let address = nodes.node(0).addresses().client;
    // More pings than many servers bear before they hang up.
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .http2_keep_alive_interval(Duration::from_millis(5))
        .keep_alive_while_idle(true)
        .connect_lazy();
    let request = HealthCheckRequest {
        service: "fencepost.v1.Issuer".to_owned(),
    };
    let watch = HealthClient::new(channel).watch(request).await.unwrap();
    let mut watch = watch.into_inner();
    let mut last = watch.message().await.unwrap().unwrap().status();
    eventually("hundreds of pings went by", || async {
        let text = get(&nodes, 0, "/metrics").await.1;
        let uptime = text
            .lines()
            .find_map(|line| line.strip_prefix("fencepost_process_uptime_seconds_total "));
        (uptime?.parse::<f64>().unwrap() > 2.0).then_some(())
    })
    .await;
    nodes.stop(0).await;
    while let Some(told) = watch.message().await.unwrap() {
        last = told.status();
    }
    assert_eq!(last, ServingStatus::NotServing);
}
