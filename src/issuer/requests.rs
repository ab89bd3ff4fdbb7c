//! The memory of request ids: what makes a call that is sent twice take effect once.
//!
//! An id is known while its grant lives, and then until a fixed number of later ids have settled. A
//! known id replays how it came out and never acts again. What was forgotten is covered by
//! `asked_at`: an id can have been forgotten only if it was applied, and it can have been applied only
//! after what its asker had seen before the first send. So an unknown id is new if its asker had
//! already seen every id that was forgotten since, and its outcome is unknown otherwise.
//!
//! A withdrawal that comes before the request it is for leaves a mark, which takes a place in the same
//! memory: sends up to the marked attempt never act, and a later one acts as if the id were new.
//!
//! The same memory says how a grant ended, for releases and renewals that come late.

use std::collections::{BTreeMap, VecDeque};

use crate::grant::{EndedHow, LeftHow};
use crate::issuer::RequestKey;
use crate::issuer::grants::Asked;
use crate::token::{Token, TokenValue};

/// An id that has settled: nothing more will come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) asked: Asked,
    pub(super) came_out: CameOut,
}

/// How a settled id came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CameOut {
    /// Refused, because somebody else held the resource.
    Held,
    /// Refused, because there were too many live grants.
    TooManyGrants,
    /// Refused, because too many waited: for the resource, or in all.
    TooManyWaiters {
        /// Whether for the resource.
        of_resource: bool,
    },
    /// Refused, because the holder had too much.
    TooManyGrantsOfHolder,
    /// It waited, and its place ended without a grant.
    Left(LeftHow),
    /// Granted, and the grant has ended.
    Ended {
        /// The token that it had.
        token: Token,
        /// How it ended.
        how: EndedHow,
    },
}

/// A request that was withdrawn before it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) key: RequestKey,
    /// The index of the first withdrawal. No asker whose request it is for can have seen that before
    /// the first send.
    pub(super) first_index: u64,
    /// Up to which attempt sends do not act.
    pub(super) attempt: u32,
}

/// One of the remembered settlements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settlement {
    /// An id that came out somehow.
    Settled(Settled),
    /// An id that has not come yet.
    Marked(Mark),
    /// A mark until a later send came, which is known by itself since. It only keeps its turn in
    /// being forgotten.
    Overtaken,
}

