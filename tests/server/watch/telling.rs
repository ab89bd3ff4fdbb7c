//! What is told, in which order, from which cursor on.

use std::{collections::BTreeMap, path::PathBuf};

use fencepost::wire::v1::{self, WatchEventKind as Kind, watch_request::What};
use serde_json::Value;

use super::{Seen, TTL, Watch, after, everything, release, round, seen};
use crate::nodes::{Nodes, acquire, eventually, granted, value};

/// Three nodes that write audit logs.
async fn audited() -> (Nodes, Vec<PathBuf>) {
    let mut nodes = Nodes::prepare(3);
    let path = |n: usize| nodes.dir.path().join(format!("audit-{n}.jsonl"));
    let paths: Vec<PathBuf> = (0..3).map(path).collect();
    for (n, path) in paths.iter().enumerate() {
        nodes.set(n, "audit-log", &path.display().to_string());
        nodes.run(n).await.unwrap();
    }
    nodes.leader().await;
    (nodes, paths)
}

/// The events of an audit log, renewals and what is about no resource aside.
fn recorded(path: &PathBuf) -> Vec<Seen> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut events = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        for event in line["events"].as_array().into_iter().flatten() {
            let Some(kind) = kind(event["event"].as_str().unwrap()) else {
                continue;
            };
            let token = event["token"].as_str().unwrap_or("0").parse().unwrap();
            let resource = event["resource"].as_str().unwrap().to_owned();
            events.push((line["index"].as_u64().unwrap(), kind, resource, token));
        }
    }
    events
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "granted" => Kind::Granted,
        "released" => Kind::Released,
        "expired" => Kind::Expired,
        "revoked" => Kind::Revoked,
        "superseded" => Kind::Superseded,
        _ => return None,
    })
}

