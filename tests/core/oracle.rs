//! The oracle: the same rules, written so plainly that one can see that they are right.
//!
//! It keeps everything that ever happened in two lists, forgets nothing, and finds each answer by
//! looking through them. Nothing in it is shared with the core but the words.

use fencepost::grant::{ClusterId, EndedHow, Ttl};
use fencepost::issuer::{
    Acquire, AcquireOutcome, Bounds, Command, Event, Expire, HeldBy, LogId, Outcome, RaiseFloor,
    RaiseFloorOutcome, Release, ReleaseOutcome, Renew, RenewOutcome, RequestKey, Revoke,
    RevokeOutcome,
};
use fencepost::resource::{Holder, Reason, ResourceName};
use fencepost::token::{Token, TokenValue};

/// A grant that was made once, whether it lives or not.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) resource: ResourceName,
    pub(crate) holder: Holder,
    pub(crate) token: Token,
    pub(crate) ttl: Ttl,
    pub(crate) renewals: u64,
    pub(crate) granted_at_ms: u64,
    pub(crate) expires_at_ms: u64,
    pub(crate) ended: Option<EndedHow>,
    request: usize,
}

/// A request id that was applied once.
#[derive(Debug, Clone)]
struct Asked {
    key: RequestKey,
    first_index: u64,
    ttl: Ttl,
    wait_ms: u32,
    came_out: CameOut,
    /// Which settlement this was, counted from 1.
    settled: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
enum CameOut {
    /// The place of the grant in the list of grants.
    Granted(usize),
    Held,
    TooMany,
}

pub(crate) struct Oracle {
    cluster: ClusterId,
    bounds: Bounds,
    pub(crate) floor: u128,
    pub(crate) made: Vec<Made>,
    asked: Vec<Asked>,
    settlements: u64,
}

impl Oracle {
    pub(crate) fn new(cluster: ClusterId, bounds: Bounds) -> Self {
        let (made, asked) = (Vec::new(), Vec::new());
        Self {
            cluster,
            bounds,
            floor: 0,
            made,
            asked,
            settlements: 0,
        }
    }

