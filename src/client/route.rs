//! Which node to ask next. Pure: the time is an argument.
//!
//! The leader comes first, when it is known: it saves a hop. Then the configured endpoints in turn. A
//! node that could not be reached is set aside for a while, and so is a hint that names it: a follower
//! may go on naming a leader that died or that this client cannot reach, and following such a hint on
//! every call would cost a timeout each.

use super::address::Address;
use super::clock::BootInstant;
use std::time::Duration;

/// For how long a node that could not be reached is asked last. Others pass calls on in the meantime.
const SET_ASIDE: Duration = Duration::from_secs(2);

/// The most addresses that can be set aside at once; hints can name any address, memory cannot hold all.
const SET_ASIDE_MAX: usize = 64;

/// What the client knows about its nodes.
#[derive(Debug)]
pub(crate) struct Route {
    configured: Vec<Address>,
    leader: Option<Address>,
    /// The highest term that a hint came with: a node that lags behind names a leader of the past.
    term: u64,
    /// Where the turn through the configured endpoints goes on.
    turn: usize,
    set_aside: Vec<(Address, BootInstant)>,
    /// Hints that led to another cluster: never followed again.
    distrusted: Vec<Address>,
}

impl Route {
    /// `configured` has at least one address; `start` picks the first one to be asked.
    pub(crate) fn new(configured: Vec<Address>, start: usize) -> Self {
        let turn = start % configured.len().max(1);
        Self {
            configured,
            leader: None,
            term: 0,
            turn,
            set_aside: Vec::new(),
            distrusted: Vec::new(),
        }
    }

    pub(crate) fn configured(&self) -> &[Address] {
        &self.configured
    }

    pub(crate) fn leader(&self) -> Option<&Address> {
        self.leader.as_ref()
    }

    /// The next node to ask in a round that has asked `tried` already. `None`: the round is over.
    pub(crate) fn next(&self, tried: &[Address], now: BootInstant) -> Option<Address> {
        let untried = |address: &&Address| !tried.contains(address);
        if let Some(leader) = self.leader.as_ref().filter(untried) {
            return Some(leader.clone());
        }
        let in_turn = || {
            let (before, after) = self.configured.split_at(self.turn);
            after.iter().chain(before).filter(untried)
        };
        let first_choice = in_turn().find(|address| !self.is_set_aside(address, now));
        first_choice.or_else(|| in_turn().next()).cloned()
    }

    /// The next node to ask where any will do: the configured endpoints in turn, the leader only if it is
    /// one of them or nobody else is left.
    pub(crate) fn next_of_any(&self, tried: &[Address], now: BootInstant) -> Option<Address> {
        let untried = |address: &&Address| !tried.contains(address);
        let (before, after) = self.configured.split_at(self.turn);
        let in_turn = || after.iter().chain(before).filter(untried);
        let first_choice = in_turn().find(|address| !self.is_set_aside(address, now));
        first_choice
            .or_else(|| self.leader.as_ref().filter(untried))
            .or_else(|| in_turn().next())
            .cloned()
    }

    /// Takes a hint of who leads, since which term if that was said. A hint without a usable address,
    /// from the past, or to a node that is set aside, is not followed.
    pub(crate) fn learn_leader(&mut self, hint: &str, term: Option<u64>, now: BootInstant) {
        if term.is_some_and(|term| term < self.term) {
            return;
        }
        self.term = term.unwrap_or(self.term);
        if self
            .leader
            .as_ref()
            .is_some_and(|leader| leader.as_str() == hint)
        {
            return;
        }
        let Ok(address) = hint.parse::<Address>() else {
            return;
        };
        if !self.is_set_aside(&address, now) && !self.distrusted.contains(&address) {
            self.leader = Some(address);
        }
    }

    /// `address` did not do what was asked of it: it is not (known to be) the leader, and another
    /// configured endpoint has the turn.
    pub(crate) fn pass_over(&mut self, address: &Address) {
        if self.leader.as_ref() == Some(address) {
            self.leader = None;
        }
        if self.configured.get(self.turn) == Some(address) {
            self.turn = (self.turn + 1) % self.configured.len();
        }
    }

    /// `address` could not be reached: as [`Self::pass_over`], and it is asked last for a while.
    pub(crate) fn put_aside(&mut self, address: &Address, now: BootInstant) {
        self.pass_over(address);
        self.set_aside
            .retain(|(other, until)| other != address && *until > now);
        if self.set_aside.len() < SET_ASIDE_MAX {
            self.set_aside.push((address.clone(), now.plus(SET_ASIDE)));
        }
    }

