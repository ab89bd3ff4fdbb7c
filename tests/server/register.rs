//! The cluster's own guard register, and what its issuer says of tokens, through the API of any node.

use std::{
    future::Future,
    sync::{Arc, Mutex},
};

use fencepost::wire::v1::{
    self, admit_response::Outcome as Admitted, guard_client::GuardClient,
    report_response::Outcome as Reported,
};
use tonic::{Code, transport::Channel};

use crate::nodes::{Nodes, acquire, error_info, eventually, granted, value};
use crate::probes::get;

const TTL: u64 = 60_000;

fn guard(nodes: &Nodes, n: usize) -> GuardClient<Channel> {
    GuardClient::new(nodes.raw(n))
}

fn presented(resource: &str, token: u64) -> v1::AdmitRequest {
    v1::AdmitRequest {
        issuer: "fencepost".to_owned(),
        resource: resource.to_owned(),
        token,
        once: false,
    }
}

async fn admit(guard: &mut GuardClient<Channel>, request: v1::AdmitRequest) -> Admitted {
    let response = guard.admit(request).await.unwrap().into_inner();
    let header = response.header.unwrap();
    assert_eq!(
        (header.issuer.as_str(), header.cluster_id.len()),
        ("fencepost", 32)
    );
    response.outcome.unwrap()
}

async fn report(guard: &mut GuardClient<Channel>, issuer: &str, token: u64) -> Reported {
    let request = v1::ReportRequest {
        issuer: issuer.to_owned(),
        resource: "r".to_owned(),
        token,
    };
    let response = guard.report(request).await.unwrap().into_inner();
    assert!(response.header.is_some());
    response.outcome.unwrap()
}

async fn high_water(guard: &mut GuardClient<Channel>, resource: &str) -> Option<u64> {
    let request = v1::HighWaterRequest {
        resource: resource.to_owned(),
    };
    let response = guard.high_water(request).await.unwrap().into_inner();
    assert_eq!(response.header.unwrap().issuer, "fencepost");
    response.mark
}

/// So many tokens, each greater than the one before.
async fn tokens(nodes: &Nodes, count: usize) -> Vec<u64> {
    let mut issuer = nodes.issuer(nodes.leader().await);
    let mut tokens = Vec::new();
    for _ in 0..count {
        let grant = granted(&mut issuer, acquire("r", "a", TTL)).await;
        tokens.push(value(grant.token.as_ref()));
    }
    tokens
}

fn stale(presented: u64, required: u64) -> Admitted {
    Admitted::Stale(v1::StaleToken {
        presented,
        required,
    })
}

const ADMITTED: Admitted = Admitted::Admitted(v1::Admitted {});

