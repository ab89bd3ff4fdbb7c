//! The oracle's side of asking: acquire, wait, withdraw, promote.

use fencepost::grant::{EndedHow, LeftHow};
use fencepost::issuer::{
    Acquire, AcquireOutcome, Event, HeldBy, Leaving, LogId, Promote, PromoteOutcome, RequestKey,
    Standing, Withdraw, WithdrawOutcome,
};
use fencepost::resource::{Holder, ResourceName};
use fencepost::token::{Token, TokenValue};

use super::{Asked, CameOut, Made, Oracle};

impl Oracle {
    pub(super) fn acquire(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> AcquireOutcome {
        let known = self.known(&acquire.request);
        if let Some(known) = known
            && self.asked[known].came_out != CameOut::Marked
        {
            return self.replay(known, acquire);
        }
        if self.too_old(at, acquire) {
            return AcquireOutcome::TooOld;
        }
        if let Some(marked) = known {
            if self.asked[marked].attempt >= acquire.attempt {
                let how = LeftHow::Withdrawn;
                return AcquireOutcome::Left { how };
            }
            self.asked[marked].came_out = CameOut::Overtaken;
        }
        let first_in_line = self.line_of(&acquire.resource).first().copied();
        match (self.held(&acquire.resource), first_in_line) {
            (Some(held), _) if self.made[held].holder == acquire.holder => {
                self.end(held, EndedHow::Superseded, None, events);
                let asked = self.remember(at, acquire, CameOut::Waiting);
                self.make(at, asked, false, acquire.stamped_at_ms, events);
            }
            (Some(_), _) => self.wait_or_refuse(at, acquire, events),
            (None, None) => {
                let came_out = self.full(acquire).unwrap_or(CameOut::Waiting);
                let asked = self.remember(at, acquire, came_out);
                if came_out == CameOut::Waiting {
                    self.make(at, asked, false, acquire.stamped_at_ms, events);
                }
            }
            (None, Some(first)) if self.asked[first].holder == acquire.holder => {
                self.leave(first, LeftHow::Superseded, events);
                let asked = self.remember(at, acquire, CameOut::Waiting);
                self.make(at, asked, false, acquire.stamped_at_ms, events);
            }
            (None, Some(_)) => {
                self.wait_or_refuse(at, acquire, events);
                self.grant_first(at, &acquire.resource, acquire.stamped_at_ms, events);
            }
        }
        self.answer(self.asked.len() - 1, false)
    }

    fn known(&self, key: &RequestKey) -> Option<usize> {
        let found = |asked: &Asked| asked.key == *key && self.knows(asked);
        self.asked.iter().position(found)
    }

    fn held(&self, resource: &ResourceName) -> Option<usize> {
        self.made
            .iter()
            .position(|made| made.ended.is_none() && made.resource == *resource)
    }

    fn too_old(&self, at: LogId, acquire: &Acquire) -> bool {
        let Some(asked_at) = acquire.asked_at else {
            return false;
        };
        let elsewhere = asked_at.cluster != self.cluster;
        let from_the_future = asked_at.applied >= at.index;
        let overtaken = self.asked.iter().any(|asked| {
            self.forgotten(asked)
                && asked.came_out != CameOut::Overtaken
                && asked.first_index > asked_at.applied
        });
        elsewhere || from_the_future || overtaken
    }

    /// How much a holder has, and waits for.
    fn count_of(&self, holder: &Holder) -> u32 {
        let has = self.live().filter(|made| made.holder == *holder).count();
        let waits = self.waiting().filter(|asked| asked.holder == *holder);
        u32::try_from(has + waits.count()).unwrap()
    }

    fn full(&self, acquire: &Acquire) -> Option<CameOut> {
        let mut promised: Vec<_> = self.waiting().map(|asked| &asked.resource).collect();
        promised.retain(|resource| self.held(resource).is_none());
        promised.sort();
        promised.dedup();
        if (self.live().count() + promised.len()) as u64 >= self.bounds.live_grants_max {
            return Some(CameOut::TooMany);
        }
        let full = self.count_of(&acquire.holder) >= self.bounds.grants_per_holder_max;
        full.then_some(CameOut::TooManyOfHolder)
    }

    fn wait_or_refuse(&mut self, at: LogId, acquire: &Acquire, events: &mut Vec<Event>) {
        let line = self.line_of(&acquire.resource);
        let own = line
            .iter()
            .copied()
            .find(|place| self.asked[*place].holder == acquire.holder);
        let refusal = if acquire.wait_ms == 0 {
            Some(CameOut::Held)
        } else if own.is_some() {
            None
        } else if line.len() >= self.bounds.waiters_per_resource_max as usize {
            Some(CameOut::TooManyWaiters { of_resource: true })
        } else if self.line.len() >= self.bounds.waiters_max as usize {
            Some(CameOut::TooManyWaiters { of_resource: false })
        } else if self.count_of(&acquire.holder) >= self.bounds.grants_per_holder_max {
            Some(CameOut::TooManyOfHolder)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.remember(at, acquire, refusal);
            return;
        }
        // A place that is taken over is put back where it was.
        let mut stands = self.line.len();
        if let Some(own) = own {
            stands = self.line.iter().position(|place| *place == own).unwrap();
            self.leave(own, LeftHow::Superseded, events);
        }
        let asked = self.remember(at, acquire, CameOut::Waiting);
        self.line.insert(stands, asked);
        events.push(Event::Queued {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            request: acquire.request,
            attempt: acquire.attempt,
            position: self.position(asked),
            ttl: acquire.ttl,
            wait_ms: acquire.wait_ms,
        });
    }

    pub(crate) fn position(&self, asked: usize) -> u32 {
        let line = self.line_of(&self.asked[asked].resource);
        let at = line.iter().position(|place| *place == asked).unwrap();
        u32::try_from(at + 1).unwrap()
    }

    fn remember(&mut self, at: LogId, acquire: &Acquire, came_out: CameOut) -> usize {
        let settled = (came_out != CameOut::Waiting).then(|| self.settlement());
        self.asked.push(Asked {
            key: acquire.request,
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            attempt: acquire.attempt,
            first_index: at.index,
            ttl: acquire.ttl,
            wait_ms: acquire.wait_ms,
            came_out,
            settled,
        });
        self.asked.len() - 1
    }

    fn replay(&mut self, known: usize, acquire: &Acquire) -> AcquireOutcome {
        let asked = &mut self.asked[known];
        if asked.ttl != acquire.ttl || asked.wait_ms != acquire.wait_ms {
            return AcquireOutcome::ParametersDiffer;
        }
        asked.attempt = asked.attempt.max(acquire.attempt);
        self.answer(known, true)
    }

    fn answer(&self, of: usize, replayed: bool) -> AcquireOutcome {
        let asked = &self.asked[of];
        let queue = u32::try_from(self.line_of(&asked.resource).len()).unwrap();
        match asked.came_out {
            CameOut::Granted(made) => {
                let made = &self.made[made];
                match made.ended {
                    Some(how) => AcquireOutcome::Ended {
                        token: made.token,
                        how,
                    },
                    None => AcquireOutcome::Granted {
                        token: made.token,
                        lease: made.lease(),
                        replayed,
                        after_wait: made.after_wait,
                    },
                }
            }
            CameOut::Waiting => AcquireOutcome::Queued {
                position: self.position(of),
                queue,
                replayed,
            },
            CameOut::Held => {
                let by = self.held(&asked.resource).map(|held| HeldBy {
                    holder: self.made[held].holder.clone(),
                    token: self.made[held].token,
                });
                AcquireOutcome::Held {
                    by,
                    queue,
                    replayed,
                }
            }
            CameOut::TooMany => AcquireOutcome::TooManyGrants {
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
            CameOut::TooManyOfHolder => AcquireOutcome::TooManyGrantsOfHolder {
                limit: self.bounds.grants_per_holder_max,
                replayed,
            },
            CameOut::Left(how) => AcquireOutcome::Left { how },
            CameOut::Marked | CameOut::Overtaken => unreachable!("no answer to a mark"),
        }
    }

    /// How a request stands now.
    pub(crate) fn standing(&self, key: &RequestKey) -> Standing {
        let Some(known) = self.known(key) else {
            return Standing::Unknown;
        };
        match self.answer_if_asked(known) {
            None => Standing::Unknown,
            Some(AcquireOutcome::Queued {
                position, queue, ..
            }) => Standing::Waiting {
                position,
                queue,
                attempt: self.asked[known].attempt,
            },
            Some(AcquireOutcome::Granted {
                token,
                lease,
                after_wait,
                ..
            }) => Standing::Granted {
                token,
                lease,
                after_wait,
            },
            Some(AcquireOutcome::Ended { token, how }) => Standing::Ended { token, how },
            Some(AcquireOutcome::Left { how }) => Standing::Left { how },
            Some(_) => Standing::Refused,
        }
    }

    fn answer_if_asked(&self, known: usize) -> Option<AcquireOutcome> {
        let marked = self.asked[known].came_out == CameOut::Marked;
        (!marked).then(|| self.answer(known, true))
    }

    fn make(
        &mut self,
        at: LogId,
        asked: usize,
        after_wait: bool,
        stamp: u64,
        events: &mut Vec<Event>,
    ) {
        let value = self.floor + u128::from(at.term) * 65_536 + u128::from(at.index);
        let value = TokenValue::new(u64::try_from(value).unwrap()).unwrap();
        let token = Token::new(value, at.term, at.index);
        self.asked[asked].came_out = CameOut::Granted(self.made.len());
        let Asked {
            resource,
            holder,
            ttl,
            key,
            ..
        } = self.asked[asked].clone();
        let mut made = Made {
            resource: resource.clone(),
            holder: holder.clone(),
            token,
            ttl,
            after_wait,
            renewals: 0,
            granted_at_ms: stamp,
            expires_at_ms: 0,
            ended: None,
            request: asked,
        };
        let lease = made.lease();
        made.expires_at_ms = stamp + lease.as_ms();
        self.made.push(made);
        events.push(Event::Granted {
            resource,
            holder,
            token,
            ttl,
            lease,
            request: key,
            after_wait,
        });
    }

    /// Whoever is first in line gets a free resource.
    pub(super) fn grant_first(
        &mut self,
        at: LogId,
        resource: &ResourceName,
        stamp: u64,
        events: &mut Vec<Event>,
    ) {
        if let Some(first) = self.line_of(resource).first().copied() {
            self.line.retain(|place| *place != first);
            self.make(at, first, true, stamp, events);
        }
    }

    pub(super) fn promote(
        &mut self,
        at: LogId,
        promote: &Promote,
        events: &mut Vec<Event>,
    ) -> PromoteOutcome {
        if self.held(&promote.resource).is_none() {
            self.grant_first(at, &promote.resource, promote.stamped_at_ms, events);
        }
        match events.last() {
            Some(Event::Granted { token, request, .. }) => PromoteOutcome::Granted {
                token: *token,
                request: *request,
            },
            _ => PromoteOutcome::Nothing,
        }
    }

    fn leave(&mut self, place: usize, how: LeftHow, events: &mut Vec<Event>) {
        self.line.retain(|waiting| *waiting != place);
        let settlement = self.settlement();
        let asked = &mut self.asked[place];
        asked.came_out = CameOut::Left(how);
        asked.settled = Some(settlement);
        events.push(Event::Left {
            resource: asked.resource.clone(),
            holder: asked.holder.clone(),
            request: asked.key,
            how,
        });
    }

    pub(super) fn withdraw(
        &mut self,
        at: LogId,
        withdraw: &Withdraw,
        events: &mut Vec<Event>,
    ) -> Vec<WithdrawOutcome> {
        let each = withdraw.places.iter();
        each.map(|leaving| self.withdraw_one(at, *leaving, withdraw.how, events))
            .collect()
    }

    fn withdraw_one(
        &mut self,
        at: LogId,
        leaving: Leaving,
        how: LeftHow,
        events: &mut Vec<Event>,
    ) -> WithdrawOutcome {
        let Some(known) = self.known(&leaving.request) else {
            if how != LeftHow::Withdrawn {
                return WithdrawOutcome::Unknown;
            }
            let settled = Some(self.settlement());
            self.asked.push(Asked {
                key: leaving.request,
                // Nobody looks at what is not known of a request that has not come.
                resource: ResourceName::new("unknown").unwrap(),
                holder: Holder::new("unknown").unwrap(),
                attempt: leaving.attempt,
                first_index: at.index,
                ttl: fencepost::grant::Ttl::default(),
                wait_ms: 0,
                came_out: CameOut::Marked,
                settled,
            });
            return WithdrawOutcome::Marked;
        };
        match self.asked[known].came_out {
            CameOut::Waiting => {
                let last = leaving.attempt >= self.asked[known].attempt;
                let acts = how == LeftHow::WaitedOut || (last && how != LeftHow::Superseded);
                if !acts {
                    return WithdrawOutcome::Stale;
                }
                self.leave(known, how, events);
                WithdrawOutcome::Left { how }
            }
            CameOut::Granted(made) => {
                let Made { token, ended, .. } = self.made[made];
                match ended {
                    None => WithdrawOutcome::Granted { token },
                    Some(how) => WithdrawOutcome::Ended { token, how },
                }
            }
            CameOut::Left(how) => WithdrawOutcome::Left { how },
            CameOut::Marked if how == LeftHow::Withdrawn => {
                let attempt = &mut self.asked[known].attempt;
                *attempt = leaving.attempt.max(*attempt);
                WithdrawOutcome::Marked
            }
            CameOut::Marked => WithdrawOutcome::Unknown,
            CameOut::Held
            | CameOut::TooMany
            | CameOut::TooManyWaiters { .. }
            | CameOut::TooManyOfHolder => WithdrawOutcome::Refused,
            CameOut::Overtaken => unreachable!("it is known by another entry"),
        }
    }
}
