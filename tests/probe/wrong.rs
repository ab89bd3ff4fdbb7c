//! Each of these services has one mistake that real services have, and is caught by the check that
//! names it.

use crate::asking::{Report, probe};
use crate::service::{Service, changed};

/// The probe's report of the right service with one mistake; `check` is the only one that may break.
fn caught(changes: &[(&str, &str)], check: &str, options: &[&str]) -> Report {
    let issuer = options.contains(&"--issuer").then_some("prod");
    let service = Service::start(&changed(changes), issuer);
    let report = probe(&service, &[options, &["--output", "json"]].concat());
    assert_eq!(report.named("broken"), [check], "{:#?}", report.findings());
    assert_eq!(report.code, Some(3), "{}", report.printed);
    let findings = report.findings();
    assert!(
        findings
            .iter()
            .all(|finding| { finding["expected"].is_string() && finding["url"].is_string() }),
        "{}",
        report.printed
    );
    report
}

/// Few rounds: the mistake shows in a single write.
const FEW: [&str; 2] = ["--rounds", "5"];
/// The mistake shows in one of about five rounds, and the first to show it is the last.
const MANY: [&str; 2] = ["--rounds", "2000"];

#[test]
fn check_then_write() {
    let changes = [(
        "    if database.execute(WRITE, values).rowcount == 0:\n",
        "    row = database.execute(\"SELECT token FROM notes WHERE resource = :resource\", values).fetchone()\n    \
             if row is None or row[0] <= token:\n        \
                 database.execute(WRITE.split(\"WHERE\")[0], values)\n    else:\n",
    )];
    let report = caught(&changes, "concurrent-writers", &MANY);
    let story = report.findings()[0]["story"].as_array().unwrap().len();
    assert_eq!(story, 17, "a line for the round, and one for each writer");
}

#[test]
fn check_then_write_behind_a_short_backlog() {
    let changes = [
        (
            "protocol_version = \"HTTP/1.1\"",
            "protocol_version = \"HTTP/1.0\"",
        ),
        ("request_queue_size = 128", "request_queue_size = 5"),
        (
            "    if database.execute(WRITE, values).rowcount == 0:\n",
            "    row = database.execute(\"SELECT token FROM notes WHERE resource = :resource\", values).fetchone()\n    \
                 if row is None or row[0] <= token:\n        \
                     database.execute(WRITE.split(\"WHERE\")[0], values)\n    else:\n",
        ),
    ];
    caught(&changes, "concurrent-writers", &MANY);
}

#[test]
fn a_guard_at_the_door() {
    let changes = [
        (
            "SET body = excluded.body, token = excluded.token",
            "SET token = excluded.token",
        ),
        (
            "{\"X-Required-Token\": str(required)})\n",
            "{\"X-Required-Token\": str(required)})\n    \
             database.execute(\"UPDATE notes SET body = :body WHERE resource = :resource\", values)\n",
        ),
    ];
    // Its marks are right, in any number of rounds; so these are spent on what is written.
    let options = [&MANY[..], &["--skip", "concurrent-writers"]].concat();
    caught(&changes, "concurrent-values", &options);
}

#[test]
fn no_check_at_all() {
    let changes = [("\nWHERE notes.token <= excluded.token", "")];
    caught(&changes, "stale-token", &FEW);
}

#[test]
fn a_comparison_that_shuts_the_holder_out() {
    let changes = [(
        "notes.token <= excluded.token",
        "notes.token < excluded.token",
    )];
    caught(&changes, "equal-token", &FEW);
}

#[test]
fn one_mark_for_all_resources() {
    let changes = [
        (
            "    if database.execute(WRITE, values).rowcount == 0:\n",
            "    top = database.execute(\"SELECT coalesce(max(token), 0) FROM notes\").fetchone()\n    \
             if top[0] > token or database.execute(WRITE, values).rowcount == 0:\n",
        ),
        (
            "[resource]).fetchone()\n        required",
            "[resource]).fetchone() or top\n        required",
        ),
    ];
    caught(&changes, "resources-apart", &FEW);
}

#[test]
fn a_token_for_another_resource() {
    let changes = [("if resource != written:", "if not written:")];
    let report = caught(&changes, "foreign-resource", &FEW);
    let findings = report.findings();
    assert_eq!(findings[0]["status"], 200, "{}", report.printed);
    assert!(findings[0]["url"].as_str().unwrap().contains("-written-"));
}

