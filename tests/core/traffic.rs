//! Random commands, made so that the interesting ones are common: few resources, few holders, ids
//! sent again, tokens that have ended, askers that have been away for long.

use fencepost::grant::{AskedAt, ClusterId, LeftHow};
use fencepost::issuer::{
    Acquire, Admit, Command, DueLease, Event, Expire, Leaving, LogId, Promote, RaiseFloor, Release,
    Renew, Renewal, Revoke, Withdraw,
};
use fencepost::resource::{Reason, ResourceName};
use fencepost::token::TokenValue;

use crate::dice::Dice;
use crate::scene::{STAMP_MS, acquire, cluster, resource, token, ttl};

pub(crate) const RESOURCES: [&str; 6] = ["a", "a/b", "a/c", "b", "ä", "日本"];
/// Anna asks more than others, so that she comes to her limit.
const HOLDERS: [&str; 6] = ["anna", "anna", "ben", "чер", "d d", "emil"];
const TTLS: [u64; 3] = [100, 30_000, 86_400_000];

pub(crate) struct Traffic {
    dice: Dice,
    ids: u64,
    sent: Vec<Acquire>,
    /// Acquires that have not been sent yet, and may be withdrawn before.
    held_back: Vec<Acquire>,
    /// Resources that came free together with others, and may have a queue.
    freed: Vec<ResourceName>,
    /// Token, resource and the number of renewals, of every grant so far.
    tokens: Vec<(TokenValue, ResourceName, u64)>,
    pub(crate) at: LogId,
}

impl Traffic {
    pub(crate) fn new(dice: Dice) -> Self {
        let at = LogId::new(1, 0);
        Self {
            dice,
            ids: 0,
            sent: Vec::new(),
            held_back: Vec::new(),
            freed: Vec::new(),
            tokens: Vec::new(),
            at,
        }
    }

    /// The next log position; now and then in a later term.
    pub(crate) fn step(&mut self) -> LogId {
        let terms = if self.dice.one_in(40) {
            1 + self.dice.below(3)
        } else {
            0
        };
        self.at = LogId::new(self.at.term + terms, self.at.index + 1);
        self.at
    }

    pub(crate) fn command(&mut self) -> Command {
        let stamped_at_ms = STAMP_MS + self.at.index;
        match self.dice.below(139) {
            0..50 => Command::Acquire(self.acquire()),
            50..66 => {
                let renewals = (0..self.dice.below(4)).map(|_| self.renewal()).collect();
                Command::Renew(Renew {
                    renewals,
                    stamped_at_ms,
                })
            }
            66..80 => Command::Release(Release {
                token: self.some_token().0,
                stamped_at_ms,
            }),
            80..93 => {
                let leases = (0..self.dice.below(7)).map(|_| self.due_lease()).collect();
                Command::Expire(Expire {
                    leases,
                    stamped_at_ms,
                })
            }
            93..101 => Command::Revoke(self.revoke()),
            101..116 => Command::Withdraw(self.withdraw()),
            116..124 => Command::Promote(self.promote()),
            124..136 => Command::Admit(self.admit()),
            _ => Command::RaiseFloor(self.raise_floor()),
        }
    }

    /// Takes in what an entry did, so that later commands can refer to it.
    pub(crate) fn learn(&mut self, events: &[Event]) {
        if let Some(Event::Granted {
            resource, token, ..
        }) = events.last()
        {
            self.tokens.push((token.value(), resource.clone(), 0));
        }
        let ended = events
            .iter()
            .filter(|event| matches!(event, Event::Ended { .. }));
        if ended.clone().count() > 1 {
            self.freed = ended.filter_map(Event::resource).cloned().collect();
        }
        for event in events {
            if let Event::Renewed {
                token, renewals, ..
            } = event
            {
                let known = self
                    .tokens
                    .iter_mut()
                    .find(|known| known.0 == token.value());
                known.unwrap().2 = *renewals;
            }
        }
    }

    fn acquire(&mut self) -> Acquire {
        if self.dice.one_in(3) && !self.sent.is_empty() {
            return self.again();
        }
        self.ids += 1;
        // Every tenth id is one of a few that several resources and holders use.
        let number = if self.dice.one_in(10) {
            self.dice.below(3)
        } else {
            1_000 + self.ids
        };
        let resource = *self.dice.pick(&RESOURCES);
        let holder = *self.dice.pick(&HOLDERS);
        let mut acquire = acquire(resource, holder, &number.to_string());
        acquire.ttl = ttl(*self.dice.pick(&TTLS));
        acquire.stamped_at_ms = STAMP_MS + self.at.index;
        acquire.asked_at = self.asked_at();
        if self.dice.one_in(2) {
            acquire.wait_ms = u32::try_from(1 + self.dice.below(2) * 9_999).unwrap();
        }
        if self.dice.one_in(2) {
            acquire.attempt = u32::try_from(self.dice.below(5)).unwrap();
        }
        // Some are withdrawn before they come.
        if self.dice.one_in(12) {
            self.held_back.push(acquire.clone());
            return self.again();
        }
        self.sent.push(acquire.clone());
        acquire
    }

