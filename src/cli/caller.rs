//! A command's way to the cluster: the client, the runtime it runs on, and how its failures are told.

use super::connection::{Options, Output};
use super::duration;
use super::exit::{self, Failure, UNEXPECTED, USAGE};
use super::holder::quoted;
use fencepost::client::{self, Cause, Client, Error, ErrorKind};
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use serde::Serialize;

/// How long a command may be without a word when no node has answered at all.
const QUIET: Duration = Duration::from_secs(1);

/// What to do about an outcome that nobody knows.
pub(crate) struct Next {
    /// Why it helps, for people.
    words: &'static str,
    /// What to type; it stands alone in JSON.
    command: String,
}

impl Next {
    pub(crate) fn new(words: &'static str, command: String) -> Self {
        Self { words, command }
    }

    /// For reads: their outcome is never unknown.
    pub(crate) fn none() -> Self {
        Self::new("", String::new())
    }

    /// The command that runs now may be repeated as it stands.
    pub(crate) fn repeat(words: &'static str) -> Self {
        let arguments = std::env::args().skip(1).map(|word| quoted(&word));
        let command = std::iter::once("fencepost".to_owned()).chain(arguments);
        Self::new(words, command.collect::<Vec<_>>().join(" "))
    }
}

/// What a command that talks to a cluster works with.
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) output: Output,
}

impl Caller {
    /// A caller over `connections` connections to a node.
    pub(crate) fn open(options: &Options, connections: usize) -> Result<Self, Failure> {
        let settings = client::Options::default()
            .timeout(options.timeout)
            .connections(connections);
        let client = Client::connect(&options.endpoints, settings).map_err(|error| {
            Failure::new(USAGE, error).hint("See --endpoints in `fencepost --help`.")
        })?;
        Ok(Self {
            client,
            output: options.output,
        })
    }

    /// Writes an answer: `human` lines, or `json` as one object on one line.
    pub(crate) fn answer(&self, human: &str, json: &impl Serialize) -> exit::Outcome {
        let mut stdout = io::stdout().lock();
        match self.output {
            Output::Human => writeln!(stdout, "{}", human.trim_end())?,
            Output::Json => writeln!(stdout, "{}", to_json(json)?)?,
        }
        Ok(())
    }

    /// Writes a refusal: to people on standard error with what to do, to scripts as an answer.
    pub(crate) fn refuse(&self, failure: Failure, json: &impl Serialize) -> exit::Outcome {
        if self.output == Output::Json {
            self.answer("", json)?;
            return Err(failure.quiet());
        }
        Err(failure)
    }

    /// Turns a failed call into the end of the command, with `next` as what to do about an outcome that
    /// nobody knows.
    pub(crate) fn failed(&self, error: &Error, next: &Next) -> Failure {
        let failure = explain(error, next);
        if self.output == Output::Json {
            let told = self.answer("", &FailedJson::new(error, next));
            if let Err(unwritable) = told {
                return unwritable;
            }
        }
        failure
    }
}

/// Runs a command that talks to a cluster, on this thread alone: one call needs no more.
pub(crate) fn run<F>(options: &Options, command: impl FnOnce(Caller) -> F) -> exit::Outcome
where
    F: Future<Output = exit::Outcome>,
{
    let caller = Caller::open(options, 1)?;
    let client = caller.client.clone();
    runtime()?.block_on(async {
        let mut command = pin!(command(caller));
        match tokio::time::timeout(QUIET, &mut command).await {
            Ok(outcome) => outcome,
            Err(_) => {
                if client.cluster_id().is_none() {
                    comfort(options);
                }
                command.await
            }
        }
    })
}

/// Tells a person who waits what is waited for.
fn comfort(options: &Options) {
    let mut stderr = io::stderr().lock();
    if options.output == Output::Human && stderr.is_terminal() {
        let (nodes, patience) = (
            options.endpoints.join(", "),
            duration::human(options.timeout),
        );
        // Comfort that cannot be given is not missed.
        let _ = writeln!(
            stderr,
            "No answer yet from {nodes}; trying for {patience} in all."
        );
    }
}

/// A runtime on this thread.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    Ok(runtime?)
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::new(UNEXPECTED, format_args!("cannot write JSON: {error}")))
}

