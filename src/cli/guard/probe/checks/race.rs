//! Writers at once: whether check and write are one step.

use std::sync::Barrier;
use std::thread;

use fencepost::fence::EqualTokens;
use fencepost::resource::ResourceName;

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::exchange::Exchange;
use super::super::session::{Session, Write};
use super::round::{self, Outcome};
use super::values::holds;

/// After how many rounds in which nothing was answered a race is given up: a service that stands still
/// when it is asked by many at once costs a time-out for each.
const SILENT_ROUNDS_MAX: u32 = 2;

pub(super) const CHECKS: [Check; 2] = [
    Check {
        name: "concurrent-writers",
        promise: "check and write are one step: after writers at once, the mark is the highest acknowledged token",
        why: "the service reads the mark, compares, and writes some time later: a stale write that was checked just before a newer one lands on top of it",
        needs: &["refused-changes-nothing", "higher-token"],
        takes: &[],
        run: concurrent_writers,
    },
    Check {
        name: "concurrent-values",
        promise: "after writers at once, the value is that of the highest acknowledged token",
        why: "the mark is raised in one step and the data written in another: the guard stands at the door, and the stale write passes behind it",
        needs: &["concurrent-writers", "stale-writes-nothing"],
        takes: &[Takes::ReadUrl],
        run: concurrent_values,
    },
];

fn concurrent_writers(session: &Session<'_>) -> Result<Findings, Stop> {
    rounds(session, "writers", after_marks)
}

fn concurrent_values(session: &Session<'_>) -> Result<Findings, Stop> {
    rounds(session, "values", after_values)
}