    /// An earlier acquire is sent again: mostly a recent one, mostly unchanged. Or one comes that was
    /// held back.
    fn again(&mut self) -> Acquire {
        let comes = self.sent.is_empty() || self.dice.one_in(6);
        if comes && let Some(mut acquire) = self.held_back.pop() {
            acquire.attempt = u32::try_from(self.dice.below(5)).unwrap();
            self.sent.push(acquire.clone());
            return acquire;
        }
        if self.sent.is_empty() {
            return self.acquire();
        }
        let recent = self.sent.len().saturating_sub(12);
        let from = if self.dice.one_in(4) {
            &self.sent[..]
        } else {
            &self.sent[recent..]
        };
        let mut acquire = self.dice.pick(from).clone();
        acquire.attempt = u32::try_from(self.dice.below(5)).unwrap();
        if self.dice.one_in(10) {
            acquire.ttl = ttl(*self.dice.pick(&TTLS));
        }
        if self.dice.one_in(20) {
            acquire.wait_ms = 2;
        }
        acquire
    }

    fn asked_at(&mut self) -> Option<AskedAt> {
        let before = self.at.index.saturating_sub(1);
        let applied = match self.dice.below(8) {
            0 | 1 => return None,
            2 => self.dice.below(self.at.index + 2),
            3 => {
                return Some(AskedAt {
                    cluster: ClusterId::new(7),
                    applied: before,
                });
            }
            4 => before.saturating_sub(self.dice.below(30)),
            _ => before,
        };
        Some(AskedAt {
            cluster: cluster(),
            applied,
        })
    }

    /// A token that was issued, mostly a recent one; or one that was not.
    fn some_token(&mut self) -> (TokenValue, ResourceName, u64) {
        if self.tokens.is_empty() || self.dice.one_in(20) {
            return (token(1 + self.dice.below(1 << 20)), resource("a"), 0);
        }
        let recent = self.tokens.len().saturating_sub(8);
        let from = if self.dice.one_in(4) {
            &self.tokens[..]
        } else {
            &self.tokens[recent..]
        };
        self.dice.pick(from).clone()
    }

    fn renewal(&mut self) -> Renewal {
        let ttl = if self.dice.one_in(4) {
            Some(ttl(*self.dice.pick(&TTLS)))
        } else {
            None
        };
        Renewal {
            token: self.some_token().0,
            ttl,
        }
    }

    /// The right number of renewals, or one that a renewal has overtaken.
    fn due_lease(&mut self) -> DueLease {
        let (token, _, renewals) = self.some_token();
        let late = if self.dice.one_in(3) { 1 } else { 0 };
        DueLease {
            token,
            renewals: renewals.saturating_sub(late),
        }
    }

    fn revoke(&mut self) -> Revoke {
        let (token, mut resource_name, _) = self.some_token();
        if self.dice.one_in(6) {
            let name = self.dice.pick::<&str>(&RESOURCES);
            resource_name = resource(name);
        }
        let reason = self.dice.one_in(2).then(|| Reason::new("because").unwrap());
        let stamped_at_ms = STAMP_MS + self.at.index;
        Revoke {
            resource: resource_name,
            token,
            reason,
            stamped_at_ms,
        }
    }

    fn withdraw(&mut self) -> Withdraw {
        let how = match self.dice.below(8) {
            0 | 1 => LeftHow::Detached,
            2 => LeftHow::WaitedOut,
            3 if self.dice.one_in(4) => LeftHow::Superseded,
            _ => LeftHow::Withdrawn,
        };
        let places = (0..self.dice.below(4)).filter_map(|_| self.leaving());
        Withdraw {
            places: places.collect(),
            how,
            stamped_at_ms: STAMP_MS + self.at.index,
        }
    }

    fn leaving(&mut self) -> Option<Leaving> {
        let recent = self.sent.len().saturating_sub(15);
        let from = match self.dice.below(6) {
            0 => &self.held_back[..],
            1 => &self.sent[..],
            _ => &self.sent[recent..],
        };
        if from.is_empty() {
            return None;
        }
        let request = self.dice.pick(from).request;
        let attempt = u32::try_from(self.dice.below(5)).unwrap();
        Some(Leaving { request, attempt })
    }

    fn promote(&mut self) -> Promote {
        let any = resource(self.dice.pick::<&str>(&RESOURCES));
        let resource = match self.freed.pop() {
            Some(freed) if !self.dice.one_in(4) => freed,
            _ => any,
        };
        Promote {
            resource,
            stamped_at_ms: STAMP_MS + self.at.index,
        }
    }

    /// Mostly the token of a grant, and mostly for its resource; now and then one that was never issued.
    fn admit(&mut self) -> Admit {
        let (mut token_value, mut name, _) = self.some_token();
        if self.dice.one_in(8) {
            name = resource(self.dice.pick::<&str>(&RESOURCES));
        }
        if self.dice.one_in(8) {
            token_value = token(token_value.get() + self.dice.below(1 << 20));
        }
        Admit {
            resource: name,
            token: token_value,
            once: self.dice.one_in(4),
            stamped_at_ms: STAMP_MS + self.at.index,
        }
    }

    fn raise_floor(&mut self) -> RaiseFloor {
        let stamped_at_us = (self.at.term << 16) + 200_000;
        let above = match self.dice.below(4) {
            0 => u64::MAX,
            1 => self.dice.below(1 << 16),
            _ => (self.at.term << 16) + self.dice.below(250_000),
        };
        RaiseFloor {
            above,
            stamped_at_us,
        }
    }
}
