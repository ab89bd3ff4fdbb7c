//! `fencepost cluster status`: every member, as the leader sees it and as it sees itself.

use super::super::caller::{Caller, Next};
use super::super::duration;
use super::super::exit;
use super::super::status::NO_QUORUM;
use super::super::status::{MemberJson, StatusJson};
use fencepost::client::{Cause, Error, Member, NodeStatus};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Arguments of `fencepost cluster status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks the leader, and then each member itself. BEHIND counts the log entries that a node does not hold yet; \
`-` where nobody knows.

Examples:
  fencepost cluster status
  fencepost cluster status --output json | jq '.nodes[] | select(.reachable | not)'")]
pub(super) struct Args {}

/// A member, and its own view if it answered.
struct Node {
    member: Member,
    own: Result<NodeStatus, String>,
}

pub(super) async fn run(caller: Caller) -> exit::Outcome {
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    let mut nodes = Vec::new();
    for member in status.members.clone() {
        let own = ask(&caller, &member).await;
        nodes.push(Node { member, own });
    }
    let disagree = disagreement(&nodes);
    let json = ClusterJson {
        seen_by: StatusJson::new(&status),
        nodes: nodes.iter().map(NodeJson::new).collect(),
        disagree_at_index: disagree,
    };
    caller.answer(&table(&status, &nodes, disagree), &json)
}

async fn ask(caller: &Caller, member: &Member) -> Result<NodeStatus, String> {
    let address = member
        .client_address
        .parse()
        .map_err(|_| "cannot be asked: its client address is not known".to_owned())?;
    caller
        .client
        .status_of(&address)
        .await
        .map_err(|error| why(&error))
}

/// Why a node did not answer, in short: it was asked once, and only to look.
fn why(error: &Error) -> String {
    match error.last_cause() {
        Some(Cause::Unreachable { address, detail }) => {
            let detail = detail.split(" (os error").next().unwrap_or_default();
            format!("cannot be reached at {address}: {detail}")
        }
        Some(Cause::NoAnswer { address, waited }) => {
            let waited = duration::human(*waited);
            format!("did not answer at {address} within {waited}")
        }
        _ => format!("gave no answer: {error}"),
    }
}

/// The highest index at which two nodes hold different states. That must never be.
fn disagreement(nodes: &[Node]) -> Option<u64> {
    let mut hashes: BTreeMap<u64, &str> = BTreeMap::new();
    let mut found = None;
    for own in nodes.iter().filter_map(|node| node.own.as_ref().ok()) {
        let hash = hashes.entry(own.applied_index).or_insert(&own.state_hash);
        if *hash != own.state_hash {
            found = found.max(Some(own.applied_index));
        }
    }
    found
}

fn table(status: &NodeStatus, nodes: &[Node], disagree: Option<u64>) -> String {
    let mut text = match &status.leader {
        Some(leader) => format!(
            "Cluster {}, led by node {} in term {}.\n\n",
            status.cluster_id, leader.node_id, leader.term
        ),
        None => format!("Cluster {}, without a leader.\n\n", status.cluster_id),
    };
    let head = [
        "NODE", "ROLE", "APPLIED", "BEHIND", "VERSION", "UP", "CLIENTS", "PEERS",
    ];
    if !status.in_touch {
        let _ = writeln!(text, "{NO_QUORUM}\n");
    }
    text.push_str(&line(&head.map(str::to_owned)));
    for Node { member, own } in nodes {
        // What a node held that nobody can ask now is hearsay.
        let behind = member
            .matched_index
            .filter(|_| own.is_ok())
            .map(|matched| status.last_log_index.saturating_sub(matched));
        let cells = [
            member.node_id.to_string(),
            own.as_ref()
                .map_or("unreachable", |own| own.role.as_str())
                .to_owned(),
            own.as_ref()
                .map_or_else(|_| "-".to_owned(), |own| own.applied_index.to_string()),
            behind.map_or_else(|| "-".to_owned(), |behind| behind.to_string()),
            own.as_ref()
                .map_or_else(|_| "-".to_owned(), |own| own.version.clone()),
            own.as_ref()
                .map_or_else(|_| "-".to_owned(), |own| duration::human(own.uptime)),
            member.client_address.clone(),
            member.peer_address.clone(),
        ];
        text.push_str(&line(&cells));
    }
    for Node { member, own } in nodes {
        if let Err(why) = own {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nNode {} {why}.", member.node_id);
        }
    }
    if let Some(index) = disagree {
        let _ = writeln!(
            text,
            "\nTHE NODES DISAGREE: two of them hold different states at index {index}. Stop granting, keep all \
             directories, and report it."
        );
    }
    text
}

fn line(cells: &[String; 8]) -> String {
    let [node, role, applied, behind, version, up, clients, peers] = cells;
    format!(
        "{node:>4}  {role:<11}  {applied:>9}  {behind:>7}  {version:<8}  {up:<12}  {clients:<21}  {peers}\n"
    )
}

#[derive(Serialize)]
struct ClusterJson<'a> {
    seen_by: StatusJson<'a>,
    nodes: Vec<NodeJson<'a>>,
    disagree_at_index: Option<u64>,
}

#[derive(Serialize)]
struct NodeJson<'a> {
    #[serde(flatten)]
    member: MemberJson<'a>,
    reachable: bool,
    own: Option<StatusJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl<'a> NodeJson<'a> {
    fn new(node: &'a Node) -> Self {
        Self {
            member: MemberJson::new(&node.member),
            reachable: node.own.is_ok(),
            own: node.own.as_ref().ok().map(StatusJson::new),
            error: node.own.as_ref().err().map(String::as_str),
        }
    }
}
