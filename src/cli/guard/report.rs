//! `fencepost guard report`: tell the issuer how high the tokens out there are.

use super::super::caller::{Caller, Next, to_json};
use super::super::connection::Output;
use super::super::exit::{self, Failure, REFUSED, USAGE};
use super::super::number::counted;
use super::register::{Presented, issuer};
use fencepost::client::{Ahead, ReportOutcome};
use fencepost::resource::{IssuerName, ResourceName};
use fencepost::sequencer::Sequencer;
use fencepost::token::TokenValue;
use std::cmp::Reverse;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

/// The most lines that one command takes: as many marks as the cluster's own register may have.
const LINES_MAX: usize = 1_000_000;

/// The longest line: an issuer and a resource of the longest names, percent-encoded.
const LINE_BYTES_MAX: u64 = 4_096;

/// Of lines that are no tokens, so many are told one by one: enough to see what they have in common.
const WRONG_LINES_TOLD: usize = 10;

/// Arguments of `fencepost guard report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
After a restore, or whenever in doubt: are there guards that have admitted tokens higher than this issuer has ever \
issued? Then they will refuse every new holder, and the floor has to be raised above the highest of them. The \
answer says so, with the command; the cluster logs it as an error and counts it for an alert. A token that was \
mistyped, or is another cluster's, looks the same: take it from the guard.

A file has one token a line, as ISSUER:RESOURCE:TOKEN, with %25 for a percent sign and %3A for a colon inside a \
name. Bring the marks of your guards, of all resources:
  psql -XAt bank -c \"SELECT concat_ws(':',
      replace(replace(issuer, '%', '%25'), ':', '%3A'),
      replace(replace(resource, '%', '%25'), ':', '%3A'),
      token) FROM fencing_marks\" |
    fencepost guard report --from -

Nothing is changed by a report, and it is safe to repeat. Exit code 3: at least one token was never issued here. \
Exit code 2: there was no token, or a line that is none, and nothing was reported.

Examples:
  TOKEN=$(fencepost acquire accounts --quiet)
  fencepost guard report accounts \"$TOKEN\"
  fencepost guard report --from marks.txt")]
#[command(override_usage = "fencepost guard report [OPTIONS] <RESOURCE> <TOKEN>
       fencepost guard report [OPTIONS] --from <FILE>")]
#[command(group = clap::ArgGroup::new("what").required(true).args(["resource", "from"]))]
pub(crate) struct Args {
    /// What the token is for
    #[arg(requires = "token")]
    resource: Option<ResourceName>,
    /// The token that a guard has admitted
    token: Option<TokenValue>,
    /// Who issued it; unless set, the cluster that is asked
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    issuer: Option<IssuerName>,
    /// A file with one ISSUER:RESOURCE:TOKEN a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

pub(crate) async fn run(args: &Args, caller: Caller) -> exit::Outcome {
    if let (Some(resource), Some(token)) = (&args.resource, args.token) {
        let sequencer = Sequencer {
            issuer: issuer(args.issuer.as_ref(), &caller).await?,
            resource: resource.clone(),
            token,
        };
        return one(&sequencer, &caller).await;
    }
    let sequencers = match args.from.as_deref() {
        Some(path) if path != Path::new("-") => {
            let name = path.display().to_string();
            let file = File::open(path).map_err(|error| {
                Failure::new(USAGE, format_args!("cannot open {name}: {error}"))
            })?;
            read(BufReader::new(file), &name)?
        }
        _ => read(io::stdin().lock(), "standard input")?,
    };
    many(sequencers, &caller).await
}

async fn one(sequencer: &Sequencer, caller: &Caller) -> exit::Outcome {
    let presented = Presented(sequencer);
    match report(sequencer, caller).await? {
        ReportOutcome::Fine { last_token } => {
            let mut json = presented.json("fine");
            json.last_token = Some(last_token.map_or(0, TokenValue::get).to_string());
            let human = format!(
                "Fine: {} accounts for token {}, and every token to come is greater.",
                sequencer.issuer, sequencer.token
            );
            caller.answer(&human, &json)
        }
        ReportOutcome::Ahead(ahead) => presented.ahead(caller, &ahead),
        ReportOutcome::Foreign { expected } => presented.foreign(caller, &expected),
    }
}

async fn report(sequencer: &Sequencer, caller: &Caller) -> Result<ReportOutcome, Failure> {
    let reported = caller.client.report(sequencer).await;
    reported.map_err(|error| caller.failed(&error, &Next::none()))
}

/// All tokens of the lines, of which there must be one at least, or what is wrong with those that are none.
/// Blank lines are skipped.
fn read(mut lines: impl BufRead, name: &str) -> Result<Vec<Sequencer>, Failure> {
    let mut sequencers = Vec::new();
    let mut wrong = WrongLines::default();
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        let at = |what: &dyn Display| format!("line {number} of {name}: {what}");
        let taken = (&mut lines).take(LINE_BYTES_MAX).read_line(&mut line);
        let taken = match taken {
            Ok(_) if line.len() as u64 == LINE_BYTES_MAX => {
                Err(at(&format_args!("longer than {LINE_BYTES_MAX} bytes")))
            }
            Ok(_) if sequencers.len() == LINES_MAX && !line.trim().is_empty() => Err(at(
                &format_args!("more than {LINES_MAX} tokens: report them in parts"),
            )),
            Ok(taken) => Ok(taken),
            Err(error) => Err(at(&error)),
        };
        match taken {
            Ok(0) => break,
            Ok(_) if line.trim().is_empty() => {}
            Ok(_) => match line.trim().parse::<Sequencer>() {
                Ok(sequencer) => sequencers.push(sequencer),
                Err(error) => wrong.add(at(&error)),
            },
            // What follows cannot be told apart into lines any more, or is too much.
            Err(last) => {
                wrong.add(last);
                break;
            }
        }
    }
    wrong.end()?;
    if sequencers.is_empty() {
        let message = format!("there is no token in {name}: nothing was reported");
        return Err(Failure::new(USAGE, message).hint(
            "If a query was to write the marks, see whether it failed, or asked another database.",
        ));
    }
    Ok(sequencers)
}

