//! Marks must be kept for as long as there may be a stale holder: for ever, whatever else is written.
//!
//! A mark in a cache is forgotten, by its age or because others came, and nothing else shows it: a resource
//! without a mark takes the first token that comes.

use std::thread;

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::session::{Session, Write};
use super::round::Outcome;

pub(super) const CHECKS: [Check; 2] = [
    Check {
        name: "evicted-mark",
        promise: "a mark is kept, however many other resources are written to after it",
        why: "marks in a cache of bounded size make way for newer ones: while other resources are busy, a stale holder of a quiet one is admitted",
        needs: &["stale-token", "resources-apart"],
        takes: &[Takes::OwnResources],
        run: evicted_mark,
    },
    Check {
        name: "idle-mark",
        promise: "a mark is kept, however long nobody writes",
        why: "marks with a time to live, or swept with old rows, are gone when a holder wakes up that slept longer than that, which is the one that they are for",
        needs: &["stale-token"],
        takes: &[Takes::Idle],
        run: idle_mark,
    },
];

fn evicted_mark(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.named("evicted");
    let stale = session.supply.tokens(2);
    let write = session.write(&resource, stale + 1)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    let others = write_others(session);
    let of = |write: &Write| Outcome::of(write.exchange.status(), None);
    let refused = others
        .iter()
        .find(|write| !matches!(of(write), Outcome::Admitted | Outcome::Unknown));
    if let Some(write) = refused {
        findings.admitted(&write.exchange, "it is the first token for this resource");
        return Ok(findings);
    }
    let (count, all) = (others.len(), session.shape.others);
    let admitted = others.iter().filter(|write| of(write) == Outcome::Admitted);
    let admitted = admitted.count();
    if let Some(silent) = others.last().filter(|_| admitted < count) {
        // A service may well have enough of new resources; it must then say so, and forget none.
        let came_back = silent.exchange.came_back();
        findings.note_seen(format!(
            "the mark was kept after {admitted} other resources; no more of {all} were taken: {came_back}"
        ));
    } else {
        findings.note_seen(format!(
            "the mark was kept after {admitted} other resources (--others tries more)"
        ));
    }
    let late = session.write(&resource, stale)?;
    let because = format!(
        "{} had been admitted for this resource, before {admitted} others were written to",
        stale + 1
    );
    findings.stale(&late.exchange, because);
    Ok(findings)
}

/// Writes once to each of the others, by several writers at once; each stops at the first that was not
/// admitted, and the last write of all is then one of those.
fn write_others(session: &Session<'_>) -> Vec<Write> {
    let (all, writers) = (session.shape.others, session.few_writers());
    let first = session.supply.tokens(u64::from(all));
    let write = |number: u32| {
        let resource = session.supply.named(&format!("other-{number}"));
        session.write_at_once(&resource, first + u64::from(number))
    };
    let share = |place: u32| {
        let mut writes = Vec::new();
        for number in (place..all).step_by(writers as usize) {
            writes.push(write(number));
            let is_admitted = |write: &Write| write.exchange.is_admitted();
            if !writes.last().is_some_and(is_admitted) {
                break;
            }
        }
        writes
    };
    let mut writes: Vec<Write> = thread::scope(|scope| {
        let started: Vec<_> = (0..writers)
            .map(|place| scope.spawn(move || share(place)))
            .collect();
        let ended = started
            .into_iter()
            .flat_map(|writer| writer.join().expect("a writer does not panic"));
        ended.collect()
    });
    writes.sort_by_key(|write| !write.exchange.is_admitted());
    writes
}

fn idle_mark(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let Some(idle) = session.shape.idle else {
        return Ok(findings);
    };
    let resource = session.supply.resource("idle");
    let stale = session.supply.tokens(2);
    let write = session.write(&resource, stale + 1)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    wait(idle);
    let idle = humantime::format_duration(idle);
    findings.note_seen(format!("the mark was kept while nobody wrote for {idle}"));
    let late = session.write(&resource, stale)?;
    let because = format!(
        "{} had been admitted for this resource {idle} before, and marks do not age",
        stale + 1
    );
    findings.stale(&late.exchange, because);
    Ok(findings)
}

#[expect(
    clippy::disallowed_methods,
    reason = "that time passes in which nothing happens is what this check is about"
)]
fn wait(idle: std::time::Duration) {
    thread::sleep(idle);
}
