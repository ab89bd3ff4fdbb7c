//! The memory of request ids: what makes a call that is sent twice take effect once.
//!
//! An id is known while its grant lives, and then until a fixed number of later ids have settled. A
//! known id replays how it came out and never acts again. What was forgotten is covered by
//! `asked_at`: an id can have been forgotten only if it was applied, and it can have been applied only
//! after what its asker had seen before the first send. So an unknown id is new if its asker had
//! already seen every id that was forgotten since, and its outcome is unknown otherwise.
//!
//! The same memory says how a grant ended, for releases and renewals that come late.

use std::collections::{BTreeMap, VecDeque};

use crate::grant::EndedHow;
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
    /// Granted, and the grant has ended.
    Ended {
        /// The token that it had.
        token: Token,
        /// How it ended.
        how: EndedHow,
    },
}

/// What is known of an id.
#[derive(Debug)]
pub(super) enum Known<'a> {
    /// Its grant lives, under this token.
    Live(TokenValue),
    /// It has settled.
    Settled(&'a mut Settled),
}

/// All known ids.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    live: BTreeMap<RequestKey, TokenValue>,
    /// In the order in which they settled, the oldest first.
    settled: VecDeque<Settled>,
    /// Where in `settled` an id is, as [`Place`].
    by_key: BTreeMap<RequestKey, Place>,
    /// Where in `settled` the end of a grant is.
    by_token: BTreeMap<TokenValue, Place>,
    /// The place of the oldest one in `settled`.
    oldest: Place,
    /// The highest first index of all ids that were forgotten.
    forgotten_up_to: u64,
    /// How many settled ids are kept.
    settled_max: u32,
}

/// Counts settlements, and wraps: only differences to the oldest are ever used, and those are small.
type Place = u32;

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
        self.settled.get_mut(at).map(Known::Settled)
    }

    /// How the grant with this token ended, if that is still remembered.
    pub(super) fn how_ended(&self, token: TokenValue) -> Option<EndedHow> {
        let at = self.position(*self.by_token.get(&token)?);
        match self.settled.get(at)?.came_out {
            CameOut::Ended { how, .. } => Some(how),
            CameOut::Held | CameOut::TooManyGrants => None,
        }
    }

    /// An id that got a grant. `false` if the id is known already.
    #[must_use]
    pub(super) fn granted(&mut self, key: RequestKey, token: TokenValue) -> bool {
        !self.by_key.contains_key(&key) && self.live.insert(key, token).is_none()
    }

    /// An id settles; the oldest one is forgotten if there are too many. `false` if the id
    /// or the token had settled before.
    #[must_use]
    pub(super) fn settle(&mut self, settled: Settled) -> bool {
        self.live.remove(&settled.asked.key);
        if self.settled.len() >= self.settled_max as usize {
            self.forget_oldest();
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "settled_max is 32 bits wide"
        )]
        let place = self.oldest.wrapping_add(self.settled.len() as u32);
        self.settled.push_back(settled);
        let mut fresh = self.by_key.insert(settled.asked.key, place).is_none();
        if let CameOut::Ended { token, .. } = settled.came_out {
            fresh &= self.by_token.insert(token.value(), place).is_none();
        }
        fresh
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.settled.pop_front() else {
            return;
        };
        self.oldest = self.oldest.wrapping_add(1);
        self.by_key.remove(&oldest.asked.key);
        if let CameOut::Ended { token, .. } = oldest.came_out {
            self.by_token.remove(&token.value());
        }
        self.forgotten_up_to = self.forgotten_up_to.max(oldest.asked.first_index);
    }

    fn position(&self, place: Place) -> usize {
        place.wrapping_sub(self.oldest) as usize
    }

    /// The highest first index of all ids that were forgotten; 0 if none was.
    pub(super) fn forgotten_up_to(&self) -> u64 {
        self.forgotten_up_to
    }

    /// The settled ids, the oldest first.
    pub(super) fn settled(&self) -> impl ExactSizeIterator<Item = &Settled> {
        self.settled.iter()
    }

    /// Takes over what a snapshot says of it.
    pub(super) fn set_forgotten_up_to(&mut self, index: u64) {
        self.forgotten_up_to = index;
    }

    /// How many ids are known because their grant lives.
    pub(super) fn live_len(&self) -> usize {
        self.live.len()
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
        requests.oldest = Place::MAX - 15;
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