/// Lines that are no tokens: the first of them, and how many there are.
#[derive(Debug, Default)]
struct WrongLines {
    told: Vec<String>,
    count: usize,
}

impl WrongLines {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.told.len() < WRONG_LINES_TOLD {
            self.told.push(what);
        }
    }

    /// A report of some of the marks could miss the highest, and look fine; so one wrong line stops all.
    fn end(self) -> exit::Outcome {
        let untold = self.count - self.told.len();
        let mut told = self.told.into_iter();
        let Some(first) = told.next() else {
            return Ok(());
        };
        let mut failure = told.fold(Failure::new(USAGE, first), Failure::hint);
        if untold > 0 {
            let lines = counted(untold, "more line");
            failure = failure.hint(format_args!("and {lines} of this kind"));
        }
        Err(failure.hint(
            "Nothing was reported. One token a line, as ISSUER:RESOURCE:TOKEN, with %25 for a percent \
             sign and %3A for a colon inside a name: `fencepost guard report --help` has a query.",
        ))
    }
}

/// What came of many reports.
#[derive(Debug, Default)]
struct Tally {
    reported: usize,
    fine: usize,
    ahead: usize,
    foreign: usize,
    highest: Option<Ahead>,
}

/// The highest come first. What is accounted for stays so for all that are lower, so the first token of an
/// issuer that is fine speaks for the rest of its tokens.
async fn many(mut sequencers: Vec<Sequencer>, caller: &Caller) -> exit::Outcome {
    let mut tally = Tally {
        reported: sequencers.len(),
        ..Tally::default()
    };
    sequencers.sort_by(|one, other| {
        let by_issuer = one.issuer.as_str().cmp(other.issuer.as_str());
        by_issuer.then(Reverse(one.token).cmp(&Reverse(other.token)))
    });
    let mut settled: Option<(IssuerName, Told)> = None;
    for sequencer in &sequencers {
        let known = settled
            .as_ref()
            .filter(|(issuer, _)| *issuer == sequencer.issuer);
        let told = match known {
            Some((_, told)) => told.clone(),
            None => Told::of(report(sequencer, caller).await?),
        };
        tally.add(sequencer, &told, caller)?;
        if !matches!(told, Told::Ahead(_)) {
            settled = Some((sequencer.issuer.clone(), told));
        }
    }
    tally.end(caller)
}

/// An answer without what a summary has no use for.
#[derive(Debug, Clone)]
enum Told {
    Fine,
    Ahead(Ahead),
    Foreign(IssuerName),
}

