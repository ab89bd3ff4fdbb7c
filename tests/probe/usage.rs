//! The probe as a user meets it: what it says before it writes, what it says of a mistake, and how it
//! ends where there is nothing to probe.

use crate::asking::{probe, probe_url, run};
use crate::ports;
use crate::service::{Service, changed, right};

#[test]
fn a_report_for_people_says_what_was_sent_what_came_back_and_why_it_matters() {
    let text = changed(&[(
        "notes.token <= excluded.token",
        "notes.token < excluded.token",
    )]);
    let service = Service::start(&text, None);
    let report = probe(
        &service,
        &["--rounds", "2", "--header", "Authorization: secret-7"],
    );
    assert_eq!(report.code, Some(3));
    for part in [
        "never run it against production data",
        "BROKEN     equal-token",
        "sent:      PUT http://127.0.0.1:",
        "  X-Fencing-Token: 1000000",
        "came back: 409  X-Required-Token: 1000000",
        "expected:  2xx",
        "why it matters: ",
        "Broken: equal-token",
        "The contract is broken.",
        "held       stale-token",
    ] {
        assert!(report.printed.contains(part), "{part}: {}", report.printed);
    }
    assert!(!report.printed.contains("secret-7"), "{}", report.printed);
}

#[test]
fn what_is_about_to_happen_is_said_before_the_first_write() {
    let service = Service::start(&right(), None);
    let report = probe(&service, &["--only", "first-token"]);
    assert_eq!(report.code, Some(0), "{}", report.printed);
    let warning = report.printed.find("never run it against").unwrap();
    let first = report.printed.find("held       first-token").unwrap();
    assert!(warning < first, "{}", report.printed);
    assert!(
        report.printed.contains("1 held, 0 broken"),
        "{}",
        report.printed
    );
}

#[test]
fn nobody_there_is_told_apart_from_a_broken_contract() {
    let url = format!("http://127.0.0.1:{}/x", ports::free());
    let report = probe_url(&url, &[]);
    assert_eq!(report.code, Some(4), "{}", report.printed);
    assert!(
        report.printed.contains("cannot be reached"),
        "{}",
        report.printed
    );
}

#[test]
fn a_server_that_hangs_up_is_reached_and_keeps_no_contract() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let report = probe_url(&url, &["--output", "json"]);
    assert_eq!(report.code, Some(3), "{}", report.printed);
    assert_eq!(
        report.named("broken"),
        ["first-token"],
        "{}",
        report.printed
    );
    assert!(report.printed.contains("no_answer"), "{}", report.printed);
}

#[test]
fn checks_are_listed_without_a_service() {
    let report = run(&["guard", "probe", "--list-checks"]);
    assert_eq!(report.code, Some(0), "{}", report.printed);
    for check in ["concurrent-writers ", "exact-tokens ", "restart "] {
        assert!(
            report.printed.contains(check),
            "{check}: {}",
            report.printed
        );
    }
    let json = run(&["guard", "probe", "--list-checks", "--output", "json"]).json();
    let listed = json["checks"].as_array().unwrap();
    assert_eq!(listed.len(), report.printed.lines().count());
    assert!(listed.iter().all(|check| check["why"].is_string()));
}

#[test]
fn bad_arguments_are_named_before_anything_is_sent() {
    let url = "http://127.0.0.1:1/{resource}";
    let cases: [(&[&str], &str); 11] = [
        (&["guard", "probe"], "URL"),
        (&["guard", "probe", "ftp://x/"], "http://"),
        (&["guard", "probe", "127.0.0.1:80"], "URL"),
        (&["guard", "probe", url, "--only", "stale"], "--list-checks"),
        (
            &["guard", "probe", url, "--only", "restart"],
            "--restart-command",
        ),
        (&["guard", "probe", url, "--header", "x"], "NAME: VALUE"),
        (
            &["guard", "probe", url, "--header", "X-Fencing-Token: 1"],
            "the probe itself",
        ),
        (&["guard", "probe", url, "--concurrency", "1"], "2..=256"),
        (
            &["guard", "probe", url, "--first-token", "0"],
            "between 1 and",
        ),
        (&["guard", "probe", url, "--resource", " a"], "blank"),
        (
            &["guard", "probe", url, "--read-url", url, "--body", "x"],
            "{value}",
        ),
    ];
    for (arguments, part) in cases {
        let report = run(arguments);
        assert_eq!(report.code, Some(2), "{arguments:?}: {}", report.printed);
        assert!(
            report.printed.contains(part),
            "{arguments:?} should say {part}: {}",
            report.printed
        );
    }
}
