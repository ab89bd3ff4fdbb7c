//! A holder's whole life: acquire, write through a guard, renew meanwhile, release.
//!
//! Start a cluster with `fencepost dev`, then `cargo run --example guarded_write`. Two copies that run side
//! by side refuse each other; one that is stopped (Ctrl-Z) for a minute and goes on is refused by the guard
//! as soon as another copy has written.

use fencepost::client::{AcquireOutcome, Acquired, Client, Options, RenewOutcome};
use fencepost::fence::sql::{Documents, WriteOutcome};
use fencepost::grant::Ttl;
use fencepost::resource::Holder;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // No call may take so long that the lease runs out meanwhile without a word.
    let options = Options::default().timeout(Duration::from_secs(5));
    let nodes = ["127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102"];
    let client = Client::connect(nodes, options)?;
    // The guard: tokens of another issuer say nothing here, and are refused as well.
    let store = Documents::open(Path::new("guarded-write.sqlite"), "dev".parse()?).await?;

    let resource = "nightly-report".parse()?;
    // One name a process: the same holder asking again would supersede its own grant.
    let holder: Holder = format!("worker-{}", std::process::id()).parse()?;
    let acquired = match client.acquire(&resource, &holder, Ttl::default()).await? {
        AcquireOutcome::Granted(acquired) => acquired,
        AcquireOutcome::Held(held) => return Err(format!("{resource} is {held}").into()),
        AcquireOutcome::Ended(ended) => {
            return Err(format!("it was {} meanwhile", ended.how).into());
        }
        // Only who waits in line has a place to lose.
        AcquireOutcome::Left(how) => return Err(format!("its place in line is {how}").into()),
    };
    println!("{holder} has {resource} with token {}", acquired.token);

    // Whichever ends first: the work, or the right to do it.
    tokio::select! {
        written = work(&store, &acquired) => written?,
        lost = keep(&client, &acquired) => return Err(lost.into()),
    }
    let outcome = client
        .release(&resource, &holder, acquired.token.value())
        .await?;
    println!("{outcome:?}");
    Ok(())
}

/// The work: each write carries the sequencer, and the store compares and writes in one statement.
async fn work(store: &Documents, acquired: &Acquired) -> Result<(), Box<dyn Error>> {
    for part in 1..=40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let body = format!("part {part} of 40, by {}", acquired.holder);
        match store.write(&acquired.sequencer, &body).await? {
            WriteOutcome::Written => println!("wrote {body}"),
            // A newer holder was here. Nothing was written, and no retry will help.
            refused => return Err(format!("the guard refused: {refused:?}").into()),
        }
    }
    Ok(())
}

/// Renews at a third of the lease. Returns, with the reason, once the lease can no longer be relied on.
async fn keep(client: &Client, acquired: &Acquired) -> String {
    let mut safe_until = acquired.safe_until();
    let mut pause = acquired.lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        pause = acquired.lease / 3;
        match client.renew(&[acquired.renewal()]).await.as_deref() {
            Ok(
                [
                    RenewOutcome::Renewed {
                        safe_until: until, ..
                    },
                ],
            ) => safe_until = Some(*until),
            Ok([RenewOutcome::Ended(ended)]) => return format!("the lease was {}", ended.how),
            Ok(_) => return "the cluster knows no such grant".to_owned(),
            // Nobody answered. The lease lives on until its time is up: try again soon.
            Err(error) => {
                eprintln!("{error}");
                pause = Duration::from_secs(1);
            }
        }
        // This clock goes on while the machine sleeps. It saves vain work; safety is the guard's.
        if safe_until.is_none_or(|until| client.now() >= until) {
            return "the lease may have run out".to_owned();
        }
    }
}
