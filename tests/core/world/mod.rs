//! A small world: nodes whose clocks differ, holders that pause, wait, give up and come back, a log in
//! which things arrive late and twice, and leaders that change. Nothing in it is real but the core and
//! the lease clocks.

mod checks;
mod holder;
mod leader;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fencepost::grant::LeftHow;
use fencepost::issuer::{
    Bounds, Command, Event, LogId, Machine, Outcome, Release, Replica, RequestKey, Standing,
    Withdraw, WithdrawOutcome,
};

use crate::dice::Dice;
use crate::doctored::with_queues_reversed;
use crate::scene::{STAMP_MS, machine_within};
use checks::{Checks, Entry};
use holder::Holder;

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
    /// Whoever left a queue is granted all the same.
    GoneIsGranted,
    /// A new leader serves the queues from their ends.
    ElectionReversesQueues,
    /// `Withdraw` ends a place whichever send it is about.
    StaleWithdrawActs,
    /// `Withdraw` ends a grant too.
    WithdrawEndsGrants,
    /// No leader proposes to promote.
    NobodyPromotes,
}

/// How rough it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nodes keep up; leaders change all the time. Nothing ends late.
    Calm,
    /// Nodes stall, restart and propose what is long out of date, and the network delivers old copies.
    Rough,
}

struct Node {
    replica: Replica,
    applied: usize,
    /// Ticks of this node's clock in a million true microseconds.
    ppm: u64,
    origin: Instant,
    stalled_until: u64,
}

/// Something on its way into the log.
#[derive(Clone)]
struct Proposal {
    arrives: u64,
    sent: u64,
    /// Which node proposed it; a holder's own is that of the leader.
    by: usize,
    command: Command,
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
    checks: Checks,
    /// In how many steps a leader is elected once.
    elects: u64,
    /// When leaders next look for what has run out.
    looks_at: u64,
    /// When the leader last heard of a waiter.
    vouched: BTreeMap<RequestKey, u64>,
}

/// Ids are forgotten all the time, so that late copies meet a state that does not know them any more.
fn founding() -> Machine {
    machine_within(Bounds {
        settled_ids_max: 12,
        ..Bounds::default()
    })
}