/// One of everything that can happen to a grant.
async fn a_little_of_everything(nodes: &Nodes) {
    let mut issuer = nodes.issuer(0);
    for n in 0..20 {
        round(&mut issuer, &format!("jobs/{n}")).await;
    }
    granted(&mut issuer, acquire("again", "h", TTL)).await;
    granted(&mut issuer, acquire("again", "h", TTL)).await;
    granted(&mut issuer, acquire("short", "h", 100)).await;
    let taken = granted(&mut issuer, acquire("taken", "h", TTL)).await;
    let revoke = v1::RevokeRequest {
        resource: "taken".to_owned(),
        token: value(taken.token.as_ref()),
        reason: "an operator says so".to_owned(),
    };
    nodes.cluster(0).revoke(revoke).await.unwrap();
    eventually("the short lease is over", || async {
        let request = v1::InspectRequest {
            resource: "short".to_owned(),
            ..v1::InspectRequest::default()
        };
        let answer = nodes.issuer(0).inspect(request).await.unwrap();
        answer.into_inner().grant.is_none().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_the_applied_log_from_every_cursor() {
    let (nodes, audits) = audited().await;
    a_little_of_everything(&nodes).await;
    let leader = nodes.leader().await;
    let told = recorded(&audits[leader]);
    for kind in [
        Kind::Granted,
        Kind::Released,
        Kind::Expired,
        Kind::Revoked,
        Kind::Superseded,
    ] {
        assert!(told.iter().any(|(_, found, ..)| *found == kind), "{kind:?}");
    }
    let last = told.last().unwrap().0;
    let (_, now) = Watch::open(nodes.issuer(0), everything()).await;
    assert!(now.index >= last);
    for index in 0..=last {
        // Each cursor is gone on from at another node than the one before.
        let n = usize::try_from(index).unwrap() % 3;
        let cursor = v1::Cursor {
            index,
            ..now.clone()
        };
        let (mut watch, begun) = Watch::open(nodes.issuer(n), after(cursor.clone())).await;
        assert_eq!(begun, cursor);
        let expected: Vec<Seen> = told
            .iter()
            .filter(|event| event.0 > index)
            .cloned()
            .collect();
        assert_eq!(watch.first(expected.len()).await, expected, "after {index}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_events_of_an_entry_come_in_one_message_with_what_belongs_to_them() {
    let nodes = Nodes::start(3).await;
    let (mut watch, begun) = Watch::open(nodes.issuer(2), everything()).await;
    let mut issuer = nodes.issuer(0);
    let first = granted(&mut issuer, acquire("r", "h", TTL)).await;
    let second = granted(&mut issuer, acquire("r", "h", 5_000)).await;
    let one = watch.message().await.unwrap();
    let told = &one.events[0];
    assert_eq!((told.kind(), one.events.len()), (Kind::Granted, 1));
    assert_eq!((told.resource.as_str(), told.holder.as_str()), ("r", "h"));
    assert_eq!((&told.token, told.lease_ms), (&first.token, TTL));
    assert!(told.at_unix_ms > 1_700_000_000_000 && !told.after_wait);
    let cursor = one.cursor.unwrap();
    assert_eq!(cursor.index, first.token.unwrap().index);
    assert_eq!(cursor.cluster_id, begun.cluster_id);
    assert_eq!(one.header.unwrap().applied_index, cursor.index);
    // The end of the old grant and the new grant are one entry, and so one message.
    let two = watch.message().await.unwrap();
    let kinds: Vec<Kind> = two.events.iter().map(v1::WatchEvent::kind).collect();
    assert_eq!(kinds, [Kind::Superseded, Kind::Granted]);
    assert_eq!(two.events[0].token, first.token);
    assert_eq!(two.events[1].token, second.token);
    let revoke = v1::RevokeRequest {
        resource: "r".to_owned(),
        token: value(second.token.as_ref()),
        reason: "why not".to_owned(),
    };
    nodes.cluster(0).revoke(revoke).await.unwrap();
    let three = watch.message().await.unwrap();
    assert_eq!(three.events[0].kind(), Kind::Revoked);
    assert_eq!(three.events[0].reason, "why not");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_now_on_means_after_everything_acknowledged_before() {
    let nodes = Nodes::start(3).await;
    let mut issuer = nodes.issuer(nodes.leader().await);
    for turn in 0..30 {
        let name = format!("r{turn}");
        let grant = granted(&mut issuer, acquire(&name, "h", TTL)).await;
        let token = value(grant.token.as_ref());
        // Followers may not have applied it yet; the leader's answer is what counts.
        let (mut watch, begun) = Watch::open(nodes.issuer(turn % 3), everything()).await;
        assert!(begun.index >= grant.token.unwrap().index);
        release(&mut issuer, &name, token).await;
        let next = watch.events().await;
        assert_eq!((next[0].1, next[0].3), (Kind::Released, token), "{next:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_and_a_prefix_choose_and_renewals_come_on_request_only() {
    let nodes = Nodes::start(1).await;
    let issuer = || nodes.issuer(0);
    let request = |what| v1::WatchRequest {
        what: Some(what),
        ..v1::WatchRequest::default()
    };
    let (mut exact, _) = Watch::open(issuer(), request(What::Resource("a/1".to_owned()))).await;
    let (mut prefix, _) = Watch::open(issuer(), request(What::Prefix("a/".to_owned()))).await;
    let with_renewals = v1::WatchRequest {
        renewals: true,
        ..everything()
    };
    let (mut all, _) = Watch::open(issuer(), with_renewals).await;
    let mut calls = issuer();
    for name in ["a/10", "b/1", "a/1"] {
        let grant = granted(&mut calls, acquire(name, "h", TTL)).await;
        let item = v1::RenewItem {
            resource: name.to_owned(),
            holder: "h".to_owned(),
            token: value(grant.token.as_ref()),
            ttl_ms: 7_000,
        };
        let renew = v1::RenewRequest { items: vec![item] };
        calls.renew(renew).await.unwrap();
    }
    let names = |events: &[Seen]| -> Vec<(Kind, String)> {
        let name = |(_, kind, name, _): &Seen| (*kind, name.clone());
        events.iter().map(name).collect()
    };
    let told = |kind, name: &str| (kind, name.to_owned());
    assert_eq!(names(&exact.first(1).await), [told(Kind::Granted, "a/1")]);
    assert_eq!(
        names(&prefix.first(2).await),
        [told(Kind::Granted, "a/10"), told(Kind::Granted, "a/1")]
    );
    let mut expected = Vec::new();
    for name in ["a/10", "b/1", "a/1"] {
        expected.extend([told(Kind::Granted, name), told(Kind::Renewed, name)]);
    }
    assert_eq!(names(&all.first(6).await), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_progress_are_never_ahead_of_an_event_under_load() {
    let nodes = Nodes::start(3).await;
    let busy = |name: &'static str| {
        let mut issuer = nodes.issuer(0);
        tokio::spawn(async move {
            for n in 0..150 {
                round(&mut issuer, &format!("{name}/{n}")).await;
            }
        })
    };
    let (loud, other) = (busy("loud"), busy("other"));
    let request = |prefix: &str| v1::WatchRequest {
        what: Some(What::Prefix(prefix.to_owned())),
        progress_ms: 100,
        ..v1::WatchRequest::default()
    };
    let (mut all, start) = Watch::open(nodes.issuer(1), request("")).await;
    let (mut nobody, _) = Watch::open(nodes.issuer(1), request("nobody")).await;
    let mut last = start.index;
    while !(loud.is_finished() && other.is_finished()) {
        let message = all.message().await.unwrap();
        let cursor = message.cursor.as_ref().unwrap().index;
        // An event's index is above every cursor before it, a mark's not below.
        let moved = cursor > last || (message.events.is_empty() && cursor == last);
        assert!(moved, "{cursor} after {last}: {message:?}");
        last = cursor;
    }
    // Who wants to hear of nothing hears how far it has come all the same.
    let end = nodes.node(1).raft().status().applied.unwrap().index;
    let arrives = async {
        loop {
            let message = nobody.message().await.unwrap();
            assert!(message.events.is_empty(), "{:?}", seen(&message));
            if message.cursor.unwrap().index >= end {
                return;
            }
        }
    };
    let arrived = tokio::time::timeout(super::PATIENCE, arrives).await;
    arrived.expect("marks arrive where the log is");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_entries_fit_into_a_message() {
    let nodes = Nodes::start(1).await;
    let holder = "🦀".repeat(80);
    let mut grants = tokio::task::JoinSet::new();
    for n in 0..400 {
        let name = format!("{n:03}{}", "🦀".repeat(157));
        let (mut issuer, holder) = (nodes.issuer(0), holder.clone());
        grants.spawn(async move {
            let grant = granted(&mut issuer, acquire(&name, &holder, TTL)).await;
            (name, value(grant.token.as_ref()))
        });
    }
    let items: BTreeMap<String, u64> = grants.join_all().await.into_iter().collect();
    let with_renewals = v1::WatchRequest {
        renewals: true,
        ..everything()
    };
    let (mut watch, _) = Watch::open(nodes.issuer(0), with_renewals).await;
    let item = |(resource, token): (&String, &u64)| v1::RenewItem {
        resource: resource.clone(),
        holder: holder.clone(),
        token: *token,
        ttl_ms: 0,
    };
    let items = items.iter().map(item).collect();
    nodes
        .issuer(0)
        .renew(v1::RenewRequest { items })
        .await
        .unwrap();
    let renewed = watch.events().await;
    assert_eq!(renewed.len(), 400);
    assert!(renewed.iter().all(|event| event.1 == Kind::Renewed));
}
