//! Status: what this node itself sees.

use crate::{
    issuer::{LogId, Machine, Replica},
    server::{
        api::Api,
        clock,
        raft::{MemberStatus, NodeRecord, Role, Touch},
    },
    wire::v1,
};

/// What the state has to tell.
#[derive(Default)]
struct State {
    live_leases: u64,
    live_leases_max: u64,
    waiters: u64,
    waiters_max: u64,
    floor: u64,
    last_token: u64,
    applied_index: u64,
    chain: String,
}

impl State {
    fn of(replica: &Replica) -> Self {
        let machine: &Machine = replica.machine();
        State {
            live_leases: count(machine.live_grants()),
            live_leases_max: machine.bounds().live_grants_max,
            waiters: count(machine.waiters_len()),
            waiters_max: machine.bounds().waiters_max.into(),
            floor: machine.floor(),
            last_token: machine.last_token().map_or(0, |token| token.get()),
            applied_index: machine.applied().index,
            chain: hex(&machine.chain()),
        }
    }
}

impl Api {
    pub(super) fn status(&self) -> v1::StatusResponse {
        let began = clock::now();
        let status = self.raft.status();
        // Hash and index must belong together, so both are read in one look.
        let state = self.raft.state().read(State::of).unwrap_or_default();
        let history = self.history.facts();
        let response = v1::StatusResponse {
            header: Some(self.header(state.applied_index)),
            role: role(status.leadership.role).into(),
            term: status.leadership.term,
            last_log_index: status.last_log_index.unwrap_or(0),
            committed_index: index(status.committed),
            applied_index: state.applied_index,
            snapshot_index: index(status.snapshot),
            purged_index: index(status.purged),
            live_leases: state.live_leases,
            live_leases_max: state.live_leases_max,
            waiters: state.waiters,
            waiters_max: state.waiters_max,
            watchers: history.watchers,
            watchers_max: history.watchers_max,
            history_oldest_index: history.oldest,
            history_bytes: history.bytes,
            waiting_calls: count(self.waits.calls().count()),
            connections: self.entrance.counts().open,
            connections_max: count(self.entrance.max()),
            calls: count(self.calls.under_way()),
            calls_max: count(self.calls.max()),
            floor: state.floor,
            last_token: state.last_token,
            state_hash: state.chain,
            members: status.members.iter().map(member_status).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: clock::whole_ms(began.saturating_duration_since(self.started)),
            in_touch: self.raft.touch(began) == Touch::InTouch,
        };
        self.observe("Status", clock::now().saturating_duration_since(began));
        response
    }
}

fn member_status(status: &MemberStatus) -> v1::Member {
    v1::Member {
        node_id: status.node_id,
        voter: status.voter,
        matched_index: status.matched.map(|id| id.index),
        last_contact_ms: status.last_contact.map(clock::whole_ms),
        ..member(&status.record)
    }
}

/// What the membership says about a node, on the wire.
pub(super) fn member(record: &NodeRecord) -> v1::Member {
    v1::Member {
        instance_id: record.instance.to_string(),
        peer_address: record.peer_address.clone(),
        client_address: record.client_address.clone(),
        ..v1::Member::default()
    }
}

fn role(role: Role) -> v1::Role {
    match role {
        Role::Forming => v1::Role::Forming,
        Role::Learner => v1::Role::Learner,
        Role::Follower => v1::Role::Follower,
        Role::Candidate => v1::Role::Candidate,
        Role::Leader => v1::Role::Leader,
    }
}

fn index(id: Option<LogId>) -> u64 {
    id.map_or(0, |id| id.index)
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