    pub(crate) fn apply(&mut self, at: LogId, command: &Command) -> (Outcome, Vec<Event>) {
        let mut events = Vec::new();
        let outcome = match command {
            Command::Acquire(acquire) => Outcome::Acquire(self.acquire(at, acquire, &mut events)),
            Command::Renew(renew) => Outcome::Renew(self.renew(renew, &mut events)),
            Command::Release(release) => Outcome::Release(self.release(*release, &mut events)),
            Command::Expire(expire) => Outcome::Expire {
                ended: self.expire(expire, &mut events),
            },
            Command::Revoke(revoke) => Outcome::Revoke(self.revoke(revoke, &mut events)),
            Command::RaiseFloor(raise) => {
                Outcome::RaiseFloor(self.raise_floor(at, *raise, &mut events))
            }
        };
        (outcome, events)
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Made> {
        self.made.iter().filter(|made| made.ended.is_none())
    }

    pub(crate) fn how_ended(&self, token: TokenValue) -> Option<EndedHow> {
        let made = self.made.iter().find(|made| made.token.value() == token)?;
        if self.forgotten(&self.asked[made.request]) {
            None
        } else {
            made.ended
        }
    }

    pub(crate) fn known_ids(&self) -> usize {
        self.asked
            .iter()
            .filter(|asked| !self.forgotten(asked))
            .count()
    }

    /// An id is forgotten when as many later ids as are remembered have settled.
    fn forgotten(&self, asked: &Asked) -> bool {
        let kept = u64::from(self.bounds.settled_ids_max);
        asked
            .settled
            .is_some_and(|settled| self.settlements >= settled + kept)
    }

    fn acquire(&mut self, at: LogId, acquire: &Acquire, events: &mut Vec<Event>) -> AcquireOutcome {
        let known = self
            .asked
            .iter()
            .find(|asked| asked.key == acquire.request && !self.forgotten(asked));
        if let Some(known) = known {
            return self.replay(known, acquire);
        }
        if let Some(asked_at) = acquire.asked_at {
            let elsewhere = asked_at.cluster != self.cluster;
            let from_the_future = asked_at.applied >= at.index;
            let overtaken = self
                .asked
                .iter()
                .any(|asked| self.forgotten(asked) && asked.first_index > asked_at.applied);
            if elsewhere || from_the_future || overtaken {
                return AcquireOutcome::TooOld;
            }
        }
        let holding = self
            .made
            .iter()
            .position(|made| made.ended.is_none() && made.resource == acquire.resource);
        match holding {
            Some(holding) if self.made[holding].holder != acquire.holder => {
                self.remember(at, acquire, CameOut::Held);
                let Made { holder, token, .. } = self.made[holding].clone();
                AcquireOutcome::Held {
                    by: Some(HeldBy { holder, token }),
                    replayed: false,
                }
            }
            Some(holding) => {
                self.end(holding, EndedHow::Superseded, None, events);
                self.make(at, acquire, events)
            }
            None if self.live().count() as u64 == self.bounds.live_grants_max => {
                self.remember(at, acquire, CameOut::TooMany);
                let limit = self.bounds.live_grants_max;
                AcquireOutcome::TooManyGrants {
                    limit,
                    replayed: false,
                }
            }
            None => self.make(at, acquire, events),
        }
    }

    fn replay(&self, known: &Asked, acquire: &Acquire) -> AcquireOutcome {
        if known.ttl != acquire.ttl || known.wait_ms != acquire.wait_ms {
            return AcquireOutcome::ParametersDiffer;
        }
        match known.came_out {
            CameOut::Granted(made) => {
                let made = &self.made[made];
                match made.ended {
                    Some(how) => AcquireOutcome::Ended {
                        token: made.token,
                        how,
                    },
                    None => AcquireOutcome::Granted {
                        token: made.token,
                        lease: made.ttl,
                        replayed: true,
                    },
                }
            }
            CameOut::Held => {
                let by = self.live().find(|made| made.resource == acquire.resource);
                let by = by.map(|made| HeldBy {
                    holder: made.holder.clone(),
                    token: made.token,
                });
                AcquireOutcome::Held { by, replayed: true }
            }
            CameOut::TooMany => {
                let limit = self.bounds.live_grants_max;
                AcquireOutcome::TooManyGrants {
                    limit,
                    replayed: true,
                }
            }
        }
    }

    fn make(&mut self, at: LogId, acquire: &Acquire, events: &mut Vec<Event>) -> AcquireOutcome {
        let value = self.floor + u128::from(at.term) * 65_536 + u128::from(at.index);
        let value = TokenValue::new(u64::try_from(value).unwrap()).unwrap();
        let token = Token::new(value, at.term, at.index);
        self.remember(at, acquire, CameOut::Granted(self.made.len()));
        self.made.push(Made {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            token,
            ttl: acquire.ttl,
            renewals: 0,
            granted_at_ms: acquire.stamped_at_ms,
            expires_at_ms: acquire.stamped_at_ms + acquire.ttl.as_ms(),
            ended: None,
            request: self.asked.len() - 1,
        });
        events.push(Event::Granted {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            token,
            ttl: acquire.ttl,
            request: acquire.request,
        });
        AcquireOutcome::Granted {
            token,
            lease: acquire.ttl,
            replayed: false,
        }
    }

    fn remember(&mut self, at: LogId, acquire: &Acquire, came_out: CameOut) {
        let settled = match came_out {
            CameOut::Granted(_) => None,
            CameOut::Held | CameOut::TooMany => Some(self.settlement()),
        };
        self.asked.push(Asked {
            key: acquire.request,
            first_index: at.index,
            ttl: acquire.ttl,
            wait_ms: acquire.wait_ms,
            came_out,
            settled,
        });
    }

    fn settlement(&mut self) -> u64 {
        self.settlements += 1;
        self.settlements
    }

    fn end(&mut self, made: usize, how: EndedHow, reason: Option<Reason>, events: &mut Vec<Event>) {
        let settlement = self.settlement();
        let made = &mut self.made[made];
        made.ended = Some(how);
        self.asked[made.request].settled = Some(settlement);
        events.push(Event::Ended {
            resource: made.resource.clone(),
            holder: made.holder.clone(),
            token: made.token,
            how,
            renewals: made.renewals,
            reason,
        });
    }

    fn living(&self, token: TokenValue) -> Option<usize> {
        self.made
            .iter()
            .position(|made| made.ended.is_none() && made.token.value() == token)
    }

    fn renew(&mut self, renew: &Renew, events: &mut Vec<Event>) -> Vec<RenewOutcome> {
        let mut each = Vec::new();
        for renewal in &renew.renewals {
            let Some(living) = self.living(renewal.token) else {
                each.push(match self.how_ended(renewal.token) {
                    Some(how) => RenewOutcome::Ended { how },
                    None => RenewOutcome::Unknown,
                });
                continue;
            };
            let made = &mut self.made[living];
            if let Some(ttl) = renewal.ttl {
                made.ttl = ttl;
            }
            made.renewals += 1;
            made.expires_at_ms = renew.stamped_at_ms + made.ttl.as_ms();
            let Made {
                resource,
                token,
                ttl,
                renewals,
                ..
            } = made.clone();
            events.push(Event::Renewed {
                resource,
                token,
                ttl,
                renewals,
            });
            each.push(RenewOutcome::Renewed {
                lease: ttl,
                renewals,
            });
        }
        each
    }

    fn release(&mut self, release: Release, events: &mut Vec<Event>) -> ReleaseOutcome {
        if let Some(living) = self.living(release.token) {
            self.end(living, EndedHow::Released, None, events);
        }
        match self.how_ended(release.token) {
            Some(EndedHow::Released) => ReleaseOutcome::Released,
            Some(how) => ReleaseOutcome::Ended { how },
            None => ReleaseOutcome::Unknown,
        }
    }

    fn expire(&mut self, expire: &Expire, events: &mut Vec<Event>) -> u32 {
        let mut ended = 0;
        for lease in &expire.leases {
            match self.living(lease.token) {
                Some(living) if self.made[living].renewals == lease.renewals => {
                    self.end(living, EndedHow::Expired, None, events);
                    ended += 1;
                }
                _ => {}
            }
        }
        ended
    }

    fn revoke(&mut self, revoke: &Revoke, events: &mut Vec<Event>) -> RevokeOutcome {
        if let Some(living) = self.living(revoke.token) {
            if self.made[living].resource != revoke.resource {
                return RevokeOutcome::OtherResource;
            }
            self.end(living, EndedHow::Revoked, revoke.reason.clone(), events);
        }
        match self.how_ended(revoke.token) {
            Some(EndedHow::Revoked) => RevokeOutcome::Revoked,
            Some(how) => RevokeOutcome::Ended { how },
            None => RevokeOutcome::Unknown,
        }
    }

    fn raise_floor(
        &mut self,
        at: LogId,
        raise: RaiseFloor,
        events: &mut Vec<Event>,
    ) -> RaiseFloorOutcome {
        let limit = raise.stamped_at_us.min(i64::MAX as u64 / 2);
        if raise.above > limit {
            return RaiseFloorOutcome::BeyondClock { limit };
        }
        let sum = u128::from(at.term) * 65_536 + u128::from(at.index);
        let wanted = u128::from(raise.above).saturating_sub(sum);
        if wanted > self.floor {
            self.floor = wanted;
            events.push(Event::FloorRaised {
                floor: u64::try_from(wanted).unwrap(),
            });
        }
        RaiseFloorOutcome::Raised {
            floor: u64::try_from(self.floor).unwrap(),
        }
    }
}
