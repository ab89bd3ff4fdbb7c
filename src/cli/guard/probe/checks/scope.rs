//! A token counts for its own resource and its own issuer, and for nothing else.

use fencepost::resource::{IssuerName, ResourceName};
use fencepost::sequencer::{MissingIssuer, headers};

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::session::{Session, Write};
use super::super::spelling::Spelling;

pub(super) const CHECKS: [Check; 6] = [
    Check {
        name: "resources-apart",
        promise: "each resource has a mark of its own",
        why: "with one mark for all, every grant of one resource shuts out the holders of all others",
        needs: &["first-token"],
        takes: &[Takes::TwoResources],
        run: resources_apart,
    },
    Check {
        name: "foreign-resource",
        promise: "a token for another resource than the URL names is refused with 403",
        why: "whoever holds any resource at all writes to every other one: its token is compared with its own mark, and the data that it overwrites is another's",
        needs: &["first-token"],
        takes: &[Takes::UrlOfResource, Takes::TwoResources],
        run: foreign_resource,
    },
    Check {
        name: "resource-names",
        promise: "names are compared exactly: case, accents, blanks and length count",
        why: "two resources share one mark, and the holder of one shuts out the holder of the other",
        needs: &["resources-apart"],
        takes: &[Takes::OwnResources],
        run: resource_names,
    },
    Check {
        name: "encoded-names",
        promise: "a name has one mark, however it was percent-encoded",
        why: "a stale holder whose library encodes one character more is compared with another mark, and admitted",
        needs: &["stale-token"],
        takes: &[Takes::OwnResources],
        run: encoded_names,
    },
    Check {
        name: "foreign-issuer",
        promise: "a token of another issuer is refused with 403, and not compared",
        why: "issuers number independently: a test cluster's high token would shut out every real holder",
        needs: &["first-token"],
        takes: &[Takes::Issuer],
        run: foreign_issuer,
    },
    Check {
        name: "missing-issuer",
        promise: "a token without its issuer is refused with 400, or taken where that was agreed on",
        why: "a token says nothing without its issuer, and who forgets the header escapes the check of it",
        needs: &["first-token"],
        takes: &[Takes::Issuer],
        run: missing_issuer,
    },
];

/// Endings that make two names of one, and what may take them for equal.
fn twins() -> Vec<(String, String, &'static str)> {
    let pair = |one: &str, two: &str, what| (one.to_owned(), two.to_owned(), what);
    let long = "x".repeat(100);
    vec![
        pair("case-a", "case-A", "they differ in case"),
        pair("accent-e", "accent-\u{e9}", "they differ in an accent"),
        pair(
            "form-\u{e9}",
            "form-e\u{301}",
            "they differ in Unicode normalisation (NFC, NFD)",
        ),
        pair("sharp-\u{df}", "sharp-ss", "one has a sharp s"),
        pair("blank-a b", "blank-a+b", "one has a blank, one a plus"),
        pair("slash-a/b", "slash-a%2Fb", "one has the text %2F in it"),
        pair("number-1", "number-01", "they differ in a leading zero"),
        pair("quote-'", "quote-''", "they differ in a quote"),
        pair("back-\\", "back-\\\\", "they differ in a backslash"),
        pair("any-_", "any-%", "they are patterns of LIKE"),
        pair(
            "crab-\u{1f980}",
            "crab-\u{1f981}",
            "they differ beyond 16 bits",
        ),
        pair("path-a/b", "path-a/./b", "they differ as paths would not"),
        pair(
            &format!("{long}1"),
            &format!("{long}2"),
            "they differ in the last of many characters",
        ),
    ]
}

fn resources_apart(session: &Session<'_>) -> Result<Findings, Stop> {
    let one = session.supply.resource("apart");
    let two = session.supply.resource("apart");
    let mut findings = Findings::default();
    apart(session, &mut findings, &one, &two, "they are two resources")?;
    Ok(findings)
}

/// A high token for one, then a lower one for the other.
fn apart(
    session: &Session<'_>,
    findings: &mut Findings,
    one: &ResourceName,
    two: &ResourceName,
    what: &str,
) -> Result<(), Stop> {
    let lower = session.supply.tokens(10);
    let write = session.write(one, lower + 9)?;
    if findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        let write = session.write(two, lower)?;
        let because = format!("only \"{one}\" had a higher token, and {what}");
        findings.admitted(&write.exchange, because);
    }
    Ok(())
}