/// What is looked at once all answers of a round are in; `true` to go on.
type After = fn(&Session<'_>, &mut Findings, &ResourceName, &Played) -> Result<bool, Stop>;

/// A round that was played.
struct Played {
    writes: Vec<Write>,
    outcomes: Vec<(u64, Outcome)>,
}

impl Played {
    /// What came of each writer, for people, from the lowest token up.
    fn story(&self, number: u32) -> Vec<String> {
        let mut sorted: Vec<&Write> = self.writes.iter().collect();
        sorted.sort_by_key(|write| write.token);
        let told = sorted.iter().map(|write| {
            let came_back = write.exchange.came_back();
            format!("writer with token {}: {came_back}", write.token)
        });
        std::iter::once(format!("round {}, all at once:", number + 1))
            .chain(told)
            .collect()
    }

    /// How many answers said whether the write took effect.
    fn decided(&self) -> usize {
        let unknown = |(_, outcome): &&(u64, Outcome)| *outcome != Outcome::Unknown;
        self.outcomes.iter().filter(unknown).count()
    }
}

/// Plays rounds until one of them shows something that cannot be.
fn rounds(session: &Session<'_>, purpose: &str, after: After) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource(purpose);
    let (mut decided, mut asked, mut played) = (0, 0, None);
    let most = session.writers();
    for number in 0..session.shape.rounds {
        let late = session.service.late_connections();
        let round = play(session, &resource, number);
        if session.service.late_connections() > late {
            session.note_crowded();
        }
        decided += round.decided();
        asked += round.writes.len();
        if let Some((token, expected)) = round::complaint(&round.outcomes) {
            let write = round.writes.iter().find(|write| write.token == token);
            if let Some(write) = write {
                findings.add(&write.exchange, expected, round.story(number));
            }
            return Ok(findings);
        }
        let mut found = Findings::default();
        let goes_on = after(session, &mut found, &resource, &round)?;
        for mut finding in found.into_inner() {
            finding.story = round.story(number);
            findings.push(finding);
        }
        if !goes_on || !findings.is_empty() {
            return Ok(findings);
        }
        played = Some((number, round));
        // Each further round would only wait for its time-outs again.
        if decided == 0 && number + 1 >= SILENT_ROUNDS_MAX {
            break;
        }
    }
    if let Some((number, last)) = played.filter(|_| decided * 2 < asked) {
        let expected = format!(
            "2xx or 409 for most of the writers; {decided} of {asked} writes had such an answer, too few to say anything"
        );
        if let Some(write) = last.writes.first() {
            findings.add(&write.exchange, expected, last.story(number));
        }
    }
    findings.note_seen(seen(session, most));
    Ok(findings)
}

/// What was seen, and no more: a race that did not happen is no proof.
fn seen(session: &Session<'_>, most: u32) -> String {
    let (rounds, last) = (session.shape.rounds, session.writers());
    let mut seen = format!("no race seen in {rounds} rounds of {most} writers at once");
    if last < most {
        seen.push_str(&format!(", later {last}"));
    }
    if !session.is_crowded() {
        return seen;
    }
    format!(
        "{seen}: connections waited a second or more, as in a full listen backlog (a longer one, or \
         connections that are kept, let all write at once)"
    )
}

/// Lets all writers of a round loose at once, each with a token of its own, all above the last round's.
fn play(session: &Session<'_>, resource: &ResourceName, number: u32) -> Played {
    let writers = session.writers();
    let first = session.supply.tokens(u64::from(writers));
    let gate = Barrier::new(writers as usize);
    let write = |place: u32| {
        gate.wait();
        session.write_at_once(resource, first + u64::from(place))
    };
    let writes: Vec<Write> = thread::scope(|scope| {
        let started: Vec<_> = round::order(number, writers)
            .into_iter()
            .map(|place| scope.spawn(move || write(place)))
            .collect();
        let ended = started
            .into_iter()
            .map(|writer| writer.join().expect("a writer does not panic"));
        ended.collect()
    });
    let outcomes = writes.iter().map(|write| {
        let outcome = Outcome::of(write.exchange.status(), mark(session, &write.exchange));
        (write.token, outcome)
    });
    Played {
        outcomes: outcomes.collect(),
        writes,
    }
}

/// The mark that a refusal's header implies, where that header is to be trusted.
fn mark(session: &Session<'_>, exchange: &Exchange) -> Option<u64> {
    let required = exchange
        .required()
        .filter(|_| session.required_is_trusted)?;
    match session.shape.equal {
        EqualTokens::MayWriteAgain => Some(required),
        EqualTokens::Once => Some(required.saturating_sub(1)),
    }
}

/// A token below the highest acknowledged one, sent after all answers are in, must be refused.
fn after_marks(
    session: &Session<'_>,
    findings: &mut Findings,
    resource: &ResourceName,
    played: &Played,
) -> Result<bool, Stop> {
    let Some(highest) = round::highest_acknowledged(&played.outcomes) else {
        return Ok(true);
    };
    let stale = session.write(resource, highest - 1)?;
    let outcome = Outcome::of(stale.exchange.status(), mark(session, &stale.exchange));
    if outcome == Outcome::Unknown {
        return Ok(true);
    }
    let because = format!("{highest} had been acknowledged before this was sent");
    if findings.stale(&stale.exchange, because)
        && let Outcome::Stale(Some(mark)) = outcome
    {
        let is_right = round::possible_marks(&played.outcomes).contains(&mark);
        let expected = format!(
            "an X-Required-Token that says that the mark is {highest}, the highest acknowledged token"
        );
        findings.expect(is_right, &stale.exchange, expected);
    }
    Ok(findings.is_empty())
}

/// The value must be that of the highest acknowledged write, or of a higher one that nobody knows of.
fn after_values(
    session: &Session<'_>,
    findings: &mut Findings,
    resource: &ResourceName,
    played: &Played,
) -> Result<bool, Stop> {
    let marks = round::possible_marks(&played.outcomes);
    let Some(read) = session.read(resource)? else {
        return Ok(false);
    };
    let mut possible = played
        .writes
        .iter()
        .filter(|write| marks.contains(&write.token));
    let Some(first) = possible.clone().max_by_key(|write| write.token) else {
        return Ok(true);
    };
    let expected = format!(
        "the value \"{}\" of the write with token {}, the highest that was acknowledged",
        first.value, first.token
    );
    let is_there = possible.any(|write| holds(&read, write));
    findings.expect(is_there, &read, expected);
    Ok(findings.is_empty())
}