impl Told {
    fn of(outcome: ReportOutcome) -> Self {
        match outcome {
            ReportOutcome::Fine { .. } => Self::Fine,
            ReportOutcome::Ahead(ahead) => Self::Ahead(ahead),
            ReportOutcome::Foreign { expected } => Self::Foreign(expected),
        }
    }
}

impl Tally {
    /// Counts one, and prints it: to scripts each, to people those that something is wrong with.
    fn add(&mut self, sequencer: &Sequencer, told: &Told, caller: &Caller) -> exit::Outcome {
        let presented = Presented(sequencer);
        let (word, json) = match told {
            Told::Fine => {
                self.fine += 1;
                (None, presented.json("fine"))
            }
            Told::Ahead(ahead) => {
                self.ahead += 1;
                self.highest.get_or_insert_with(|| ahead.clone());
                (Some("never issued"), presented.ahead_json(ahead))
            }
            Told::Foreign(expected) => {
                self.foreign += 1;
                (Some("foreign"), presented.foreign_json(expected))
            }
        };
        let mut stdout = io::stdout().lock();
        match (caller.output, word) {
            (Output::Json, _) => writeln!(stdout, "{}", to_json(&json)?)?,
            (Output::Human, Some(word)) => writeln!(stdout, "{word:<14}{sequencer}")?,
            (Output::Human, None) => {}
        }
        Ok(())
    }

    fn end(self, caller: &Caller) -> exit::Outcome {
        let Tally {
            reported,
            fine,
            ahead,
            foreign,
            highest,
        } = self;
        if ahead == 0 && foreign == 0 {
            if caller.output == Output::Human {
                let all = counted(reported, "token");
                writeln!(
                    io::stdout().lock(),
                    "Fine: the issuer accounts for all of {all}."
                )?;
            }
            return Ok(());
        }
        let message = format!(
            "of {}, {fine} are fine, {ahead} were never issued, and {foreign} are of another issuer",
            counted(reported, "token")
        );
        let failure = Failure::new(REFUSED, message);
        Err(match highest {
            _ if caller.output == Output::Json => failure.quiet(),
            Some(highest) => failure.hint(highest.advice),
            None => failure.hint("Report each token to the issuer that it is of."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_tokens_and_blank_ones_are_skipped() {
        let text = "prod:accounts:7\n\n  prod:caf%C3%A9:8 \r\nprod:x:9";
        let read = read(text.as_bytes(), "here").unwrap();
        let tokens: Vec<_> = read.iter().map(|one| one.token.get()).collect();
        assert_eq!(tokens, [7, 8, 9]);
        assert_eq!(read[1].resource.as_str(), "café");
    }

    #[test]
    fn where_there_is_no_token_nothing_can_be_fine() {
        for text in ["", "\n \n\r\n"] {
            let failure = read(text.as_bytes(), "here").unwrap_err();
            let said = format!("{failure:?}");
            assert!(said.contains("there is no token in here"), "{said}");
        }
    }

    #[test]
    fn every_wrong_line_is_named_up_to_a_number_of_them() {
        let text = "prod:door:1:7\nprod:a:7\n".repeat(13);
        let failure = read(text.as_bytes(), "here").unwrap_err();
        let said = format!("{failure:?}");
        for number in 0..26 {
            let line = format!("line {} of here: ", number + 1);
            let told = number % 2 == 0 && number / 2 < WRONG_LINES_TOLD;
            assert_eq!(said.contains(&line), told, "{line}: {said}");
        }
        for part in ["and 3 more lines", "%3A", "Nothing was reported"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn a_line_that_is_no_token_is_named_by_its_number() {
        for (text, complaint) in [
            ("prod:a:7\nprod:a:0\n", "line 2 of here: "),
            ("prod:a\n", "line 1 of here: a sequencer is"),
            ("prod:a:7\n\u{feff}\n", "line 2 of here: "),
        ] {
            let failure = read(text.as_bytes(), "here").unwrap_err();
            let said = format!("{failure:?}");
            assert!(said.contains(complaint), "{text:?}: {said}");
        }
        let long = "a".repeat(5_000);
        let failure = read(long.as_bytes(), "here").unwrap_err();
        assert!(format!("{failure:?}").contains("longer than 4096 bytes"));
        let not_text: &[u8] = &[b'a', 0xff, b'\n'];
        assert!(read(not_text, "here").is_err());
    }
}
