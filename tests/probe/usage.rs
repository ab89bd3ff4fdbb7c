//! The probe as a user meets it: what it says before it writes, what it says of a mistake, and how it
//! ends where there is nothing to probe.

use crate::asking::{probe, probe_url, run};
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
    for part in ["1 held, 0 broken", "left out by --only or --skip"] {
        assert!(report.printed.contains(part), "{part}: {}", report.printed);
    }
    // No line for each of those that nobody asked for, and no alarm about them.
    for part in ["--only names others", "NOT TRIED", "stale-token"] {
        assert!(!report.printed.contains(part), "{part}: {}", report.printed);
    }
}

#[test]
fn what_was_not_tried_is_said_loudly_and_fails_where_that_was_asked_for() {
    // Its marks are in memory, as good as: a restart loses them, and nothing shows it but a restart.
    let text = changed(&[(
        "first.execute(SCHEMA)",
        "first.executescript(\"DROP TABLE IF EXISTS notes;\" + SCHEMA)",
    )]);
    let service = Service::start(&text, None);
    let url = service.url();
    let few = ["--rounds", "2", "--others", "20"];
    let lenient = probe_url(&url, &few);
    assert_eq!(lenient.code, Some(0), "{}", lenient.printed);
    for part in [
        "NOT TRIED, so the service may break it:",
        "  restart                   marks survive a restart of the service: it takes --restart-command",
        "why it matters: marks in memory are gone with the process",
        "it takes --issuer",
        "it takes --read-url",
        "  idle-mark                 a mark is kept, however long nobody writes: it takes --idle",
        "With --strict it fails",
    ] {
        assert!(
            lenient.printed.contains(part),
            "{part}: {}",
            lenient.printed
        );
    }
    let strict = probe_url(&url, &[&few[..], &["--strict"]].concat());
    assert_eq!(strict.code, Some(3), "{}", strict.printed);
    assert!(
        strict.printed.contains("because of --strict"),
        "{}",
        strict.printed
    );
    let json = ["--strict", "--output", "json"];
    let strict = probe_url(&url, &[&few[..], &json].concat());
    assert_eq!(strict.code, Some(3), "{}", strict.printed);
    assert_eq!(strict.json()["outcome"], "incomplete");
    assert_eq!(strict.named("broken"), [""; 0]);

    // What does not apply is taken out by name, and what is left must be tried.
    let skipped = "--strict --skip foreign-issuer,missing-issuer";
    let skipped: Vec<&str> = skipped.split(' ').chain(few).collect();
    let report = probe(&service, &skipped);
    assert_eq!(report.code, Some(3), "{}", report.printed);
    assert!(
        report.printed.contains("Broken: restart"),
        "{}",
        report.printed
    );
    let service = Service::start(&right(), None);
    let report = probe(&service, &skipped);
    assert_eq!(report.code, Some(0), "{}", report.printed);
}

#[test]
fn a_url_that_names_no_resource_leaves_its_check_untried() {
    let service = Service::start(&right(), None);
    let url = service.url().replace("{resource}", "one");
    let report = probe_url(
        &url,
        &["--resource", "one", "--rounds", "2", "--output", "json"],
    );
    assert_eq!(report.code, Some(0), "{}", report.printed);
    let untried = report.named("not tried");
    assert!(
        untried.contains(&"foreign-resource".to_owned()),
        "{untried:?}"
    );
}

#[test]
fn a_race_that_was_not_seen_is_not_said_to_be_none() {
    let service = Service::start(&right(), None);
    let options = ["--only", "concurrent-writers", "--rounds", "3"];
    let report = probe(&service, &options);
    let seen =
        "held       concurrent-writers        no race seen in 3 rounds of 16 writers at once\n";
    assert!(report.printed.contains(seen), "{}", report.printed);
    let report = probe(&service, &[&options[..], &["--output", "json"]].concat());
    let checks = report.json()["checks"].clone();
    let mut checks = checks.as_array().unwrap().iter();
    let race = checks.find(|check| check["name"] == "concurrent-writers");
    let seen = race.unwrap()["seen"].as_str().unwrap().to_owned();
    assert!(seen.starts_with("no race seen in 3 rounds"), "{seen}");
}

#[test]
fn a_forgotten_issuer_is_asked_for() {
    let service = Service::start(&right(), Some("prod"));
    let report = probe(&service, &["--rounds", "2"]);
    assert_eq!(report.code, Some(3), "{}", report.printed);
    let hint = "if the service expects an issuer, name it with --issuer";
    assert!(report.printed.contains(hint), "{}", report.printed);
    let report = probe(&service, &["--rounds", "2", "--issuer", "test"]);
    let hint = "does the service expect another issuer than --issuer names";
    assert!(report.printed.contains(hint), "{}", report.printed);
}

#[test]
fn connections_that_wait_in_a_full_backlog_make_the_writers_fewer() {
    // Each connection is taken out of the backlog 20 ms after the last one, and it has room for five.
    let text = changed(&[
        (
            "protocol_version = \"HTTP/1.1\"",
            "protocol_version = \"HTTP/1.0\"",
        ),
        (
            "    request_queue_size = 128",
            "    def get_request(self):\n        \
                 import time\n        \
                 time.sleep(0.02)\n        \
                 return super().get_request()\n\n    \
             request_queue_size = 4",
        ),
    ]);
    let service = Service::start(&text, None);
    let options = ["--only", "concurrent-writers", "--rounds", "4"];
    let report = probe(&service, &[&options[..], &["--concurrency", "9"]].concat());
    assert_eq!(report.code, Some(0), "{}", report.printed);
    let seen = "no race seen in 4 rounds of 9 writers at once, later 4: connections waited";
    assert!(report.printed.contains(seen), "{}", report.printed);
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
    let cases: [(&[&str], &str); 15] = [
        (&["guard", "probe"], "URL"),
        (&["guard", "probe", "ftp://x/"], "http://"),
        (&["guard", "probe", "127.0.0.1:80"], "URL"),
        (&["guard", "probe", url, "--only", "stale"], "--list-checks"),
        (
            &["guard", "probe", url, "--only", "restart"],
            "--restart-command",
        ),
        (&["guard", "probe", url, "--only", "idle-mark"], "--idle"),
        (&["guard", "probe", url, "--idle", "25h"], "at most 1day"),
        (&["guard", "probe", url, "--idle", "0s"], "longer than 0s"),
        (&["guard", "probe", url, "--others", "0"], "1..=1000000"),
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
