//! Whether a queue was served exactly in order: judged from what a watch told of one resource.
//!
//! The judge keeps a queue of its own, fed by the events, and says what does not fit it. It believes
//! nothing: positions, tokens and the end of each grant are checked, too, and what the clients saw of their
//! grants must be what the watch told of them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// So many faults are told in words; the rest are counted.
const FAULTS_TOLD: usize = 5;

/// What happened to the resource, in the order of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happened<'a> {
    /// `holder` joined the queue, at `position` (1 is next).
    Queued { holder: &'a str, position: u32 },
    /// It was granted.
    Granted {
        holder: &'a str,
        token: u64,
        after_wait: bool,
    },
    /// The grant with this token ended.
    Ended { token: u64 },
    /// `holder` left the queue without a grant.
    Left { holder: &'a str },
}

/// The judge.
#[derive(Debug, Default)]
pub(super) struct Order {
    queue: VecDeque<String>,
    held: Option<u64>,
    last_token: u64,
    granted: u64,
    /// Grants that only the watch or only the client has told of so far.
    told_once: BTreeMap<u64, (Teller, String)>,
    faults: Vec<String>,
    count: u64,
}

/// Who told of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Teller {
    Watch,
    Client,
}

impl Order {
    /// Takes the next event.
    pub(super) fn happened(&mut self, event: Happened<'_>) {
        match event {
            Happened::Queued { holder, position } => {
                self.queue.push_back(holder.to_owned());
                let counted = self.queue.len();
                if usize::try_from(position) != Ok(counted) {
                    self.fault(format_args!(
                        "{holder} joined at position {position}, where {counted} is due"
                    ));
                }
            }
            Happened::Granted {
                holder,
                token,
                after_wait,
            } => self.granted(holder, token, after_wait),
            Happened::Ended { token } => {
                if self.held.take() != Some(token) {
                    self.fault(format_args!("token {token} ended, which was not held"));
                }
            }
            Happened::Left { holder } => match self.queue.iter().position(|who| who == holder) {
                Some(at) => drop(self.queue.remove(at)),
                None => self.fault(format_args!("{holder} left the queue, where it was not")),
            },
        }
    }

    fn granted(&mut self, holder: &str, token: u64, after_wait: bool) {
        self.granted += 1;
        let next = self.queue.front().cloned();
        match next.as_deref() {
            Some(next) if next == holder => drop(self.queue.pop_front()),
            Some(next) => {
                self.fault(format_args!(
                    "{holder} was granted token {token} before {next}"
                ));
                self.queue.retain(|who| who != holder);
            }
            None if after_wait => {
                self.fault(format_args!(
                    "{holder} was granted after waiting, and never waited"
                ));
            }
            None => {}
        }
        if let Some(held) = self.held.replace(token) {
            self.fault(format_args!(
                "token {token} was granted while {held} was held"
            ));
        }
        let last = std::mem::replace(&mut self.last_token, token);
        if token <= last {
            self.fault(format_args!("token {token} came after {last}"));
        }
        self.told(Teller::Watch, holder, token);
    }

    /// Takes what a client says it was granted, before or after the watch tells the same.
    pub(super) fn client_was_granted(&mut self, holder: &str, token: u64) {
        self.told(Teller::Client, holder, token);
    }

    fn told(&mut self, teller: Teller, holder: &str, token: u64) {
        match self.told_once.remove(&token) {
            None => drop(self.told_once.insert(token, (teller, holder.to_owned()))),
            Some((other, of)) if other != teller && of == holder => {}
            Some((_, of)) => {
                self.fault(format_args!(
                    "token {token} was granted to {of} and to {holder}"
                ));
            }
        }
    }

    /// Whether each grant that a client told of has come by in the watch.
    pub(super) fn is_settled(&self) -> bool {
        let mut told = self.told_once.values();
        told.all(|(teller, _)| *teller == Teller::Watch)
    }

    /// The judgement, once nothing more comes. A grant whose client had gone is no fault.
    pub(super) fn judge(mut self) -> Judgement {
        let only_clients = std::mem::take(&mut self.told_once);
        for (token, (teller, holder)) in only_clients {
            if teller == Teller::Client {
                self.fault(format_args!("token {token} of {holder} is in no event"));
            }
        }
        Judgement {
            grants: self.granted,
            fault_count: self.count,
            faults: self.faults,
        }
    }

