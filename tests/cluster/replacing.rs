//! Replacing a node that is lost or damaged: what the node itself prints, and what the page on
//! operations says, followed to the letter.

use std::{fs, path::PathBuf};

use crate::{
    nodes::Cluster,
    waiting::{PATIENCE, eventually},
};

const STORAGE_DAMAGED: i32 = 12;

/// The biggest file of the database: losing its end loses entries.
fn database_file(cluster: &Cluster, node: u64) -> PathBuf {
    let mut open = vec![cluster.place.data(node)];
    let mut files = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if !["IDENTITY", "WATERMARK"].contains(&entry.file_name().to_str().unwrap()) {
                files.push((entry.metadata().unwrap().len(), path));
            }
        }
    }
    files
        .into_iter()
        .max()
        .expect("a node that ran has a database")
        .1
}

/// Has a grant made, so that there is something to lose and something to keep.
async fn grant(cluster: &Cluster, resource: &str) -> u64 {
    let output = cluster
        .command(&[
            "acquire", resource, "--holder", "h", "--ttl", "1h", "--output", "json",
        ])
        .await;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["token"].as_str().unwrap().parse().unwrap()
}

/// The commands that a node printed, between backticks, in their order.
fn remedy(said: &str) -> Vec<Vec<String>> {
    let quoted = said.split('`').skip(1).step_by(2);
    let commands = quoted.filter_map(|text| text.strip_prefix("fencepost "));
    commands
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_remedy_that_a_damaged_node_prints_works_when_followed_to_the_letter() {
    let mut cluster = Cluster::of_three().await;
    let first = grant(&cluster, "before").await;
    let leader = cluster.ready().await;
    let damaged = cluster.founders().find(|node| *node != leader).unwrap();
    cluster.kill(damaged);
    fs::write(database_file(&cluster, damaged), b"").unwrap();
    cluster.start(damaged);
    assert_eq!(cluster.exit(damaged).await, STORAGE_DAMAGED);
    let said = cluster.logged(damaged);

    // What it printed, command by command; what is in capitals is left to the reader.
    let new = 4;
    // The last message is the one for people.
    let (_, printed) = said
        .rsplit_once("\nfencepost: ")
        .expect("a message for people");
    let commands = remedy(printed);
    assert_eq!(commands.len(), 4, "remove, start, add, promote: {said}");
    for command in commands {
        let words: Vec<String> = command
            .iter()
            .map(|word| fill_in(&cluster, word, new))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words[0] == "serve" {
            // "The other settings as before" are its addresses.
            let all = cluster.joining(new);
            assert!(
                words.iter().all(|word| all.iter().any(|one| one == word)),
                "{words:?}"
            );
            cluster.start_with(new, &all);
            waits_to_be_added(&cluster, new).await;
        } else {
            succeeds(&cluster, &words).await;
        }
    }
    is_whole_without(&cluster, damaged, new).await;
    assert!(grant(&cluster, "after").await > first);
}

/// What the remedy leaves to its reader.
fn fill_in(cluster: &Cluster, word: &str, new: u64) -> String {
    match word {
        "NEW-ID" => new.to_string(),
        "NEW-DIR" => cluster.place.data(new).display().to_string(),
        "HOST:PORT" => cluster.place.peer(new).to_string(),
        _ => word.to_owned(),
    }
}

async fn waits_to_be_added(cluster: &Cluster, node: u64) {
    eventually("the new node can be reached", PATIENCE, async || {
        cluster.status(node).await
    })
    .await;
}

/// Three voters, the new one among them and the old one not, all with the same state.
async fn is_whole_without(cluster: &Cluster, old: u64, new: u64) {
    eventually("the cluster is whole", PATIENCE, async || {
        let leader = cluster.agreed_leader().await?;
        let status = cluster.status(leader).await?;
        let voters: Vec<u64> = status
            .members
            .iter()
            .filter(|member| member.voter)
            .map(|member| member.node_id)
            .collect();
        (voters.len() == 3 && voters.contains(&new) && !voters.contains(&old)).then_some(())
    })
    .await;
    cluster.caught_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_replaced_under_a_new_id_and_its_own_is_never_given_again() {
    let mut cluster = Cluster::of_three().await;
    let first = grant(&cluster, "before").await;
    let leader = cluster.ready().await;
    let dead = cluster.founders().find(|node| *node != leader).unwrap();
    cluster.kill(dead);
    fs::remove_dir_all(cluster.place.data(dead)).unwrap();

    let (dead_id, address) = (dead.to_string(), cluster.place.peer(4).to_string());
    succeeds(&cluster, &["cluster", "remove-node", &dead_id]).await;
    let joining = cluster.joining(4);
    cluster.start_with(4, &joining);
    waits_to_be_added(&cluster, 4).await;

    // The id of the dead node is refused, for whatever node.
    let refused = cluster
        .command(&["cluster", "add-node", &dead_id, &address])
        .await;
    assert!(!refused.status.success(), "an id is never given again");
    succeeds(&cluster, &["cluster", "add-node", "4", &address]).await;
    succeeds(&cluster, &["cluster", "promote", "4"]).await;
    is_whole_without(&cluster, dead, 4).await;
    assert!(grant(&cluster, "after").await > first);
}

async fn succeeds(cluster: &Cluster, words: &[&str]) {
    let output = cluster.command(words).await;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{words:?}: {out}{err}");
}