#[tokio::test(flavor = "multi_thread")]
async fn every_node_admits_the_newest_token_and_refuses_what_is_older() {
    let nodes = Nodes::start(3).await;
    let (leader, follower) = (nodes.leader().await, nodes.follower().await);
    let tokens = tokens(&nodes, 3).await;
    for (n, token) in [
        (follower, tokens[0]),
        (leader, tokens[1]),
        (follower, tokens[2]),
    ] {
        let mut guard = guard(&nodes, n);
        assert_eq!(admit(&mut guard, presented("r", token)).await, ADMITTED);
        assert_eq!(admit(&mut guard, presented("r", token)).await, ADMITTED);
        assert_eq!(high_water(&mut guard, "r").await, Some(token));
    }
    for n in 0..3 {
        let mut guard = guard(&nodes, n);
        let said = admit(&mut guard, presented("r", tokens[1])).await;
        assert_eq!(said, stale(tokens[1], tokens[2]));
        // A node that has not applied the last admission yet refuses by the one before.
        let said = admit(&mut guard, presented("r", tokens[0])).await;
        let required = [tokens[1], tokens[2]].map(|required| stale(tokens[0], required));
        assert!(required.contains(&said), "{said:?}");
        assert_eq!(high_water(&mut guard, "other").await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_each_token_passes_once_its_second_use_is_refused_at_every_node() {
    let nodes = Nodes::start(3).await;
    let tokens = tokens(&nodes, 2).await;
    let once = |token| v1::AdmitRequest {
        once: true,
        ..presented("r", token)
    };
    // All at once: one of them gets through.
    let mut calls = tokio::task::JoinSet::new();
    for n in (0..3).cycle().take(12) {
        let (mut guard, request) = (guard(&nodes, n), once(tokens[1]));
        calls.spawn(async move { admit(&mut guard, request).await });
    }
    let said = calls.join_all().await;
    let passed = said.iter().filter(|said| **said == ADMITTED).count();
    assert_eq!(passed, 1, "{said:?}");
    for n in 0..3 {
        let mut guard = guard(&nodes, n);
        let said = admit(&mut guard, once(tokens[0])).await;
        assert_eq!(said, stale(tokens[0], tokens[1] + 1));
    }
}

/// Log entries that carry an admission, proposed by whichever node led.
async fn proposed(nodes: &Nodes) -> u64 {
    let mut count = 0;
    for n in 0..3 {
        let text = get(nodes, n, "/metrics").await.1;
        let line = "fencepost_proposals_total{command=\"admit\"} ";
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        count += found.unwrap().parse::<u64>().unwrap();
    }
    count
}

/// Term and last index of the log.
async fn end_of_log(nodes: &Nodes) -> (u64, u64) {
    let mut cluster = nodes.cluster(nodes.leader().await);
    let status = cluster.status(v1::StatusRequest {}).await.unwrap();
    let status = status.into_inner();
    (status.term, status.last_log_index)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_at_the_mark_or_below_costs_no_log_entry_also_when_many_come_at_once() {
    let nodes = Nodes::start(3).await;
    let tokens = tokens(&nodes, 2).await;
    let mut first = guard(&nodes, nodes.leader().await);
    assert_eq!(admit(&mut first, presented("r", tokens[1])).await, ADMITTED);
    eventually("every node knows the mark", || async {
        for n in 0..3 {
            let look = |replica: &fencepost::issuer::Replica| replica.machine().high_water_marks();
            nodes
                .node(n)
                .raft()
                .state()
                .read(look)
                .filter(|marks| *marks == 1)?;
        }
        Some(())
    })
    .await;
    let (before, entries) = (end_of_log(&nodes).await, proposed(&nodes).await);
    assert_eq!(entries, 1);
    let mut calls = tokio::task::JoinSet::new();
    for call in 0..300 {
        let (mut guard, token) = (guard(&nodes, call % 3), tokens[call % 2]);
        calls.spawn(async move { (token, admit(&mut guard, presented("r", token)).await) });
    }
    for (token, said) in calls.join_all().await {
        let expected = match token == tokens[1] {
            true => ADMITTED,
            false => stale(token, tokens[1]),
        };
        assert_eq!(said, expected);
    }
    assert_eq!(proposed(&nodes).await, 1);
    let after = end_of_log(&nodes).await;
    // A new leader writes an entry of its own.
    assert!(
        after == before || after.0 > before.0,
        "{before:?}, {after:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_token_is_refused_by_a_node_that_is_left_alone() {
    let mut nodes = Nodes::start(3).await;
    let tokens = tokens(&nodes, 2).await;
    let leader = nodes.leader().await;
    admit(&mut guard(&nodes, leader), presented("r", tokens[1])).await;
    let alone = nodes.follower().await;
    eventually("it knows the mark", || async {
        let look = |replica: &fencepost::issuer::Replica| replica.machine().high_water_marks();
        nodes
            .node(alone)
            .raft()
            .state()
            .read(look)
            .filter(|marks| *marks == 1)
    })
    .await;
    for n in (0..3).filter(|n| *n != alone) {
        nodes.crash(n).await;
    }
    let mut guard = guard(&nodes, alone);
    // What was refused once is refused for ever, so nobody else has to be asked.
    let said = admit(&mut guard, presented("r", tokens[0])).await;
    assert_eq!(said, stale(tokens[0], tokens[1]));
    // But whether a newer one was admitted elsewhere, it cannot know.
    let mut request = tonic::Request::new(presented("r", tokens[1]));
    request.set_timeout(std::time::Duration::from_secs(5));
    let failed = guard.admit(request).await.unwrap_err();
    let (_, _, metadata) = error_info(&failed);
    assert!(metadata.contains_key("effect"), "{failed:?}");
}

/// A call of the register that no node may answer alone.
async fn is_left_open<T: std::fmt::Debug>(
    what: &str,
    call: impl Future<Output = Result<T, tonic::Status>>,
) {
    let failed = call.await.expect_err(what);
    let (_, _, metadata) = error_info(&failed);
    assert!(metadata.contains_key("effect"), "{what}: {failed:?}");
}

fn soon<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(std::time::Duration::from_secs(1));
    request
}

/// The others may have elected somebody, who admitted a higher token: neither what led last nor what
/// followed can know.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_left_alone_admits_nothing_and_names_no_mark() {
    for was_leader in [true, false] {
        let mut nodes = Nodes::start(3).await;
        let tokens = tokens(&nodes, 2).await;
        let alone = match was_leader {
            true => nodes.leader().await,
            false => nodes.follower().await,
        };
        let mut guard = guard(&nodes, alone);
        assert_eq!(admit(&mut guard, presented("r", tokens[0])).await, ADMITTED);
        for n in (0..3).filter(|n| *n != alone) {
            nodes.crash(n).await;
        }
        let [mut one, mut two, mut three] = [guard.clone(), guard.clone(), guard.clone()];
        let mark = v1::HighWaterRequest {
            resource: "r".to_owned(),
        };
        // All at once, while a leader still takes itself for one.
        tokio::join!(
            is_left_open("equal", one.admit(soon(presented("r", tokens[0])))),
            is_left_open("higher", two.admit(soon(presented("r", tokens[1])))),
            is_left_open("ahead", three.admit(soon(presented("r", tokens[1] + 1)))),
            is_left_open("mark", guard.high_water(soon(mark))),
        );
    }
}

/// One admission: when it was asked for, when it was answered, and what was said.
struct Call {
    invoked: u64,
    returned: u64,
    token: u64,
    admitted: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_callers_at_all_nodes_never_get_a_lower_token_through_after_a_higher_one() {
    let nodes = Nodes::start(3).await;
    let tokens = Arc::new(tokens(&nodes, 40).await);
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tick = |clock: &std::sync::atomic::AtomicU64| {
        clock.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    };
    let calls = Arc::new(Mutex::new(Vec::new()));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..6_usize {
        let (tokens, clock, calls) = (Arc::clone(&tokens), Arc::clone(&clock), Arc::clone(&calls));
        let mut guard = guard(&nodes, caller % 3);
        callers.spawn(async move {
            for step in 0..tokens.len() {
                // Each goes up in its own order, now and then back.
                let place = (step + caller * 3 * (step % 2)) % tokens.len();
                let token = tokens[place];
                let invoked = tick(&clock);
                let said = admit(&mut guard, presented("raced", token)).await;
                let returned = tick(&clock);
                let admitted = said == ADMITTED;
                calls.lock().unwrap().push(Call {
                    invoked,
                    returned,
                    token,
                    admitted,
                });
            }
        });
    }
    callers.join_all().await;
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let admitted = || calls.iter().filter(|call| call.admitted);
    for call in admitted() {
        let higher =
            admitted().find(|other| other.returned < call.invoked && other.token > call.token);
        assert!(higher.is_none(), "{} passed after a higher one", call.token);
    }
    let highest = admitted().map(|call| call.token).max();
    assert_eq!(highest, tokens.last().copied(), "the newest of all passes");
    assert!(admitted().count() < calls.len(), "nobody came late");
    assert_eq!(high_water(&mut guard(&nodes, 0), "raced").await, highest);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_another_issuer_are_foreign_and_bad_ones_are_refused_by_field() {
    let nodes = Nodes::start(1).await;
    let mut guard = guard(&nodes, 0);
    let token = tokens(&nodes, 1).await[0];
    let foreign = v1::ForeignToken {
        expected_issuer: "fencepost".to_owned(),
    };
    let elsewhere = v1::AdmitRequest {
        issuer: "Fencepost".to_owned(),
        ..presented("r", token)
    };
    let said = admit(&mut guard, elsewhere).await;
    assert_eq!(said, Admitted::Foreign(foreign.clone()));
    // However high: a token of another issuer says nothing about this one.
    let said = report(&mut guard, "other", i64::MAX as u64).await;
    assert_eq!(said, Reported::Foreign(foreign));
    assert_eq!(high_water(&mut guard, "r").await, None);

    let nobodys = v1::AdmitRequest {
        issuer: String::new(),
        ..presented("r", token)
    };
    for (bad, field) in [
        (nobodys, "issuer"),
        (presented("", token), "resource"),
        (presented(&"x".repeat(161), token), "resource"),
        (presented("r", 0), "token"),
        (presented("r", 1 << 63), "token"),
    ] {
        let (code, reason, metadata) = error_info(&guard.admit(bad).await.unwrap_err());
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
        assert_eq!(
            (metadata["field"].as_str(), metadata["effect"].as_str()),
            (field, "none")
        );
    }
    let request = v1::HighWaterRequest::default();
    let (_, _, metadata) = error_info(&guard.high_water(request).await.unwrap_err());
    assert_eq!(metadata["field"], "resource");
    let request = v1::ReportRequest::default();
    let (_, _, metadata) = error_info(&guard.report(request).await.unwrap_err());
    assert_eq!(metadata["field"], "issuer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_was_never_issued_raises_an_alarm_and_the_remedy_that_is_told_ends_it() {
    let nodes = Nodes::start(3).await;
    let (leader, follower) = (nodes.leader().await, nodes.follower().await);
    let mut guard = guard(&nodes, follower);
    let last_token = tokens(&nodes, 1).await[0];
    let lost = last_token + 1_000_000;
    let Reported::Ahead(ahead) = report(&mut guard, "fencepost", lost).await else {
        panic!("it was never issued");
    };
    assert_eq!((ahead.presented, ahead.last_token), (lost, last_token));
    let remedy = format!("`fencepost raise-floor --above {lost}`");
    assert!(ahead.advice.contains(&remedy), "{}", ahead.advice);
    // Nor does it raise a mark, which would shut out everybody.
    let said = admit(&mut guard, presented("r", lost)).await;
    assert!(
        matches!(&said, Admitted::Ahead(said) if said.presented == lost),
        "{said:?}"
    );
    assert_eq!(high_water(&mut guard, "r").await, None);
    let text = get(&nodes, leader, "/metrics").await.1;
    for line in [
        "fencepost_tokens_ahead_total{via=\"report\"} 1".to_owned(),
        "fencepost_tokens_ahead_total{via=\"admit\"} 1".to_owned(),
        format!("fencepost_highest_token_ahead {lost}"),
        "fencepost_admissions_total{verdict=\"ahead\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }

    let raise = v1::RaiseFloorRequest { above: lost };
    nodes.cluster(follower).raise_floor(raise).await.unwrap();
    let fine = |last_token| Reported::Fine(v1::FineToken { last_token });
    assert_eq!(
        report(&mut guard, "fencepost", lost).await,
        fine(last_token)
    );
    let new = tokens(&nodes, 1).await[0];
    assert!(new > lost);
    assert!(matches!(
        report(&mut guard, "fencepost", new).await,
        Reported::Fine(_)
    ));
    assert_eq!(admit(&mut guard, presented("r", new)).await, ADMITTED);
    assert_eq!(
        admit(&mut guard, presented("r", lost)).await,
        stale(lost, new)
    );

    // A number that no issuer comes to has another remedy.
    let Reported::Ahead(made_up) = report(&mut guard, "fencepost", i64::MAX as u64).await else {
        panic!("it was never issued");
    };
    assert!(made_up.advice.contains("made up"), "{}", made_up.advice);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lags_raises_no_false_alarm() {
    let nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let mut issuer = nodes.issuer(leader);
    // A grant is answered before the followers have applied it.
    for round in 0..60 {
        let grant = granted(&mut issuer, acquire("r", "a", TTL)).await;
        let token = value(grant.token.as_ref());
        for n in (0..3).filter(|n| *n != leader) {
            let said = report(&mut guard(&nodes, n), "fencepost", token).await;
            assert!(matches!(said, Reported::Fine(_)), "round {round}: {said:?}");
            let said = admit(&mut guard(&nodes, n), presented("r", token)).await;
            assert_eq!(said, ADMITTED, "round {round}");
        }
    }
    for n in 0..3 {
        let text = get(&nodes, n, "/metrics").await.1;
        for via in ["report", "admit"] {
            let line = format!("fencepost_tokens_ahead_total{{via=\"{via}\"}} 0");
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_are_counted_and_survive_a_restart_and_a_change_of_leader() {
    let mut nodes = Nodes::start(3).await;
    let tokens = tokens(&nodes, 2).await;
    let leader = nodes.leader().await;
    let mut first = guard(&nodes, leader);
    for name in ["a", "b", "ü/3"] {
        assert_eq!(
            admit(&mut first, presented(name, tokens[1])).await,
            ADMITTED
        );
    }
    let text = get(&nodes, leader, "/metrics").await.1;
    for line in [
        "fencepost_register_marks 3",
        "fencepost_admissions_total{verdict=\"admitted\"} 3",
        "fencepost_admissions_total{verdict=\"foreign\"} 0",
        "fencepost_calls_total{method=\"Admit\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    nodes.crash(leader).await;
    nodes.leader().await;
    nodes.run(leader).await.unwrap();
    nodes.leader().await;
    for n in 0..3 {
        for name in ["a", "b", "ü/3"] {
            let said = admit(&mut guard(&nodes, n), presented(name, tokens[0])).await;
            assert_eq!(said, stale(tokens[0], tokens[1]));
        }
    }
}
