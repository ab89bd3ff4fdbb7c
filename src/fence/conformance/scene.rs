//! A place with handles to it, and a diary of what was done there.
//!
//! The cases speak to a subject through this alone, so that every report can tell the story from
//! the first step on, in words that need no other page.

use rand::{SeedableRng as _, rngs::StdRng};

use crate::{fence::EqualTokens, resource::ResourceName, sequencer::Presented, token::TokenValue};

use super::{Answer, Contents, Fault, Finding, Handle, Place, Profile, Settings, Steps, Write};

/// Names up to this many characters are told in full.
const NAME_SHOWN_MAX: usize = 60;

/// Where a case plays.
pub(super) struct Scene<P: Place> {
    pub(super) profile: Profile,
    pub(super) settings: Settings,
    pub(super) place: P,
    pub(super) rng: StdRng,
    pub(super) notes: Vec<String>,
    handles: Vec<P::Handle>,
    diary: Vec<String>,
    values: u32,
    /// The steps between which the last write could be stopped.
    pauses: Vec<&'static str>,
}

/// Why a case ends before its end.
#[derive(Debug)]
pub(super) enum Stop {
    Broken(Finding),
    Failed(String),
    NotTried(String),
}

/// What a guard should answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Admitted,
    /// Stale, with this token required if the guard says one.
    Stale(TokenValue),
    Foreign,
    Invalid,
}

/// The tokens of the cases are written down here; none is out of range.
pub(super) fn token(value: u64) -> TokenValue {
    TokenValue::new(value).expect("the cases use tokens from 1 to 2^63 - 1")
}

impl<P: Place> Scene<P> {
    pub(super) fn new(profile: Profile, settings: Settings, place: P) -> Self {
        Self {
            rng: StdRng::seed_from_u64(settings.seed),
            profile,
            settings,
            place,
            notes: Vec::new(),
            handles: Vec::new(),
            diary: Vec::new(),
            values: 0,
            pauses: Vec::new(),
        }
    }

    /// A handle of its own, for a task of its own.
    pub(super) async fn open(&mut self) -> Result<P::Handle, Stop> {
        let opened = self.place.open().await;
        opened.map_err(|fault| self.failed("opening the place", &fault))
    }

    /// Makes sure that handles 0 to `by` are open.
    async fn open_up_to(&mut self, by: usize) -> Result<(), Stop> {
        while self.handles.len() <= by {
            let handle = self.open().await?;
            self.handles.push(handle);
        }
        Ok(())
    }

    /// Drops all handles, as when their processes end.
    pub(super) fn close(&mut self) {
        self.handles.clear();
    }

    /// The next value; no two writes of a case have the same.
    pub(super) fn next_value(&mut self) -> u32 {
        self.values += 1;
        self.values
    }

    /// A write as its rightful holder sends it.
    pub(super) fn write_of(&mut self, resource: &ResourceName, value: u64) -> Write {
        Write {
            resource: resource.clone(),
            presented: Presented {
                issuer: Some(self.profile.issuer()),
                resource: resource.clone(),
                token: token(value),
            },
            value: self.next_value(),
        }
    }

    /// Sends a write through handle `by`.
    pub(super) async fn send(&mut self, by: usize, write: &Write) -> Result<Answer, Stop> {
        let answer = self.attempt(by, write).await?;
        answer.map_err(|fault| self.failed("a write", &fault))
    }

    /// Sends a write through handle `by`, where an error is an answer too.
    pub(super) async fn attempt(
        &mut self,
        by: usize,
        write: &Write,
    ) -> Result<Result<Answer, Fault>, Stop> {
        self.open_up_to(by).await?;
        let told = self.tell(by, write);
        self.diary.push(told);
        let mut steps = Steps::free();
        let answer = self.handles[by].write(write, &mut steps).await;
        self.pauses = steps.seen().to_vec();
        match &answer {
            Ok(answer) => self.answered(&describe(answer)),
            Err(fault) => self.answered(&format!("failed: {fault}")),
        }
        Ok(answer)
    }