/// What may have happened is the first thing that a code tells.
fn code(error: &Error) -> u8 {
    match error.kind() {
        _ if error.can_have_had_effect() => exit::UNKNOWN_OUTCOME,
        ErrorKind::Unavailable | ErrorKind::Exhausted => exit::UNAVAILABLE,
        ErrorKind::UnknownOutcome | ErrorKind::TooOld => exit::UNKNOWN_OUTCOME,
        ErrorKind::Refused | ErrorKind::NoSuchNode => exit::REFUSED,
        ErrorKind::HistoryLost { .. } => exit::HISTORY_LOST,
        ErrorKind::Invalid { .. } | ErrorKind::RequestIdReused | ErrorKind::ClusterMismatch(_) => {
            USAGE
        }
        _ if matches!(error.last_cause(), Some(Cause::WrongPort { .. })) => USAGE,
        _ => UNEXPECTED,
    }
}

fn explain(error: &Error, next: &Next) -> Failure {
    let message = error.to_string();
    // A node may have said already what to look at; twice is noise.
    let told = message.contains("`fencepost cluster status`");
    let failure = Failure::new(code(error), message);
    match error.kind() {
        _ if told => failure,
        _ if error.can_have_had_effect() => failure
            .hint(next.words)
            .hint(format_args!("  {}", next.command)),
        ErrorKind::Unavailable if matches!(error.last_cause(), Some(Cause::Forming { .. })) => {
            failure.hint("It is safe to try again once the nodes have found each other.")
        }
        ErrorKind::Unavailable => failure
            .hint("It is safe to try again. Is the cluster running, and are these its nodes?")
            .hint("`fencepost dev` starts one here; --endpoints or FENCEPOST_ENDPOINTS names another."),
        ErrorKind::Exhausted => failure.hint("Nothing happened. Try again in a while."),
        ErrorKind::ClusterMismatch(_) => {
            failure.hint("Name nodes of one cluster only, with --endpoints or FENCEPOST_ENDPOINTS.")
        }
        ErrorKind::HistoryLost { oldest } => {
            let failure = failure.hint("What happened in between is in the audit logs of the nodes, if they keep them.");
            match oldest {
                Some(oldest) => failure.hint(format_args!(
                    "Watch anew, and look with `fencepost list` once that has begun; a cursor that would do is {oldest}"
                )),
                None => failure.hint("Watch anew, and look with `fencepost list` once that has begun."),
            }
        }
        ErrorKind::NoSuchNode => failure.hint("`fencepost cluster status` lists the nodes."),
        ErrorKind::RequestIdReused => {
            failure.hint("Repeat the command with the parameters of the first time, or leave --request-id out.")
        }
        _ => failure,
    }
}

/// A failed call for scripts.
#[derive(Serialize)]
struct FailedJson<'a> {
    outcome: &'static str,
    kind: &'static str,
    message: String,
    may_retry: bool,
    can_have_had_effect: bool,
    attempts: u32,
    leader: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    next: &'a str,
}

impl<'a> FailedJson<'a> {
    fn new(error: &Error, next: &'a Next) -> Self {
        Self {
            outcome: "failed",
            kind: match error.kind() {
                ErrorKind::Invalid { .. } => "invalid",
                ErrorKind::RequestIdReused => "request_id_reused",
                ErrorKind::NoSuchNode => "no_such_node",
                ErrorKind::Refused => "refused",
                ErrorKind::Exhausted => "exhausted",
                ErrorKind::Unavailable => "unavailable",
                ErrorKind::UnknownOutcome | ErrorKind::TooOld => "unknown_outcome",
                ErrorKind::HistoryLost { .. } => "history_lost",
                ErrorKind::ClusterMismatch(_) => "cluster_mismatch",
                _ => "bad_answer",
            },
            message: error.to_string(),
            may_retry: error.may_retry(),
            can_have_had_effect: error.can_have_had_effect(),
            attempts: error.attempts(),
            leader: error.leader_hint().map(ToString::to_string),
            next: if error.can_have_had_effect() {
                &next.command
            } else {
                ""
            },
        }
    }
}
