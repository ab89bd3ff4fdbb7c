//! Higher, equal, lower: what a guard is for, one write after another.

use fencepost::fence::EqualTokens;

use super::super::check::{Check, Findings, Stop};
use super::super::exchange::Required;
use super::super::session::Session;

pub(super) const CHECKS: [Check; 9] = [
    Check {
        name: "first-token",
        promise: "the first token for a resource is admitted",
        why: "a new resource could never be written to",
        needs: &[],
        takes: &[],
        run: first_token,
    },
    Check {
        name: "higher-token",
        promise: "a higher token is admitted",
        why: "the next holder could not work, and the resource stands still after the first one",
        needs: &["first-token"],
        takes: &[],
        run: higher_token,
    },
    Check {
        name: "longer-token",
        promise: "a token with one more digit is higher",
        why: "the service compares tokens as text, where \"9\" comes after \"10\": it refuses the new holder and admits the stale one",
        needs: &["higher-token"],
        takes: &[],
        run: longer_token,
    },
    Check {
        name: "stale-token",
        promise: "a lower token is refused with 409",
        why: "a holder that was paused and woke up overwrites what its successor wrote: the one thing that fencing is for",
        needs: &["first-token"],
        takes: &[],
        run: stale_token,
    },
    Check {
        name: "equal-token",
        promise: "an equal token may write again, or is refused where each token counts once",
        why: "a holder writes more than once under one grant, and repeats a write whose answer was lost; with --equal-tokens once it is the second effect that must not happen",
        needs: &["first-token"],
        takes: &[],
        run: equal_token,
    },
    Check {
        name: "refused-changes-nothing",
        promise: "a refused token leaves the mark where it is",
        why: "a stale holder lowers the mark by being refused, and is admitted when it tries again",
        needs: &["stale-token"],
        takes: &[],
        run: refused_changes_nothing,
    },
    Check {
        name: "required-header",
        promise: "a 409 for a stale token carries one X-Required-Token, a decimal number",
        why: "callers tell a stale token from any other conflict by this header; without it they retry what can never succeed",
        needs: &["stale-token"],
        takes: &[],
        run: required_header,
    },
    Check {
        name: "required-token",
        promise: "X-Required-Token is the lowest token that would have been admitted",
        why: "operators compare it with what the issuer has issued, and callers with what they hold: off by one, it accuses the wrong one",
        needs: &["required-header"],
        takes: &[],
        run: required_token,
    },
    Check {
        name: "stale-body",
        promise: "the body of that 409 is JSON with error, presented and required",
        why: "clients and log pipelines read the body; where it differs from the header, somebody acts on the wrong number",
        needs: &["stale-token"],
        takes: &[],
        run: stale_body,
    },
];

fn first_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("first");
    let write = session.write(&resource, session.supply.tokens(1))?;
    let hint = match (write.exchange.status(), &session.shape.issuer) {
        (Some(400 | 403), None) => {
            "if the service expects an issuer, name it with --issuer; else, is a header for authorization missing, or the method or body another one?"
        }
        (Some(403), Some(_)) => {
            "does the service expect another issuer than --issuer names, or is a header for authorization missing?"
        }
        _ => "is a header for authorization missing, or the method or body another one?",
    };
    let because = format!("no higher token was sent for this resource ({hint})");
    findings.admitted(&write.exchange, because);
    Ok(findings)
}

fn higher_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("higher");
    let first = session.supply.tokens(11);
    for token in [first, first + 1, first + 10] {
        let write = session.write(&resource, token)?;
        let because = "no higher token was sent for this resource";
        if !findings.admitted(&write.exchange, because) {
            break;
        }
    }
    Ok(findings)
}

fn longer_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("longer");
    let Some(longer) = next_power_of_ten(session.supply.peek()) else {
        return Ok(findings);
    };
    session.supply.raise(longer + 1);
    let shorter = session.write(&resource, longer - 1)?;
    if findings.admitted(
        &shorter.exchange,
        "no higher token was sent for this resource",
    ) {
        let write = session.write(&resource, longer)?;
        let because = format!("{longer} is greater than {}", longer - 1);
        findings.admitted(&write.exchange, because);
    }
    Ok(findings)
}

/// The lowest power of ten above a token.
fn next_power_of_ten(token: u64) -> Option<u64> {
    let digits = token.checked_ilog10()? + 1;
    10_u64.checked_pow(digits)
}

