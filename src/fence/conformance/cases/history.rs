//! What writers and readers of one resource saw, and whether a fenced resource can have shown it.
//!
//! Each operation lies between two ticks of one counter. An operation that ended before another
//! began came before it; two that overlap may have come in either order. A fenced resource behaves
//! as if each had happened at one moment in between: admitted tokens never fall along these
//! moments, and a read shows the last write. What is checked here are the consequences of that for
//! two operations at a time. A write whose answer was an error may have happened, or not.

use crate::{
    fence::{
        EqualTokens,
        conformance::{Answer, Contents, Profile, scene::show},
    },
    token::TokenValue,
};

/// One operation, and the ticks between which it happened.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) by: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) event: Event,
}

#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A write; without an answer it is unknown whether it happened.
    Write {
        token: TokenValue,
        value: u32,
        answer: Option<Answer>,
    },
    Read(Contents),
}

/// Something that no fenced resource can have shown, and the operations that show it.
#[derive(Debug)]
pub(super) struct Contradiction {
    pub(super) what: String,
    pub(super) shown_by: Vec<Operation>,
}

/// A write, taken out of its operation.
#[derive(Clone, Copy)]
struct Sent<'h> {
    operation: &'h Operation,
    token: TokenValue,
    value: u32,
    answer: Option<&'h Answer>,
}

impl Sent<'_> {
    fn admitted(&self) -> bool {
        self.answer == Some(&Answer::Admitted)
    }

    fn stale(&self) -> bool {
        matches!(self.answer, Some(Answer::Stale { .. }))
    }

    /// It was admitted, or nobody knows.
    fn may_have_happened(&self) -> bool {
        self.answer.is_none_or(|answer| *answer == Answer::Admitted)
    }
}

/// The history of one resource that had neither value nor mark before.
pub(super) struct History<'h> {
    writes: Vec<Sent<'h>>,
    reads: Vec<(&'h Operation, Contents)>,
    equal: EqualTokens,
    profile: &'h Profile,
}

impl<'h> History<'h> {
    pub(super) fn new(operations: &'h [Operation], profile: &'h Profile) -> Self {
        let mut history = Self {
            writes: Vec::new(),
            reads: Vec::new(),
            equal: profile.equal,
            profile,
        };
        for operation in operations {
            match &operation.event {
                Event::Write {
                    token,
                    value,
                    answer,
                } => history.writes.push(Sent {
                    operation,
                    token: *token,
                    value: *value,
                    answer: answer.as_ref(),
                }),
                Event::Read(contents) => history.reads.push((operation, *contents)),
            }
        }
        history
    }

    /// The first contradiction, if there is one.
    pub(super) fn contradiction(&self) -> Option<Contradiction> {
        self.admitted_out_of_order()
            .or_else(|| self.refused_without_cause())
            .or_else(|| self.reads.iter().find_map(|read| self.misread(read)))
            .or_else(|| self.went_back())
    }

    /// How many pairs of writes overlapped: without any, nothing raced.
    pub(super) fn overlaps(&self) -> usize {
        let overlap = |a: &Sent<'_>, b: &Sent<'_>| {
            a.operation.start < b.operation.end && b.operation.start < a.operation.end
        };
        let pairs = self.writes.iter().enumerate();
        pairs
            .map(|(n, a)| {
                self.writes[n + 1..]
                    .iter()
                    .filter(|b| overlap(a, b))
                    .count()
            })
            .sum()
    }

    pub(super) fn refused(&self) -> usize {
        self.writes.iter().filter(|sent| sent.stale()).count()
    }

    pub(super) fn admitted(&self) -> usize {
        self.writes.iter().filter(|sent| sent.admitted()).count()
    }

    fn admitted_out_of_order(&self) -> Option<Contradiction> {
        let admitted = || self.writes.iter().filter(|sent| sent.admitted());
        for first in admitted() {
            for second in admitted().filter(|second| second.value != first.value) {
                let once = self.equal == EqualTokens::Once;
                let what = if before(first.operation, second.operation)
                    && second.token < first.token
                {
                    format!(
                        "token {} was admitted although the higher token {} had been admitted before",
                        second.token, first.token
                    )
                } else if once && first.token == second.token {
                    format!("token {} was admitted twice", first.token)
                } else {
                    continue;
                };
                return Some(contradiction(what, [first.operation, second.operation]));
            }
        }
        None
    }

    /// Refusals for a mark that cannot have been there, and answers that are out of place.
    fn refused_without_cause(&self) -> Option<Contradiction> {
        self.writes.iter().find_map(|sent| match sent.answer? {
            Answer::Admitted => None,
            Answer::Stale { required } => self.stale_without_cause(sent, *required),
            Answer::Foreign | Answer::Invalid => {
                let what = "the right issuer's token for the right resource was refused as something else than stale";
                Some(contradiction(what.to_owned(), [sent.operation]))
            }
        })
    }

