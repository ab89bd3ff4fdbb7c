//! What leaders propose by themselves: to end leases and waits that have run out, places that nobody
//! vouches for, and to promote. In rough weather any node may take itself for the leader.

use fencepost::grant::LeftHow;
use fencepost::issuer::{Command, Expire, Leaving, Promote, Withdraw};

use super::{Bug, Weather, World};
use crate::scene::STAMP_MS;

/// For how long a place may go without anybody who vouches for it.
const DETACHED_US: u64 = 2_000_000;

/// How often a leader looks for what has run out.
const LOOKS_US: u64 = 200_000;

impl World {
    pub(super) fn leaders_act(&mut self) {
        // Not at every step, so that several leases are found to have run out at once.
        let looks = self.now >= self.looks_at;
        if looks {
            let often = self.weather == Weather::Rough;
            self.looks_at = self.now + if often { LOOKS_US / 8 } else { LOOKS_US };
        }
        for index in 0..self.nodes.len() {
            let deposed = self.weather == Weather::Rough && self.dice.one_in(3);
            if index != self.leader && !deposed {
                continue;
            }
            if looks {
                self.leases_and_waits_run_out(index);
            }
            if deposed && self.dice.one_in(30) {
                self.withdraw_unheard(index);
            }
            if self.bug != Bug::NobodyPromotes {
                for resource in self.nodes[index].replica.machine().promotable(2) {
                    let stamped_at_ms = STAMP_MS;
                    let promote = Promote {
                        resource,
                        stamped_at_ms,
                    };
                    self.send(index, Command::Promote(promote));
                }
            }
        }
        self.withdraw_the_detached();
    }

    fn leases_and_waits_run_out(&mut self, index: usize) {
        let (now, stamped_at_ms) = (self.clock_of(index), STAMP_MS);
        let replica = &self.nodes[index].replica;
        let leases = replica.due(now, 10);
        let waits = replica.due_waits(now, 10);
        if !leases.is_empty() {
            let expire = Expire {
                leases,
                stamped_at_ms,
            };
            self.send(index, Command::Expire(expire));
        }
        if !waits.is_empty() {
            let places = waits.into_iter().map(|request| Leaving {
                request,
                attempt: 0,
            });
            let withdraw = Withdraw {
                places: places.collect(),
                how: LeftHow::WaitedOut,
                stamped_at_ms,
            };
            self.send(index, Command::Withdraw(withdraw));
        }
    }

    /// Whoever takes itself for the leader hears of nobody, and goes by a state that may be old.
    fn withdraw_unheard(&mut self, index: usize) {
        let mut places = self.nodes[index].replica.machine().places();
        let Some((request, attempt)) = places.next() else {
            return;
        };
        drop(places);
        let withdraw = Withdraw {
            places: vec![Leaving { request, attempt }],
            how: LeftHow::Detached,
            stamped_at_ms: STAMP_MS,
        };
        self.send(index, Command::Withdraw(withdraw));
    }

    /// Nodes tell the leader who is attached to them; it forgets that when it changes.
    fn withdraw_the_detached(&mut self) {
        let now = self.now;
        let attached: Vec<_> = self
            .holders
            .iter()
            .filter_map(|holder| holder.attached(now))
            .map(|asking| asking.request)
            .collect();
        let places: Vec<_> = self.nodes[self.leader].replica.machine().places().collect();
        let mut detached = Vec::new();
        for (request, attempt) in places {
            let heard = self.vouched.entry(request).or_insert(now);
            if attached.contains(&request) {
                *heard = now;
            } else if now > *heard + DETACHED_US {
                // Not again at once, while this one is on its way.
                *heard = now;
                detached.push(Leaving { request, attempt });
            }
        }
        if !detached.is_empty() {
            let withdraw = Withdraw {
                places: detached,
                how: LeftHow::Detached,
                stamped_at_ms: STAMP_MS,
            };
            self.send(self.leader, Command::Withdraw(withdraw));
        }
    }
}
