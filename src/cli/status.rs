//! `fencepost status`: how the cluster is, in a few lines.

use super::acquire::millis;
use super::caller::{Caller, Next};
use super::duration;
use super::exit;
use super::number::counted;
use fencepost::client::{Member, NodeStatus, Role};
use serde::Serialize;

/// Arguments of `fencepost status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks the leader if there is one, and otherwise any node; it answers without a quorum too. How each node is:
`fencepost cluster status`.

Example:
  fencepost status --output json | jq .leader")]
pub(crate) struct Args {}

/// What is said of a node that is out of touch with its cluster.
pub(super) const NO_QUORUM: &str = "\
NO QUORUM: this node has heard from no leader, or as the leader from no majority, for seconds. Nothing can be
granted or renewed through it, and the leader named here may be gone. Its figures may be old.";

pub(crate) async fn run(caller: Caller) -> exit::Outcome {
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    caller.answer(&human(&status), &StatusJson::new(&status))
}

fn human(status: &NodeStatus) -> String {
    let voters = status.members.iter().filter(|member| member.voter).count();
    let learners = status.members.len() - voters;
    let led = match &status.leader {
        Some(leader) => format!(
            "led by node {} ({}) in term {}",
            leader.node_id, leader.address, leader.term
        ),
        None => "without a leader: an election is under way, or too few nodes are up".to_owned(),
    };
    if status.role == Role::Forming {
        return format!(
            "Cluster {} (issuer {}) is forming: its nodes have not all found each other yet.",
            status.cluster_id, status.issuer
        );
    }
    let learners = match learners {
        0 => String::new(),
        count => format!(" and {count} learning"),
    };
    let last = status
        .last_token
        .map_or_else(|| "none yet".to_owned(), |token| token.to_string());
    let alarm = match status.in_touch {
        true => String::new(),
        false => format!("\n{NO_QUORUM}\n"),
    };
    let voters = counted(voters, "voting node");
    format!(
        "Cluster {} (issuer {}): {voters}{learners}, {led}.\n{alarm}\
         \n  live leases  {} of at most {}\n  waiters      {} of at most {}\n  watchers     {} of at most {} at this node\n  last token   {last}\n  floor        {}\n  applied      index {} by node {} \
         ({}, version {}, up {})",
        status.cluster_id,
        status.issuer,
        status.live_leases,
        status.live_leases_max,
        status.waiters,
        status.waiters_max,
        status.watchers,
        status.watchers_max,
        status.floor,
        status.applied_index,
        status.node_id,
        status.role.as_str(),
        status.version,
        duration::human(status.uptime),
    )
}

/// What a node sees, for scripts. Tokens, the floor among them, are strings.
#[derive(Serialize)]
pub(super) struct StatusJson<'a> {
    cluster_id: &'a str,
    issuer: &'a str,
    node_id: u64,
    role: &'static str,
    in_touch: bool,
    term: u64,
    leader: Option<LeaderJson<'a>>,
    last_log_index: u64,
    committed_index: u64,
    applied_index: u64,
    snapshot_index: u64,
    purged_index: u64,
    live_leases: u64,
    live_leases_max: u64,
    waiters: u64,
    waiters_max: u64,
    waiting_calls: u64,
    watchers: u64,
    watchers_max: u64,
    history_oldest_index: u64,
    history_bytes: u64,
    connections: u64,
    connections_max: u64,
    calls: u64,
    calls_max: u64,
    floor: String,
    last_token: Option<String>,
    state_hash: &'a str,
    version: &'a str,
    uptime_ms: u64,
    members: Vec<MemberJson<'a>>,
}

/// Who leads, for scripts.
#[derive(Serialize)]
struct LeaderJson<'a> {
    node_id: u64,
    address: &'a str,
    term: u64,
}

/// One member, for scripts.
#[derive(Serialize)]
pub(super) struct MemberJson<'a> {
    node_id: u64,
    instance_id: &'a str,
    peer_address: &'a str,
    client_address: &'a str,
    voter: bool,
    matched_index: Option<u64>,
    last_contact_ms: Option<u64>,
}

impl<'a> StatusJson<'a> {
    pub(super) fn new(status: &'a NodeStatus) -> Self {
        Self {
            cluster_id: &status.cluster_id,
            issuer: &status.issuer,
            node_id: status.node_id,
            role: status.role.as_str(),
            in_touch: status.in_touch,
            term: status.term,
            leader: status.leader.as_ref().map(|leader| LeaderJson {
                node_id: leader.node_id,
                address: &leader.address,
                term: leader.term,
            }),
            last_log_index: status.last_log_index,
            committed_index: status.committed_index,
            applied_index: status.applied_index,
            snapshot_index: status.snapshot_index,
            purged_index: status.purged_index,
            live_leases: status.live_leases,
            live_leases_max: status.live_leases_max,
            waiters: status.waiters,
            waiters_max: status.waiters_max,
            waiting_calls: status.waiting_calls,
            watchers: status.watchers,
            watchers_max: status.watchers_max,
            history_oldest_index: status.history_oldest_index,
            history_bytes: status.history_bytes,
            connections: status.connections,
            connections_max: status.connections_max,
            calls: status.calls,
            calls_max: status.calls_max,
            floor: status.floor.to_string(),
            last_token: status.last_token.map(|token| token.to_string()),
            state_hash: &status.state_hash,
            version: &status.version,
            uptime_ms: millis(status.uptime),
            members: status.members.iter().map(MemberJson::new).collect(),
        }
    }
}

impl<'a> MemberJson<'a> {
    pub(super) fn new(member: &'a Member) -> Self {
        Self {
            node_id: member.node_id,
            instance_id: &member.instance_id,
            peer_address: &member.peer_address,
            client_address: &member.client_address,
            voter: member.voter,
            matched_index: member.matched_index,
            last_contact_ms: member.last_contact.map(millis),
        }
    }
}
