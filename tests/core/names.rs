//! Names go through the core, its log and its snapshots byte for byte.

use fencepost::issuer::{Command, decode_command, encode_command};

use crate::scene::{Scene, acquire, resource};

#[test]
fn odd_names_stay_as_they_are_and_apart() {
    let longest = "🦀".repeat(160);
    let names = [
        "a",
        "A",
        "a b",
        "caf\u{e9}",
        "cafe\u{301}",
        "שלום",
        "\u{202e}rtl",
        "🦀",
        "a/b",
        "%41",
        "'\"\\",
        longest.as_str(),
    ];
    let mut scene = Scene::new();
    for name in names {
        let command = Command::Acquire(acquire(name, "🦀", "id"));
        let through_the_log = decode_command(&encode_command(&command).unwrap()).unwrap();
        assert_eq!(through_the_log, command);
        scene.apply(&through_the_log);
    }
    scene.restart();
    assert_eq!(scene.machine().live_grants(), names.len());
    for name in names {
        assert_eq!(
            scene
                .machine()
                .inspect(&resource(name))
                .unwrap()
                .resource
                .as_str(),
            name
        );
    }
    let mut listed: Vec<_> = scene.machine().list("", None, 100).grants;
    listed.sort_by_key(|grant| grant.token);
    assert!(listed.iter().map(|grant| grant.resource.as_str()).eq(names));
}
