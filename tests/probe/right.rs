//! A service that keeps the contract passes, every time and with every option.

use crate::asking::probe;
use crate::service::{Service, changed, right};

/// Nothing may be broken, and only these may be left out.
fn passes(service: &Service, options: &[&str], left_out: &[&str]) {
    let report = probe(service, &[options, &["--output", "json"]].concat());
    assert_eq!(report.named("broken"), [""; 0], "{:#?}", report.findings());
    assert_eq!(report.named("not tried"), left_out);
    assert_eq!(report.code, Some(0), "{}", report.printed);
    assert_eq!(report.json()["outcome"], "kept");
}

#[test]
fn the_right_service_passes_every_time() {
    let service = Service::start(&right(), None);
    for _ in 0..3 {
        passes(
            &service,
            &["--rounds", "50"],
            &["foreign-issuer", "missing-issuer"],
        );
    }
}

#[test]
fn a_service_that_knows_its_issuer_passes_all_checks() {
    let service = Service::start(&right(), Some("prod"));
    passes(&service, &["--issuer", "prod", "--rounds", "20"], &[]);
}

#[test]
fn a_service_that_takes_a_missing_issuer_passes_where_that_was_said() {
    let accepting = changed(&[
        ("needed=ISSUER is not None", "needed=False"),
        (
            "if ISSUER is not None and name_of(",
            "if ISSUER is not None and issuer is not None and name_of(",
        ),
    ]);
    let service = Service::start(&accepting, Some("prod"));
    let options = ["--issuer", "prod", "--rounds", "5"];
    passes(
        &service,
        &[&options[..], &["--missing-issuer", "accept"]].concat(),
        &[],
    );
    let report = probe(&service, &[&options[..], &["--output", "json"]].concat());
    assert_eq!(report.named("broken"), ["missing-issuer"]);
}

#[test]
fn a_service_that_takes_each_token_once_passes_where_that_was_said() {
    let once = changed(&[
        (
            "notes.token <= excluded.token",
            "notes.token < excluded.token",
        ),
        ("SELECT token FROM", "SELECT token + 1 FROM"),
    ]);
    let service = Service::start(&once, None);
    let options = ["--equal-tokens", "once", "--rounds", "20"];
    passes(&service, &options, &["foreign-issuer", "missing-issuer"]);
}

#[test]
fn fixed_resources_are_probed_again_and_again() {
    let service = Service::start(&right(), None);
    let untried = [
        "resource-names",
        "encoded-names",
        "foreign-issuer",
        "missing-issuer",
        "evicted-mark",
        "wide-tokens",
        "exact-tokens",
        "exact-body",
        "largest-token",
    ];
    for _ in 0..2 {
        let options = ["--resource", "one", "--resource", "two/2", "--rounds", "5"];
        let options = [&options[..], &["--first-token", "1"]].concat();
        passes(&service, &options, &untried);
    }
}
