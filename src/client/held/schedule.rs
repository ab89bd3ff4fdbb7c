//! What is due when, for all leases of one client. Pure: `now` is an argument, and nothing waits.
//!
//! Each lease has one entry in the order of time: its next renewal, or, while one is under way, the moment
//! at which it is lost. Leases that fall due close together are renewed together, and are together from
//! then on, so that thousands of leases cost a few messages a second.

use super::lease::Lease;
use super::lost::LostHow;
use crate::client::clock::BootInstant;
use crate::client::{Error, RenewOutcome, Renewal};
use crate::grant::EndedHow;
use crate::limits::RENEWALS_PER_COMMAND_MAX;
use crate::resource::{Holder, ResourceName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How much sooner than it must a lease is renewed to go along with others. Never by more than a twelfth of
/// the lease.
const TOGETHER: Duration = Duration::from_millis(250);
/// The pause after a failed renewal, through an election for instance. Never more than a sixth of the lease.
const RETRY: Duration = Duration::from_millis(100);
/// The pause after a failure that another try will hardly mend; it is tried all the same, for as long as the
/// lease lives.
const RETRY_HOPELESS: Duration = Duration::from_secs(1);
/// How long a silent node is waited for first, at least, however short the lease.
const FIRST_SEND_MIN: Duration = Duration::from_millis(50);

/// A lease by the order of its arrival in this client.
pub(super) type LeaseId = u64;

/// All leases that a client keeps alive.
#[derive(Default)]
pub(super) struct Schedule {
    leases: BTreeMap<LeaseId, Entry>,
    due: BTreeSet<(BootInstant, LeaseId)>,
    /// The newest grant of each holder: it supersedes the one before.
    newest: BTreeMap<(ResourceName, Holder), LeaseId>,
    ids: LeaseId,
}

struct Entry {
    lease: Arc<Lease>,
    /// `None` while a renewal is under way.
    renew_at: Option<BootInstant>,
    /// Where it stands in the order of time.
    next: BootInstant,
}

/// Leases to be renewed by one message.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) ids: Vec<LeaseId>,
    pub(super) renewals: Vec<Renewal>,
    /// When the last of them is lost.
    pub(super) until: BootInstant,
    /// How long a silent node is waited for at first.
    pub(super) first_send: Duration,
    /// How long to try before telling what stands in the way.
    pub(super) within: Duration,
}

/// What there is to do now.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) batches: Vec<Batch>,
    /// Ran out: to be released, since a renewal may have got through after all.
    pub(super) ran_out: Vec<Renewal>,
}

impl Schedule {
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// When there is something to do next.
    pub(super) fn next(&self) -> Option<BootInstant> {
        self.due.first().map(|(moment, _)| *moment)
    }

    /// Keeps `lease` alive from now on. An older grant of the same holder that is still kept is superseded.
    pub(super) fn insert(&mut self, now: BootInstant, lease: Arc<Lease>) -> LeaseId {
        self.ids += 1;
        let id = self.ids;
        let (resource, holder) = (&lease.acquired.resource, &lease.acquired.holder);
        let other = self.newest.get(&(resource.clone(), holder.clone()));
        let token = |id: &LeaseId| self.leases.get(id).map(|entry| entry.lease.acquired.token);
        let superseded = match other.map(|id| (*id, token(id))) {
            Some((_, Some(other))) if other > lease.acquired.token => Some(id),
            other => {
                let key = (resource.clone(), holder.clone());
                self.newest.insert(key, id);
                other.map(|(id, _)| id)
            }
        };
        let standing = lease.standing(now);
        let entry = Entry {
            lease,
            renew_at: Some(standing.renew_at(now)),
            next: now,
        };
        self.leases.insert(id, entry);
        self.due.insert((now, id));
        self.place(id, now);
        if let Some(id) = superseded
            && let Some(lease) = self.remove(id)
        {
            lease.lose(LostHow::Ended(EndedHow::Superseded));
        }
        id
    }

