//! A token above everything that this issuer has issued: the alarm, and what to do about it.
//!
//! It is the sign of a restore gone wrong. An old backup was put back without raising the floor, so the
//! issuer counts on from a number that it had passed before, and every guard that has admitted a token of
//! the time in between will refuse the next holders. The remedy is to raise the floor above that token.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    limits::FLOOR_MAX,
    sequencer::Sequencer,
    server::{
        api::Api,
        clock,
        telemetry::{Count, Level, Metrics},
    },
    token::TokenValue,
    wire::v1,
};

/// Between two lines of the log: whoever presents such tokens in a loop must not fill the disk. The
/// metrics count all of them.
const QUIET: Duration = Duration::from_secs(10);

/// How the issuer came to hear of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// Somebody wanted to pass with it.
    Admit,
    /// A guard told of it.
    Report,
}

/// Says so, loudly.
#[derive(Debug)]
pub(in crate::server::api) struct Alarm {
    admit: Count,
    report: Count,
    highest: Level,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    highest: u64,
    /// When the last line was written.
    last: Option<Instant>,
    /// What the next line will say.
    unsaid: Option<Line>,
}

/// A line of the log: the highest token of those that no line has said yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    sequencer: Sequencer,
    /// The last token that had been issued when this one was presented. 0: none.
    last_token: u64,
    /// How many more were presented since the line before.
    others: u64,
}

impl Alarm {
    pub(in crate::server::api) fn new(metrics: &Metrics) -> Self {
        Alarm {
            admit: metrics.tokens_ahead("admit"),
            report: metrics.tokens_ahead("report"),
            highest: metrics.highest_token_ahead.clone(),
            told: Mutex::default(),
        }
    }

    /// Counts it, and remembers it for the next line.
    fn count(&self, sequencer: &Sequencer, last_token: u64, via: Via) {
        match via {
            Via::Admit => self.admit.inc(),
            Via::Report => self.report.inc(),
        }
        let mut told = self.told();
        told.highest = told.highest.max(sequencer.token.get());
        self.highest.set(told.highest);
        let line = Line {
            sequencer: sequencer.clone(),
            last_token,
            others: 0,
        };
        told.unsaid = Some(match told.unsaid.take() {
            None => line,
            Some(unsaid) => Line {
                others: unsaid.others + 1,
                ..match unsaid.sequencer.token < sequencer.token {
                    true => line,
                    false => unsaid,
                }
            },
        });
    }

