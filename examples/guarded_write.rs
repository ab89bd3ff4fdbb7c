//! A holder's whole life: hold, write through a guard, notice the loss, release.
//!
//! Start a cluster with `fencepost dev`, then `cargo run --example guarded_write`. Two copies that run side
//! by side take turns; one that is stopped (Ctrl-Z) for a minute and goes on finds out first, and what it
//! still writes is refused by the guard as soon as the other copy has written.

use fencepost::client::{Client, Options};
use fencepost::fence::{sql::WriteOutcome, sqlite::Documents};
use fencepost::resource::Holder;
use fencepost::sequencer::Sequencer;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes = ["127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102"];
    let client = Client::connect(nodes, Options::default())?;
    // The guard: tokens of another issuer say nothing here, and are refused as well.
    let store = Documents::open(Path::new("guarded-write.sqlite"), "dev".parse()?).await?;

    let resource = "nightly-report".parse()?;
    // One name a process: the same holder asking again would supersede its own grant.
    let holder: Holder = format!("worker-{}", std::process::id()).parse()?;
    // Stands in line, and renews in the background from then on.
    let wait = Duration::from_secs(120);
    let held = client.hold(&resource, &holder).wait(wait).await?.held()?;
    println!("{holder} has {resource} with token {}", held.token());

    // Whichever ends first: the work, or the right to do it.
    held.while_held(work(&store, held.sequencer())).await??;
    let outcome = held.release().await?;
    println!("{outcome:?}");
    Ok(())
}

/// The work: each write carries the sequencer, and the store compares and writes in one statement.
async fn work(store: &Documents, sequencer: &Sequencer) -> Result<(), Box<dyn Error>> {
    for part in 1..=40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let body = format!("part {part} of 40, with token {}", sequencer.token);
        match store.write(sequencer, &body).await? {
            WriteOutcome::Written => println!("wrote {body}"),
            // A newer holder was here. Nothing was written, and no retry will help.
            refused => return Err(format!("the guard refused: {refused:?}").into()),
        }
    }
    Ok(())
}