    fn fault(&mut self, words: fmt::Arguments<'_>) {
        self.count += 1;
        if self.faults.len() < FAULTS_TOLD {
            self.faults.push(words.to_string());
        }
    }
}

/// How a queue was served.
#[derive(Debug)]
pub(super) struct Judgement {
    /// Grants that were looked at.
    pub(super) grants: u64,
    /// What was not in order: 0 is exactly first come first served.
    pub(super) fault_count: u64,
    /// The first of it, in words.
    pub(super) faults: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(holder: &str, position: u32) -> Happened<'_> {
        Happened::Queued { holder, position }
    }

    fn granted(holder: &str, token: u64) -> Happened<'_> {
        let after_wait = token > 1;
        Happened::Granted {
            holder,
            token,
            after_wait,
        }
    }

    fn ended(token: u64) -> Happened<'static> {
        Happened::Ended { token }
    }

    fn left(holder: &str) -> Happened<'_> {
        Happened::Left { holder }
    }

    /// What the judge says of events that begin with a grant to a, and b and c behind it.
    fn after(events: &[Happened<'_>]) -> Judgement {
        let mut order = Order::default();
        for event in [granted("a", 1), queued("b", 1), queued("c", 2)] {
            order.happened(event);
        }
        events.iter().for_each(|event| order.happened(*event));
        order.judge()
    }

    #[test]
    fn first_come_first_served_is_no_fault() {
        let fine: [&[Happened<'_>]; 4] = [
            &[
                ended(1),
                granted("b", 2),
                ended(2),
                granted("c", 5),
                ended(5),
            ],
            &[queued("a", 3), ended(1), granted("b", 2), queued("b", 3)],
            &[left("b"), ended(1), granted("c", 2)],
            &[left("c"), queued("c", 2), ended(1), granted("b", 2)],
        ];
        for events in fine {
            let judgement = after(events);
            assert_eq!(judgement.fault_count, 0, "{judgement:?}");
        }
    }

    #[test]
    fn each_disorder_is_a_fault_of_its_own() {
        let disorders: [(&[Happened<'_>], &str); 8] = [
            (
                &[ended(1), granted("c", 2)],
                "c was granted token 2 before b",
            ),
            (
                &[ended(1), granted("x", 2)],
                "x was granted token 2 before b",
            ),
            (&[granted("b", 2)], "token 2 was granted while 1 was held"),
            (&[ended(1), granted("b", 1)], "token 1 came after 1"),
            (&[ended(2)], "token 2 ended, which was not held"),
            (&[left("x")], "x left the queue, where it was not"),
            (&[queued("d", 1)], "d joined at position 1, where 3 is due"),
            (
                &[left("b"), left("c"), ended(1), granted("d", 2)],
                "d was granted after waiting, and never waited",
            ),
        ];
        for (events, words) in disorders {
            let judgement = after(events);
            assert_eq!(judgement.faults[0], words, "{judgement:?}");
        }
    }

    #[test]
    fn what_clients_saw_must_be_what_the_watch_told() {
        let mut order = Order::default();
        order.client_was_granted("a", 1);
        assert!(!order.is_settled(), "the watch has not told of it");
        order.happened(granted("a", 1));
        assert!(order.is_settled());
        for event in [queued("b", 1), ended(1), granted("b", 2)] {
            order.happened(event);
        }
        assert!(order.is_settled(), "its client may be gone");
        order.client_was_granted("c", 2);
        order.client_was_granted("d", 9);
        let judgement = order.judge();
        assert_eq!(
            judgement.faults,
            [
                "token 2 was granted to b and to c",
                "token 9 of d is in no event"
            ]
        );
    }

    #[test]
    fn many_faults_are_counted_and_a_few_told() {
        let judgement = after(&[left("x"); 100]);
        assert_eq!(
            (judgement.fault_count, judgement.faults.len()),
            (100, FAULTS_TOLD)
        );
    }
}