    /// The next line, if there is one and the last was long enough ago.
    fn due(&self, now: Instant) -> Option<Line> {
        let mut told = self.told();
        let since = told.last.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < QUIET) {
            return None;
        }
        let line = told.unsaid.take()?;
        told.last = Some(now);
        Some(line)
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api {
    /// What is answered about such a token, and the alarm. There is none if an operator has raised the
    /// floor above it already: it is of another time then, and nothing more is to be done.
    pub(super) fn never_issued(
        &self,
        sequencer: &Sequencer,
        last_token: u64,
        via: Via,
    ) -> v1::AheadToken {
        let presented = sequencer.token;
        let covered = self
            .raft
            .state()
            .read(|replica| replica.machine().accounts_for(presented));
        let advice = match covered {
            Some(true) => format!(
                "this cluster has not issued {presented}, and its floor was raised above it: the \
                 holder needs a new grant"
            ),
            _ => self.alarm(sequencer, last_token, via),
        };
        v1::AheadToken {
            presented: presented.get(),
            last_token,
            advice,
        }
    }

    fn alarm(&self, sequencer: &Sequencer, last_token: u64, via: Via) -> String {
        self.ahead.count(sequencer, last_token, via);
        self.tell_of_tokens_ahead(clock::now());
        advice_now(sequencer.token)
    }

    /// Writes the line that is due. The node calls this regularly: the highest token of a burst must not
    /// stay unsaid because no other came after it.
    pub fn tell_of_tokens_ahead(&self, now: Instant) {
        let Some(line) = self.ahead.due(now) else {
            return;
        };
        tracing::error!(
            issuer = %line.sequencer.issuer,
            resource = %line.sequencer.resource,
            token = %line.sequencer.token,
            last_token = line.last_token,
            others = line.others,
            advice = advice_now(line.sequencer.token),
            "told of a token that was never issued here"
        );
    }
}

fn advice_now(presented: TokenValue) -> String {
    advice(presented, clock::wall_us().min(FLOOR_MAX))
}

/// The remedy, in words. `limit` is the highest number that the floor can be raised above now.
fn advice(presented: TokenValue, limit: u64) -> String {
    if presented.get() <= limit {
        return format!(
            "first make sure that {presented} is neither mistyped nor a token of another cluster. If a \
             guard here has admitted it, a restore has gone wrong, and that guard will refuse every new \
             holder until you run `fencepost raise-floor --above {presented}`, with the highest such \
             token that any guard has"
        );
    }
    format!(
        "{presented} is beyond {limit}, the clock in microseconds, which no issuer comes to: it was \
         made up, or damaged on its way; find out who presented it, and set back the mark of the \
         guard that has admitted it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> TokenValue {
        TokenValue::new(value).unwrap()
    }

    #[test]
    fn the_remedy_is_spelled_out_where_it_works_and_only_there() {
        let works = advice(token(70_000), 70_000);
        assert!(
            works.contains("`fencepost raise-floor --above 70000`"),
            "{works}"
        );
        // Most often somebody mistyped it, and a floor that was raised for that stays raised.
        let doubts = works.find("mistyped").unwrap();
        assert!(doubts < works.find("raise-floor").unwrap(), "{works}");
        let made_up = advice(token(70_001), 70_000);
        assert!(!made_up.contains("raise-floor"), "{made_up}");
    }

    fn sequencer(value: u64) -> Sequencer {
        Sequencer {
            issuer: "prod".parse().unwrap(),
            resource: format!("door-{value}").parse().unwrap(),
            token: token(value),
        }
    }

    /// What a line says, of whom and of how many others.
    fn said(line: Option<Line>) -> Option<(String, u64, u64)> {
        line.map(|line| (line.sequencer.to_string(), line.last_token, line.others))
    }

    #[test]
    fn a_loop_of_such_tokens_is_counted_and_writes_one_line_in_a_while() {
        let metrics = Metrics::new("test", 1);
        let alarm = Alarm::new(&metrics);
        let start = clock::now();
        alarm.count(&sequencer(6), 5, Via::Report);
        assert_eq!(
            said(alarm.due(start)),
            Some(("prod:door-6:6".to_owned(), 5, 0))
        );
        for value in [7, 9, 8, 7] {
            alarm.count(&sequencer(value), 5, Via::Admit);
            assert_eq!(alarm.due(start), None);
        }
        let text = metrics.encode();
        for line in [
            "fencepost_tokens_ahead_total{via=\"admit\"} 4",
            "fencepost_tokens_ahead_total{via=\"report\"} 1",
            "fencepost_highest_token_ahead 9",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_highest_token_of_a_burst_is_said_though_no_other_follows() {
        let alarm = Alarm::new(&Metrics::new("test", 1));
        let start = clock::now();
        alarm.count(&sequencer(6), 5, Via::Report);
        assert!(alarm.due(start).is_some());
        for value in [7, 9, 8] {
            alarm.count(&sequencer(value), 5, Via::Report);
        }
        let (almost, then) = (start + QUIET - Duration::from_millis(1), start + QUIET);
        assert_eq!(alarm.due(almost), None);
        assert_eq!(
            said(alarm.due(then)),
            Some(("prod:door-9:9".to_owned(), 5, 2))
        );
        // All is said: silence costs no line.
        assert_eq!(alarm.due(then + QUIET), None);
        alarm.count(&sequencer(7), 6, Via::Report);
        let next = said(alarm.due(then + QUIET));
        assert_eq!(next, Some(("prod:door-7:7".to_owned(), 6, 0)));
    }
}
