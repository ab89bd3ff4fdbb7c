//! How a node comes to its cluster.
//!
//! The nodes of a founding list ask each other who they are until all have answered. The one with the
//! lowest id then founds the cluster, once: it makes the cluster durable together with the founding
//! list, and only then starts Raft with it. Whoever else is blank is bound to the cluster by the first
//! call of its leader. So the nodes may start in any order, seconds apart, and crash meanwhile: a blank
//! node has promised nothing and begins anew, and a founder that crashed in between does the same again.
//!
//! A blank node never founds when any other is not blank. It may be the wiped one of them, and two
//! quorums of "the same" cluster must never be.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use openraft::errors::{InitializeError, RaftError};

use super::{
    Bootstrap, FoundingList, NodeRecord,
    introduction::{HelloError, Introduced, hello},
    node::{RaftNode, Records},
};
use crate::{
    server::store::{Addition, Founder, Replacement},
    wire::peer_v1::Standing,
};

/// How long after an unfinished round the next one begins.
const ROUND_EVERY: Duration = Duration::from_millis(200);

/// Rounds between two lines about whom this node waits for.
const ROUNDS_PER_LINE: u32 = 25;

/// Brings a node to its cluster, or seals its fate.
pub(super) async fn run(node: RaftNode) {
    if node.inner.local.cluster().is_some()
        && let Err(refusal) = recheck(&node).await
    {
        return node.inner.fate.identity(refusal);
    }
    let formed = match node.inner.local.config.bootstrap.clone() {
        Bootstrap::Join => joined(&node).await,
        Bootstrap::Found(list) => founded(&node, &list).await,
    };
    if let Err(refusal) = formed {
        node.inner.fate.identity(refusal);
    }
}

/// Waits to be added; nothing is done for it from here.
async fn joined(node: &RaftNode) -> Result<(), String> {
    if node.inner.local.cluster().is_none() {
        node.wait_for("its leader to add it, with `fencepost cluster add-node`".to_owned());
        tracing::info!("waiting to be added: run `fencepost cluster add-node` on the cluster");
    }
    resume(node).await
}

/// Founds the cluster with the others of the list, or waits for the one who does.
async fn founded(node: &RaftNode, list: &FoundingList) -> Result<(), String> {
    let local = &node.inner.local;
    let mut round: u32 = 0;
    while local.cluster().is_none() {
        let answers = ask_all(node, list.nodes()).await;
        judge(node, list, &answers)?;
        let missing = missing(&answers);
        node.wait_for(missing.clone().unwrap_or_else(|| {
            format!("a call of the node that forms or leads the cluster: all of {list} answer")
        }));
        let Some(missing) = missing else {
            if local.node_id == list.founder() && all_blank(&answers) {
                found(node, list, &answers).await?;
            }
            if local.cluster().is_none() {
                tokio::time::sleep(ROUND_EVERY).await;
            }
            continue;
        };
        if round.is_multiple_of(ROUNDS_PER_LINE) {
            tracing::info!(%missing, "waiting for the other nodes of the founding list");
        }
        round = round.wrapping_add(1);
        tokio::time::sleep(ROUND_EVERY).await;
    }
    warn_if_members_differ(node, list);
    resume(node).await
}

/// What the others answered, or why they did not.
type Answers = BTreeMap<u64, Result<Introduced, HelloError>>;

async fn ask_all(node: &RaftNode, nodes: &BTreeMap<u64, String>) -> Answers {
    let local = &node.inner.local;
    let others = nodes.iter().filter(|(id, _)| **id != local.node_id);
    let asked = others.map(async |(id, address)| {
        let answer = hello(local, &node.inner.switchboard, address).await;
        if let Err(error) = &answer {
            tracing::debug!(peer = id, %error, "a node did not answer");
        }
        (*id, answer)
    });
    join_all(asked).await.into_iter().collect()
}