    /// Sends a write, and holds the answer against what it should be.
    pub(super) async fn expect(
        &mut self,
        by: usize,
        write: &Write,
        expected: Expected,
    ) -> Result<(), Stop> {
        let answer = self.send(by, write).await?;
        match judge(&answer, expected) {
            None => Ok(()),
            Some(complaint) => Err(self.broken(complaint)),
        }
    }

    /// A write of its rightful holder that must be admitted, and must show afterwards.
    pub(super) async fn admitted(
        &mut self,
        by: usize,
        resource: &ResourceName,
        value: u64,
    ) -> Result<u32, Stop> {
        let write = self.write_of(resource, value);
        self.expect(by, &write, Expected::Admitted).await?;
        self.holds(by, resource, Some((write.value, value))).await?;
        Ok(write.value)
    }

    /// A write of a holder that has lost its grant, which must be refused for the mark.
    pub(super) async fn stale(
        &mut self,
        by: usize,
        resource: &ResourceName,
        value: u64,
        mark: u64,
    ) -> Result<(), Stop> {
        let write = self.write_of(resource, value);
        let required = self.required(mark);
        self.expect(by, &write, Expected::Stale(required)).await
    }

    /// The lowest token that passes a mark. At the end of the range nothing follows it.
    pub(super) fn required(&self, mark: u64) -> TokenValue {
        match self.profile.equal {
            EqualTokens::MayWriteAgain => token(mark),
            EqualTokens::Once => TokenValue::new(mark + 1).unwrap_or(token(mark)),
        }
    }

    /// Reads a resource through handle `by`.
    pub(super) async fn read(
        &mut self,
        by: usize,
        resource: &ResourceName,
    ) -> Result<Contents, Stop> {
        self.open_up_to(by).await?;
        self.diary
            .push(format!("handle {} reads {}", by + 1, quoted(resource)));
        let contents = self.handles[by].read(resource).await;
        match contents {
            Ok(contents) => {
                self.answered(&self.describe_contents(&contents));
                Ok(contents)
            }
            Err(fault) => {
                self.answered(&format!("failed: {fault}"));
                Err(self.failed("a read", &fault))
            }
        }
    }

    /// What is stored must be this value under this mark, as far as either can be read.
    pub(super) async fn holds(
        &mut self,
        by: usize,
        resource: &ResourceName,
        expected: Option<(u32, u64)>,
    ) -> Result<(), Stop> {
        let contents = self.read(by, resource).await?;
        let (value, mark) = expected.unzip();
        if self.profile.values && contents.value != value {
            let (has, wants) = (show(contents.value), show(value));
            return Err(self.broken(format!("the value should be {wants}, and is {has}")));
        }
        let found = contents.mark.map(TokenValue::get);
        if self.profile.marks && found != mark {
            let (has, wants) = (show(found), show(mark));
            return Err(self.broken(format!("the mark should be {wants}, and is {has}")));
        }
        Ok(())
    }

    /// The mark must be this one, as far as it can be read.
    pub(super) async fn has_mark(
        &mut self,
        by: usize,
        resource: &ResourceName,
        mark: u64,
    ) -> Result<(), Stop> {
        let found = self.read(by, resource).await?.mark.map(TokenValue::get);
        if self.profile.marks && found != Some(mark) {
            let has = show(found);
            return Err(self.broken(format!("the mark should be {mark}, and is {has}")));
        }
        Ok(())
    }

    /// The steps between which the last write could be stopped.
    pub(super) fn pauses(&self) -> &[&'static str] {
        &self.pauses
    }

    /// One more line of the story.
    pub(super) fn note_step(&mut self, what: impl Into<String>) {
        self.diary.push(what.into());
    }

    /// Starts the story anew, where a case tells many.
    pub(super) fn new_story(&mut self) {
        self.diary.clear();
    }

    fn answered(&mut self, answer: &str) {
        if let Some(step) = self.diary.last_mut() {
            step.push_str(": ");
            step.push_str(answer);
        }
    }

    /// Ends the case: the subject did what it must not.
    pub(super) fn broken(&self, what: impl Into<String>) -> Stop {
        Stop::Broken(Finding {
            what: what.into(),
            steps: self.diary.clone(),
        })
    }

    /// Ends the case: something broke.
    pub(super) fn failed(&self, what: &str, fault: &Fault) -> Stop {
        Stop::Failed(format!("{what} failed: {}", chain(fault)))
    }