/// The holder of one resource writes to the URL of another.
fn foreign_resource(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let held = session.supply.resource("held");
    let written = session.supply.resource("written");
    let lower = session.supply.tokens(10);
    let headers = session.headers(&held, lower + 9);
    let foreign = session.write_with(Spelling::Title, &written, lower + 9, headers)?;
    let is_foreign = foreign.exchange.status() == Some(403);
    let expected = format!(
        "403: the URL is that of \"{written}\", and X-Resource-Id says that the token is for \"{held}\" (a service whose URLs name something else is probed with --skip foreign-resource)"
    );
    if findings.expect(is_foreign, &foreign.exchange, expected) {
        for (resource, token) in [(&written, lower), (&held, lower + 1)] {
            let write = session.write(resource, token)?;
            let because = "the higher token was refused as foreign, and leaves no mark";
            findings.admitted(&write.exchange, because);
        }
    }
    Ok(findings)
}

fn resource_names(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    for (one, two, what) in twins() {
        let (one, two) = (session.supply.named(&one), session.supply.named(&two));
        apart(session, &mut findings, &one, &two, what)?;
    }
    Ok(findings)
}

fn encoded_names(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    for suffix in ["encoded-a/b:c", "encoded-\u{e4} ~"] {
        let resource = session.supply.named(suffix);
        let lower = session.supply.tokens(2);
        let write = session.write(&resource, lower + 1)?;
        if !findings.admitted(
            &write.exchange,
            "no higher token was sent for this resource",
        ) {
            continue;
        }
        let mut headers = session.headers(&resource, lower);
        for (name, value) in &mut headers {
            if *name == headers::RESOURCE_ID {
                *value = fully_encoded(&resource).into_bytes();
            }
        }
        let stale = session.write_with(Spelling::Title, &resource, lower, headers)?;
        let because = format!(
            "it is \"{resource}\" again, percent-encoded throughout, and {} had been admitted for it",
            lower + 1
        );
        findings.stale(&stale.exchange, because);
    }
    Ok(findings)
}

/// Every byte of the name as `%XX`, letters too, in lower-case digits.
fn fully_encoded(resource: &ResourceName) -> String {
    let bytes = resource.as_str().bytes();
    bytes.map(|byte| format!("%{byte:02x}")).collect()
}

fn foreign_issuer(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("foreign");
    let lower = session.supply.tokens(10);
    let first = session.write(&resource, lower)?;
    if !findings.admitted(
        &first.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    let other = IssuerName::new("fencepost-probe-foreign").expect("a name of ours");
    let foreign = with_issuer(session, &resource, lower + 9, Some(&other))?;
    let is_foreign = foreign.exchange.status() == Some(403);
    let expected = "403: the service is fenced by another issuer than X-Fencing-Issuer names";
    if findings.expect(is_foreign, &foreign.exchange, expected) {
        let write = session.write(&resource, lower + 1)?;
        let because = "the higher token was of another issuer, and is not compared";
        findings.admitted(&write.exchange, because);
    }
    Ok(findings)
}

fn missing_issuer(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let resource = session.supply.resource("no-issuer");
    let token = session.supply.tokens(1);
    let write = with_issuer(session, &resource, token, None)?;
    match session.shape.missing_issuer {
        MissingIssuer::Refuse => findings.bad_request(
            &write.exchange,
            "X-Fencing-Issuer is missing (a service that takes such tokens is probed with --missing-issuer accept)",
        ),
        MissingIssuer::Accept => findings.admitted(
            &write.exchange,
            "--missing-issuer accept says that the service takes tokens without an issuer",
        ),
    };
    Ok(findings)
}

fn with_issuer(
    session: &Session<'_>,
    resource: &ResourceName,
    token: u64,
    issuer: Option<&IssuerName>,
) -> Result<Write, Stop> {
    let mut headers = session.headers(resource, token);
    headers.retain(|(name, _)| *name != headers::FENCING_ISSUER);
    if let Some(issuer) = issuer {
        let value = issuer.header_encoded().into_bytes();
        headers.push((headers::FENCING_ISSUER, value));
    }
    Ok(session.write_with(Spelling::Title, resource, token, headers)?)
}
