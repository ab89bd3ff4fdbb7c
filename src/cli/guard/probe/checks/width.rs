//! Tokens are 64-bit integers: what loses a few of their bits takes two tokens for one.

use fencepost::limits::TOKEN_VALUE_MAX;

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::exchange::Required;
use super::super::session::Session;

pub(super) const CHECKS: [Check; 4] = [
    Check {
        name: "wide-tokens",
        promise: "tokens beyond 2^31 and 2^32 are compared whole",
        why: "a 32-bit column or variable refuses them, or wraps around: then every new holder is stale, or every stale one new",
        needs: &["stale-token", "longer-token"],
        takes: &[Takes::OwnResources],
        run: wide_tokens,
    },
    Check {
        name: "exact-tokens",
        promise: "tokens beyond 2^53 that differ by one are told apart",
        why: "the service keeps tokens as floating-point numbers (as JavaScript, Lua and many JSON readers do): two tokens become equal, and the stale one is admitted",
        needs: &["wide-tokens"],
        takes: &[Takes::OwnResources],
        run: exact_tokens,
    },
    Check {
        name: "exact-body",
        promise: "tokens beyond 2^53 are strings in the body of a 409",
        why: "many readers of JSON have only floating-point numbers: they round the token, and whoever acts on it acts on another one",
        needs: &["exact-tokens", "stale-body"],
        takes: &[Takes::OwnResources],
        run: exact_body,
    },
    Check {
        name: "largest-token",
        promise: "2^63-1 is a token, and the highest",
        why: "an overflow at the end of the range turns the highest token into the lowest",
        needs: &["exact-tokens"],
        takes: &[Takes::OwnResources],
        run: largest_token,
    },
];

const TWO_TO_THE_31: u64 = 1 << 31;
const TWO_TO_THE_53: u64 = 1 << 53;

fn wide_tokens(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("wide");
    let first = (session.supply.peek() + 1).next_multiple_of(TWO_TO_THE_31);
    for boundary in [first, first.saturating_add(TWO_TO_THE_31)] {
        session.supply.raise(boundary + 2);
        for token in [boundary - 1, boundary, boundary + 1] {
            let write = session.write(&resource, token)?;
            let because = "no higher token was sent for this resource";
            if !findings.admitted(&write.exchange, because) {
                return Ok(findings);
            }
        }
        let stale = session.write(&resource, boundary - 1)?;
        let because = format!("{} had been admitted for this resource", boundary + 1);
        if !findings.stale(&stale.exchange, because) {
            return Ok(findings);
        }
    }
    Ok(findings)
}

fn exact_tokens(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("exact");
    session.supply.raise(TWO_TO_THE_53);
    // An even number, so that a float rounds the odd one after it down to it.
    let even = session.supply.peek().next_multiple_of(2);
    let mark = even + 1;
    session.supply.raise(mark + 1);
    let write = session.write(&resource, mark)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    let stale = session.write(&resource, even)?;
    let because = format!("{mark} had been admitted, and {even} is lower by one");
    if findings.stale(&stale.exchange, because) && session.required_is_trusted {
        let required = session.required_at(mark);
        let is_exact = stale.exchange.required() == Some(required);
        let expected = format!("X-Required-Token: {required}, to the last digit");
        findings.expect(is_exact, &stale.exchange, expected);
    }
    Ok(findings)
}

fn exact_body(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("exact-body");
    session.supply.raise(TWO_TO_THE_53 + 1);
    let presented = session.supply.tokens(2);
    let write = session.write(&resource, presented + 1)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    let stale = session.write(&resource, presented)?;
    let because = format!("{} had been admitted for this resource", presented + 1);
    if !findings.stale(&stale.exchange, because) {
        return Ok(findings);
    }
    let Ok(answer) = &stale.exchange.answer else {
        return Ok(findings);
    };
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    // What the header says is another check's matter; here the body must say the same.
    let required = match answer.required() {
        Required::Token(required) => required,
        _ => session.required_at(presented + 1),
    };
    for (field, token) in [("presented", presented), ("required", required)] {
        let is_text = body[field].as_str() == Some(token.to_string().as_str());
        let expected = format!("\"{field}\": \"{token}\", a string, because it is above 2^53");
        findings.expect(is_text, &stale.exchange, expected);
    }
    Ok(findings)
}

fn largest_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("largest");
    session.supply.raise(TOKEN_VALUE_MAX);
    let write = session.write(&resource, TOKEN_VALUE_MAX)?;
    if findings.admitted(&write.exchange, "it is the highest token that there can be") {
        let stale = session.write(&resource, TOKEN_VALUE_MAX - 1)?;
        let because = format!("{TOKEN_VALUE_MAX} had been admitted for this resource");
        findings.stale(&stale.exchange, because);
    }
    Ok(findings)
}
