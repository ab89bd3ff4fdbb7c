//! A, the holder that gets paused: a process of its own, so that it can really be stopped.
//!
//! It acquires, keeps renewing, and writes when it is told to, always with the token of its one grant.
//! It does what an honest program does that does not know that it was away. Orders come as lines on
//! its standard input, and it answers with one JSON object a line.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    thread,
    time::Duration,
};

use fencepost::{
    client::{AcquireOutcome, Acquired, BootInstant, Client, Options, RenewOutcome},
    fence::{sql::WriteOutcome, sqlite::Documents},
    grant::Ttl,
    resource::{Holder, IssuerName, ResourceName},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::exit::{self, Failure, UNEXPECTED};

/// The name of the hidden command that is the holder.
pub(super) const NAME: &str = "holder";

/// Who it is, and what it works on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its name
    #[arg(long)]
    pub(super) name: Holder,
    /// What it asks for
    #[arg(long)]
    pub(super) resource: ResourceName,
    /// For how long at a time
    #[arg(long)]
    pub(super) ttl_ms: u64,
    /// The file that it writes to
    #[arg(long)]
    pub(super) file: PathBuf,
    /// Whose tokens the file's guard takes
    #[arg(long)]
    pub(super) issuer: IssuerName,
    /// Where the nodes are
    #[arg(long, value_delimiter = ',')]
    pub(super) nodes: Vec<String>,
}

impl Args {
    /// The arguments that make a process this holder.
    pub(super) fn to_arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["demo".into(), NAME.into()];
        for (flag, value) in [
            ("--name", self.name.to_string().into()),
            ("--resource", self.resource.to_string().into()),
            ("--ttl-ms", self.ttl_ms.to_string().into()),
            ("--file", self.file.clone().into_os_string()),
            ("--issuer", self.issuer.to_string().into()),
            ("--nodes", self.nodes.join(",").into()),
        ] {
            arguments.extend([flag.into(), value]);
        }
        arguments
    }
}

/// The hidden command: is the holder until its standard input ends.
pub(super) async fn run(args: &Args) -> exit::Outcome {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Failure::new(UNEXPECTED, format_args!("{what} failed: {error}"))
    };
    let documents = Documents::open(&args.file, args.issuer.clone())
        .await
        .map_err(|error| failed("opening the file", &error))?;
    let client = Client::connect(&args.nodes, Options::default())
        .map_err(|error| failed("connecting", &error))?;
    let ttl = Ttl::from_ms(args.ttl_ms).map_err(|error| failed("reading the TTL", &error))?;
    let outcome = client.acquire(&args.resource, &args.name, ttl).await;
    let acquired = match outcome.map_err(|error| failed("acquiring", &error))? {
        AcquireOutcome::Granted(acquired) => acquired,
        other => return Err(failed("acquiring", &format_args!("{other:?}"))),
    };
    let token = acquired.token.value().to_string();
    answer(&json!({ "granted": token }))?;
    if let Some(until) = acquired.safe_until() {
        answer(&safe_until(until))?;
    }
    tokio::select! {
        done = obey(&documents, &acquired) => done,
        done = keep(&client, &acquired, ttl) => done,
    }
}

/// Writes what each line says, with the token of the one grant.
async fn obey(documents: &Documents, acquired: &Acquired) -> exit::Outcome {
    let mut orders = orders();
    while let Some(text) = orders.recv().await {
        let said = match documents.write(&acquired.sequencer, &text).await {
            Ok(WriteOutcome::Written) => json!({ "written": true }),
            Ok(WriteOutcome::Stale {
                presented,
                required,
            }) => json!({ "stale": {
                "presented": presented.to_string(),
                "required": required.to_string(),
            }}),
            Ok(other) => json!({ "failed": format!("{other:?}") }),
            Err(error) => json!({ "failed": error.to_string() }),
        };
        answer(&said)?;
    }
    Ok(())
}

/// The lines of the standard input. A thread reads them, for it may wait for ever.
fn orders() -> mpsc::Receiver<String> {
    let (sender, orders) = mpsc::channel(16);
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    orders
}

/// Renews at a third of the TTL, for as long as the lease lives.
async fn keep(client: &Client, acquired: &Acquired, ttl: Ttl) -> exit::Outcome {
    loop {
        tokio::time::sleep(ttl.as_duration() / 3).await;
        let Ok(outcomes) = client.renew(&[acquired.renewal()]).await else {
            continue;
        };
        match outcomes.first() {
            Some(RenewOutcome::Renewed {
                safe_until: until, ..
            }) => {
                answer(&safe_until(*until))?;
            }
            // It lost the lease. A program that minds would stop here; this one goes on writing, and
            // it is for the guard to be right.
            _ => std::future::pending().await,
        }
    }
}

fn safe_until(until: BootInstant) -> Value {
    let since_boot = until.since(BootInstant::from_boot(Duration::ZERO));
    json!({ "safe_until_us": u64::try_from(since_boot.as_micros()).unwrap_or(u64::MAX) })
}

fn answer(said: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{said}")?;
    out.flush()
}
