//! The search for an order: Wing and Gong's ("Testing and verifying concurrent objects", 1993) with the
//! memory of states that Lowe added ("Testing for linearizability", 2017).
//!
//! From the items that may come next, those whose calls began before the earliest return of all that
//! are left, one is taken, and the search goes on from the state after it. A pair of (what was taken,
//! state) that led nowhere is not tried again. Three facts keep it short: grants can only come in the
//! order of their tokens, an item that changes nothing can be taken the moment it fits, and a lease that
//! runs out needs no item of its own, only that the time has come when something cannot be explained
//! without it.
//!
//! A search whose steps run out has no answer, which is not a pass.

use std::collections::{HashMap, HashSet};

use super::model::{Act, Number, State};
use crate::history::Moment;

/// One point of the history, somewhere between two times.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) act: Act,
    /// The send of its call.
    pub(super) from: Moment,
    /// When it had happened at the latest.
    pub(super) to: Moment,
    /// Whether it did happen; if not, it may have.
    pub(super) must: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is an order.
    Order,
    /// There is none: how far the best attempt came, and what it could not explain.
    Nothing(String),
    OutOfSteps,
}

/// A point of the search: everything before `next` is taken or past, and what is in `ahead`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Point {
    next: usize,
    ahead: Vec<usize>,
    state: State,
}

struct Search<'a> {
    items: &'a [Item],
    /// The tokens of all grants, rising.
    tokens: Vec<u64>,
    /// By token: the last item that is about it.
    last_about: HashMap<u64, usize>,
    /// By place: the item that joins it.
    joins: HashMap<Number, usize>,
}

/// Looks for an order of all items, taking at most `steps` steps.
pub(super) fn search(mut items: Vec<Item>, steps: usize) -> Found {
    items.sort_by_key(|item| item.from);
    let search = Search::over(&items);
    let mut seen = HashSet::new();
    let mut open = vec![search.settled(Point::default())];
    let mut deepest = (0, open[0].clone());
    while let Some(point) = open.pop() {
        if search.is_done(&point) {
            return Found::Order;
        }
        if seen.len() >= steps {
            return Found::OutOfSteps;
        }
        let depth = point.next + point.ahead.len();
        if depth > deepest.0 {
            deepest = (depth, point.clone());
        }
        // The last one pushed is tried first: the one whose call returned first.
        for child in search.children(&point).into_iter().rev() {
            if seen.insert(child.clone()) {
                open.push(child);
            }
        }
    }
    Found::Nothing(search.blame(&deepest.1))
}

impl<'a> Search<'a> {
    fn over(items: &'a [Item]) -> Self {
        let (mut tokens, mut last_about, mut joins) = (Vec::new(), HashMap::new(), HashMap::new());
        for (at, item) in items.iter().enumerate() {
            match item.act {
                Act::Grant { token, .. } | Act::Take { token, .. } => tokens.push(token),
                Act::Join { place, .. } => {
                    joins.insert(place, at);
                }
                Act::Release { token } | Act::Revoke { token } => {
                    last_about.insert(token, at);
                }
                _ => {}
            }
        }
        tokens.sort_unstable();
        Self {
            items,
            tokens,
            last_about,
            joins,
        }
    }

    fn is_done(&self, point: &Point) -> bool {
        let left = (point.next..self.items.len()).filter(|at| !point.ahead.contains(at));
        left.into_iter().all(|at| !self.items[at].must)
    }

    /// What is not taken and may come next, in the order of their returns, and the time by which it
    /// has come: the earliest return of all that must still come.
    fn candidates(&self, point: &Point) -> (Vec<usize>, Moment) {
        let (mut left, mut horizon) = (Vec::new(), Moment::MAX);
        for (at, item) in self.items.iter().enumerate().skip(point.next) {
            if item.from > horizon {
                break;
            }
            if point.ahead.binary_search(&at).is_err() {
                left.push(at);
                if item.must {
                    horizon = horizon.min(item.to);
                }
            }
        }
        let now = self.reached(point);
        left.retain(|at| self.items[*at].from <= horizon && self.items[*at].to >= now);
        left.sort_by_key(|at| self.items[*at].to);
        (left, horizon)
    }

    /// The latest send of what is taken: whatever comes next comes after it.
    fn reached(&self, point: &Point) -> Moment {
        let last = point.ahead.last().copied().or(point.next.checked_sub(1));
        last.map_or(Moment::ZERO, |at| self.items[at].from)
    }

    /// The state after an item, if it may come next. A lease runs out when nothing else explains it.
    fn step(&self, point: &Point, at: usize, horizon: Moment) -> Option<State> {
        let item = &self.items[at];
        match item.act {
            Act::Grant { token, .. } | Act::Take { token, .. } => {
                let next = self
                    .tokens
                    .partition_point(|t| *t <= point.state.last_token);
                if self.tokens.get(next) != Some(&token) {
                    return None;
                }
            }
            Act::Leave { place } => {
                let joined = self.joins.get(&place);
                if joined.is_some_and(|join| !point.has(*join)) {
                    return None;
                }
            }
            _ => {}
        }
        let state = &point.state;
        state.step(&item.act, item.from).or_else(|| {
            let expired = state.expired(horizon.min(item.to))?;
            expired.step(&item.act, item.from)
        })
    }

    fn children(&self, point: &Point) -> Vec<Point> {
        let (candidates, horizon) = self.candidates(point);
        let children = candidates.into_iter().filter_map(|at| {
            let state = self.step(point, at, horizon)?;
            Some(self.settled(self.taken(point, at, state)))
        });
        children.collect()
    }

    /// Takes all that changes nothing. No order is lost by it: what is left has fewer calls to wait for.
    fn settled(&self, mut point: Point) -> Point {
        loop {
            let (candidates, _) = self.candidates(&point);
            let idle = candidates.into_iter().find(|at| {
                let item = &self.items[*at];
                let tells = !matches!(item.act, Act::Join { .. } | Act::Leave { .. });
                tells && point.state.step(&item.act, item.from).as_ref() == Some(&point.state)
            });
            match idle {
                Some(at) => point = self.taken(&point, at, point.state.clone()),
                None => return point,
            }
        }
    }

    fn taken(&self, point: &Point, at: usize, state: State) -> Point {
        let mut after = point.clone();
        after.state = state;
        let place = after.ahead.partition_point(|one| *one < at);
        after.ahead.insert(place, at);
        let now = self.reached(&after);
        loop {
            if after.ahead.first() == Some(&after.next) {
                after.ahead.remove(0);
            } else if !self.is_past(after.next, now) || after.ahead.is_empty() {
                break;
            }
            after.next += 1;
        }
        let next = after.next;
        let asked_about = |token| {
            self.last_about
                .get(&token)
                .is_some_and(|last| *last >= next)
        };
        after.state.forget(asked_about);
        after
    }

    /// Whether an item that need not have happened cannot happen any more.
    fn is_past(&self, at: usize, now: Moment) -> bool {
        self.items
            .get(at)
            .is_some_and(|item| !item.must && item.to < now)
    }

    /// What the search could not explain: of all that is left, the item that had happened first.
    fn blame(&self, point: &Point) -> String {
        let (candidates, _) = self.candidates(point);
        let stuck = candidates.iter().find(|at| self.items[**at].must);
        let stuck = stuck.map(|at| &self.items[*at]);
        format!("no order explains {stuck:?} after {:?}", point.state)
    }
}

impl Point {
    fn has(&self, at: usize) -> bool {
        at < self.next || self.ahead.binary_search(&at).is_ok()
    }
}
