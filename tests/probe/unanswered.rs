//! Services that do not answer: no verdict, a code of its own, and a sentence that says what to look at.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use crate::asking::{Report, probe, probe_url};
use crate::ports;
use crate::service::{Service, changed};

/// What the probe waits for what never comes.
const BRIEFLY: [&str; 2] = ["--timeout", "300ms"];
/// The same where something else must come before.
const A_WHILE: [&str; 2] = ["--timeout", "2s"];

/// Nobody answered from the beginning, and these words say how.
fn unanswered(url: &str, options: &[&str], words: &str) -> Report {
    let report = probe_url(url, options);
    assert_eq!(report.code, Some(4), "{}", report.printed);
    for part in [
        "fencepost: the service does not answer: ",
        words,
        "Whether it keeps the contract is not known",
        "0 held, 0 broken",
    ] {
        assert!(report.printed.contains(part), "{part}: {}", report.printed);
    }
    report
}

/// Does this with each connection, for as long as the tests run; gives a URL of it.
fn listening(treat: fn(TcpStream)) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().map(Result::unwrap) {
            kept.push(stream.try_clone().unwrap());
            thread::spawn(move || treat(stream));
        }
    });
    format!("http://{address}/{{resource}}")
}

/// Takes in the head of a request, so that nothing unread is left when the connection is closed.
fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        head.push(byte[0]);
    }
}

#[test]
fn nobody_listens() {
    let url = format!("http://127.0.0.1:{}/x", ports::free());
    unanswered(&url, &[], "nobody listens there (connection refused)");
}

#[test]
fn no_such_host() {
    // Reserved by RFC 2606, so nobody can own it; without a resolver it may time out instead.
    unanswered("http://nobody.invalid/x", &A_WHILE, ": the host name ");
}

#[tokio::test]
async fn packets_that_are_dropped() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // The backlog is full once a connection does not come about.
    let connect =
        |address: SocketAddr| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let waiting: Vec<TcpStream> = std::iter::from_fn(|| connect(address)).take(64).collect();
    assert!(waiting.len() < 64, "the backlog is never full");
    let url = format!("http://{address}/x");
    let report = tokio::task::spawn_blocking(move || {
        unanswered(&url, &BRIEFLY, "no connection came about within 300ms")
    });
    report.await.unwrap();
}

#[test]
fn a_connection_and_no_answer() {
    let url = listening(|stream| {
        let _ = stream.take_error();
    });
    // The listener keeps every connection open.
    unanswered(
        &url,
        &BRIEFLY,
        "it took the connection, and no whole answer came within 300ms",
    );
}

#[test]
fn half_a_head() {
    let url = listening(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap();
    });
    unanswered(
        &url,
        &BRIEFLY,
        "it took the connection, and no whole answer came within 300ms",
    );
}

#[test]
fn half_a_body() {
    let url = listening(|mut stream| {
        read_head(&mut stream);
        let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
        stream.write_all(begun).unwrap();
    });
    unanswered(
        &url,
        &A_WHILE,
        "it began to answer, and the answer did not end within 2s",
    );
}

#[test]
fn half_a_head_and_the_end() {
    let url = listening(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap();
        stream.shutdown(std::net::Shutdown::Both).unwrap();
    });
    unanswered(
        &url,
        &[],
        "it closed the connection before a whole answer had come",
    );
}

#[test]
fn a_connection_closed_at_once() {
    let url = listening(|stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    unanswered(
        &url,
        &[],
        "it closed the connection before a whole answer had come",
    );
}

#[test]
fn something_else_than_http() {
    let url = listening(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").unwrap();
    });
    unanswered(&url, &[], "what came is no answer in HTTP/1.1");
}