    /// Keeps it alive no longer.
    pub(super) fn remove(&mut self, id: LeaseId) -> Option<Arc<Lease>> {
        let entry = self.leases.remove(&id)?;
        self.due.remove(&(entry.next, id));
        let acquired = &entry.lease.acquired;
        let key = (acquired.resource.clone(), acquired.holder.clone());
        if self.newest.get(&key) == Some(&id) {
            self.newest.remove(&key);
        }
        Some(entry.lease)
    }

    /// Nobody keeps them alive any more.
    pub(super) fn abandon(&mut self) {
        self.due.clear();
        self.newest.clear();
        // Ids go on: a handle of before must not mean a lease of later.
        for entry in std::mem::take(&mut self.leases).into_values() {
            entry.lease.lose(LostHow::Stopped);
        }
    }

    /// Puts an entry where it belongs in the order of time.
    fn place(&mut self, id: LeaseId, now: BootInstant) {
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        self.due.remove(&(entry.next, id));
        let lost_at = entry.lease.standing(now).lost_at;
        entry.next = entry.renew_at.unwrap_or(lost_at).min(lost_at);
        self.due.insert((entry.next, id));
    }

    /// What is due at `now`: first what is lost, then what is to be renewed, with what can go along.
    pub(super) fn turn(&mut self, now: BootInstant) -> Turn {
        let mut turn = Turn::default();
        let mut together = Vec::new();
        let mut must = false;
        let horizon = (now.plus(TOGETHER), LeaseId::MAX);
        let near: Vec<_> = self.due.range(..=horizon).map(|(_, id)| *id).collect();
        for id in near {
            let Some(entry) = self.leases.get(&id) else {
                continue;
            };
            let standing = entry.lease.standing(now);
            if standing.lost().is_some() {
                turn.ran_out.push(entry.lease.acquired.renewal());
                self.remove(id);
            } else if let Some(renew_at) = entry.renew_at
                && renew_at.since(now) <= standing.lease / 12
            {
                must |= renew_at <= now;
                together.push((standing.lease, standing.lost_at, id));
            }
        }
        if must {
            // Leases of one length go together: the shortest in a message decides how patient it can be.
            together.sort_unstable();
            for chunk in together.chunks(RENEWALS_PER_COMMAND_MAX) {
                let batch = self.batch(chunk, now);
                turn.batches.push(batch);
            }
        }
        turn
    }

    fn batch(&mut self, chunk: &[(Duration, BootInstant, LeaseId)], now: BootInstant) -> Batch {
        let shortest = chunk.first().map_or(Duration::ZERO, |(lease, ..)| *lease);
        let mut batch = Batch {
            ids: Vec::with_capacity(chunk.len()),
            renewals: Vec::with_capacity(chunk.len()),
            until: now,
            first_send: (shortest / 6).max(FIRST_SEND_MIN),
            within: (shortest / 4).max(FIRST_SEND_MIN * 2),
        };
        for (_, lost_at, id) in chunk {
            if let Some(entry) = self.leases.get_mut(id) {
                entry.renew_at = None;
                batch.ids.push(*id);
                batch.renewals.push(entry.lease.acquired.renewal());
                batch.until = batch.until.max(*lost_at);
            }
            self.place(*id, now);
        }
        batch
    }

