//! The state machine: the state, and the one door through which it changes.

mod acquire;
mod admit;
mod end;
mod floor;
mod members;
mod queue;
mod read;
mod renew;
mod withdraw;

use std::collections::BTreeMap;

use crate::grant::ClusterId;
use crate::issuer::grants::Grants;
use crate::issuer::holders::Holders;
use crate::issuer::marks::Marks;
use crate::issuer::queues::Queues;
use crate::issuer::requests::Requests;
use crate::issuer::{Broken, Command, Event, LogId, Outcome, codec};
use crate::limits::{
    GRANTS_PER_HOLDER_MAX, LIVE_GRANTS_MAX, MARKS_MAX, REQUEST_IDS_SETTLED_MAX, TOKEN_TERM_SHIFT,
    TOKEN_VALUE_MAX, WAITERS_MAX, WAITERS_PER_RESOURCE_MAX,
};
use crate::resource::IssuerName;
use crate::token::{Token, TokenValue};

pub use admit::Weighed;
pub use members::{InstanceId, NodeId};
pub use read::{Page, Standing, StateDigest};

/// The replicated state. See the [module](crate::issuer) for what it promises.
#[derive(Debug)]
pub struct Machine {
    pub(super) issuer: IssuerName,
    pub(super) cluster: ClusterId,
    pub(super) bounds: Bounds,
    /// The last entry that was applied, of whatever kind.
    pub(super) applied: LogId,
    /// The value of the last token, 0 before the first.
    pub(super) last_token: u64,
    pub(super) floor: u64,
    /// The highest number that an operator raised the floor above: later tokens are greater, so no
    /// report of one up to here is news.
    pub(super) raised_above: u64,
    pub(super) chain: [u8; 32],
    pub(super) grants: Grants,
    pub(super) queues: Queues,
    pub(super) holders: Holders,
    pub(super) requests: Requests,
    pub(super) marks: Marks,
    pub(super) node_ids: BTreeMap<NodeId, InstanceId>,
    /// Bytes of the entry that is being hashed; kept, so that no entry allocates them anew.
    pub(super) scratch: Vec<u8>,
}

/// How much the state may hold. Part of the state itself, so that replicas cannot differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many settled request ids are remembered.
    pub settled_ids_max: u32,
    /// How many live grants there may be, those included that a queue is about to get.
    pub live_grants_max: u64,
    /// How many grants and places in queues one holder may have.
    pub grants_per_holder_max: u32,
    /// How many may wait, for whatever.
    pub waiters_max: u32,
    /// How many may wait for one resource.
    pub waiters_per_resource_max: u32,
    /// How many resources may have a mark in the cluster's own guard register.
    pub marks_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            settled_ids_max: REQUEST_IDS_SETTLED_MAX,
            live_grants_max: LIVE_GRANTS_MAX as u64,
            grants_per_holder_max: GRANTS_PER_HOLDER_MAX,
            waiters_max: WAITERS_MAX,
            waiters_per_resource_max: WAITERS_PER_RESOURCE_MAX,
            marks_max: MARKS_MAX,
        }
    }
}

/// What applying one entry gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The answer to whoever asked.
    pub outcome: Outcome,
    /// What changed, in order.
    pub events: Vec<Event>,
}

impl Machine {
    /// The state of a new cluster, before its first entry.
    #[must_use]
    pub fn new(issuer: IssuerName, cluster: ClusterId) -> Self {
        Self::with_bounds(issuer, cluster, Bounds::default())
    }