impl World {
    pub(crate) fn new(seed: u64, bug: Bug, weather: Weather) -> Self {
        let mut dice = Dice::new(seed);
        let ppm = |dice: &mut Dice| 999_500 + dice.below(1_001);
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let fast = if bug == Bug::FastClock { 250_000 } else { 0 };
            let origin = Instant::now() + Duration::from_secs(dice.below(1_000));
            nodes.push(Node {
                replica: Replica::new(founding(), origin),
                applied: 0,
                ppm: ppm(&mut dice) + fast,
                origin,
                stalled_until: 0,
            });
        }
        // A waiter is given up after two seconds without an election.
        let elects = *dice.pick(&[40, 40, 1_000]);
        let mut holders = Vec::new();
        for name in holder::NAMES {
            let ppm = ppm(&mut dice);
            holders.push(Holder::new(name, ppm, &mut dice));
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
            committed: founding(),
            chains: Vec::new(),
            checks: Checks::default(),
            elects,
            looks_at: 0,
            vouched: BTreeMap::new(),
        }
    }

    /// Lets a while pass. `Err` names the check that fired.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.now += 1_000 + self.dice.below(9_000);
            if self.dice.one_in(self.elects) {
                self.elect();
            }
            self.holders_act();
            self.nodes_apply()?;
            self.leaders_act();
            self.commit()?;
            // To reverse a queue is to restart a node, whose waits begin anew then.
            let reverses = self.bug == Bug::ElectionReversesQueues;
            if self.weather == Weather::Calm && !reverses {
                self.checks.late(self.now)?;
            }
        }
        Ok(())
    }

    /// How often what happened.
    pub(crate) fn seen(&self) -> &BTreeMap<&'static str, u64> {
        &self.checks.seen
    }

    fn elect(&mut self) {
        self.term += 1;
        self.leader = usize::try_from(self.dice.below(3)).unwrap();
        // A new leader starts the count afresh.
        self.vouched.clear();
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

    /// In rough weather some things are lost, and some come a second time, much later.
    fn send(&mut self, by: usize, command: Command) {
        let rough = self.weather == Weather::Rough;
        let mut proposal = Proposal {
            arrives: self.now + self.delay(),
            sent: self.now,
            by,
            command,
        };
        if rough && self.dice.one_in(12) {
            proposal.arrives += self.dice.below(6_000_000);
            self.on_the_way.push(proposal.clone());
            proposal.arrives = self.now + self.delay();
        }
        if rough && self.dice.one_in(15) {
            return;
        }
        self.on_the_way.push(proposal);
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
                let reverses = self.bug == Bug::ElectionReversesQueues;
                if reverses && at.term > node.replica.machine().applied().term {
                    let bytes = with_queues_reversed(node.replica.machine());
                    node.replica.install(&bytes[..], now).unwrap();
                }
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

    fn commit(&mut self) -> Result<(), String> {
        let now = self.now;
        let (mut arrived, later): (Vec<_>, Vec<_>) = self
            .on_the_way
            .drain(..)
            .partition(|proposal| proposal.arrives <= now);
        self.on_the_way = later;
        arrived.sort_by_key(|proposal| proposal.arrives);
        for proposal in arrived {
            let at = LogId::new(self.term, self.log.len() as u64 + 1);
            let reverses = self.bug == Bug::ElectionReversesQueues;
            if reverses && at.term > self.committed.applied().term {
                let bytes = with_queues_reversed(&self.committed);
                self.committed = Machine::read_snapshot(&bytes[..]).unwrap();
            }
            let mut planted = proposal.command.clone();
            let claimed = self.plant(&proposal, &mut planted);
            let mut applied = self.committed.apply(at, &planted).unwrap();
            if let Some((outcome, mut events)) = claimed {
                applied.outcome = outcome;
                events.append(&mut applied.events);
                applied.events = events;
            }
            let entry = Entry {
                now,
                sent: proposal.sent,
                command: &proposal.command,
                outcome: &applied.outcome,
                events: &applied.events,
            };
            let holders = &self.holders;
            let ppm = |name: &fencepost::resource::Holder| {
                let same = |holder: &&Holder| holder.name == name.as_str();
                holders.iter().find(same).unwrap().ppm
            };
            self.checks.entry(&entry, ppm)?;
            self.holders_hear(&proposal.command, &applied.outcome, &applied.events);
            self.log.push((at, planted));
            self.chains.push(self.committed.chain());
        }
        Ok(())
    }

    /// Does wrong what the bug is about. What it gives is claimed to have happened on top.
    fn plant(&self, proposal: &Proposal, command: &mut Command) -> Option<(Outcome, Vec<Event>)> {
        match command {
            Command::Expire(expire) => {
                let knows = match self.bug {
                    Bug::ExpireIgnoresRenewals => &self.committed,
                    Bug::ExpireNamesTheCurrentRenewals => self.nodes[proposal.by].replica.machine(),
                    _ => return None,
                };
                for lease in &mut expire.leases {
                    if let Some(grant) = knows.grant(lease.token) {
                        lease.renewals = grant.renewals;
                    }
                }
                None
            }
            Command::Withdraw(withdraw) => match self.bug {
                Bug::StaleWithdrawActs => {
                    let places = withdraw.places.iter_mut();
                    places.for_each(|leaving| leaving.attempt = u32::MAX);
                    None
                }
                Bug::GoneIsGranted => {
                    let claimed = self.claimed(withdraw);
                    // Such a withdrawal acts on nothing.
                    withdraw.how = LeftHow::Superseded;
                    Some(claimed)
                }
                Bug::WithdrawEndsGrants => {
                    let request = withdraw.places.first()?.request;
                    let Standing::Granted { token, .. } = self.committed.standing(&request) else {
                        return None;
                    };
                    let outcome = WithdrawOutcome::Left { how: withdraw.how };
                    *command = Command::Release(Release {
                        token: token.value(),
                        stamped_at_ms: STAMP_MS,
                    });
                    Some((Outcome::Withdraw(vec![outcome]), Vec::new()))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What a withdrawal would have done.
    fn claimed(&self, withdraw: &Withdraw) -> (Outcome, Vec<Event>) {
        let (mut each, mut events) = (Vec::new(), Vec::new());
        for leaving in &withdraw.places {
            let waiter = self.committed.all_waiters();
            let mut waiter = waiter.filter(|waiter| waiter.request == leaving.request);
            let Some(waiter) = waiter.next() else {
                each.push(WithdrawOutcome::Unknown);
                continue;
            };
            if withdraw.how != LeftHow::WaitedOut && leaving.attempt < waiter.attempt {
                each.push(WithdrawOutcome::Stale);
                continue;
            }
            each.push(WithdrawOutcome::Left { how: withdraw.how });
            if self.checks.is_closed(&waiter.request) {
                continue;
            }
            events.push(Event::Left {
                resource: waiter.resource.clone(),
                holder: waiter.holder.clone(),
                request: waiter.request,
                how: withdraw.how,
            });
        }
        (Outcome::Withdraw(each), events)
    }
}
