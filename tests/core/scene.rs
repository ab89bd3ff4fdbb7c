//! A replica with a log position and a clock that the test moves: what most tests here play on.

use std::time::{Duration, Instant};

use fencepost::grant::{ClusterId, EndedHow, LeftHow, RequestId, Ttl};
use fencepost::issuer::{
    Acquire, AcquireOutcome, Admit, AdmitOutcome, Applied, Bounds, Command, DueLease, Expire,
    Leaving, LogId, Machine, Outcome, Promote, PromoteOutcome, Release, ReleaseOutcome, Renew,
    RenewOutcome, Renewal, Replica, RequestKey, Withdraw, WithdrawOutcome,
};
use fencepost::resource::{Holder, IssuerName, ResourceName};
use fencepost::token::{Token, TokenValue};

/// When all of it happens, for people.
pub(crate) const STAMP_MS: u64 = 1_700_000_000_000;

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new(0xfe9c_e905)
}

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder::new(name).unwrap()
}

pub(crate) fn token(value: u64) -> TokenValue {
    TokenValue::new(value).unwrap()
}

pub(crate) fn ttl(ms: u64) -> Ttl {
    Ttl::from_ms(ms).unwrap()
}

pub(crate) fn machine() -> Machine {
    Machine::new(IssuerName::new("test").unwrap(), cluster())
}

pub(crate) fn machine_with(settled_ids_max: u32, live_grants_max: u64) -> Machine {
    machine_within(Bounds {
        settled_ids_max,
        live_grants_max,
        ..Bounds::default()
    })
}

pub(crate) fn machine_within(bounds: Bounds) -> Machine {
    Machine::with_bounds(IssuerName::new("test").unwrap(), cluster(), bounds)
}

pub(crate) fn key(id: &str, resource: &ResourceName, holder: &Holder) -> RequestKey {
    RequestKey::new(&RequestId::new(id.as_bytes()).unwrap(), resource, holder)
}

/// An acquire with the default TTL, and without `asked_at`.
pub(crate) fn acquire(resource_name: &str, holder_name: &str, id: &str) -> Acquire {
    let (resource, holder) = (resource(resource_name), holder(holder_name));
    let request = key(id, &resource, &holder);
    Acquire {
        resource,
        holder,
        ttl: Ttl::default(),
        request,
        attempt: 1,
        asked_at: None,
        wait_ms: 0,
        stamped_at_ms: STAMP_MS,
    }
}

/// The same, and it waits for ten seconds at most.
pub(crate) fn waiting(acquire: Acquire) -> Acquire {
    Acquire {
        wait_ms: 10_000,
        ..acquire
    }
}

pub(crate) struct Scene {
    pub(crate) replica: Replica,
    pub(crate) at: LogId,
    pub(crate) now: Instant,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(machine())
    }

    pub(crate) fn of(machine: Machine) -> Self {
        let now = Instant::now();
        Self {
            at: machine.applied(),
            replica: Replica::new(machine, now),
            now,
        }
    }

    pub(crate) fn machine(&self) -> &Machine {
        self.replica.machine()
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    /// A new leader: the next term, with its blank entry.
    pub(crate) fn new_term(&mut self) {
        self.at = LogId::new(self.at.term + 1, self.at.index + 1);
        self.replica.apply_blank(self.at).unwrap();
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Applied {
        self.at = LogId::new(self.at.term.max(1), self.at.index + 1);
        self.replica.apply(self.at, command, self.now).unwrap()
    }

    pub(crate) fn ask(&mut self, acquire: Acquire) -> AcquireOutcome {
        match self.apply(&Command::Acquire(acquire)).outcome {
            Outcome::Acquire(outcome) => outcome,
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    pub(crate) fn granted(&mut self, acquire: Acquire) -> Token {
        match self.ask(acquire) {
            AcquireOutcome::Granted {
                token,
                replayed: false,
                ..
            } => token,
            other => panic!("not granted: {other:?}"),
        }
    }

    pub(crate) fn renew(&mut self, token: TokenValue) -> RenewOutcome {
        let renewals = vec![Renewal { token, ttl: None }];
        match self
            .apply(&Command::Renew(Renew {
                renewals,
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Renew(each) => each[0],
            other => panic!("a renewal was answered by {other:?}"),
        }
    }

    pub(crate) fn release(&mut self, token: TokenValue) -> ReleaseOutcome {
        match self
            .apply(&Command::Release(Release {
                token,
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Release(outcome) => outcome,
            other => panic!("a release was answered by {other:?}"),
        }
    }

    /// The caller of these requests gives up, after so many sends.
    pub(crate) fn withdraw(
        &mut self,
        requests: &[RequestKey],
        attempt: u32,
    ) -> Vec<WithdrawOutcome> {
        self.leave(requests, attempt, LeftHow::Withdrawn)
    }

    pub(crate) fn leave(
        &mut self,
        requests: &[RequestKey],
        attempt: u32,
        how: LeftHow,
    ) -> Vec<WithdrawOutcome> {
        let places = requests.iter().map(|request| Leaving {
            request: *request,
            attempt,
        });
        match self
            .apply(&Command::Withdraw(Withdraw {
                places: places.collect(),
                how,
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Withdraw(each) => each,
            other => panic!("a withdrawal was answered by {other:?}"),
        }
    }

    pub(crate) fn promote(&mut self, name: &str) -> PromoteOutcome {
        match self
            .apply(&Command::Promote(Promote {
                resource: resource(name),
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Promote(outcome) => outcome,
            other => panic!("a promotion was answered by {other:?}"),
        }
    }

    pub(crate) fn admit(&mut self, name: &str, token: TokenValue) -> AdmitOutcome {
        self.presented(name, token, false)
    }

    /// The same where each token passes once.
    pub(crate) fn admit_once(&mut self, name: &str, token: TokenValue) -> AdmitOutcome {
        self.presented(name, token, true)
    }

    fn presented(&mut self, name: &str, token: TokenValue, once: bool) -> AdmitOutcome {
        match self
            .apply(&Command::Admit(Admit {
                resource: resource(name),
                token,
                once,
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Admit(outcome) => outcome,
            other => panic!("an admission was answered by {other:?}"),
        }
    }

    /// Proposes to end these leases, and says how many ended.
    pub(crate) fn expire(&mut self, leases: Vec<DueLease>) -> u32 {
        match self
            .apply(&Command::Expire(Expire {
                leases,
                stamped_at_ms: STAMP_MS,
            }))
            .outcome
        {
            Outcome::Expire { ended } => ended,
            other => panic!("an expiry was answered by {other:?}"),
        }
    }

    /// What a leader's expiry does at this moment.
    pub(crate) fn expire_due(&mut self) -> u32 {
        let due = self.replica.due(self.now, 200);
        self.expire(due)
    }

    pub(crate) fn how_ended(&self, token: TokenValue) -> Option<EndedHow> {
        self.machine().how_ended(token)
    }

    /// The node restarts from a snapshot of this moment.
    pub(crate) fn restart(&mut self) {
        let bytes = self.machine().snapshot().concat();
        self.replica.install(&bytes[..], self.now).unwrap();
    }
}