#[test]
fn a_foreign_token_that_leaves_a_mark() {
    let changes = [(
        "if resource != written:\n",
        "if resource != written:\n        \
         with sqlite3.connect(DATABASE, timeout=30) as database:\n            \
             database.execute(WRITE, {\"resource\": resource, \"token\": token, \"body\": \"\"})\n",
    )];
    let report = caught(&changes, "foreign-resource", &FEW);
    assert_eq!(report.findings()[0]["status"], 409, "{}", report.printed);
}

#[test]
fn names_that_ignore_case() {
    let changes = [(
        "resource TEXT PRIMARY KEY",
        "resource TEXT COLLATE NOCASE PRIMARY KEY",
    )];
    let report = caught(&changes, "resource-names", &FEW);
    assert_eq!(
        report.findings().len(),
        1,
        "only the pair that differs in case"
    );
}

#[test]
fn names_compared_as_they_were_encoded() {
    let changes = [
        ("    return name\n", "    return text\n"),
        // It compares no names that the URL has decoded and the header not.
        ("if resource != written:", "if not written:"),
    ];
    let options = [&FEW[..], &["--skip", "foreign-resource"]].concat();
    caught(&changes, "encoded-names", &options);
}

#[test]
fn tokens_as_floats() {
    caught(
        &[("return int(text)", "return int(float(text))")],
        "exact-tokens",
        &FEW,
    );
}

#[test]
fn tokens_as_text() {
    let changes = [(
        "notes.token <= excluded.token",
        "CAST(notes.token AS TEXT) <= CAST(excluded.token AS TEXT)",
    )];
    caught(&changes, "longer-token", &FEW);
}

#[test]
fn tokens_of_32_bits() {
    caught(
        &[("TOKEN_MAX = 2**63 - 1", "TOKEN_MAX = 2**31 - 1")],
        "wide-tokens",
        &FEW,
    );
}

#[test]
fn a_lenient_parser() {
    let changes = [("\"[0-9]{1,19}\", text)", "\"[+-]?[0-9_]{1,19}\", text)")];
    let report = caught(&changes, "malformed-token", &FEW);
    let sent: Vec<String> = report
        .findings()
        .iter()
        .map(|finding| finding["headers"][0][1].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["+5", "1_000"]);
}

#[test]
fn an_error_where_the_caller_is_to_blame() {
    let changes = [(
        "Refused(400, {\"error\": f\"X-Fencing-Token is no",
        "Refused(500, {\"error\": f\"X-Fencing-Token is no",
    )];
    caught(&changes, "malformed-token", &FEW);
}

#[test]
fn a_token_for_those_who_send_none() {
    let changes = [(
        "token_of(one(headers, \"X-Fencing-Token\"))",
        "token_of(one(headers, \"X-Fencing-Token\") if \"X-Fencing-Token\" in headers else \"999999999\")",
    )];
    caught(&changes, "missing-token", &FEW);
}

#[test]
fn a_mark_for_those_who_name_no_resource() {
    let changes = [(
        "name_of(one(headers, \"X-Resource-Id\"), ",
        "name_of(one(headers, \"X-Resource-Id\") if \"X-Resource-Id\" in headers else \"all\", ",
    )];
    caught(&changes, "missing-resource", &FEW);
}

#[test]
fn names_that_are_not_looked_at() {
    let changes = [("    if not name or re.search(", "    if re.search(")];
    caught(&changes, "malformed-resource", &FEW);
}

#[test]
fn the_first_of_two_headers() {
    caught(
        &[("if len(values) > 1:", "if len(values) > 9:")],
        "repeated-headers",
        &FEW,
    );
}

#[test]
fn header_names_compared_exactly() {
    let changes = [(
        "headers.get_all(name) or []",
        "[value for other, value in headers.items() if other == name]",
    )];
    caught(&changes, "header-case", &FEW);
}

#[test]
fn a_conflict_without_its_header() {
    let changes = [("{\"X-Required-Token\": str(required)}", "{}")];
    caught(&changes, "required-header", &FEW);
}

#[test]
fn a_required_token_off_by_one() {
    caught(
        &[("SELECT token FROM", "SELECT token + 1 FROM")],
        "required-token",
        &FEW,
    );
}

