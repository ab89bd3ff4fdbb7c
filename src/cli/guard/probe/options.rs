//! The arguments of `fencepost guard probe`, and what they must be together.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use ureq::http::{HeaderName, HeaderValue, Uri};

use fencepost::fence::EqualTokens;
use fencepost::resource::{IssuerName, ResourceName};
use fencepost::sequencer::{MissingIssuer, headers};
use fencepost::token::TokenValue;

use super::super::super::connection::Output;
use super::super::super::duration;
use super::check::{Check, Takes};
use super::supply::FIRST_TOKEN;
use super::template::Template;

/// The most writers at once: each is a thread and a connection.
const WRITERS_MAX: i64 = 256;
/// The most rounds: with the most writers it is 25 million writes, far beyond any use.
const ROUNDS_MAX: i64 = 100_000;

/// The most other resources: each leaves a row behind in the service.
const OTHERS_MAX: i64 = 1_000_000;
/// The longest time in which nothing happens; what keeps a mark for a day sweeps by hand, or not at all.
const IDLE_MAX: Duration = Duration::from_hours(24);

const AFTER_HELP: &str = "\
IT WRITES TO THE SERVICE. Run it against a test instance, never against production data: it overwrites \
the resources that it uses, and leaves marks there. Unless --resource fixes them, it uses resources of \
its own, whose names begin with `fencepost-probe-` and are different in each run.

The contract: each write carries X-Fencing-Token (a decimal number from 1 to 2^63-1), X-Resource-Id \
(percent-encoded where it must be) and optionally X-Fencing-Issuer. The service answers 2xx where it \
wrote; 400 for a missing or invalid token or resource id; 409 with X-Required-Token and the JSON body \
{\"error\", \"presented\", \"required\"} for a token below the highest that it has admitted for this \
resource; 403 for a token of another issuer, or for another resource than the URL names.

A mark that is forgotten lets a stale token in. So one check writes to --others resources (1100: caches of \
up to 1,024 marks are found out; each leaves a row behind), and with --idle another one waits for longer than \
a time to live would be. An hour is no unusual one: let it wait over night, with --only idle-mark.

What it cannot try without --issuer, --read-url, --restart-command and --idle it names at the end, and with --strict \
it fails for it. A race that was not seen may still be there: more --rounds make that less likely. Where \
connections wait in a full backlog (five, in Python's http.server), it goes on with four writers at once.

Where the service's certificate is of a private authority (a company's, a cluster's, mkcert's), --ca names \
the file with that authority's certificate, in PEM: not the service's own certificate, and never a key. \
Then these alone are trusted. Names and dates are checked as always, and nothing turns that off.

Exit codes: 0 the contract is kept, as far as it was tried; 2 usage; 3 it is broken, or with --strict not all of it was tried; 4 nobody answers: no connection, no TLS, or no answer to a plain write, so that no verdict can be given.

Examples:
  fencepost guard probe --list-checks
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource}
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource} --strict --issuer prod \\
      --read-url http://127.0.0.1:8080/accounts/{resource} --restart-command 'systemctl restart accounts'
  fencepost guard probe https://accounts.test/accounts/{resource} --ca /etc/ssl/test-authority.pem
  fencepost guard probe http://127.0.0.1:8080/write --method POST --header 'Authorization: Bearer x' \\
      --body '{\"account\": \"{resource}\", \"note\": \"{value}\"}'
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource} \\
      --read-url http://127.0.0.1:8080/accounts/{resource} --rounds 2000
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource} --only idle-mark --idle 2h
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource} --only concurrent-writers --output json";