    /// Takes note of how a message came out. Gives those that were renewed although they are not kept any
    /// more: to be released.
    pub(super) fn settle(
        &mut self,
        now: BootInstant,
        batch: &Batch,
        outcomes: Result<Vec<RenewOutcome>, Option<Arc<Error>>>,
    ) -> Vec<Renewal> {
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(cause) => {
                self.retry(now, batch, cause);
                return Vec::new();
            }
        };
        let mut late = Vec::new();
        for ((id, renewal), outcome) in batch.ids.iter().zip(&batch.renewals).zip(outcomes) {
            let alive = matches!(outcome, RenewOutcome::Renewed { .. });
            let kept = self.leases.get_mut(id).is_some_and(|entry| match outcome {
                RenewOutcome::Renewed { lease, safe_until } => {
                    entry.renew_at = Some(safe_until.minus(lease - lease / 3));
                    entry.lease.renewed(now, safe_until, lease)
                }
                RenewOutcome::Ended(ended) => {
                    entry.lease.lose(LostHow::Ended(ended.how));
                    false
                }
                RenewOutcome::Unknown => {
                    entry.lease.lose(LostHow::Unknown);
                    false
                }
            });
            if kept {
                self.place(*id, now);
                continue;
            }
            self.remove(*id);
            if alive {
                late.push(renewal.clone());
            }
        }
        late
    }

    /// The message failed as a whole: try again soon.
    fn retry(&mut self, now: BootInstant, batch: &Batch, cause: Option<Arc<Error>>) {
        let hopeless = cause.as_ref().is_some_and(|cause| !cause.may_retry());
        let pause = if hopeless { RETRY_HOPELESS } else { RETRY };
        for id in &batch.ids {
            let Some(entry) = self.leases.get_mut(id) else {
                continue;
            };
            if let Some(cause) = &cause {
                entry.lease.not_renewed(cause);
            }
            let lease = entry.lease.standing(now).lease;
            entry.renew_at = Some(now.plus(pause.min(lease / 6)));
            self.place(*id, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease::tests::{at, granted};
    use super::*;
    use crate::client::Ended;

    const TTL: Duration = Duration::from_secs(30);

    fn insert(schedule: &mut Schedule, name: &str, index: u64, start: u64) -> Arc<Lease> {
        let acquired = granted(name, index, TTL, Some(at(start)));
        let lease = Arc::new(Lease::new(acquired, at(start)));
        schedule.insert(at(start), Arc::clone(&lease));
        lease
    }

    fn renewed(sent: u64) -> RenewOutcome {
        RenewOutcome::Renewed {
            lease: TTL,
            safe_until: at(sent).plus(TTL),
        }
    }

    fn the_batch(schedule: &mut Schedule, now: u64) -> Batch {
        let mut turn = schedule.turn(at(now));
        assert_eq!(turn.batches.len(), 1);
        turn.batches.remove(0)
    }

    #[test]
    fn a_lease_is_renewed_at_a_third_and_again_a_third_later() {
        let mut schedule = Schedule::default();
        insert(&mut schedule, "a", 1, 0);
        assert_eq!(schedule.next(), Some(at(10_000)));
        assert!(schedule.turn(at(9_999)).batches.is_empty());
        let batch = the_batch(&mut schedule, 10_000);
        assert_eq!(batch.until, at(29_900));
        assert_eq!(schedule.next(), Some(at(29_900)), "nothing else to do");
        assert!(schedule.turn(at(20_000)).batches.is_empty());
        schedule.settle(at(10_050), &batch, Ok(vec![renewed(10_000)]));
        assert_eq!(schedule.next(), Some(at(20_000)));
    }

    #[test]
    fn leases_that_fall_due_close_together_go_together() {
        let mut schedule = Schedule::default();
        for (index, start) in [(1, 0), (2, 100), (3, 240), (4, 2_000)] {
            insert(&mut schedule, &format!("r{index}"), index, start);
        }
        let batch = the_batch(&mut schedule, 10_000);
        assert_eq!(batch.ids.len(), 3);
        schedule.settle(at(10_001), &batch, Ok(vec![renewed(10_000); 3]));
        assert_eq!(the_batch(&mut schedule, 12_000).ids.len(), 1);
        assert_eq!(the_batch(&mut schedule, 20_000).ids.len(), 3);
    }

    #[test]
    fn a_message_carries_no_more_than_the_wire_allows() {
        let mut schedule = Schedule::default();
        for index in 0..1_000 {
            insert(&mut schedule, &format!("r{index}"), index + 1, 0);
        }
        let sizes: Vec<_> = schedule.turn(at(10_000)).batches;
        let sizes: Vec<_> = sizes.iter().map(|batch| batch.renewals.len()).collect();
        assert_eq!(sizes, [400, 400, 200]);
    }

    #[test]
    fn each_lease_has_its_own_outcome() {
        let mut schedule = Schedule::default();
        let leases = ["a", "b", "c"].map(|name| insert(&mut schedule, name, 1, 0));
        let batch = the_batch(&mut schedule, 10_000);
        let ended = Ended {
            token: leases[0].acquired.token,
            how: EndedHow::Revoked,
        };
        let outcomes = vec![
            RenewOutcome::Ended(ended),
            renewed(10_000),
            RenewOutcome::Unknown,
        ];
        assert!(schedule.settle(at(10_100), &batch, Ok(outcomes)).is_empty());
        let how = leases.map(|lease| lease.standing(at(10_100)).lost().map(|lost| lost.how()));
        let revoked = LostHow::Ended(EndedHow::Revoked);
        assert_eq!(how, [Some(revoked), None, Some(LostHow::Unknown)]);
        assert_eq!(the_batch(&mut schedule, 20_000).ids.len(), 1);
    }

    #[test]
    fn a_failed_message_is_tried_again_soon_until_the_lease_is_lost() {
        let mut schedule = Schedule::default();
        let lease = insert(&mut schedule, "a", 1, 0);
        let mut now = 10_000;
        let mut tries = 0;
        while lease.standing(at(now)).lost().is_none() {
            let batch = the_batch(&mut schedule, now);
            schedule.settle(at(now), &batch, Err(None));
            tries += 1;
            now += 100;
            assert!(now > 29_900 || schedule.next() == Some(at(now).min(at(29_900))));
        }
        assert_eq!(tries, 199);
        let turn = schedule.turn(at(now));
        assert_eq!(turn.ran_out.len(), 1, "it is given back");
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_success_that_comes_after_the_end_is_given_back() {
        let mut schedule = Schedule::default();
        insert(&mut schedule, "a", 1, 0);
        let batch = the_batch(&mut schedule, 10_000);
        assert_eq!(schedule.turn(at(29_900)).ran_out.len(), 1);
        let late = schedule.settle(at(29_950), &batch, Ok(vec![renewed(29_000)]));
        assert_eq!(late, batch.renewals);
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_lease_that_is_let_go_is_not_renewed() {
        let mut schedule = Schedule::default();
        let lease = Arc::new(Lease::new(granted("a", 1, TTL, None), at(0)));
        let id = schedule.insert(at(0), lease);
        assert!(schedule.remove(id).is_some());
        assert_eq!((schedule.next(), schedule.is_empty()), (None, true));
    }

    #[test]
    fn the_holder_asking_again_ends_its_older_handle() {
        let mut schedule = Schedule::default();
        let older = insert(&mut schedule, "a", 1, 0);
        let newer = insert(&mut schedule, "a", 2, 100);
        let late = insert(&mut schedule, "a", 1, 200);
        let how = |lease: &Arc<Lease>| lease.standing(at(300)).lost().map(|lost| lost.how());
        let superseded = Some(LostHow::Ended(EndedHow::Superseded));
        assert_eq!(how(&older), superseded);
        assert_eq!(how(&late), superseded, "whichever arrives first");
        assert_eq!(how(&newer), None);
        assert_eq!(the_batch(&mut schedule, 10_100).ids.len(), 1);
    }

    #[test]
    fn ids_are_not_used_again_after_the_runtime_has_gone() {
        let mut schedule = Schedule::default();
        let lease = insert(&mut schedule, "a", 1, 0);
        schedule.abandon();
        let how = lease.standing(at(1)).lost().map(|lost| lost.how());
        assert_eq!(how, Some(LostHow::Stopped));
        let id = schedule.insert(at(2), lease);
        assert_eq!(id, 2);
    }
}