    fn stale_without_cause(
        &self,
        sent: &Sent<'_>,
        required: Option<TokenValue>,
    ) -> Option<Contradiction> {
        let refuses = |mark: TokenValue| match self.equal {
            EqualTokens::MayWriteAgain => mark > sent.token,
            EqualTokens::Once => mark >= sent.token,
        };
        let told = |mark: TokenValue| match (required, self.equal) {
            (None, _) => true,
            (Some(required), EqualTokens::MayWriteAgain) => mark == required,
            (Some(required), EqualTokens::Once) => mark.get() + 1 == required.get(),
        };
        // Refused behind the door, it has raised the mark of the door.
        let raises =
            |other: &Sent<'_>| other.may_have_happened() || (self.profile.door && other.stale());
        let cause = self.writes.iter().any(|other| {
            other.value != sent.value
                && raises(other)
                && other.operation.start < sent.operation.end
                && refuses(other.token)
                && told(other.token)
        });
        if !cause {
            let said =
                required.map_or_else(String::new, |required| format!(" with {required} required"));
            let what = format!(
                "token {} was refused{said}, and no write can have put the mark there",
                sent.token
            );
            return Some(contradiction(what, [sent.operation]));
        }
        let required = required?;
        let higher = |other: &&Sent<'_>| {
            other.admitted() && before(other.operation, sent.operation) && other.token > required
        };
        let other = self.writes.iter().find(higher)?;
        let what = format!(
            "token {} was told that {required} is required, although {} had been admitted before",
            sent.token, other.token
        );
        Some(contradiction(what, [other.operation, sent.operation]))
    }

    /// A read that shows what is over already, or what never happened.
    fn misread(&self, (read, contents): &(&'h Operation, Contents)) -> Option<Contradiction> {
        if self.profile.values
            && let Some(found) = self.wrong_value(read, contents.value)
        {
            return Some(found);
        }
        if !self.profile.marks {
            return None;
        }
        let mark = contents.mark;
        let raised_by = |sent: &Sent<'_>| {
            sent.may_have_happened() && Some(sent.token) == mark && sent.operation.start < read.end
        };
        if mark.is_some() && !self.writes.iter().any(raised_by) {
            let what = format!(
                "a read shows the mark {}, which no admitted write can have raised",
                show(mark)
            );
            return Some(contradiction(what, [*read]));
        }
        let higher = self.writes.iter().find(|sent| {
            sent.admitted()
                && before(sent.operation, read)
                && mark.is_none_or(|mark| sent.token > mark)
        })?;
        let what = format!(
            "a read shows the mark {}, although token {} had been admitted before",
            show(mark),
            higher.token
        );
        Some(contradiction(what, [higher.operation, *read]))
    }

    fn wrong_value(&self, read: &Operation, value: Option<u32>) -> Option<Contradiction> {
        let writer = self.writes.iter().find(|sent| Some(sent.value) == value);
        let shown = match (value, writer) {
            (None, _) => None,
            (Some(_), Some(sent))
                if sent.may_have_happened() && sent.operation.start < read.end =>
            {
                Some(sent)
            }
            (Some(value), Some(sent)) => {
                let what = format!("a read shows the value {value}, whose write had been refused");
                return Some(contradiction(what, [sent.operation, read]));
            }
            (Some(value), None) => {
                let what = format!("a read shows the value {value}, which nobody wrote");
                return Some(contradiction(what, [read]));
            }
        };
        // A write that was admitted before the read, and that must have come after the one shown.
        let later = self.writes.iter().find(|sent| {
            sent.admitted()
                && before(sent.operation, read)
                && shown.is_none_or(|shown| {
                    sent.token > shown.token
                        || (sent.token == shown.token && before(shown.operation, sent.operation))
                })
        })?;
        let shows = match shown {
            None => "nothing".to_owned(),
            Some(shown) => format!("the value that token {} wrote", shown.token),
        };
        let what = format!(
            "a read shows {shows}, although the write of token {} had been acknowledged before: it was overwritten by a lower token, or lost",
            later.token
        );
        let shown_by = shown.into_iter().map(|shown| shown.operation);
        Some(contradiction(what, shown_by.chain([later.operation, read])))
    }

    /// Two reads, one after the other, of which the second shows an earlier state.
    fn went_back(&self) -> Option<Contradiction> {
        let written_by = |value: Option<u32>| {
            let sent = self.writes.iter().find(|sent| Some(sent.value) == value);
            sent.map(|sent| sent.token)
        };
        for (first, earlier) in &self.reads {
            for (second, later) in self
                .reads
                .iter()
                .filter(|(second, _)| before(first, second))
            {
                let values =
                    self.profile.values && written_by(later.value) < written_by(earlier.value);
                let marks = self.profile.marks && later.mark < earlier.mark;
                if values || marks {
                    let part = if values { "value" } else { "mark" };
                    let what = format!("the {part} went back to that of a lower token");
                    return Some(contradiction(what, [*first, *second]));
                }
            }
        }
        None
    }
}

fn before(first: &Operation, second: &Operation) -> bool {
    first.end < second.start
}

fn contradiction<'h>(
    what: String,
    shown_by: impl IntoIterator<Item = &'h Operation>,
) -> Contradiction {
    Contradiction {
        what,
        shown_by: shown_by.into_iter().cloned().collect(),
    }
}