/// Arguments of `fencepost guard probe`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where to write, http or https; {resource}, {token} and {value} in it are replaced
    #[arg(required_unless_present = "list_checks", value_parser = url)]
    pub(super) url: Option<String>,

    /// How to write
    #[arg(long, value_name = "METHOD", default_value = "put", ignore_case = true)]
    pub(super) method: Method,

    /// What to write; {resource}, {token} and {value} are replaced, the last by a text that differs in
    /// each write
    #[arg(
        long,
        value_name = "TEMPLATE",
        default_value = "{\"value\": \"{value}\"}"
    )]
    pub(super) body: String,

    /// A header on every request, such as 'Authorization: Bearer x' [repeatable]; never printed
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,

    /// Trust the certificate authorities in this PEM file, for https, instead of the public ones [repeatable;
    /// a file may hold several]
    #[arg(long = "ca", value_name = "FILE")]
    pub(super) authorities: Vec<PathBuf>,

    /// Where to read a resource: its answer must have the text that was written for {value}
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(super) read_url: Option<String>,

    /// Use this resource instead of new ones [repeatable; two or more let it check that they are kept apart]
    #[arg(long = "resource", value_name = "NAME")]
    pub(super) resources: Vec<ResourceName>,

    /// The issuer that the service expects; sent as X-Fencing-Issuer
    #[arg(long, value_name = "NAME")]
    pub(super) issuer: Option<IssuerName>,

    /// What the service makes of a token without its issuer
    #[arg(
        long,
        value_name = "RULE",
        default_value = "refuse",
        requires = "issuer"
    )]
    pub(super) missing_issuer: Missing,

    /// What the service makes of a token equal to its mark
    #[arg(long, value_name = "RULE", default_value = "again")]
    pub(super) equal_tokens: Equal,

    /// The lowest token to send
    #[arg(long, value_name = "TOKEN", default_value_t = TokenValue::new(FIRST_TOKEN).expect("it is one"))]
    pub(super) first_token: TokenValue,

    /// How often the writers are let loose at once; a check ends with the first round that shows a mistake
    #[arg(long, value_name = "N", default_value = "200")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(super) rounds: u32,

    /// How many write at once
    #[arg(long, value_name = "N", default_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=WRITERS_MAX))]
    pub(super) concurrency: u32,

    /// How many other resources are written to, once each, before a stale token for the first must still be
    /// refused: more than a cache of marks would hold
    #[arg(long, value_name = "N", default_value = "1100")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=OTHERS_MAX))]
    pub(super) others: u32,

    /// Wait so long, with no request, before a stale token must still be refused: longer than any time to
    /// live that the service may give to what it keeps [off unless given; at most 1day]
    #[arg(long, value_name = "DURATION", value_parser = idle)]
    pub(super) idle: Option<Duration>,

    /// Restarts the service, and returns once the old process is gone; run by sh
    #[arg(long, value_name = "COMMAND")]
    pub(super) restart_command: Option<String>,

    /// How long the service may take to answer after a restart
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, default_value = "30s")]
    pub(super) restart_timeout: Duration,

    /// Run only this check [repeatable, or separated by commas]
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check)]
    pub(super) only: Vec<String>,

    /// Run all but this check [repeatable, or separated by commas]
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = check)]
    pub(super) skip: Vec<String>,

    /// Fail, too, if a check could not be tried; those that --only or --skip leave out do not count
    #[arg(long, conflicts_with = "list_checks")]
    pub(super) strict: bool,

    /// List the checks, and send nothing
    #[arg(long)]
    pub(super) list_checks: bool,

    /// How long a connection, and then an answer, may take
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, default_value = "10s")]
    pub(super) timeout: Duration,

    /// How to print the report
    #[arg(long, short, value_name = "FORMAT", default_value = "human")]
    pub(super) output: Output,
}

/// Methods that carry a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// Replace
    Put,
    /// Whatever the service makes of it
    Post,
    /// Change a part
    Patch,
}

/// What an equal token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Equal {
    /// It may write again
    Again,
    /// Each token is admitted once
    Once,
}

/// What becomes of a token without its issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Missing {
    /// 400
    Refuse,
    /// It is taken for one of the expected issuer
    Accept,
}

impl Method {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
        }
    }
}

impl From<Equal> for EqualTokens {
    fn from(equal: Equal) -> Self {
        match equal {
            Equal::Again => Self::MayWriteAgain,
            Equal::Once => Self::Once,
        }
    }
}

impl From<Missing> for MissingIssuer {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Refuse => Self::Refuse,
            Missing::Accept => Self::Accept,
        }
    }
}

