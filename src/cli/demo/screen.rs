//! What the demonstration looks like: chapters, a few sentences, what happened when, and claims.
//!
//! Colour only where a terminal shows it (`NO_COLOR` and `CLICOLOR_FORCE` are respected), and pauses
//! for reading only where somebody reads.

use std::{
    fmt::Display,
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};
use fencepost::server::clock;

use super::super::exit::{Failure, UNEXPECTED};

const WIDTH: usize = 78;
const HEAD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// Where the story is told.
pub(super) struct Screen {
    out: anstream::AutoStream<io::Stdout>,
    started: Instant,
    reading: Duration,
    chapters: usize,
    claims: usize,
}

impl Screen {
    /// `reading` is the pause after each chapter; none where nobody reads along.
    pub(super) fn new(reading: Duration) -> Self {
        let watched = io::stdout().is_terminal();
        Self {
            out: anstream::AutoStream::auto(io::stdout()),
            started: clock::now(),
            reading: if watched { reading } else { Duration::ZERO },
            chapters: 0,
            claims: 0,
        }
    }

    /// How many claims have held so far.
    pub(super) fn claims(&self) -> usize {
        self.claims
    }

    /// The time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        clock::now().saturating_duration_since(self.started)
    }

    /// Begins a chapter.
    pub(super) fn chapter(&mut self, title: &str) -> io::Result<()> {
        self.chapters += 1;
        let number = self.chapters;
        writeln!(self.out, "\n{HEAD}{number}. {title}{HEAD:#}")
    }

    /// A line by itself, in bold.
    pub(super) fn headline(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{HEAD}{text}{HEAD:#}")
    }

    /// Tells what is going on, in sentences.
    pub(super) fn tell(&mut self, text: &str) -> io::Result<()> {
        for line in wrapped(text, WIDTH - 3) {
            writeln!(self.out, "   {line}")?;
        }
        Ok(())
    }

    /// Something happened now.
    pub(super) fn event(&mut self, text: impl Display) -> io::Result<()> {
        let seconds = self.elapsed().as_secs_f64();
        writeln!(self.out, "   {DIM}{seconds:>6.2}s{DIM:#}  {text}")
    }

    /// A claim that was just checked. The story ends at the first one that does not hold.
    pub(super) fn claim(&mut self, holds: bool, claim: impl Display) -> Result<(), Failure> {
        if holds {
            self.claims += 1;
            writeln!(self.out, "   {GOOD}✓ {claim}{GOOD:#}")?;
            return Ok(());
        }
        writeln!(self.out, "   {BAD}✗ {claim}{BAD:#}")?;
        let message = format!("this claim did not hold: {claim}");
        Err(Failure::new(UNEXPECTED, message))
    }

    /// Leaves the reader time for what was told.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(self.reading).await;
    }
}

/// Breaks a text into lines at blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("it starts with one line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_and_keep_every_word() {
        let text = "one two  three\n four";
        assert_eq!(wrapped(text, 8), ["one two", "three", "four"]);
        assert_eq!(wrapped("incompressible", 4), ["incompressible"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
