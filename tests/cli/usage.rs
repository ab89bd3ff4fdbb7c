//! Usage errors end with code 2, before anything is sent.

use crate::fencepost;

#[tokio::test]
async fn bad_arguments_are_named_with_what_would_do() {
    let cases: [(&[&str], &str); 16] = [
        (&[], "Usage: fencepost"),
        (&["aquire"], "acquire"),
        (&["acquire"], "RESOURCE"),
        (&["acquire", ""], "1 to 160"),
        (&["acquire", " x"], "blank"),
        (&["acquire", "x\ny"], "control character"),
        (&["acquire", "x", "--ttl", "30"], "such as 500ms, 30s or 5m"),
        (&["acquire", "x", "--ttl", "99ms"], "between 100ms and 24h"),
        (&["acquire", "x", "--ttl", "-1s"], "between 100ms and 24h"),
        (&["status", "--timeout", "0s"], "longer than 0s"),
        (&["acquire", "x", "--ttl", "86400000000000000000s"], "--ttl"),
        (&["acquire", "x", "--request-id", "xyz"], "hexadecimal"),
        (&["release", "x", "0"], "between 1 and"),
        (&["release", "x", "1.5"], "decimal number"),
        (
            &["cluster", "promote", "0"],
            "node_id".to_uppercase().leak(),
        ),
        (&["bench", "dance"], "bench <SCENARIO>"),
    ];
    for (args, part) in cases {
        let run = fencepost(args).await;
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(part),
            "{args:?} should say {part:?}: {}",
            run.stderr
        );
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.stdout);
    }
}

#[tokio::test]
async fn endpoints_are_checked_before_anything_is_sent() {
    for (endpoints, part) in [
        ("nowhere", "it has no port"),
        ("https://127.0.0.1:7100", "TLS is not offered"),
        ("127.0.0.1:7100,127.0.0.1:99999", "from 1 to 65535"),
    ] {
        let run = fencepost(&["status", "--endpoints", endpoints]).await;
        assert_eq!(run.code, Some(2), "{endpoints}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{endpoints}: {}", run.stderr);
    }
}

#[tokio::test]
async fn connection_options_stand_before_or_after_the_command() {
    let options = ["--endpoints", "nowhere"];
    let before = fencepost(&[options[0], options[1], "list"]).await;
    let after = fencepost(&["list", options[0], options[1]]).await;
    assert_eq!((before.code, after.code), (Some(2), Some(2)));
    assert_eq!(before.stderr, after.stderr);
}