#[test]
fn plain_http_behind_https() {
    let url = listening(|mut stream| {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let url = url.replace("http:", "https:");
    let report = unanswered(&url, &[], "the TLS handshake failed: ");
    assert!(
        report.printed.contains("it may speak plain http"),
        "{}",
        report.printed
    );
}

#[test]
fn a_handshake_that_is_broken_off() {
    let url = listening(|stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    let words = "the connection was closed in the middle of the TLS handshake";
    unanswered(&url.replace("http:", "https:"), &[], words);
}

#[test]
fn a_handshake_that_never_ends() {
    let url = listening(|stream| {
        let _ = stream.take_error();
    });
    let words = "no TLS connection came about within 300ms";
    unanswered(&url.replace("http:", "https:"), &BRIEFLY, words);
}

#[test]
fn a_script_reads_that_nobody_answered() {
    let url = format!("http://127.0.0.1:{}/x", ports::free());
    let report = probe_url(&url, &["--output", "json"]);
    assert_eq!(report.code, Some(4), "{}", report.printed);
    let json = report.json();
    assert_eq!(json["outcome"], "stopped");
    let because = json["stopped_because"].as_str().unwrap();
    assert!(because.contains("connection refused"), "{because}");
    assert_eq!(json["summary"]["held"], 0);
}

/// What a service makes of a token that it cannot parse.
const PARSED: &str = "raise Refused(400, {\"error\": f\"X-Fencing-Token is no";

#[test]
fn hanging_up_on_what_it_cannot_parse_is_an_answer_of_a_kind() {
    let hangs_up = PARSED.replace("Refused(", "SystemExit(");
    let service = Service::start(&changed(&[(PARSED, &hangs_up)]), None);
    let report = probe(&service, &["--rounds", "2", "--output", "json"]);
    assert_eq!(report.code, Some(3), "{}", report.printed);
    assert_eq!(report.named("broken"), ["malformed-token"]);
    let no_answer = report.findings()[0]["no_answer"].clone();
    let words = "it closed the connection before a whole answer had come";
    assert_eq!(no_answer, words, "{}", report.printed);
}

#[test]
fn a_service_that_dies_of_a_request_is_told_with_the_request() {
    let dies = format!("__import__(\"os\")._exit(1)\n        {PARSED}");
    let service = Service::start(&changed(&[(PARSED, &dies)]), None);
    let report = probe(&service, &["--rounds", "2"]);
    assert_eq!(report.code, Some(4), "{}", report.printed);
    for part in [
        "held       missing-token",
        "not tried  malformed-token           it did not come to its end: ",
        "the last write without an answer was PUT http://",
        "The run ended early.",
        "fencepost: the service does not answer: ",
    ] {
        assert!(report.printed.contains(part), "{part}: {}", report.printed);
    }
    let held = report.printed.matches("\nheld ").count();
    assert!(held > 5, "what held before stays told: {}", report.printed);
}

#[test]
fn what_was_found_before_the_service_fell_silent_stays_found() {
    let dies = format!("__import__(\"os\")._exit(1)\n        {PARSED}");
    let off_by_one = ("SELECT token FROM", "SELECT token + 1 FROM");
    let service = Service::start(&changed(&[(PARSED, &dies), off_by_one]), None);
    let report = probe(&service, &["--rounds", "2", "--output", "json"]);
    assert_eq!(report.code, Some(3), "{}", report.printed);
    assert_eq!(report.named("broken"), ["required-token"]);
    assert_eq!(report.json()["outcome"], "broken");
    assert!(report.json()["stopped_because"].is_string());
}

#[test]
fn a_service_that_stands_still_after_a_request_is_not_judged_by_the_rest() {
    // One thread, and it waits for ever: everybody after it waits as well.
    let stands = format!("__import__(\"threading\").Event().wait()\n        {PARSED}");
    let changes = [
        (PARSED, &stands[..]),
        (
            "class Server(ThreadingHTTPServer)",
            "class Server(HTTPServer)",
        ),
        (
            "import BaseHTTPRequestHandler, ThreadingHTTPServer",
            "import BaseHTTPRequestHandler, HTTPServer",
        ),
        (
            "protocol_version = \"HTTP/1.1\"",
            "protocol_version = \"HTTP/1.0\"",
        ),
    ];
    let service = Service::start(&changed(&changes), None);
    let few = [
        "--only",
        "malformed-token,resources-apart",
        "--timeout",
        "300ms",
        "--output",
        "json",
    ];
    let report = probe(&service, &few);
    assert_eq!(report.code, Some(4), "{}", report.printed);
    assert_eq!(report.named("broken"), [""; 0]);
    assert_eq!(report.json()["outcome"], "stopped");
}