impl Args {
    /// What is wrong with the arguments together, if anything.
    pub(super) fn contradiction(&self, checks: &[Check]) -> Option<String> {
        let written = |place| {
            let url = self.url.as_deref().unwrap_or_default();
            Template::new(&self.body).has(place) || Template::new(url).has(place)
        };
        if self.read_url.is_some() && !written("value") {
            return Some(
                "--read-url looks for what {value} was replaced by, and neither --body nor the URL has {value}"
                    .to_owned(),
            );
        }
        let urls = [&self.url, &self.read_url];
        if !self.authorities.is_empty() && !urls.into_iter().flatten().any(|url| is_tls(url)) {
            return Some("--ca is for https, and no URL begins with https://".to_owned());
        }
        let named = checks.iter().filter(|check| self.names(check));
        for check in named {
            let missing = check.takes.iter().find(|takes| !self.has(**takes));
            if let Some(takes) = missing.filter(|takes| **takes != Takes::OwnResources) {
                return Some(format!(
                    "--only {} cannot run: {}",
                    check.name,
                    takes.missing()
                ));
            }
        }
        None
    }

    /// Whether `--only` names the check.
    pub(super) fn names(&self, check: &Check) -> bool {
        self.only.iter().any(|name| name == check.name)
    }

    /// Why a check is not run, where that lies in the arguments.
    pub(super) fn leaves_out(&self, check: &Check) -> Option<&'static str> {
        self.wished_away(check).or_else(|| self.lacks(check))
    }

    /// Why a check is not run, where the user did not want it.
    pub(super) fn wished_away(&self, check: &Check) -> Option<&'static str> {
        if !self.only.is_empty() && !self.names(check) {
            return Some("--only names others");
        }
        let is_skipped = self.skip.iter().any(|name| name == check.name);
        is_skipped.then_some("--skip names it")
    }

    /// What a check takes and the arguments do not have.
    fn lacks(&self, check: &Check) -> Option<&'static str> {
        let missing = check.takes.iter().find(|takes| {
            let is_waived = **takes == Takes::OwnResources && self.names(check);
            !is_waived && !self.has(**takes)
        });
        missing.map(|takes| takes.missing())
    }

    fn has(&self, takes: Takes) -> bool {
        match takes {
            Takes::Issuer => self.issuer.is_some(),
            Takes::ReadUrl => self.read_url.is_some(),
            Takes::UrlOfResource => {
                let url = self.url.as_deref().unwrap_or_default();
                Template::new(url).has("resource")
            }
            Takes::Idle => self.idle.is_some(),
            Takes::RestartCommand => self.restart_command.is_some(),
            Takes::TwoResources => self.resources.len() != 1,
            Takes::OwnResources => self.resources.is_empty(),
        }
    }
}

fn check(name: &str) -> Result<String, String> {
    let all = super::checks::all();
    if all.iter().any(|check| check.name == name) {
        return Ok(name.to_owned());
    }
    Err("there is no such check: `fencepost guard probe --list-checks` names them all".to_owned())
}

fn idle(text: &str) -> Result<Duration, String> {
    let idle = duration::parse_positive(text)?;
    if idle > IDLE_MAX {
        let most = humantime::format_duration(IDLE_MAX);
        return Err(format!("it must be at most {most}"));
    }
    Ok(idle)
}

/// A URL with places in it; what they are replaced by makes no difference to its validity.
fn url(text: &str) -> Result<String, String> {
    let filled = ["{resource}", "{token}", "{value}"]
        .iter()
        .fold(text.to_owned(), |text, place| text.replace(place, "1"));
    let uri: Uri = filled
        .parse()
        .map_err(|error| format!("it is no URL: {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") => Ok(text.to_owned()),
        _ => Err("it must begin with http:// or https://".to_owned()),
    }
}

/// Whether a URL is one of https, in whatever case.
fn is_tls(url: &str) -> bool {
    let scheme = url.get(..6).unwrap_or_default();
    scheme.eq_ignore_ascii_case("https:")
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a header is written as 'NAME: VALUE'")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "its name is none")?;
    let own = [
        headers::FENCING_TOKEN,
        headers::RESOURCE_ID,
        headers::FENCING_ISSUER,
    ];
    if own.contains(&name.as_str()) {
        return Err(format!("{name} is what the probe itself sends"));
    }
    let value = value
        .trim()
        .parse()
        .map_err(|_| "its value has characters that no header may have")?;
    Ok((name, value))
}