    /// The same with other bounds: tests use small ones to reach them.
    #[must_use]
    pub fn with_bounds(issuer: IssuerName, cluster: ClusterId, bounds: Bounds) -> Self {
        // Nothing would be remembered otherwise, not even for a moment.
        let bounds = Bounds {
            settled_ids_max: bounds.settled_ids_max.max(1),
            ..bounds
        };
        let mut founding = blake3::Hasher::new_derive_key("fencepost chain of applied entries v1");
        founding.update(&cluster.get().to_be_bytes());
        founding.update(issuer.as_str().as_bytes());
        Self {
            issuer,
            cluster,
            bounds,
            applied: LogId::default(),
            last_token: 0,
            floor: 0,
            raised_above: 0,
            chain: *founding.finalize().as_bytes(),
            grants: Grants::default(),
            queues: Queues::default(),
            holders: Holders::default(),
            requests: Requests::new(bounds.settled_ids_max),
            marks: Marks::default(),
            node_ids: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Applies the next entry of the log.
    ///
    /// `Err` means that an invariant does not hold. The node must stop then, and must not answer,
    /// apply or snapshot anything more: the state may be half changed.
    pub fn apply(&mut self, at: LogId, command: &Command) -> Result<Applied, Broken> {
        self.check_next(at)?;
        let mut events = Vec::new();
        let outcome = match command {
            Command::Acquire(acquire) => {
                Outcome::Acquire(self.acquire(at, acquire, &mut events)?)
            }
            Command::Renew(renew) => Outcome::Renew(self.renew(renew, &mut events)),
            Command::Release(release) => {
                Outcome::Release(self.release(at, *release, &mut events)?)
            }
            Command::Expire(expire) => self.expire(at, expire, &mut events)?,
            Command::Revoke(revoke) => Outcome::Revoke(self.revoke(at, revoke, &mut events)?),
            Command::RaiseFloor(raise) => {
                Outcome::RaiseFloor(self.raise_floor(at, *raise, &mut events))
            }
            Command::Withdraw(withdraw) => {
                Outcome::Withdraw(self.withdraw(at, withdraw, &mut events)?)
            }
            Command::Promote(promote) => {
                Outcome::Promote(self.promote(at, promote, &mut events)?)
            }
            Command::Admit(admit) => Outcome::Admit(self.admit(admit, &mut events)),
        };
        self.scratch.clear();
        codec::put_entry(&mut self.scratch, command, &outcome, &events);
        self.advance(at);
        Ok(Applied { outcome, events })
    }

    /// Applies an entry that carries nothing, as each new leader appends one.
    pub fn apply_blank(&mut self, at: LogId) -> Result<(), Broken> {
        self.check_next(at)?;
        self.scratch.clear();
        codec::put_blank(&mut self.scratch);
        self.advance(at);
        Ok(())
    }

    /// Each entry is the one after the last, and terms never fall (Raft paper, section 5.3).
    pub(super) fn check_next(&self, at: LogId) -> Result<(), Broken> {
        let next = at.index.checked_sub(self.applied.index) == Some(1);
        if next && at.term >= self.applied.term {
            return Ok(());
        }
        Err(Broken::NotNext {
            last: self.applied,
            next: at,
        })
    }

    /// Moves on to the entry whose bytes are in `scratch`: it becomes a link of the chain.
    pub(super) fn advance(&mut self, at: LogId) {
        let mut link = blake3::Hasher::new();
        link.update(&self.chain);
        link.update(&at.term.to_be_bytes())
            .update(&at.index.to_be_bytes());
        link.update(&self.scratch);
        self.chain = *link.finalize().as_bytes();
        self.applied = at;
    }

    /// What every token to come is greater than.
    pub(super) fn passed(&self) -> u64 {
        let sum = sum(self.applied).unwrap_or(u64::MAX);
        sum.saturating_add(self.floor)
    }

    /// The token that a grant of this entry gets. Checked here, before anything changes.
    fn next_token(&self, at: LogId) -> Result<Token, Broken> {
        let value = sum(at).and_then(|sum| sum.checked_add(self.floor));
        let value = value.filter(|value| *value <= TOKEN_VALUE_MAX);
        let Some(value) = value else {
            return Err(Broken::TokenSpaceExhausted {
                at,
                floor: self.floor,
            });
        };
        if value <= self.last_token {
            return Err(Broken::TokenNotRising {
                at,
                value,
                last: self.last_token,
            });
        }
        match TokenValue::new(value) {
            Ok(value) => Ok(Token::new(value, at.term, at.index)),
            Err(_) => Err(Broken::TokenSpaceExhausted {
                at,
                floor: self.floor,
            }),
        }
    }
}

/// What the log position alone gives to a token: `term * 2^16 + index`.
fn sum(at: LogId) -> Option<u64> {
    at.term
        .checked_mul(1 << TOKEN_TERM_SHIFT)?
        .checked_add(at.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::{RequestId, Ttl};
    use crate::issuer::requests::Settlement;
    use crate::issuer::{Acquire, Release, RequestKey};
    use crate::resource::{Holder, ResourceName};

    fn machine() -> Machine {
        Machine::new(IssuerName::new("test").unwrap(), ClusterId::new(1))
    }

    fn acquire(attempt: u32) -> Command {
        let (resource, holder) = (ResourceName::new("r").unwrap(), Holder::new("h").unwrap());
        let request = RequestKey::new(&RequestId::from([7; 16]), &resource, &holder);
        let (ttl, asked_at, wait_ms, stamped_at_ms) = (Ttl::default(), None, 0, 1);
        let acquire = Acquire {
            resource,
            holder,
            ttl,
            request,
            attempt,
            asked_at,
            wait_ms,
            stamped_at_ms,
        };
        Command::Acquire(acquire)
    }

    #[test]
    fn a_token_that_would_not_rise_breaks() {
        // No log leads here. A state that was damaged could.
        for last in [65_537, 65_538, TOKEN_VALUE_MAX] {
            let mut machine = machine();
            machine.last_token = last;
            let at = LogId::new(1, 1);
            let broken = Broken::TokenNotRising {
                at,
                value: 65_537,
                last,
            };
            assert_eq!(machine.apply(at, &acquire(1)), Err(broken));
            assert_eq!(machine.grants.len(), 0);
        }
    }

    #[test]
    fn the_highest_attempt_of_an_id_is_kept_while_it_lives_and_when_it_has_settled() {
        let mut machine = machine();
        for (index, attempt, kept) in [(1, 2, 2), (2, 1, 2), (3, 4, 4)] {
            machine
                .apply(LogId::new(1, index), &acquire(attempt))
                .unwrap();
            assert_eq!(machine.grants.iter().next().unwrap().asked.attempt, kept);
        }
        let token = machine.last_token().unwrap();
        let release = Command::Release(Release {
            token,
            stamped_at_ms: 1,
        });
        machine.apply(LogId::new(1, 4), &release).unwrap();
        for (index, attempt, kept) in [(5, 3, 4), (6, 9, 9)] {
            machine
                .apply(LogId::new(1, index), &acquire(attempt))
                .unwrap();
            let Some(Settlement::Settled(settled)) = machine.requests.settled().next() else {
                panic!("the id has not settled");
            };
            assert_eq!(settled.asked.attempt, kept);
        }
    }

    #[test]
    fn the_chain_tells_histories_apart_that_end_alike() {
        let mut chains = std::collections::BTreeSet::new();
        for attempts in [[1, 2, 3], [2, 2, 3], [1, 1, 3]] {
            let mut machine = machine();
            for (index, attempt) in (1..).zip(attempts) {
                machine
                    .apply(LogId::new(1, index), &acquire(attempt))
                    .unwrap();
            }
            chains.insert(machine.chain());
        }
        // The term counts too, of entries that carry nothing as of all others.
        for term in [1, 2] {
            let mut machine = machine();
            machine.apply_blank(LogId::new(term, 1)).unwrap();
            chains.insert(machine.chain());
        }
        assert_eq!(chains.len(), 5);
    }
}