#[test]
fn a_body_that_says_something_else_than_the_header() {
    let changes = [(
        "\"required\": in_json(required)",
        "\"required\": in_json(token)",
    )];
    caught(&changes, "stale-body", &FEW);
}

#[test]
fn a_body_of_numbers_that_readers_round() {
    let changes = [(
        "return token if token <= 2**53 else str(token)",
        "return token",
    )];
    let report = caught(&changes, "exact-body", &FEW);
    assert_eq!(report.findings().len(), 2, "presented and required");
}

#[test]
fn a_write_despite_the_refusal() {
    let changes = [(
        "        required = row[0]\n",
        "        required = row[0]\n        \
         database.execute(\"UPDATE notes SET body = :body WHERE resource = :resource\", values)\n",
    )];
    caught(&changes, "stale-writes-nothing", &FEW);
}

#[test]
fn a_refusal_that_lowers_the_mark() {
    let changes = [(
        "        required = row[0]\n",
        "        required = row[0]\n        \
         database.execute(\"UPDATE notes SET token = :token WHERE resource = :resource\", values)\n",
    )];
    caught(&changes, "refused-changes-nothing", &FEW);
}

#[test]
fn marks_that_a_restart_loses() {
    let changes = [(
        "first.execute(SCHEMA)",
        "first.executescript(\"DROP TABLE IF EXISTS notes;\" + SCHEMA)",
    )];
    caught(&changes, "restart", &FEW);
}

#[test]
fn marks_that_make_way_for_newer_ones() {
    let changes = [(
        "{\"X-Required-Token\": str(required)})\n",
        "{\"X-Required-Token\": str(required)})\n    \
         database.execute(\"DELETE FROM notes WHERE token < (SELECT min(token) FROM \"\n        \
             \"(SELECT token FROM notes ORDER BY token DESC LIMIT 64))\")\n",
    )];
    let enough = [&FEW[..], &["--others", "80"]].concat();
    let report = caught(&changes, "evicted-mark", &enough);
    assert_eq!(report.findings()[0]["status"], 200, "{}", report.printed);

    // What fits in is kept, and the report says how many that were, and no more.
    let service = Service::start(&changed(&changes), None);
    let few = ["--only", "evicted-mark", "--others", "40"];
    let report = probe(&service, &few);
    assert_eq!(report.code, Some(0), "{}", report.printed);
    let seen = "the mark was kept after 40 other resources";
    assert!(report.printed.contains(seen), "{}", report.printed);
}

#[test]
fn marks_that_have_a_time_to_live() {
    let changes = [
        (
            "def write(database, resource, token, body):",
            "def write(database, resource, token, body, seen={}):",
        ),
        (
            "    values = {\"resource\": resource",
            "    import time\n    \
             if time.monotonic() - seen.get(resource, 0) > 1:\n        \
                 database.execute(\"DELETE FROM notes WHERE resource = ?\", [resource])\n    \
             seen[resource] = time.monotonic()\n    \
             values = {\"resource\": resource",
        ),
    ];
    let asleep = ["--only", "idle-mark", "--idle", "1500ms"];
    let report = caught(&changes, "idle-mark", &asleep);
    let expected = report.findings()[0]["expected"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(expected.contains("1s 500ms before"), "{expected}");
}

#[test]
fn a_service_that_has_enough_of_new_resources_forgets_none() {
    let write = "        write(database, resource, token, body)";
    let counted = "        count, known = database.execute(\"SELECT count(*), max(resource = ?) FROM notes\", [resource]).fetchone()\n            \
        if count >= 30 and not known:\n                \
            raise Refused(507, {\"error\": \"no room for another resource\"})\n    ";
    let changed = changed(&[(write, &format!("{counted}{write}"))]);
    let service = Service::start(&changed, None);
    let report = probe(&service, &["--only", "evicted-mark", "--others", "80"]);
    assert_eq!(report.code, Some(0), "{}", report.printed);
    let seen = "no more of 80 were taken: 507";
    assert!(report.printed.contains(seen), "{}", report.printed);
}

#[test]
fn tokens_of_any_issuer() {
    let changes = [(
        "\"X-Fencing-Issuer\") != ISSUER:",
        "\"X-Fencing-Issuer\") == \"\":",
    )];
    caught(
        &changes,
        "foreign-issuer",
        &["--issuer", "prod", "--rounds", "5"],
    );
}