/// A node that starts with a cluster asks the others once what they think of it. Those that do not
/// answer do not matter: each call that reaches Raft is checked anyway, and this only tells the operator
/// sooner, and stops a node that has no place any more.
async fn recheck(node: &RaftNode) -> Result<(), String> {
    let local = &node.inner.local;
    let Some(ours) = local.cluster() else {
        return Ok(());
    };
    let mut nodes = members(node);
    if let Bootstrap::Found(list) = &local.config.bootstrap {
        for (id, address) in list.nodes() {
            nodes.entry(*id).or_insert_with(|| address.clone());
        }
    }
    let mut same = false;
    let mut foreign = None;
    for (id, them) in ask_all(node, &nodes)
        .await
        .into_iter()
        .filter_map(|(id, a)| Some((id, a.ok()?)))
    {
        match them.cluster {
            Some(theirs) if theirs == ours => {
                same = true;
                still_stands(local.node_id, id, them.standing)?;
            }
            Some(theirs) => foreign = Some((id, theirs)),
            None => {}
        }
    }
    match foreign {
        Some((id, theirs)) if !same => Err(format!(
            "this data directory belongs to cluster {ours}, but node {id} belongs to cluster {theirs}: \
             start this node with the peers of cluster {ours}, or with an empty data directory, a new \
             node id and --join to add it to cluster {theirs}"
        )),
        Some((id, theirs)) => {
            tracing::warn!(peer = id, cluster = %theirs, "a configured peer is of another cluster");
            Ok(())
        }
        None => Ok(()),
    }
}

fn still_stands(own: u64, id: u64, standing: Standing) -> Result<(), String> {
    let what = match standing {
        Standing::Unspecified | Standing::Member | Standing::Stranger => return Ok(()),
        Standing::Replaced => "knows it with another instance id, that is, another data directory",
        Standing::Removed => "knows that it was removed, and node ids are never used again",
        Standing::Stale => "has seen a later state of it: this data directory is a stale copy",
    };
    Err(format!(
        "node {own} has no place in its cluster any more: node {id} {what}. {}",
        Replacement(own)
    ))
}

/// The members as Raft follows them here, with their addresses.
fn members(node: &RaftNode) -> BTreeMap<u64, String> {
    let metrics = node.inner.raft.metrics();
    let metrics = openraft::async_runtime::watch::WatchReceiver::borrow_watched(&metrics);
    let membership = metrics.membership_config.membership();
    membership
        .nodes()
        .map(|(id, record)| (*id, record.peer_address.clone()))
        .collect()
}

