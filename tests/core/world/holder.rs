//! The holders of a world: they ask, wait, send again, give up, ask anew, renew, release, and stand
//! still for longer than is good for them.

use fencepost::grant::AskedAt;
use fencepost::grant::LeftHow;
use fencepost::issuer::{
    Acquire, AcquireOutcome, Command, Event, Leaving, Outcome, Release, Renew, Renewal, Withdraw,
    WithdrawOutcome,
};
use fencepost::token::TokenValue;

use super::World;
use crate::dice::Dice;
use crate::scene::{STAMP_MS, acquire, cluster, ttl};

pub(super) const NAMES: [&str; 8] = [
    "anna", "ben", "cleo", "dora", "emil", "frida", "gina", "hans",
];
const RESOURCES: [&str; 4] = ["a", "b", "c", "d"];
/// For how long after it last did something a node vouches for a holder's call.
const ATTACHED_US: u64 = 600_000;

pub(super) struct Holder {
    pub(super) name: &'static str,
    /// Ticks of its clock in a million true microseconds.
    pub(super) ppm: u64,
    resource: &'static str,
    token: Option<TokenValue>,
    /// What it has asked and not heard the end of.
    asking: Option<Acquire>,
    acted_at: u64,
    acts_at: u64,
}

impl Holder {
    pub(super) fn new(name: &'static str, ppm: u64, dice: &mut Dice) -> Self {
        Self {
            name,
            ppm,
            resource: dice.pick::<&str>(&RESOURCES),
            token: None,
            asking: None,
            acted_at: 0,
            acts_at: dice.below(100_000),
        }
    }

    /// The request that a node would vouch for, if its call is still open.
    pub(super) fn attached(&self, now: u64) -> Option<&Acquire> {
        let there = now < self.acted_at + ATTACHED_US;
        self.asking.as_ref().filter(|_| there)
    }
}

impl World {
    pub(super) fn holders_act(&mut self) {
        for index in 0..self.holders.len() {
            if self.holders[index].acts_at > self.now {
                continue;
            }
            let command = self.choose(index);
            self.send(self.leader, command);
            // Now and then a holder is paused for longer than its TTL, or than others wait for it.
            let paused = match self.dice.below(24) {
                0 => 2_500_000 + self.dice.below(3_000_000),
                1 | 2 => self.dice.below(1_500_000),
                _ => self.dice.below(40_000),
            };
            let holder = &mut self.holders[index];
            holder.acted_at = self.now;
            holder.acts_at = self.now + 20_000 + paused;
        }
    }

    fn choose(&mut self, index: usize) -> Command {
        if let Some(token) = self.holders[index].token {
            if self.dice.one_in(8) {
                self.holders[index].token = None;
                return release(token);
            }
            // Its process restarted, and knows nothing of the grant.
            if self.dice.one_in(20) {
                return self.ask(index);
            }
            let renewals = vec![Renewal { token, ttl: None }];
            return Command::Renew(Renew {
                renewals,
                stamped_at_ms: STAMP_MS,
            });
        }
        let Some(asking) = &mut self.holders[index].asking else {
            return self.ask(index);
        };
        match self.dice.below(20) {
            // It gives up.
            0 | 1 => {
                let leaving = Leaving {
                    request: asking.request,
                    attempt: asking.attempt,
                };
                self.holders[index].asking = None;
                Command::Withdraw(Withdraw {
                    places: vec![leaving],
                    how: LeftHow::Withdrawn,
                    stamped_at_ms: STAMP_MS,
                })
            }
            // Its process restarted.
            2 => self.ask(index),
            _ => {
                asking.attempt += 1;
                Command::Acquire(asking.clone())
            }
        }
    }

    fn ask(&mut self, index: usize) -> Command {
        let (name, resource) = (self.holders[index].name, self.holders[index].resource);
        let mut acquire = acquire(resource, name, &self.now.to_string());
        acquire.ttl = ttl(*self.dice.pick(&[100, 300, 1_000, 5_000]));
        acquire.wait_ms = *self.dice.pick(&[0, 400, 3_000, 60_000]);
        acquire.asked_at = Some(AskedAt {
            cluster: cluster(),
            applied: self.committed.applied().index,
        });
        self.holders[index].asking = Some(acquire.clone());
        Command::Acquire(acquire)
    }

    /// Holders learn at once what became of them.
    pub(super) fn holders_hear(&mut self, command: &Command, outcome: &Outcome, events: &[Event]) {
        match (command, outcome) {
            (Command::Acquire(acquire), Outcome::Acquire(outcome)) => {
                let waits = matches!(outcome, AcquireOutcome::Queued { .. });
                for holder in &mut self.holders {
                    let asks = |asking: &&Acquire| asking.request == acquire.request;
                    if !waits && holder.asking.as_ref().filter(asks).is_some() {
                        holder.asking = None;
                    }
                }
            }
            // Whoever gave up and finds itself granted releases.
            (Command::Withdraw(_), Outcome::Withdraw(each)) => {
                for outcome in each {
                    if let WithdrawOutcome::Granted { token } = outcome {
                        self.send(self.leader, release(token.value()));
                    }
                }
            }
            _ => {}
        }
        for event in events {
            self.hears(event);
        }
    }

    fn hears(&mut self, event: &Event) {
        let holders = self.holders.iter_mut();
        match event {
            Event::Granted {
                holder,
                token,
                request,
                ..
            } => {
                for one in holders.filter(|one| one.name == holder.as_str()) {
                    one.token = Some(token.value());
                    if one
                        .asking
                        .as_ref()
                        .is_some_and(|asked| asked.request == *request)
                    {
                        one.asking = None;
                    }
                }
            }
            // Whoever finds its lease lost begins anew.
            Event::Ended { token, .. } => {
                for one in holders {
                    one.token = one.token.filter(|held| *held != token.value());
                }
            }
            Event::Left { request, .. } => {
                for one in holders {
                    if one
                        .asking
                        .as_ref()
                        .is_some_and(|asked| asked.request == *request)
                    {
                        one.asking = None;
                    }
                }
            }
            _ => {}
        }
    }
}

fn release(token: TokenValue) -> Command {
    Command::Release(Release {
        token,
        stamped_at_ms: STAMP_MS,
    })
}
