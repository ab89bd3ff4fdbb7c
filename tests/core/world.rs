//! A small world: nodes whose clocks differ, holders that pause, a log in which things arrive late, and
//! leaders that change. Nothing in it is real but the core and the lease clocks.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost::grant::EndedHow;
use fencepost::issuer::{Command, Event, Expire, LogId, Machine, Release, Renew, Renewal, Replica};
use fencepost::token::TokenValue;

use crate::dice::Dice;
use crate::scene::{STAMP_MS, acquire, machine, ttl};

/// What is done wrong, so that one can see the checks fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// `Expire` ends a lease however often it was renewed since.
    ExpireIgnoresRenewals,
    /// The leader proposes with the number of renewals that its state has by then.
    ExpireNamesTheCurrentRenewals,
    /// A new leader starts all leases anew (etcd#9888).
    ElectionRestartsLeases,
    /// The nodes' clocks run a quarter fast, far beyond what is agreed.
    FastClock,
}

/// How rough it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nodes keep up; leaders change all the time. Nothing ends late.
    Calm,
    /// Nodes stall, restart and propose what is long out of date.
    Rough,
}

const RESOURCES: [&str; 3] = ["a", "b", "c"];
const HOLDERS: [&str; 6] = ["anna", "ben", "cleo", "dora", "emil", "frida"];
/// How late a lease may end in calm weather, beside its margin.
const LATE_US: u64 = 500_000;

struct Node {
    replica: Replica,
    applied: usize,
    /// Ticks of this node's clock in a million true microseconds.
    ppm: u64,
    origin: Instant,
    stalled_until: u64,
}

struct Holder {
    name: &'static str,
    ppm: u64,
    resource: &'static str,
    token: Option<TokenValue>,
    acts_at: u64,
}

/// Something on its way into the log.
struct Proposal {
    arrives: u64,
    sent: u64,
    by: usize,
    command: Command,
}

/// What the checks know of a grant: whose it is, and its last start.
struct Start {
    holder: usize,
    sent: u64,
    applied: u64,
    ttl_us: u64,
}

