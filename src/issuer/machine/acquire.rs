//! Acquire: who gets a resource, and what a request id that is known already gets to hear.

use super::Machine;
use crate::grant::{EndedHow, Grant};
use crate::issuer::grants::{Asked, Live};
use crate::issuer::requests::{CameOut, Known, Settled};
use crate::issuer::{Acquire, AcquireOutcome, Broken, Event, HeldBy, LogId};
use crate::resource::ResourceName;
use crate::token::TokenValue;

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
        if let Some(live) = self.grants.of(&acquire.resource) {
            if live.grant.holder != acquire.holder {
                let by = Some(held_by(live));
                self.refuse(at, acquire, CameOut::Held)?;
                return Ok(AcquireOutcome::Held {
                    by,
                    replayed: false,
                });
            }
            let token = live.grant.token.value();
            // The checks come before the first change.
            self.next_token(at)?;
            self.end(at, token, EndedHow::Superseded, None, events)?;
        } else if self.grants.len() as u64 >= self.bounds.live_grants_max {
            self.refuse(at, acquire, CameOut::TooManyGrants)?;
            return Ok(self.too_many(false));
        }
        self.grant_anew(at, acquire, events)
    }

    /// What a known request id gets to hear; `None` if it is not known.
    fn replay(&mut self, at: LogId, acquire: &Acquire) -> Result<Option<AcquireOutcome>, Broken> {
        let settled = match self.requests.find(&acquire.request) {
            None => return Ok(None),
            Some(Known::Live(token)) => return self.replay_live(at, acquire, token).map(Some),
            Some(Known::Settled(settled)) => settled,
        };
        if !same_call(&settled.asked, acquire) {
            return Ok(Some(AcquireOutcome::ParametersDiffer));
        }
        settled.asked.attempt = settled.asked.attempt.max(acquire.attempt);
        let outcome = match settled.came_out {
            CameOut::Ended { token, how } => AcquireOutcome::Ended { token, how },
            CameOut::Held => self.still_held(&acquire.resource),
            CameOut::TooManyGrants => self.too_many(true),
        };
        Ok(Some(outcome))
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
        let Grant { token, ttl, .. } = live.grant;
        Ok(AcquireOutcome::Granted {
            token,
            lease: ttl,
            replayed: true,
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
            renewals: 0,
            granted_at_ms: acquire.stamped_at_ms,
            expires_at_ms: acquire.stamped_at_ms.saturating_add(acquire.ttl.as_ms()),
        };
        let remembered = self.requests.granted(acquire.request, token.value());
        if !remembered
            || !self.grants.insert(Live {
                grant,
                asked: asked(at, acquire),
            })
        {
            let what = "a free resource, or a new request id, has a grant";
            return Err(Broken::Inconsistent { at, what });
        }
        self.last_token = token.value().get();
        events.push(Event::Granted {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            token,
            ttl: acquire.ttl,
            request: acquire.request,
        });
        Ok(AcquireOutcome::Granted {
            token,
            lease: acquire.ttl,
            replayed: false,
        })
    }

    /// A refusal is remembered too: nothing that comes later may turn it into a grant.
    fn refuse(&mut self, at: LogId, acquire: &Acquire, came_out: CameOut) -> Result<(), Broken> {
        if self.requests.settle(Settled {
            asked: asked(at, acquire),
            came_out,
        }) {
            return Ok(());
        }
        Err(Broken::Inconsistent {
            at,
            what: "an unknown request id had settled",
        })
    }

    fn still_held(&self, resource: &ResourceName) -> AcquireOutcome {
        AcquireOutcome::Held {
            by: self.grants.of(resource).map(held_by),
            replayed: true,
        }
    }

    fn too_many(&self, replayed: bool) -> AcquireOutcome {
        AcquireOutcome::TooManyGrants {
            limit: self.bounds.live_grants_max,
            replayed,
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