    /// A hint led to `address`, which belongs to another cluster. Returns false if it is a configured
    /// endpoint: that is the user's mistake and not a hint's.
    pub(crate) fn distrust(&mut self, address: &Address) -> bool {
        if self.configured.contains(address) {
            return false;
        }
        self.pass_over(address);
        if self.distrusted.len() < SET_ASIDE_MAX && !self.distrusted.contains(address) {
            self.distrusted.push(address.clone());
        }
        true
    }

    fn is_set_aside(&self, address: &Address, now: BootInstant) -> bool {
        self.set_aside
            .iter()
            .any(|(other, until)| other == address && *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootInstant = BootInstant::from_boot(Duration::from_secs(100));

    fn at(port: u16) -> Address {
        format!("127.0.0.1:{port}").parse().unwrap()
    }

    fn three() -> Route {
        Route::new(vec![at(1), at(2), at(3)], 0)
    }

    #[test]
    fn a_round_asks_the_leader_first_and_each_node_once() {
        let mut route = three();
        route.learn_leader("127.0.0.1:2", None, NOW);
        let mut tried = Vec::new();
        while let Some(next) = route.next(&tried, NOW) {
            tried.push(next);
        }
        assert_eq!(tried, [at(2), at(1), at(3)]);
    }

    #[test]
    fn where_any_node_will_do_the_leader_has_no_precedence_and_is_the_way_out() {
        let mut route = three();
        route.learn_leader("127.0.0.1:9", None, NOW);
        assert_eq!(route.next_of_any(&[], NOW), Some(at(1)));
        route.put_aside(&at(1), NOW);
        assert_eq!(route.next_of_any(&[], NOW), Some(at(2)));
        let tried = [at(2), at(3)];
        assert_eq!(route.next_of_any(&tried, NOW), Some(at(9)));
        let tried = [at(2), at(3), at(9)];
        assert_eq!(route.next_of_any(&tried, NOW), Some(at(1)));
    }

    #[test]
    fn a_leader_outside_the_list_is_followed() {
        let mut route = three();
        route.learn_leader("127.0.0.1:9", None, NOW);
        assert_eq!(route.next(&[], NOW), Some(at(9)));
        route.pass_over(&at(9));
        assert_eq!(route.next(&[], NOW), Some(at(1)));
    }

    #[test]
    fn a_hint_to_an_unreachable_node_is_not_followed_again_for_a_while() {
        let mut route = three();
        route.learn_leader("127.0.0.1:9", None, NOW);
        route.put_aside(&at(9), NOW);
        route.learn_leader("127.0.0.1:9", None, NOW);
        assert_eq!(route.next(&[], NOW), Some(at(1)));
        let later = NOW.plus(SET_ASIDE);
        route.learn_leader("127.0.0.1:9", None, later);
        assert_eq!(route.next(&[], later), Some(at(9)));
    }

    #[test]
    fn nodes_set_aside_come_last_and_are_still_asked() {
        let mut route = three();
        route.put_aside(&at(1), NOW);
        route.put_aside(&at(2), NOW);
        assert_eq!(route.next(&[], NOW), Some(at(3)));
        assert!(route.next(&[at(3)], NOW).is_some());
    }

    #[test]
    fn a_hint_into_another_cluster_is_never_followed_again() {
        let mut route = three();
        route.learn_leader("127.0.0.1:9", None, NOW);
        assert!(route.distrust(&at(9)));
        route.learn_leader("127.0.0.1:9", None, NOW.plus(SET_ASIDE * 10));
        assert_eq!(route.next(&[], NOW), Some(at(1)));
        assert!(
            !route.distrust(&at(1)),
            "a configured endpoint is the user's own"
        );
    }

    #[test]
    fn a_hint_from_the_past_is_not_followed() {
        let mut route = three();
        route.learn_leader("127.0.0.1:2", Some(5), NOW);
        route.learn_leader("127.0.0.1:3", Some(4), NOW);
        assert_eq!(route.leader(), Some(&at(2)));
        route.learn_leader("127.0.0.1:3", Some(6), NOW);
        assert_eq!(route.leader(), Some(&at(3)));
    }

    #[test]
    fn a_hint_without_a_usable_address_changes_nothing() {
        let mut route = three();
        for hint in ["", "nonsense", "0.0.0.0:0", "https://x:1"] {
            route.learn_leader(hint, None, NOW);
        }
        assert_eq!(route.leader(), None);
    }
}
