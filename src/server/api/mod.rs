//! The gRPC services: requests become words, outcomes become responses, here and only here.
//!
//! [`asked`] judges a request, [`method`] finds the leader, and each method's own file says what the
//! leader does: `issuer/` for holders, `guard/` for guards, `cluster/` for operators.

mod asked;
mod calls;
mod cluster;
mod deadline;
mod forwarded;
mod guard;
mod issuer;
mod method;
mod pipeline;
mod propose;
mod renewals;
mod serve;
mod unreadable;
mod watch;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    issuer::Replica,
    resource::IssuerName,
    server::{
        history::History,
        port::Entrance,
        raft::{Leadership, RaftNode, Role},
        store::SharedStore,
        telemetry::{CallMetrics, Count, Metrics},
        waits::Waits,
    },
    wire::{
        failure::{Failure, Reason},
        v1,
    },
};
use asked::FreshIds;
use calls::Calls;
use guard::Alarm;
use method::Halt;
use propose::{Proposals, unread};
use renewals::Renewals;

pub use forwarded::Inward;
pub use pipeline::PipelineLimits;
pub use serve::{HEALTH_NAMES, serve};

/// What is counted by name.
const METHODS: [&str; 17] = [
    "Acquire",
    "Withdraw",
    "Renew",
    "Release",
    "Inspect",
    "List",
    "Watch",
    "Admit",
    "HighWater",
    "Report",
    "Status",
    "Revoke",
    "RaiseFloor",
    "AddNode",
    "Promote",
    "RemoveNode",
    "TransferLeader",
];

/// What all methods stand on. Clones share it.
#[derive(Clone)]
pub struct Api(Arc<Parts>);

/// The parts of [`Api`].
pub struct Parts {
    node_id: u64,
    issuer: String,
    raft: RaftNode,
    store: SharedStore,
    history: Arc<History>,
    waits: Arc<Waits>,
    metrics: Arc<Metrics>,
    counted: Counted,
    /// Tokens that were never issued.
    ahead: Alarm,
    fresh: FreshIds,
    cluster: OnceLock<String>,
    leadership: Receiver<Leadership>,
    proposals: Proposals,
    renewals: Renewals,
    calls: Arc<Calls>,
    /// At the client port.
    entrance: Entrance,
    pipeline_limits: PipelineLimits,
    /// The node stops: whatever waits for more from its callers, or would last, ends.
    draining: CancellationToken,
    started: Instant,
}

impl std::ops::Deref for Api {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// What the services are put together from.
pub struct Foundation {
    /// Who issues.
    pub issuer: IssuerName,
    /// The node of Raft.
    pub raft: RaftNode,
    /// The data directory.
    pub store: SharedStore,
    /// What happened lately.
    pub history: Arc<History>,
    /// Who waits in line here.
    pub waits: Arc<Waits>,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// Calls that may be under way at once, waits in line aside.
    pub calls_max: usize,
    /// Who is let in at the client port.
    pub entrance: Entrance,
    /// What one stream of operations may have in flight.
    pub pipeline_limits: PipelineLimits,
    /// Cancelled when the node stops: whatever lasts, or waits for more from its caller, ends then.
    pub draining: CancellationToken,
    /// When the process began.
    pub started: Instant,
}

impl Api {
    /// Puts the services together. They may be called at once; before a leader is known they wait.
    pub fn new(parts: Foundation) -> Self {
        let Foundation { raft, metrics, .. } = parts;
        let identity = parts.store.identity();
        let proposals = Proposals::new(raft.clone(), Arc::clone(&metrics));
        Api(Arc::new(Parts {
            node_id: identity.node_id,
            issuer: parts.issuer.to_string(),
            counted: Counted::new(&metrics),
            ahead: Alarm::new(&metrics),
            cluster: OnceLock::new(),
            leadership: raft.leadership(),
            fresh: FreshIds::new(identity.instance.to_bytes(), parts.store.boots()),
            renewals: Renewals::start(proposals.clone()),
            proposals,
            raft,
            store: parts.store,
            history: parts.history,
            waits: parts.waits,
            metrics,
            calls: Arc::new(Calls::new(parts.calls_max)),
            entrance: parts.entrance,
            pipeline_limits: parts.pipeline_limits,
            draining: parts.draining,
            started: parts.started,
        }))
    }
}

impl Parts {
    /// Calls of clients that are under way, waits in line aside.
    pub fn calls_under_way(&self) -> usize {
        self.calls.under_way()
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().role == Role::Leader
    }