/// What is known of an id.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// Its grant lives, under this token.
    Live(TokenValue),
    /// It has settled.
    Settled(&'a mut Settled),
    /// It was withdrawn before it came.
    Marked(&'a mut Mark),
}

/// All known ids, but those that wait.
#[derive(Debug)]
pub(super) struct Requests {
    live: BTreeMap<RequestKey, TokenValue>,
    /// In the order in which they settled, the oldest first.
    settled: VecDeque<Settlement>,
    /// Where in `settled` an id is, as [`Turn`].
    by_key: BTreeMap<RequestKey, Turn>,
    /// Where in `settled` the end of a grant is.
    by_token: BTreeMap<TokenValue, Turn>,
    /// The turn of the oldest one in `settled`.
    oldest: Turn,
    /// The highest first index of all ids that were forgotten.
    forgotten_up_to: u64,
    /// How many settled ids are kept.
    settled_max: u32,
}

/// Counts settlements, and wraps: only differences to the oldest are ever used, and those are small.
type Turn = u32;

impl Requests {
    pub(super) fn new(settled_max: u32) -> Self {
        Self {
            live: BTreeMap::new(),
            settled: VecDeque::new(),
            by_key: BTreeMap::new(),
            by_token: BTreeMap::new(),
            oldest: 0,
            forgotten_up_to: 0,
            settled_max,
        }
    }

    pub(super) fn find(&mut self, key: &RequestKey) -> Option<Known<'_>> {
        if let Some(token) = self.live.get(key) {
            return Some(Known::Live(*token));
        }
        let at = self.position(*self.by_key.get(key)?);
        match self.settled.get_mut(at)? {
            Settlement::Settled(settled) => Some(Known::Settled(settled)),
            Settlement::Marked(mark) => Some(Known::Marked(mark)),
            Settlement::Overtaken => None,
        }
    }

    /// The token of the live grant that an id got.
    pub(super) fn token_of(&self, key: &RequestKey) -> Option<TokenValue> {
        self.live.get(key).copied()
    }

    /// How an id settled; `None` for one that lives, is only marked, or is not known.
    pub(super) fn how_settled(&self, key: &RequestKey) -> Option<CameOut> {
        let at = self.position(*self.by_key.get(key)?);
        match self.settled.get(at)? {
            Settlement::Settled(settled) => Some(settled.came_out),
            Settlement::Marked(_) | Settlement::Overtaken => None,
        }
    }

    /// How the grant with this token ended, if that is still remembered.
    pub(super) fn how_ended(&self, token: TokenValue) -> Option<EndedHow> {
        let at = self.position(*self.by_token.get(&token)?);
        match self.settled.get(at)? {
            Settlement::Settled(settled) => match settled.came_out {
                CameOut::Ended { how, .. } => Some(how),
                _ => None,
            },
            Settlement::Marked(_) | Settlement::Overtaken => None,
        }
    }

    /// An id that got a grant. `false` if the id is known already.
    #[must_use]
    pub(super) fn granted(&mut self, key: RequestKey, token: TokenValue) -> bool {
        self.is_new(&key) && self.live.insert(key, token).is_none()
    }

    /// Whether an id is neither live nor remembered.
    pub(super) fn is_new(&self, key: &RequestKey) -> bool {
        !self.by_key.contains_key(key) && !self.live.contains_key(key)
    }

    /// An id settles; the oldest one is forgotten if there are too many. `false` if the id
    /// or the token had settled before.
    #[must_use]
    pub(super) fn settle(&mut self, settled: Settled) -> bool {
        self.live.remove(&settled.asked.key);
        let turn = self.remember(Settlement::Settled(settled));
        let mut fresh = self.by_key.insert(settled.asked.key, turn).is_none();
        if let CameOut::Ended { token, .. } = settled.came_out {
            fresh &= self.by_token.insert(token.value(), turn).is_none();
        }
        fresh
    }

    /// Sends of an id that is not known shall not act up to an attempt. `false` if the id is known.
    #[must_use]
    pub(super) fn mark(&mut self, mark: Mark) -> bool {
        if !self.is_new(&mark.key) {
            return false;
        }
        let turn = self.remember(Settlement::Marked(mark));
        self.by_key.insert(mark.key, turn).is_none()
    }

    /// A marked id came with a later send, and is about to become known by itself. Without a mark
    /// nothing happens.
    pub(super) fn overtake(&mut self, key: &RequestKey) {
        let Some(turn) = self.by_key.get(key).copied() else {
            return;
        };
        let at = self.position(turn);
        if let Some(slot @ Settlement::Marked(_)) = self.settled.get_mut(at) {
            *slot = Settlement::Overtaken;
            self.by_key.remove(key);
        }
    }

    /// A mark that was overtaken, as a snapshot tells of it.
    pub(super) fn remember_overtaken(&mut self) {
        self.remember(Settlement::Overtaken);
    }

    fn remember(&mut self, settlement: Settlement) -> Turn {
        if self.settled.len() >= self.settled_max as usize {
            self.forget_oldest();
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "settled_max is 32 bits wide"
        )]
        let turn = self.oldest.wrapping_add(self.settled.len() as u32);
        self.settled.push_back(settlement);
        turn
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.settled.pop_front() else {
            return;
        };
        self.oldest = self.oldest.wrapping_add(1);
        let (key, first_index) = match oldest {
            Settlement::Settled(Settled { asked, came_out }) => {
                if let CameOut::Ended { token, .. } = came_out {
                    self.by_token.remove(&token.value());
                }
                (asked.key, asked.first_index)
            }
            Settlement::Marked(mark) => (mark.key, mark.first_index),
            Settlement::Overtaken => return,
        };
        self.by_key.remove(&key);
        self.forgotten_up_to = self.forgotten_up_to.max(first_index);
    }

    fn position(&self, turn: Turn) -> usize {
        turn.wrapping_sub(self.oldest) as usize
    }

    /// The highest first index of all ids that were forgotten; 0 if none was.
    pub(super) fn forgotten_up_to(&self) -> u64 {
        self.forgotten_up_to
    }

    /// All remembered settlements, the oldest first.
    pub(super) fn settled(&self) -> impl ExactSizeIterator<Item = &Settlement> {
        self.settled.iter()
    }

    /// Takes over what a snapshot says of it.
    pub(super) fn set_forgotten_up_to(&mut self, index: u64) {
        self.forgotten_up_to = index;
    }

    /// How many ids are known: those whose grant lives, and those that have settled or are marked.
    pub(super) fn len(&self) -> usize {
        self.live.len() + self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Ttl;
    use crate::token::TokenValue;

    fn ended(number: u8) -> Settled {
        let key = RequestKey::from_bytes([number; 16]);
        let (ttl, first_index) = (Ttl::default(), u64::from(number));
        let value = TokenValue::new(1 + u64::from(number)).unwrap();
        let token = Token::new(value, 1, first_index);
        Settled {
            asked: Asked {
                key,
                first_index,
                ttl,
                wait_ms: 0,
                attempt: 1,
            },
            came_out: CameOut::Ended {
                token,
                how: EndedHow::Expired,
            },
        }
    }

    #[test]
    fn a_settlement_takes_no_more_room_than_one_that_ended() {
        assert_eq!(size_of::<Settlement>(), size_of::<Settled>());
        assert_eq!(size_of::<Settlement>(), 72);
    }

    #[test]
    fn a_mark_that_was_overtaken_keeps_its_turn_and_nothing_else() {
        let mut requests = Requests::new(3);
        let key = RequestKey::from_bytes([7; 16]);
        let mark = Mark {
            key,
            first_index: 9,
            attempt: 1,
        };
        assert!(requests.mark(mark) && !requests.mark(mark));
        requests.overtake(&key);
        assert!(requests.is_new(&key) && requests.find(&key).is_none());
        let token = TokenValue::new(77).unwrap();
        assert!(requests.granted(key, token));
        for number in 0..3 {
            assert!(requests.settle(ended(number)));
        }
        // The mark went first; the grant stayed, and nothing was forgotten for it.
        assert!(matches!(requests.find(&key), Some(Known::Live(_))));
        assert_eq!((requests.settled.len(), requests.by_key.len()), (3, 3));
        assert_eq!(requests.forgotten_up_to(), 0);
    }

    #[test]
    fn what_is_forgotten_leaves_nothing_behind() {
        let mut requests = Requests::new(10);
        for number in 0..200 {
            assert!(requests.settle(ended(number)));
            let kept = usize::from(number + 1).min(10);
            assert_eq!(requests.settled.len(), kept);
            assert_eq!(requests.by_key.len(), kept);
            assert_eq!(requests.by_token.len(), kept);
        }
        assert_eq!(requests.forgotten_up_to(), 189);
    }

    #[test]
    fn places_are_found_also_when_their_count_wraps() {
        let mut requests = Requests::new(10);
        requests.oldest = Turn::MAX - 15;
        for number in 0..40 {
            assert!(requests.settle(ended(number)));
            for known in number.saturating_sub(9)..=number {
                let value = TokenValue::new(1 + u64::from(known)).unwrap();
                assert_eq!(
                    requests.how_ended(value),
                    Some(EndedHow::Expired),
                    "{known}"
                );
                let key = RequestKey::from_bytes([known; 16]);
                let found = requests.find(&key);
                assert!(matches!(found, Some(Known::Settled(settled)) if settled.asked.key == key));
            }
        }
    }
}
