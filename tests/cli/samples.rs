//! The sample configurations in `deploy/` are ones that a node would start with.

use crate::fencepost;

#[tokio::test]
async fn the_samples_are_valid_configurations() {
    for (name, last) in [
        ("three-nodes", "3=10.0.0.3:7200"),
        ("five-nodes", "5=10.0.0.5:7200"),
    ] {
        let path = format!("{}/deploy/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let run = fencepost(&["serve", "--config", &path, "--check"]).await;
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(run.stdout.contains(last), "{name}: {}", run.stdout);
    }
}

#[tokio::test]
async fn a_sample_without_its_word_for_an_open_network_is_refused() {
    let path = format!("{}/deploy/three-nodes.toml", env!("CARGO_MANIFEST_DIR"));
    let sample = std::fs::read_to_string(path).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let changed = directory.path().join("node.toml");
    std::fs::write(
        &changed,
        sample.replace("insecure = true", "insecure = false"),
    )
    .unwrap();
    let run = fencepost(&["serve", "--config", changed.to_str().unwrap(), "--check"]).await;
    assert_eq!(run.code, Some(10), "{}", run.stdout);
    assert!(run.stderr.contains("10.0.0.1"), "{}", run.stderr);
}
