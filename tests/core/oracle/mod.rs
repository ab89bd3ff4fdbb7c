//! The oracle: the same rules, written so plainly that one can see that they are right.
//!
//! It keeps everything that ever happened in a few lists, and who waits in one more, forgets nothing, and
//! finds each answer by looking through them. Nothing in it is shared with the core but the words.

mod asks;

use fencepost::grant::{ClusterId, EndedHow, LeftHow, Ttl};
use fencepost::issuer::{
    Admit, AdmitOutcome, Bounds, Command, Event, Expire, LogId, Outcome, RaiseFloor,
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
    pub(crate) after_wait: bool,
    pub(crate) renewals: u64,
    pub(crate) granted_at_ms: u64,
    pub(crate) expires_at_ms: u64,
    pub(crate) ended: Option<EndedHow>,
    request: usize,
}

impl Made {
    /// The lease that it has: one that nobody claimed yet is short.
    pub(crate) fn lease(&self) -> Ttl {
        if self.after_wait && self.renewals == 0 {
            Ttl::from_ms(self.ttl.as_ms().min(2_000)).unwrap()
        } else {
            self.ttl
        }
    }
}

/// A request id that was applied once, by an acquire or by a withdrawal.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) key: RequestKey,
    pub(crate) resource: ResourceName,
    pub(crate) holder: Holder,
    pub(crate) attempt: u32,
    first_index: u64,
    ttl: Ttl,
    wait_ms: u32,
    pub(crate) came_out: CameOut,
    /// Which settlement this was, counted from 1.
    settled: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CameOut {
    /// It is in the line.
    Waiting,
    /// The place of the grant in the list of grants.
    Granted(usize),
    Held,
    TooMany,
    TooManyWaiters {
        of_resource: bool,
    },
    TooManyOfHolder,
    Left(LeftHow),
    /// Withdrawn before it came.
    Marked,
    /// It came after all, with a later send, and has another entry in the list since.
    Overtaken,
}

pub(crate) struct Oracle {
    cluster: ClusterId,
    bounds: Bounds,
    pub(crate) floor: u128,
    pub(crate) made: Vec<Made>,
    pub(crate) asked: Vec<Asked>,
    /// Who waits, for whatever, in the order in which they came: places in the list of requests.
    line: Vec<usize>,
    settlements: u64,
    /// Every token that the register admitted, and for what.
    admitted: Vec<(ResourceName, TokenValue)>,
    /// Every number that the floor was raised above.
    raised_above: Vec<u64>,
}

impl Oracle {
    pub(crate) fn new(cluster: ClusterId, bounds: Bounds) -> Self {
        Self {
            cluster,
            bounds,
            floor: 0,
            made: Vec::new(),
            asked: Vec::new(),
            line: Vec::new(),
            settlements: 0,
            admitted: Vec::new(),
            raised_above: Vec::new(),
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
            Command::Withdraw(withdraw) => {
                Outcome::Withdraw(self.withdraw(at, withdraw, &mut events))
            }
            Command::Promote(promote) => Outcome::Promote(self.promote(at, promote, &mut events)),
            Command::RaiseFloor(raise) => {
                Outcome::RaiseFloor(self.raise_floor(at, *raise, &mut events))
            }
            Command::Admit(admit) => Outcome::Admit(self.admit(admit, &mut events)),
        };
        self.hand_over(at, command, &mut events);
        (outcome, events)
    }

    /// An entry that ended one grant and made none gives the resource to whoever is first in line.
    fn hand_over(&mut self, at: LogId, command: &Command, events: &mut Vec<Event>) {
        let stamp = match command {
            Command::Release(Release { stamped_at_ms, .. })
            | Command::Expire(Expire { stamped_at_ms, .. })
            | Command::Revoke(Revoke { stamped_at_ms, .. }) => *stamped_at_ms,
            _ => return,
        };
        if let [Event::Ended { resource, .. }] = &events[..] {
            let resource = resource.clone();
            self.grant_first(at, &resource, stamp, events);
        }
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
        self.asked.iter().filter(|asked| self.knows(asked)).count()
    }

    /// Who waits for a resource, in order.
    pub(crate) fn line_of(&self, resource: &ResourceName) -> Vec<usize> {
        let line = self.line.iter().copied();
        line.filter(|place| self.asked[*place].resource == *resource)
            .collect()
    }

    /// Everybody who waits.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Asked> {
        self.line.iter().map(|place| &self.asked[*place])
    }

    pub(crate) fn knows(&self, asked: &Asked) -> bool {
        !self.forgotten(asked) && asked.came_out != CameOut::Overtaken
    }

    /// An id is forgotten when as many later ids as are remembered have settled.
    fn forgotten(&self, asked: &Asked) -> bool {
        let kept = u64::from(self.bounds.settled_ids_max);
        asked
            .settled
            .is_some_and(|settled| self.settlements >= settled + kept)
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
                holder,
                token,
                ttl,
                renewals,
                ..
            } = made.clone();
            events.push(Event::Renewed {
                resource,
                holder,
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
        self.raised_above.push(raise.above);
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

    /// The highest token that was ever admitted for a resource.
    pub(crate) fn high_water(&self, resource: &ResourceName) -> Option<TokenValue> {
        let admitted = self.admitted.iter();
        let of_it = admitted.filter(|(name, _)| name == resource);
        of_it.map(|(_, token)| *token).max()
    }

    /// How many resources a token was ever admitted for.
    pub(crate) fn high_water_marks(&self) -> usize {
        let mut names: Vec<_> = self.admitted.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        names.len()
    }

    /// Whether a token was issued, or all later ones are known to be greater.
    pub(crate) fn accounts_for(&self, token: TokenValue) -> bool {
        let issued = self.made.iter().any(|made| made.token.value() >= token);
        issued || self.raised_above.iter().any(|above| *above >= token.get())
    }

    fn admit(&mut self, admit: &Admit, events: &mut Vec<Event>) -> AdmitOutcome {
        let mark = self.high_water(&admit.resource);
        if let Some(mark) = mark {
            let next = TokenValue::new(mark.get() + 1).unwrap();
            let required = if admit.once { next } else { mark };
            if admit.token < required {
                return AdmitOutcome::Stale { required };
            }
            if admit.token == mark {
                return AdmitOutcome::Admitted;
            }
        }
        let last_token = self.made.last().map_or(0, |made| made.token.value().get());
        if admit.token.get() > last_token {
            return AdmitOutcome::Ahead { last_token };
        }
        let limit = self.bounds.marks_max;
        if mark.is_none() && self.high_water_marks() as u64 == limit {
            return AdmitOutcome::TooManyMarks { limit };
        }
        self.admitted.push((admit.resource.clone(), admit.token));
        events.push(Event::Admitted {
            resource: admit.resource.clone(),
            token: admit.token,
        });
        AdmitOutcome::Admitted
    }
}
