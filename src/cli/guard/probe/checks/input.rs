//! Requests that are not well formed: 400, and nothing happens.

use fencepost::sequencer::headers::{FENCING_ISSUER, FENCING_TOKEN, RESOURCE_ID};

use super::super::check::{Check, Findings, Stop};
use super::super::session::{Headers, Session};
use super::super::spelling::Spelling;

pub(super) const CHECKS: [Check; 6] = [
    Check {
        name: "missing-token",
        promise: "a write without a token is refused with 400",
        why: "whoever forgets the header is not fenced at all, and nobody notices until data is lost",
        needs: &["first-token"],
        takes: &[],
        run: missing_token,
    },
    Check {
        name: "missing-resource",
        promise: "a write without a resource id is refused with 400",
        why: "a token means something for its own resource only; without the name it is compared with marks of others",
        needs: &["first-token"],
        takes: &[],
        run: missing_resource,
    },
    Check {
        name: "malformed-token",
        promise: "what is not a decimal number from 1 to 2^63-1 is refused with 400",
        why: "a lenient parser turns rubbish into some number: a huge one shuts every real holder out, a small one hides a broken client, and a 5xx makes callers retry for ever",
        needs: &["first-token"],
        takes: &[],
        run: malformed_token,
    },
    Check {
        name: "malformed-resource",
        promise: "an empty or badly encoded resource id is refused with 400",
        why: "names that several callers decode differently share a mark by accident, or have two",
        needs: &["first-token"],
        takes: &[],
        run: malformed_resource,
    },
    Check {
        name: "repeated-headers",
        promise: "a header that comes twice is refused with 400",
        why: "two tokens are no token: a proxy, a library and the service may each pick another one",
        needs: &["first-token"],
        takes: &[],
        run: repeated_headers,
    },
    Check {
        name: "header-case",
        promise: "header names count in any case",
        why: "HTTP/2 and many gateways send lower case, others do not: the same write is then fenced or refused by the way it took",
        needs: &["first-token"],
        takes: &[],
        run: header_case,
    },
];

/// What is no token, and what it is.
const MALFORMED: [(&str, &str); 18] = [
    ("", "nothing"),
    ("0", "zero: tokens begin at 1"),
    ("-5", "a sign"),
    ("+5", "a sign"),
    ("5.0", "a fraction"),
    ("5.5", "a fraction"),
    ("5e9", "an exponent"),
    ("0x5f", "hexadecimal"),
    ("1_000", "a separator"),
    ("1,000", "a separator"),
    ("5 6", "a blank inside"),
    ("\"5\"", "quotes"),
    ("NaN", "a word"),
    ("null", "a word"),
    ("5abc", "letters after digits"),
    ("\u{0665}", "a digit beyond ASCII"),
    (
        "9223372036854775808",
        "2^63, beyond a signed 64-bit integer",
    ),
    ("99999999999999999999999999999999999999999999", "44 digits"),
];

/// What is no resource id in a header, and what it is.
const MALFORMED_RESOURCES: [(&str, &str); 5] = [
    ("", "nothing"),
    ("%", "a % without two hexadecimal digits"),
    ("a%zz", "a % without two hexadecimal digits"),
    ("a%ff", "bytes that are not UTF-8"),
    ("a%0Ab", "a line break"),
];

/// The headers with another value, or without the header where there is none.
fn with(mut headers: Headers, name: &str, value: Option<&[u8]>) -> Headers {
    headers.retain_mut(|(other, bytes)| match value {
        Some(value) if *other == name => {
            *bytes = value.to_vec();
            true
        }
        _ => *other != name,
    });
    headers
}

fn missing_token(session: &Session<'_>) -> Result<Findings, Stop> {
    missing(session, FENCING_TOKEN, "X-Fencing-Token is missing")
}

fn missing_resource(session: &Session<'_>) -> Result<Findings, Stop> {
    missing(session, RESOURCE_ID, "X-Resource-Id is missing")
}

fn missing(session: &Session<'_>, header: &str, because: &'static str) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("missing");
    let token = session.supply.tokens(1);
    let headers = with(session.headers(&resource, token), header, None);
    let write = session.write_with(Spelling::Title, &resource, token, headers)?;
    findings.bad_request(&write.exchange, because);
    Ok(findings)
}

fn malformed_token(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("malformed");
    let first = session.supply.tokens(2);
    let write = session.write(&resource, first)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    for (text, what) in MALFORMED {
        let headers = session.headers(&resource, first + 1);
        let headers = with(headers, FENCING_TOKEN, Some(text.as_bytes()));
        let write = session.write_with(Spelling::Title, &resource, first + 1, headers)?;
        findings.bad_request(&write.exchange, format_args!("the token is {what}"));
    }
    // Where all were refused, none may have left a trace.
    if findings.is_empty() {
        let write = session.write(&resource, first + 1)?;
        findings.admitted(
            &write.exchange,
            "only malformed tokens came after a lower one, and they change nothing",
        );
    }
    Ok(findings)
}

fn malformed_resource(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    for (text, what) in MALFORMED_RESOURCES {
        let resource = session.supply.resource("malformed-resource");
        let token = session.supply.tokens(1);
        let headers = session.headers(&resource, token);
        let headers = with(headers, RESOURCE_ID, Some(text.as_bytes()));
        let write = session.write_with(Spelling::Title, &resource, token, headers)?;
        findings.bad_request(&write.exchange, format_args!("the resource id is {what}"));
    }
    Ok(findings)
}

fn repeated_headers(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("repeated");
    let first = session.supply.tokens(3);
    let other = session.supply.resource("repeated");
    let mut extra = vec![
        (FENCING_TOKEN, first.to_string(), "the same token twice"),
        (FENCING_TOKEN, (first + 1).to_string(), "two tokens"),
        (RESOURCE_ID, other.header_encoded(), "two resource ids"),
    ];
    if let Some(issuer) = &session.shape.issuer {
        extra.push((FENCING_ISSUER, issuer.header_encoded(), "two issuers"));
    }
    for (name, value, what) in extra {
        let mut headers = session.headers(&resource, first);
        headers.push((name, value.into_bytes()));
        let write = session.write_with(Spelling::Title, &resource, first, headers)?;
        findings.bad_request(&write.exchange, format_args!("there are {what}"));
    }
    Ok(findings)
}

fn header_case(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("case");
    for spelling in [Spelling::Lower, Spelling::Upper] {
        let token = session.supply.tokens(1);
        let headers = session.headers(&resource, token);
        let write = session.write_with(spelling, &resource, token, headers)?;
        findings.admitted(
            &write.exchange,
            "only the case of the header names is another (RFC 9110, section 5.1)",
        );
    }
    Ok(findings)
}
