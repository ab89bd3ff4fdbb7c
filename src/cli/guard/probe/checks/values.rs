//! What was really written, where the user says how to read it: a refusal must come before the write.

use fencepost::resource::ResourceName;
use fencepost::sequencer::headers::FENCING_TOKEN;

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::exchange::Exchange;
use super::super::session::{Session, Write};
use super::super::spelling::Spelling;

pub(super) const CHECKS: [Check; 3] = [
    Check {
        name: "written-value",
        promise: "what an admitted write wrote is what is read",
        why: "without it nothing can be said about writes that were refused",
        needs: &["first-token"],
        takes: &[Takes::ReadUrl],
        run: written_value,
    },
    Check {
        name: "stale-writes-nothing",
        promise: "a write that was refused as stale is not there",
        why: "the service writes first and checks afterwards: the caller is told no, and the data is lost all the same",
        needs: &["written-value", "stale-token"],
        takes: &[Takes::ReadUrl],
        run: stale_writes_nothing,
    },
    Check {
        name: "malformed-writes-nothing",
        promise: "a write that was refused as malformed is not there",
        why: "the service writes first and parses afterwards: whoever sends no token at all overwrites what fenced writers wrote",
        needs: &["written-value", "missing-token", "malformed-token"],
        takes: &[Takes::ReadUrl],
        run: malformed_writes_nothing,
    },
];

/// Reads the resource and expects the value of this write there.
fn read_expecting(
    session: &Session<'_>,
    findings: &mut Findings,
    resource: &ResourceName,
    write: &Write,
    because: &str,
) -> Result<(), Stop> {
    let Some(read) = session.read(resource)? else {
        return Ok(());
    };
    let expected = format!(
        "the value \"{}\" of the write with token {}: {because}",
        write.value, write.token
    );
    findings.expect(holds(&read, write), &read, expected);
    Ok(())
}

/// Whether what was read is what this write wrote.
pub(super) fn holds(read: &Exchange, write: &Write) -> bool {
    read.is_admitted()
        && read
            .answer
            .as_ref()
            .is_ok_and(|answer| answer.shows(&write.value))
}

fn written_value(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("value");
    for _ in 0..2 {
        let write = session.write(&resource, session.supply.tokens(1))?;
        if findings.admitted(
            &write.exchange,
            "no higher token was sent for this resource",
        ) {
            let because = "it was acknowledged, and nobody wrote after it";
            read_expecting(session, &mut findings, &resource, &write, because)?;
        }
    }
    Ok(findings)
}

fn stale_writes_nothing(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("stale-value");
    let lower = session.supply.tokens(2);
    let write = session.write(&resource, lower + 1)?;
    if findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        let stale = session.write(&resource, lower)?;
        let because = format!("{} had been admitted for this resource", lower + 1);
        if findings.stale(&stale.exchange, because) {
            let because = "the one write after it was refused with 409";
            read_expecting(session, &mut findings, &resource, &write, because)?;
        }
    }
    Ok(findings)
}

fn malformed_writes_nothing(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("malformed-value");
    let token = session.supply.tokens(2);
    let write = session.write(&resource, token)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    let mut unfenced = session.headers(&resource, token + 1);
    unfenced.retain(|(name, _)| *name != FENCING_TOKEN);
    let mut malformed = unfenced.clone();
    malformed.push((FENCING_TOKEN, b"5.5".to_vec()));
    for headers in [unfenced, malformed] {
        session.write_with(Spelling::Title, &resource, token + 1, headers)?;
        let because = "the writes after it were refused with 400";
        read_expecting(session, &mut findings, &resource, &write, because)?;
    }
    Ok(findings)
}