/// Who has not answered yet, and why; `None` if all have.
fn missing(answers: &Answers) -> Option<String> {
    let missing = answers.iter().filter_map(|(id, answer)| {
        let error = answer.as_ref().err()?;
        Some(format!("node {id} ({error})"))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// Refuses what can never become a cluster.
fn judge(node: &RaftNode, list: &FoundingList, answers: &Answers) -> Result<(), String> {
    let local = &node.inner.local;
    for (id, answer) in answers {
        let Ok(them) = answer else {
            continue;
        };
        let address = &list.nodes()[id];
        if them.node_id != *id {
            return Err(format!(
                "the founding list says that node {id} is at {address}, but node {} answers there: \
                 correct the addresses in the list",
                them.node_id
            ));
        }
        if them.issuer != local.config.issuer.as_str() {
            return Err(format!(
                "node {id} at {address} serves the issuer `{}`, this node `{}`: all nodes of a \
                 cluster have one issuer name",
                them.issuer, local.config.issuer
            ));
        }
        match them.cluster {
            Some(cluster) => stands_in(node, *id, &cluster.to_string(), them.standing)?,
            None if them.founders != *list.nodes() => {
                return Err(differing(local.node_id, list, *id, &them.founders));
            }
            None => {}
        }
    }
    Ok(())
}

fn differing(own: u64, list: &FoundingList, id: u64, theirs: &BTreeMap<u64, String>) -> String {
    if theirs.is_empty() {
        return format!(
            "node {own} would found a cluster with {list}, but node {id} was started to join one: \
             start it with the same founding list and without --join"
        );
    }
    let theirs: Vec<String> = theirs.iter().map(|(id, at)| format!("{id}={at}")).collect();
    format!(
        "the founding lists differ: node {own} has {list}, node {id} has {}: give all nodes the same \
         list",
        theirs.join(",")
    )
}

/// What it means for a blank node that one of its list belongs to a cluster already.
fn stands_in(node: &RaftNode, id: u64, cluster: &str, standing: Standing) -> Result<(), String> {
    let own = node.inner.local.node_id;
    match standing {
        // Its leader will call.
        Standing::Unspecified | Standing::Member => Ok(()),
        Standing::Replaced | Standing::Stale => Err(format!(
            "node {id} belongs to cluster {cluster}, which knows node {own} with another \
             instance id, that is, another data directory: this one is new or was wiped, and must not \
             come back under its old id. \
             {}",
            Replacement(own)
        )),
        Standing::Removed => Err(format!(
            "node {own} was removed from cluster {cluster}, and node ids are never used again: \
             {Addition}"
        )),
        Standing::Stranger => Err(format!(
            "node {id} belongs to cluster {cluster}, which runs without node {own}: start this one \
             with --join instead of a founding list, and run `fencepost cluster add-node {own} HOST:PORT` with its peer address"
        )),
    }
}

fn all_blank(answers: &Answers) -> bool {
    answers
        .values()
        .flatten()
        .all(|them| them.cluster.is_none())
}

/// Founds the cluster: durable first, then Raft.
async fn found(node: &RaftNode, list: &FoundingList, answers: &Answers) -> Result<(), String> {
    let local = &node.inner.local;
    let config = &local.config;
    let own = std::iter::once((local.node_id, local.instance, config.client_address.clone()));
    let others = answers.iter().filter_map(|(id, answer)| {
        let them = answer.as_ref().ok()?;
        Some((*id, them.instance, them.client_address.clone()))
    });
    let founders = own
        .chain(others)
        .map(|(node_id, instance, client_address)| Founder {
            node_id,
            instance,
            address: both_addresses(&list.nodes()[&node_id], &client_address),
        });
    let cluster = config.new_cluster;
    tracing::info!(%cluster, nodes = %list, "founding the cluster");
    let bound = local.bind(cluster, founders.collect()).await;
    bound.map_err(|error| format!("the cluster could not be founded: {error}"))
}

/// Waits until this node belongs to a cluster. On the node that founded it, starts Raft with the
/// founding list if that has not been done.
async fn resume(node: &RaftNode) -> Result<(), String> {
    while node.inner.local.cluster().is_none() {
        tokio::time::sleep(ROUND_EVERY).await;
    }
    let identity = node.inner.store.identity();
    let Some(ready) = identity.ready().filter(|ready| !ready.founders.is_empty()) else {
        return Ok(());
    };
    if node.inner.raft.is_initialized().await.unwrap_or(true) {
        return Ok(());
    }
    let records = ready
        .founders
        .iter()
        .map(|founder| (founder.node_id, record_of(founder)));
    match node
        .inner
        .raft
        .initialize(records.collect::<Records>())
        .await
    {
        Ok(()) | Err(RaftError::Fatal(_)) => Ok(()),
        // It has a log or a vote: that is being initialized.
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
        Err(RaftError::APIError(error @ InitializeError::NotInMembers(_))) => Err(format!(
            "the founding list does not name this node: {error}"
        )),
    }
}

/// Both addresses of a founder, as one text: the store keeps it, and addresses have no blanks.
fn both_addresses(peer: &str, client: &str) -> String {
    format!("{peer} {client}")
}

fn record_of(founder: &Founder) -> NodeRecord {
    let (peer, client) = founder
        .address
        .split_once(' ')
        .unwrap_or((&founder.address, ""));
    NodeRecord {
        instance: founder.instance,
        peer_address: peer.to_owned(),
        client_address: client.to_owned(),
    }
}

/// The persisted membership wins over the configuration; somebody should know that they differ.
fn warn_if_members_differ(node: &RaftNode, list: &FoundingList) {
    let members = members(node);
    if !members.is_empty() && members != *list.nodes() {
        tracing::warn!(
            configured = %list,
            members = ?members,
            "the configured nodes are not the members; the members count, the list only founds"
        );
    }
}
