//! A token above everything that this issuer has issued: the alarm, and what to do about it.
//!
//! It is the sign of a restore gone wrong. An old backup was put back without raising the floor, so the
//! issuer counts on from a number that it had passed before, and every guard that has admitted a token of
//! the time in between will refuse the next holders. The remedy is to raise the floor above that token.

use std::{
    sync::{Mutex, PoisonError},
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
    /// When the last line was written, and how many there would have been since.
    last: Option<Instant>,
    unsaid: u64,
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

    /// Counts it. Gives the number of silent ones before, if a line is due.
    fn count(&self, presented: TokenValue, via: Via, now: Instant) -> Option<u64> {
        match via {
            Via::Admit => self.admit.inc(),
            Via::Report => self.report.inc(),
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.highest = told.highest.max(presented.get());
        self.highest.set(told.highest);
        let since = told.last.map(|last| now.saturating_duration_since(last));
        if since.is_some_and(|since| since < QUIET) {
            told.unsaid += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.unsaid))
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
        let advice = advice(sequencer.token, clock::wall_us().min(FLOOR_MAX));
        if let Some(unsaid) = self.ahead.count(sequencer.token, via, clock::now()) {
            tracing::error!(
                issuer = %sequencer.issuer,
                resource = %sequencer.resource,
                token = %sequencer.token,
                last_token,
                unsaid,
                advice,
                "told of a token that was never issued here"
            );
        }
        advice
    }
}

/// The remedy, in words. `limit` is the highest number that the floor can be raised above now.
fn advice(presented: TokenValue, limit: u64) -> String {
    if presented.get() <= limit {
        return format!(
            "a restore may have gone wrong, and guards that have admitted {presented} will refuse \
             every new holder: run `fencepost raise-floor --above {presented}`, with the highest \
             such token that any guard has"
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
        let made_up = advice(token(70_001), 70_000);
        assert!(!made_up.contains("raise-floor"), "{made_up}");
    }

    #[test]
    fn a_loop_of_such_tokens_is_counted_and_writes_one_line_in_a_while() {
        let metrics = Metrics::new("test", 1);
        let alarm = Alarm::new(&metrics);
        let start = clock::now();
        assert_eq!(alarm.count(token(9), Via::Report, start), Some(0));
        for _ in 0..3 {
            assert_eq!(alarm.count(token(7), Via::Admit, start), None);
        }
        assert_eq!(alarm.count(token(8), Via::Admit, start + QUIET), Some(3));
        let text = metrics.encode();
        for line in [
            "fencepost_tokens_ahead_total{via=\"admit\"} 4",
            "fencepost_tokens_ahead_total{via=\"report\"} 1",
            "fencepost_highest_token_ahead 9",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