fn stale_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    // A resource each: what a refusal does to the mark is another check's matter.
    for lower_by in [10, 1] {
        let resource = session.supply.resource("stale");
        let mark = session.supply.tokens(11) + 10;
        let write = session.write(&resource, mark)?;
        if findings.admitted(
            &write.exchange,
            "no higher token was sent for this resource",
        ) {
            let write = session.write(&resource, mark - lower_by)?;
            let because = format!("{mark} had been admitted for this resource");
            findings.stale(&write.exchange, because);
        }
    }
    Ok(findings)
}

fn equal_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("equal");
    let token = session.supply.tokens(1);
    let first = session.write(&resource, token)?;
    if findings.admitted(
        &first.exchange,
        "no higher token was sent for this resource",
    ) {
        let again = session.write(&resource, token)?;
        match session.shape.equal {
            EqualTokens::MayWriteAgain => findings.admitted(
                &again.exchange,
                "it is the mark itself, and its holder may write again (a service that takes each token once is probed with --equal-tokens once)",
            ),
            EqualTokens::Once => findings.stale(
                &again.exchange,
                "this token had been admitted before, and each counts once",
            ),
        };
    }
    Ok(findings)
}

fn refused_changes_nothing(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("refused");
    let first = session.supply.tokens(21);
    let mark = first + 20;
    let write = session.write(&resource, mark)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    for token in [first + 5, first, first + 10, first + 19] {
        let write = session.write(&resource, token)?;
        let because = format!(
            "{mark} had been admitted for this resource, and refusals in between change nothing"
        );
        if !findings.stale(&write.exchange, because) {
            break;
        }
    }
    Ok(findings)
}

/// Writes at a mark and below it; the second exchange is the refusal to look at.
fn refusal(
    session: &Session<'_>,
    findings: &mut Findings,
    purpose: &str,
) -> Result<Option<(super::super::session::Write, u64)>, Stop> {
    let resource = session.supply.resource(purpose);
    let presented = session.supply.tokens(8);
    let mark = presented + 7;
    let write = session.write(&resource, mark)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(None);
    }
    let stale = session.write(&resource, presented)?;
    let because = format!("{mark} had been admitted for this resource");
    Ok(findings
        .stale(&stale.exchange, because)
        .then_some((stale, mark)))
}

fn required_header(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    if let Some((stale, _)) = refusal(session, &mut findings, "header")? {
        let answer = stale.exchange.answer.as_ref();
        let is_good = answer.is_ok_and(|answer| matches!(answer.required(), Required::Token(_)));
        let expected = "exactly one header X-Required-Token, with the plain digits of a token";
        findings.expect(is_good, &stale.exchange, expected);
    }
    Ok(findings)
}

fn required_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    if let Some((stale, mark)) = refusal(session, &mut findings, "required")? {
        let required = session.required_at(mark);
        let expected = format!(
            "X-Required-Token: {required}, because {mark} is the highest token that was admitted"
        );
        let is_right = stale.exchange.required() == Some(required);
        findings.expect(is_right, &stale.exchange, expected);
    }
    Ok(findings)
}

fn stale_body(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let Some((stale, _)) = refusal(session, &mut findings, "body")? else {
        return Ok(findings);
    };
    let Ok(answer) = &stale.exchange.answer else {
        return Ok(findings);
    };
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(&answer.body) else {
        findings.add(&stale.exchange, "a body in JSON", Vec::new());
        return Ok(findings);
    };
    findings.expect(
        body["error"].is_string(),
        &stale.exchange,
        "a field \"error\" with a sentence for people",
    );
    let is_presented = token_in(&body["presented"]) == Some(stale.token);
    let expected = format!("a field \"presented\" with {}, as it was sent", stale.token);
    findings.expect(is_presented, &stale.exchange, expected);
    let required = token_in(&body["required"]);
    let agrees = match stale.exchange.required() {
        Some(header) => required == Some(header),
        None => required.is_some(),
    };
    findings.expect(
        agrees,
        &stale.exchange,
        "a field \"required\" with the token that X-Required-Token names",
    );
    Ok(findings)
}

/// A token in JSON: an integer, or its digits as a string (which it must be above 2^53).
fn token_in(value: &serde_json::Value) -> Option<u64> {
    let digits = |text: &str| text.parse::<fencepost::token::TokenValue>().ok();
    value
        .as_u64()
        .or_else(|| value.as_str().and_then(digits).map(|token| token.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_power_of_ten_has_one_digit_more() {
        assert_eq!(next_power_of_ten(9), Some(10));
        assert_eq!(next_power_of_ten(10), Some(100));
        assert_eq!(next_power_of_ten(999_000_123), Some(1_000_000_000));
        assert_eq!(next_power_of_ten(u64::MAX), None);
    }
}
