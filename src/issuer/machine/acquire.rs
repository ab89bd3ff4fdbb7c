//! Acquire: who gets a resource, who waits, and what a request id that is known already gets to hear.

use super::Machine;
use crate::grant::{EndedHow, Grant, LeftHow};
use crate::issuer::grants::{Asked, Live};
use crate::issuer::requests::{CameOut, Known, Settled};
use crate::issuer::{Acquire, AcquireOutcome, Broken, Event, HeldBy, LogId};
use crate::resource::ResourceName;
use crate::token::{Token, TokenValue};

impl Machine {
    pub(super) fn acquire(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> Result<AcquireOutcome, Broken> {
        if let Some(replay) = self.replay(at, acquire)? {
            return Ok(replay);
        }
        if self.may_be_forgotten(at, acquire) {
            return Ok(AcquireOutcome::TooOld);
        }
        if let Some(Known::Marked(mark)) = self.requests.find(&acquire.request) {
            if acquire.attempt <= mark.attempt {
                let how = LeftHow::Withdrawn;
                return Ok(AcquireOutcome::Left { how });
            }
            self.requests.overtake(&acquire.request);
        }
        self.act(at, acquire, events)
    }

    /// An id that is new, or as good as new, takes effect or is refused.
    fn act(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> Result<AcquireOutcome, Broken> {
        let resource = &acquire.resource;
        if let Some(live) = self.grants.of(resource) {
            if live.grant.holder != acquire.holder {
                let refused = self.queue_or_refuse(at, acquire, events)?;
                return Ok(self.queued_or_refused(acquire, refused));
            }
            let token = live.grant.token.value();
            // The checks come before the first change.
            self.next_token(at)?;
            self.end(at, token, EndedHow::Superseded, None, events)?;
            return self.grant_anew(at, acquire, events);
        }
        let Some(head) = self.queues.head(resource).copied() else {
            return match self.full_for(acquire) {
                None => self.grant_anew(at, acquire, events),
                Some(came_out) => {
                    self.refuse(at, acquire, came_out)?;
                    Ok(self.refused(resource, came_out, false))
                }
            };
        };
        // Free, with a queue: between an entry that ended several grants and the promotion.
        if self.queues.of_holder(resource, &acquire.holder) == Some(&head) {
            self.leave(at, &head, LeftHow::Superseded, events)?;
            return self.grant_anew(at, acquire, events);
        }
        let refused = self.queue_or_refuse(at, acquire, events)?;
        self.grant_to_head(at, resource, acquire.stamped_at_ms, events)?;
        Ok(self.queued_or_refused(acquire, refused))
    }

    /// What a known request id gets to hear; `None` if it is not known, or only marked.
    fn replay(&mut self, at: LogId, acquire: &Acquire) -> Result<Option<AcquireOutcome>, Broken> {
        if let Some(place) = self.queues.get(&acquire.request) {
            if !same_call(&place.asked(), acquire) {
                return Ok(Some(AcquireOutcome::ParametersDiffer));
            }
            self.queues.note_attempt(&acquire.request, acquire.attempt);
            return Ok(Some(self.queued(acquire, true)));
        }
        let settled = match self.requests.find(&acquire.request) {
            None | Some(Known::Marked(_)) => return Ok(None),
            Some(Known::Live(token)) => return self.replay_live(at, acquire, token).map(Some),
            Some(Known::Settled(settled)) => settled,
        };
        if !same_call(&settled.asked, acquire) {
            return Ok(Some(AcquireOutcome::ParametersDiffer));
        }
        settled.asked.attempt = settled.asked.attempt.max(acquire.attempt);
        let came_out = settled.came_out;
        Ok(Some(self.refused(&acquire.resource, came_out, true)))
    }

    fn replay_live(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        token: TokenValue,
    ) -> Result<AcquireOutcome, Broken> {
        let what = "a request id names a live grant that is not there";
        let live = self
            .grants
            .get_mut(token)
            .ok_or(Broken::Inconsistent { at, what })?;
        if !same_call(&live.asked, acquire) {
            return Ok(AcquireOutcome::ParametersDiffer);
        }
        live.asked.attempt = live.asked.attempt.max(acquire.attempt);
        Ok(AcquireOutcome::Granted {
            token: live.grant.token,
            lease: live.grant.lease(),
            replayed: true,
            after_wait: live.grant.after_wait,
        })
    }

    /// Whether an unknown id may have been known once. An id was first applied after what its asker
    /// had seen, so it cannot be among the forgotten if the asker had seen the last of those.
    fn may_be_forgotten(&self, at: LogId, acquire: &Acquire) -> bool {
        acquire.asked_at.is_some_and(|asked| {
            asked.cluster != self.cluster
                || asked.applied < self.requests.forgotten_up_to()
                // An index that this cluster had not applied yet was not seen here.
                || asked.applied >= at.index
        })
    }

    /// Why a free resource without a queue cannot be granted, if it cannot. A queue whose resource is
    /// free is about to get it, so that grant counts already.
    fn full_for(&self, acquire: &Acquire) -> Option<CameOut> {
        let grants = self.grants.len() + self.queues.free().len();
        if grants as u64 >= self.bounds.live_grants_max {
            return Some(CameOut::TooManyGrants);
        }
        let has = self.holders.of(&acquire.holder);
        (has >= self.bounds.grants_per_holder_max).then_some(CameOut::TooManyGrantsOfHolder)
    }

    fn grant_anew(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> Result<AcquireOutcome, Broken> {
        let token = self.next_token(at)?;
        let grant = Grant {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            token,
            ttl: acquire.ttl,
            after_wait: false,
            renewals: 0,
            granted_at_ms: acquire.stamped_at_ms,
            expires_at_ms: acquire.stamped_at_ms.saturating_add(acquire.ttl.as_ms()),
        };
        let asked = asked(at, acquire);
        self.insert(at, Live { grant, asked }, events)?;
        Ok(AcquireOutcome::Granted {
            token,
            lease: acquire.ttl,
            replayed: false,
            after_wait: false,
        })
    }

    /// A new grant, whoever gets it: the one place where a token becomes the last one.
    pub(super) fn insert(
        &mut self,
        at: LogId,
        mut live: Live,
        events: &mut Vec<Event>,
    ) -> Result<Token, Broken> {
        live.grant.holder = self.holders.enter(&live.grant.holder);
        self.queues.set_taken(&live.grant.resource);
        let Grant {
            resource,
            holder,
            token,
            ttl,
            after_wait,
            ..
        } = live.grant.clone();
        let (lease, request) = (live.grant.lease(), live.asked.key);
        if !self.requests.granted(request, token.value()) || !self.grants.insert(live) {
            let what = "a free resource, or a new request id, has a grant";
            return Err(Broken::Inconsistent { at, what });
        }
        self.last_token = token.value().get();
        events.push(Event::Granted {
            resource,
            holder,
            token,
            ttl,
            lease,
            request,
            after_wait,
        });
        Ok(token)
    }

    /// A refusal is remembered too: nothing that comes later may turn it into a grant.
    pub(super) fn refuse(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        came_out: CameOut,
    ) -> Result<(), Broken> {
        self.settle(at, asked(at, acquire), came_out)
    }

    /// An id settles that has not settled before.
    pub(super) fn settle(
        &mut self,
        at: LogId,
        asked: Asked,
        came_out: CameOut,
    ) -> Result<(), Broken> {
        if self.requests.settle(Settled { asked, came_out }) {
            return Ok(());
        }
        let what = "a request id, or a token, settles a second time";
        Err(Broken::Inconsistent { at, what })
    }

    fn queued_or_refused(&self, acquire: &Acquire, refused: Option<CameOut>) -> AcquireOutcome {
        match refused {
            None => self.queued(acquire, false),
            Some(came_out) => self.refused(&acquire.resource, came_out, false),
        }
    }

    fn queued(&self, acquire: &Acquire, replayed: bool) -> AcquireOutcome {
        AcquireOutcome::Queued {
            position: self.queues.position(&acquire.request).unwrap_or_default(),
            queue: self.queues.len_of(&acquire.resource),
            replayed,
        }
    }

    /// What an id that has settled gets to hear, at once or later.
    fn refused(
        &self,
        resource: &ResourceName,
        came_out: CameOut,
        replayed: bool,
    ) -> AcquireOutcome {
        match came_out {
            CameOut::Ended { token, how } => AcquireOutcome::Ended { token, how },
            CameOut::Left(how) => AcquireOutcome::Left { how },
            CameOut::Held => AcquireOutcome::Held {
                by: self.grants.of(resource).map(held_by),
                queue: self.queues.len_of(resource),
                replayed,
            },
            CameOut::TooManyGrants => AcquireOutcome::TooManyGrants {
                limit: self.bounds.live_grants_max,
                replayed,
            },
            CameOut::TooManyWaiters { of_resource } => AcquireOutcome::TooManyWaiters {
                limit: if of_resource {
                    self.bounds.waiters_per_resource_max
                } else {
                    self.bounds.waiters_max
                },
                of_resource,
                replayed,
            },
            CameOut::TooManyGrantsOfHolder => AcquireOutcome::TooManyGrantsOfHolder {
                limit: self.bounds.grants_per_holder_max,
                replayed,
            },
        }
    }
}

/// Whether a send under a known id asks for what the first one asked for. Resource and holder are
/// part of the key.
fn same_call(known: &Asked, acquire: &Acquire) -> bool {
    known.ttl == acquire.ttl && known.wait_ms == acquire.wait_ms
}

fn asked(at: LogId, acquire: &Acquire) -> Asked {
    Asked {
        key: acquire.request,
        first_index: at.index,
        ttl: acquire.ttl,
        wait_ms: acquire.wait_ms,
        attempt: acquire.attempt,
    }
}

fn held_by(live: &Live) -> HeldBy {
    HeldBy {
        holder: live.grant.holder.clone(),
        token: live.grant.token,
    }
}