    pub(super) fn steps(&self) -> Vec<String> {
        self.diary.clone()
    }

    /// What was done so far by a case that has come to no end.
    pub(super) fn waiting(&self) -> Vec<String> {
        let mut steps = self.steps();
        if let Some(last) = steps.last_mut() {
            last.push_str(" (nothing after this: it was still waiting)");
        }
        steps
    }

    /// A write in words.
    pub(super) fn tell(&self, by: usize, write: &Write) -> String {
        let Presented {
            issuer,
            resource,
            token,
        } = &write.presented;
        let mut told = format!("handle {} writes", by + 1);
        if self.profile.values {
            told += &format!(" {}", write.value);
        }
        told += &format!(" to {} with token {token}", quoted(&write.resource));
        if *resource != write.resource {
            told += &format!(", which is for {}", quoted(resource));
        }
        match issuer {
            None => told += ", without an issuer",
            Some(issuer) if *issuer != self.profile.issuer() => {
                told += &format!(", of the issuer \"{issuer}\"");
            }
            Some(_) => {}
        }
        told
    }

    pub(super) fn describe_contents(&self, contents: &Contents) -> String {
        let value = format!("value {}", show(contents.value));
        let mark = format!("mark {}", show(contents.mark));
        match (self.profile.values, self.profile.marks) {
            (true, true) => format!("{value}, {mark}"),
            (true, false) => value,
            (false, true) => mark,
            (false, false) => "nothing that can be read".to_owned(),
        }
    }
}

/// A name as it stands in a report: what looks alike is told apart, and what is long is cut.
pub(super) fn quoted(name: &ResourceName) -> String {
    let escaped = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => c.escape_unicode().to_string(),
    };
    let escaped: Vec<String> = name.as_str().chars().map(escaped).collect();
    let characters = escaped.len();
    if characters <= NAME_SHOWN_MAX {
        return format!("\"{}\"", escaped.concat());
    }
    let (first, last) = (&escaped[..2], &escaped[characters - 2..]);
    let (first, last) = (first.concat(), last.concat());
    format!("\"{first}...{last}\" ({characters} characters)")
}

/// An answer in words.
pub(super) fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Admitted => "admitted".to_owned(),
        Answer::Stale { required: None } => "refused as stale".to_owned(),
        Answer::Stale {
            required: Some(required),
        } => format!("refused as stale, {required} required"),
        Answer::Foreign => "refused as foreign".to_owned(),
        Answer::Invalid => "refused as invalid".to_owned(),
    }
}

/// What is wrong with an answer, if anything is.
fn judge(answer: &Answer, expected: Expected) -> Option<String> {
    let wanted = match (answer, expected) {
        (Answer::Admitted, Expected::Admitted)
        | (Answer::Foreign, Expected::Foreign)
        | (Answer::Invalid, Expected::Invalid)
        | (Answer::Stale { required: None }, Expected::Stale(_)) => return None,
        (
            Answer::Stale {
                required: Some(said),
            },
            Expected::Stale(required),
        ) if *said == required => {
            return None;
        }
        (Answer::Stale { .. }, Expected::Stale(required)) => {
            format!("refused as stale, with {required} required")
        }
        (_, Expected::Stale(_)) => "refused as stale".to_owned(),
        (_, Expected::Admitted) => "admitted".to_owned(),
        (_, Expected::Foreign) => "refused as foreign".to_owned(),
        (_, Expected::Invalid) => "refused as invalid".to_owned(),
    };
    let answered = describe(answer);
    Some(format!(
        "the last write should have been {wanted}, and was {answered}"
    ))
}

pub(super) fn show<T: ToString>(what: Option<T>) -> String {
    what.map_or_else(|| "none".to_owned(), |what| what.to_string())
}

/// An error with all its causes; many say what happened in the last one only.
fn chain(fault: &Fault) -> String {
    let mut said = fault.to_string();
    let mut cause = fault.source();
    while let Some(inner) = cause {
        let inner_said = inner.to_string();
        if !said.contains(&inner_said) {
            said = format!("{said}: {inner_said}");
        }
        cause = inner.source();
    }
    said
}