    /// What stands in an answer whose effect or content is that of `applied`.
    fn header(&self, applied: u64) -> v1::ResponseHeader {
        let leadership = self.leadership.borrow();
        v1::ResponseHeader {
            cluster_id: self.cluster_id(),
            issuer: self.issuer.clone(),
            applied_index: applied,
            leader: leader(&leadership),
            node_id: self.node_id,
        }
    }

    /// The same for an answer that was read from the state.
    fn header_of_now(&self) -> v1::ResponseHeader {
        let applied = |replica: &Replica| replica.machine().applied().index;
        self.header(self.raft.state().read(applied).unwrap_or(0))
    }

    /// Hexadecimal, once this node belongs to a cluster; it never changes then.
    fn cluster_id(&self) -> String {
        if let Some(known) = self.cluster.get() {
            return known.clone();
        }
        match self.store.identity().ready() {
            Some(ready) => self
                .cluster
                .get_or_init(|| ready.cluster.to_string())
                .clone(),
            None => String::new(),
        }
    }

    /// After this the state here contains everything that was acknowledged before it was called.
    async fn read_barrier(&self, deadline: Instant) -> Result<(), Halt> {
        self.metrics.read_barriers.inc();
        self.raft.read_barrier(deadline).await.map_err(unread)
    }

    fn observe(&self, method: &str, took: Duration) {
        if let Some((_, call)) = self.counted.calls.iter().find(|(name, _)| *name == method) {
            call.observe(took);
        }
    }

    /// Notes a failure and makes a status of it.
    fn failed(&self, failure: Failure) -> Status {
        failed(&self.metrics, failure)
    }

    /// New grants are refused before the disk is full; what ends or keeps grants goes on.
    fn check_space(&self) -> Result<(), Failure> {
        if !self.store.space_low() {
            return Ok(());
        }
        Err(Failure::new(
            Reason::DiskFull,
            "the leader's disk is nearly full: no new grants until there is space; renewals and \
             releases go on",
        )
        .retry_after(Duration::from_secs(1)))
    }
}

fn failed(metrics: &Metrics, failure: Failure) -> Status {
    metrics.failures(failure.reason.name()).inc();
    failure.into_status()
}

/// Who leads, on the wire.
fn leader(leadership: &Leadership) -> Option<v1::Leader> {
    leadership.leader.as_ref().map(|leader| v1::Leader {
        node_id: leader.node_id,
        address: leader.client_address.clone(),
        term: leadership.term,
    })
}

/// Counts, looked up once.
struct Counted {
    calls: Vec<(&'static str, CallMetrics)>,
    held: Count,
    ended: Count,
    renewals: Ends,
    releases: Ends,
    admissions: Admissions,
}

/// What the guard register says.
struct Admissions {
    admitted: Count,
    stale: Count,
    foreign: Count,
    ahead: Count,
}

/// How renewals and releases come out.
struct Ends {
    done: Count,
    ended: Count,
    unknown: Count,
}

impl Counted {
    fn new(metrics: &Metrics) -> Self {
        let ends = |done, count: &dyn Fn(&'static str) -> Count| Ends {
            done: count(done),
            ended: count("ended"),
            unknown: count("unknown"),
        };
        // Counted by name as they happen, and seen at 0 until then, so that a first one is a rise.
        for reason in Reason::all() {
            metrics.failures(reason.name());
        }
        Counted {
            calls: METHODS.map(|name| (name, metrics.call(name))).to_vec(),
            held: metrics.refusals("held"),
            ended: metrics.refusals("ended"),
            renewals: ends("renewed", &|outcome| metrics.renewals(outcome)),
            releases: ends("released", &|outcome| metrics.releases(outcome)),
            admissions: Admissions {
                admitted: metrics.admissions("admitted"),
                stale: metrics.admissions("stale"),
                foreign: metrics.admissions("foreign"),
                ahead: metrics.admissions("ahead"),
            },
        }
    }
}