pub(crate) struct World {
    dice: Dice,
    bug: Bug,
    weather: Weather,
    now: u64,
    term: u64,
    leader: usize,
    nodes: Vec<Node>,
    holders: Vec<Holder>,
    on_the_way: Vec<Proposal>,
    log: Vec<(LogId, Command)>,
    /// The state at the end of the log, and its chain at each index.
    committed: Machine,
    chains: Vec<[u8; 32]>,
    starts: BTreeMap<TokenValue, Start>,
    pub(crate) expired: u64,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Bug, weather: Weather) -> Self {
        let mut dice = Dice::new(seed);
        let ppm = |dice: &mut Dice| 999_500 + dice.below(1_001);
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let fast = if bug == Bug::FastClock { 250_000 } else { 0 };
            let origin = Instant::now() + Duration::from_secs(dice.below(1_000));
            let replica = Replica::new(machine(), origin);
            let ppm = ppm(&mut dice) + fast;
            nodes.push(Node {
                replica,
                applied: 0,
                ppm,
                origin,
                stalled_until: 0,
            });
        }
        let mut holders = Vec::new();
        for name in HOLDERS {
            let resource = *dice.pick::<&str>(&RESOURCES);
            let (ppm, acts_at) = (ppm(&mut dice), dice.below(100_000));
            holders.push(Holder {
                name,
                ppm,
                resource,
                token: None,
                acts_at,
            });
        }
        Self {
            dice,
            bug,
            weather,
            now: 0,
            term: 1,
            leader: 0,
            nodes,
            holders,
            on_the_way: Vec::new(),
            log: Vec::new(),
            committed: machine(),
            chains: Vec::new(),
            starts: BTreeMap::new(),
            expired: 0,
        }
    }

    /// Lets a while pass. `Err` names the check that fired.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.now += 1_000 + self.dice.below(9_000);
            if self.dice.one_in(40) {
                self.elect();
            }
            self.holders_act();
            self.nodes_apply()?;
            self.leases_expire();
            self.commit()?;
            for (token, start) in &self.starts {
                self.not_late(*token, start)?;
            }
        }
        Ok(())
    }

    fn elect(&mut self) {
        self.term += 1;
        self.leader = usize::try_from(self.dice.below(3)).unwrap();
        if self.bug == Bug::ElectionRestartsLeases {
            self.restart(self.leader);
        }
    }

    fn restart(&mut self, node: usize) {
        let now = self.clock_of(node);
        let bytes = self.nodes[node].replica.machine().snapshot().concat();
        self.nodes[node].replica.install(&bytes[..], now).unwrap();
    }

    fn clock_of(&self, node: usize) -> Instant {
        let Node { ppm, origin, .. } = self.nodes[node];
        origin + Duration::from_nanos(self.now * ppm / 1_000)
    }

    /// Most things take milliseconds; in rough weather some take seconds.
    fn delay(&mut self) -> u64 {
        let long = self.weather == Weather::Rough && self.dice.one_in(6);
        1_000 + self.dice.below(if long { 2_000_000 } else { 15_000 })
    }

    fn send(&mut self, by: usize, command: Command) {
        let arrives = self.now + self.delay();
        self.on_the_way.push(Proposal {
            arrives,
            sent: self.now,
            by,
            command,
        });
    }

    fn holders_act(&mut self) {
        for index in 0..self.holders.len() {
            if self.holders[index].acts_at > self.now {
                continue;
            }
            let (name, resource) = (self.holders[index].name, self.holders[index].resource);
            let command = match self.holders[index].token {
                None => {
                    let mut acquire = acquire(resource, name, &self.now.to_string());
                    acquire.ttl = ttl(*self.dice.pick(&[100, 300, 1_000]));
                    Command::Acquire(acquire)
                }
                Some(token) if self.dice.one_in(8) => {
                    self.holders[index].token = None;
                    Command::Release(Release {
                        token,
                        stamped_at_ms: STAMP_MS,
                    })
                }
                Some(token) => {
                    let renewals = vec![Renewal { token, ttl: None }];
                    Command::Renew(Renew {
                        renewals,
                        stamped_at_ms: STAMP_MS,
                    })
                }
            };
            self.send(index, command);
            // Now and then a holder is paused for longer than its TTL.
            let paused = if self.dice.one_in(6) {
                1_500_000
            } else {
                40_000
            };
            self.holders[index].acts_at = self.now + 20_000 + self.dice.below(paused);
        }
    }

    fn nodes_apply(&mut self) -> Result<(), String> {
        for index in 0..self.nodes.len() {
            if self.weather == Weather::Rough && self.dice.one_in(300) {
                self.restart(index);
            }
            if self.weather == Weather::Rough && self.dice.one_in(200) {
                self.nodes[index].stalled_until = self.now + self.dice.below(2_000_000);
            }
            if self.nodes[index].stalled_until > self.now {
                continue;
            }
            let now = self.clock_of(index);
            let node = &mut self.nodes[index];
            for (at, command) in &self.log[node.applied..] {
                node.replica
                    .apply(*at, command, now)
                    .map_err(|broken| broken.to_string())?;
                if node.replica.machine().chain() != self.chains[node.applied] {
                    return Err(format!("HASH: node {index} differs at {at}"));
                }
                node.applied += 1;
            }
        }
        Ok(())
    }

    /// The leader proposes to end what is due on its clock. In rough weather any node may take itself
    /// for the leader.
    fn leases_expire(&mut self) {
        for index in 0..self.nodes.len() {
            let deposed = self.weather == Weather::Rough && self.dice.one_in(3);
            if index != self.leader && !deposed {
                continue;
            }
            let leases = self.nodes[index].replica.due(self.clock_of(index), 10);
            if !leases.is_empty() {
                self.send(
                    index,
                    Command::Expire(Expire {
                        leases,
                        stamped_at_ms: STAMP_MS,
                    }),
                );
            }
        }
    }

    fn commit(&mut self) -> Result<(), String> {
        let now = self.now;
        let (mut arrived, later): (Vec<_>, Vec<_>) = self
            .on_the_way
            .drain(..)
            .partition(|proposal| proposal.arrives <= now);
        self.on_the_way = later;
        arrived.sort_by_key(|proposal| proposal.arrives);
        for mut proposal in arrived {
            self.plant(&mut proposal);
            let at = LogId::new(self.term, self.log.len() as u64 + 1);
            let last = self.committed.last_token();
            let applied = self.committed.apply(at, &proposal.command).unwrap();
            for event in &applied.events {
                self.check(event, &proposal, last)?;
            }
            self.log.push((at, proposal.command));
            self.chains.push(self.committed.chain());
        }
        Ok(())
    }

    fn plant(&self, proposal: &mut Proposal) {
        let Command::Expire(expire) = &mut proposal.command else {
            return;
        };
        let knows = match self.bug {
            Bug::ExpireIgnoresRenewals => &self.committed,
            Bug::ExpireNamesTheCurrentRenewals => self.nodes[proposal.by].replica.machine(),
            _ => return,
        };
        for lease in &mut expire.leases {
            if let Some(grant) = knows.grant(lease.token) {
                lease.renewals = grant.renewals;
            }
        }
    }

    fn check(
        &mut self,
        event: &Event,
        proposal: &Proposal,
        last: Option<TokenValue>,
    ) -> Result<(), String> {
        match event {
            Event::Granted { token, ttl, .. } => {
                let token = token.value();
                if last.is_some_and(|last| last >= token) {
                    return Err(format!("TOKEN-RT: {token} after {last:?}"));
                }
                let (sent, ttl_us) = (proposal.sent, ttl.as_ms() * 1_000);
                let start = Start {
                    holder: proposal.by,
                    sent,
                    applied: self.now,
                    ttl_us,
                };
                self.starts.insert(token, start);
                self.holders[proposal.by].token = Some(token);
            }
            Event::Renewed { token, .. } => {
                let start = self.starts.get_mut(&token.value()).unwrap();
                (start.sent, start.applied) = (proposal.sent, self.now);
            }
            Event::Ended { token, how, .. } => {
                let start = self.starts.remove(&token.value()).unwrap();
                if *how == EndedHow::Expired {
                    self.expired += 1;
                    self.in_time(token.value(), &start)?;
                }
                // Whoever finds its lease lost begins anew.
                let holder = &mut self.holders[start.holder];
                holder.token = holder.token.filter(|held| *held != token.value());
            }
            Event::Queued { .. } | Event::Left { .. } | Event::FloorRaised { .. } => {}
        }
        Ok(())
    }

    /// The holder's own deadline counts from the send, on its own clock.
    fn in_time(&self, token: TokenValue, start: &Start) -> Result<(), String> {
        let holders_us = start.ttl_us * 1_000_000 / self.holders[start.holder].ppm;
        let deadline = start.sent + holders_us;
        if self.now < deadline {
            let early = deadline - self.now;
            return Err(format!(
                "NO-EARLY: {token} ended {early} us before its holder's deadline"
            ));
        }
        self.not_late(token, start)
    }

    fn not_late(&self, token: TokenValue, start: &Start) -> Result<(), String> {
        let latest = start.applied + start.ttl_us * 1_003 / 1_000 + LATE_US;
        if self.weather == Weather::Calm && self.now > latest {
            return Err(format!("NO-LATE: {token} should have ended at {latest} us"));
        }
        Ok(())
    }
}
