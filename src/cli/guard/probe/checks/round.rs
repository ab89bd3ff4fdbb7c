//! One round of writers at once, and what its answers say. Pure: the judge of the race checks.
//!
//! Writes that overlap may be carried out in any order, so a single answer proves nothing. What holds
//! in every order: a token is refused only because of a higher one of the round; the highest of the
//! round is never refused; and once all answers are in, the mark is the highest token that was
//! acknowledged. (The higher one may have been refused as well: where a door keeps marks of its own in
//! front of a store that compares again, a token can pass the first and come too late for the second.) A service that reads the mark, compares, and then writes lets a lower write land on
//! a higher one, and is left with the lower mark.

/// What came of one write of the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 2xx.
    Admitted,
    /// 409, with the mark that its header implies, where there is one to be trusted.
    Stale(Option<u64>),
    /// No answer, or one that does not say whether the write took effect (429, 5xx).
    Unknown,
    /// Anything else, which is wrong.
    Other(u16),
}

/// The tokens of a round with what came of them.
pub(super) type Round = [(u64, Outcome)];

impl Outcome {
    /// Reads a status; `mark` is what the answer's header implies.
    pub(super) fn of(status: Option<u16>, mark: Option<u64>) -> Self {
        match status {
            Some(200..300) => Self::Admitted,
            Some(409) => Self::Stale(mark),
            None | Some(429 | 500..600) => Self::Unknown,
            Some(other) => Self::Other(other),
        }
    }
}

/// The highest token that was acknowledged.
pub(super) fn highest_acknowledged(round: &Round) -> Option<u64> {
    with(round, |outcome| outcome == Outcome::Admitted).max()
}

/// Where the mark may be after the round: at the highest acknowledged token, or at a higher one whose
/// outcome nobody knows.
pub(super) fn possible_marks(round: &Round) -> Vec<u64> {
    let highest = highest_acknowledged(round);
    let unknown = with(round, |outcome| outcome == Outcome::Unknown);
    unknown
        .filter(|token| Some(*token) > highest)
        .chain(highest)
        .collect()
}

fn with(round: &Round, is: impl Fn(Outcome) -> bool) -> impl Iterator<Item = u64> {
    let matching = round.iter().filter(move |(_, outcome)| is(*outcome));
    matching.map(|(token, _)| *token)
}

/// The first thing that cannot be, whatever the order: the token whose answer it is, and what was
/// expected instead.
pub(super) fn complaint(round: &Round) -> Option<(u64, String)> {
    let highest = round.iter().map(|(token, _)| *token).max()?;
    let marks = possible_marks(round);
    for &(token, outcome) in round {
        match outcome {
            Outcome::Other(_) => {
                return Some((token, "2xx or 409, as for one write alone".to_owned()));
            }
            Outcome::Stale(_) if token == highest => {
                return Some((
                    token,
                    "2xx: no higher token was sent for this resource".to_owned(),
                ));
            }
            Outcome::Stale(Some(mark)) if mark <= token => {
                return Some((
                    token,
                    format!("an X-Required-Token above {token}, which was refused"),
                ));
            }
            Outcome::Stale(Some(mark)) if !was_sent(round, mark) => {
                return Some((
                    token,
                    format!("an X-Required-Token that somebody sent, not {mark}"),
                ));
            }
            _ => {}
        }
    }
    if marks.is_empty() {
        return Some((highest, "2xx for at least one of the writers".to_owned()));
    }
    None
}

fn was_sent(round: &Round, token: u64) -> bool {
    with(round, |_| true).any(|other| other == token)
}

/// In which order the writers of a round are started: ascending, descending, and strides between, so
/// that lower tokens overtake higher ones in many ways. A permutation of `0..writers`.
pub(super) fn order(round: u32, writers: u32) -> Vec<u32> {
    let strides: Vec<u32> = (1..writers.max(2))
        .filter(|stride| greatest_common_divisor(*stride, writers) == 1)
        .collect();
    let stride = strides[round as usize % strides.len()];
    let mut order: Vec<u32> = (0..writers)
        .map(|place| (place * stride + round) % writers)
        .collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 {
        one
    } else {
        greatest_common_divisor(other, one % other)
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Admitted, Other, Stale, Unknown};
    use super::*;

    #[test]
    fn every_order_is_a_permutation_and_they_differ() {
        for writers in 1..=64 {
            for round in 0..8 {
                let mut order = order(round, writers);
                order.sort_unstable();
                assert_eq!(order, (0..writers).collect::<Vec<_>>());
            }
        }
        assert_ne!(order(0, 8), order(1, 8));
    }

    #[test]
    fn what_some_order_explains_is_no_complaint() {
        for round in [
            vec![(5, Admitted), (6, Admitted), (7, Admitted)],
            vec![(5, Stale(Some(7))), (6, Stale(None)), (7, Admitted)],
            vec![(5, Stale(Some(6))), (6, Unknown), (7, Unknown)],
            vec![(5, Admitted), (6, Unknown)],
            // A door admitted 6, which then came too late for the store behind it.
            vec![(5, Stale(Some(6))), (6, Stale(Some(7))), (7, Admitted)],
        ] {
            assert_eq!(complaint(&round), None, "{round:?}");
        }
    }

    #[test]
    fn what_no_order_explains_is_a_complaint() {
        for (round, token) in [
            (vec![(5, Admitted), (6, Stale(None))], 6),
            (vec![(5, Stale(Some(4))), (6, Admitted)], 5),
            (vec![(5, Stale(Some(9))), (6, Admitted)], 5),
            (vec![(5, Admitted), (6, Other(400))], 6),
        ] {
            let found = complaint(&round).expect("it cannot be");
            assert_eq!(found.0, token, "{round:?}");
        }
    }

    #[test]
    fn the_mark_is_the_highest_acknowledged_or_an_unknown_one_above() {
        let round = [(5, Unknown), (6, Admitted), (7, Unknown), (8, Stale(None))];
        assert_eq!(highest_acknowledged(&round), Some(6));
        assert_eq!(possible_marks(&round), [7, 6]);
    }
}
