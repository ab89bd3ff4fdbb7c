//! Leader election: campaign, write as the leader, notice the loss, resign; and see who leads.
//!
//! Start a cluster with `fencepost dev`, then `cargo run --example leader_election` in two or more terminals.
//! One leads, the others stand in line; end the leader (Ctrl-C, `kill -9`) or stop it (Ctrl-Z) and the next
//! one leads. A leader that was stopped and goes on finds out first, and what it still writes is refused.

use fencepost::client::{Client, Options};
use fencepost::fence::{sql::WriteOutcome, sqlite::Documents};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use fencepost::sequencer::Sequencer;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let nodes = ["127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102"];
    let client = Client::connect(nodes, Options::default())?;
    let office: ResourceName = "example/leader".parse()?;
    let me: Holder = format!("candidate-{}", std::process::id()).parse()?;
    let store = Documents::open(Path::new("leader-election.sqlite"), "dev".parse()?).await?;

    tokio::select! {
        ended = campaign(&client, &office, &me, &store) => ended,
        ended = observe(&client, &office) => ended,
    }
}

/// Leads whenever elected.
async fn campaign(
    client: &Client,
    office: &ResourceName,
    me: &Holder,
    store: &Documents,
) -> Outcome {
    let ttl = Ttl::try_from(Duration::from_secs(5))?;
    loop {
        // One name a candidate; the line is first come, first served.
        let leadership = client.hold(office, me).ttl(ttl).until_held().await?;
        let term = lead(store, leadership.sequencer());
        match leadership.while_held(term).await {
            // The term is over: resign, and the next in line leads at once.
            Ok(done) => {
                done?;
                leadership.release().await?;
            }
            Err(lost) => println!("not the leader any more: {lost}"),
        }
    }
}

/// One term: ten writes, each with the token of the leadership.
async fn lead(store: &Documents, leadership: &Sequencer) -> Outcome {
    for write in 1..=10 {
        let text = format!("write {write} under token {}", leadership.token);
        match store.write(leadership, &text).await? {
            WriteOutcome::Written => println!("{text}"),
            // A newer leader has written. Nothing changed, and no retry will help.
            refused => return Err(format!("the guard refused: {refused:?}").into()),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Says who leads, now and after each change.
async fn observe(client: &Client, office: &ResourceName) -> Outcome {
    let mut leaders = client.holders(office);
    loop {
        match leaders.next().await? {
            Some(leader) => println!("{} leads, with token {}", leader.holder, leader.token),
            None => println!("nobody leads"),
        }
    }
}
