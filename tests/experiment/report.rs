//! What a run came to, for people, and whether the promise held.

use std::{fmt, time::Duration};

/// One register's side of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) acknowledged: u64,
    /// Acknowledged, and not in the final value.
    pub(crate) lost: u64,
    /// Refused as stale.
    pub(crate) refused: u64,
    /// Refused as stale, and in the final value all the same.
    pub(crate) refused_in_vain: u64,
    /// Outcomes that nobody knows: never counted as lost.
    pub(crate) unknown: u64,
    /// In the final value, and by no update that anybody made.
    pub(crate) made_by_nobody: u64,
    /// Writes that were taken although a higher token had been there.
    pub(crate) steps_back: u64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) took: Duration,
    pub(crate) clients: u64,
    pub(crate) ttl: Duration,
    pub(crate) fenced: Side,
    pub(crate) unfenced: Side,
    /// How often a holder was stopped inside its critical section until others had written.
    pub(crate) stops: u64,
    /// How long the stopped ones stood still, in all.
    pub(crate) stood_still: Duration,
    /// How many of them were refused when they went on.
    pub(crate) stopped_and_refused: u64,
    /// Turns that ended without an update.
    pub(crate) gave_up: u64,
    /// What a run must reach in order to say anything.
    pub(crate) updates_wanted: u64,
    pub(crate) stops_wanted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything was observed, and nothing was wrong.
    Held,
    /// The promise was broken.
    Broken(Vec<String>),
    /// The run proves nothing, which is not a pass.
    Unknown(Vec<String>),
}

impl Report {
    pub(crate) fn verdict(&self) -> Verdict {
        let broken = reasons([
            (
                self.fenced.lost > 0,
                "the fenced register lost acknowledged updates",
            ),
            (
                self.fenced.steps_back > 0,
                "it took a lower token after a higher one",
            ),
            (
                self.fenced.refused_in_vain > 0,
                "a refused update took effect",
            ),
            (
                self.fenced.made_by_nobody + self.unfenced.made_by_nobody > 0,
                "an update is there that nobody made",
            ),
            (
                self.stopped_and_refused < self.stops,
                "a holder that was stopped while others wrote was not refused",
            ),
        ]);
        if !broken.is_empty() {
            return Verdict::Broken(broken);
        }
        let unknown = reasons([
            (
                self.fenced.acknowledged < self.updates_wanted,
                "too few updates were acknowledged",
            ),
            (
                self.stops < self.stops_wanted,
                "too few holders were stopped",
            ),
            (
                self.unfenced.lost == 0,
                "the unfenced register lost nothing, so that nothing was put to the test",
            ),
            (
                self.unfenced.steps_back == 0,
                "no late write reached the unfenced register",
            ),
        ]);
        if unknown.is_empty() {
            Verdict::Held
        } else {
            Verdict::Unknown(unknown)
        }
    }
}

fn reasons<const N: usize>(all: [(bool, &str); N]) -> Vec<String> {
    let apply = all.into_iter().filter(|(applies, _)| *applies);
    apply.map(|(_, reason)| reason.to_owned()).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.took.as_secs_f64();
        writeln!(
            f,
            "{} client processes, TTL {} ms, {:.1} s, {:.1} acknowledged updates a second",
            self.clients,
            self.ttl.as_millis(),
            secs,
            self.fenced.acknowledged as f64 / secs.max(0.001),
        )?;
        writeln!(
            f,
            "{} holders stopped in their critical section, {:.1} s each; {} turns without an update",
            self.stops,
            self.stood_still.as_secs_f64() / (self.stops as f64).max(1.0),
            self.gave_up,
        )?;
        writeln!(f, "{:<38} {:>10} {:>10}", "", "fenced", "unfenced")?;
        let mut row = |what: &str, of: fn(&Side) -> u64| {
            let (fenced, unfenced) = (of(&self.fenced), of(&self.unfenced));
            writeln!(f, "{what:<38} {fenced:>10} {unfenced:>10}")
        };
        row("updates acknowledged", |side| side.acknowledged)?;
        row("of them lost", |side| side.lost)?;
        row("refused as stale", |side| side.refused)?;
        row("outcome unknown", |side| side.unknown)?;
        row("lower token taken after a higher", |side| side.steps_back)?;
        let share = |side: &Side| side.lost as f64 * 100.0 / (side.acknowledged as f64).max(1.0);
        let (fenced, unfenced) = (share(&self.fenced), share(&self.unfenced));
        write!(f, "{:<38} {fenced:>8.1} % {unfenced:>8.1} %", "share lost")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        let side = |lost, refused, steps_back| Side {
            acknowledged: 2_000,
            lost,
            refused,
            steps_back,
            ..Side::default()
        };
        Report {
            took: Duration::from_secs(40),
            fenced: side(0, 8, 0),
            unfenced: side(160, 0, 8),
            stops: 8,
            stopped_and_refused: 8,
            updates_wanted: 2_000,
            stops_wanted: 6,
            ..Report::default()
        }
    }

    #[test]
    fn a_run_that_saw_everything_holds() {
        assert_eq!(good().verdict(), Verdict::Held);
        assert!(good().to_string().contains("8.0 %"), "{}", good());
    }

    #[test]
    fn what_breaks_the_promise_is_noticed() {
        let breaks: [fn(&mut Report); 6] = [
            |report| report.fenced.lost = 1,
            |report| report.fenced.steps_back = 1,
            |report| report.fenced.refused_in_vain = 1,
            |report| report.fenced.made_by_nobody = 1,
            |report| report.unfenced.made_by_nobody = 1,
            |report| report.stopped_and_refused = 7,
        ];
        for (number, spoil) in breaks.iter().enumerate() {
            let mut report = good();
            spoil(&mut report);
            let verdict = report.verdict();
            assert!(
                matches!(verdict, Verdict::Broken(_)),
                "{number}: {verdict:?}"
            );
        }
    }

    #[test]
    fn a_run_that_put_nothing_to_the_test_is_unknown() {
        let empty: [fn(&mut Report); 4] = [
            |report| report.fenced.acknowledged = 1_999,
            |report| (report.stops, report.stopped_and_refused) = (5, 5),
            |report| report.unfenced.lost = 0,
            |report| report.unfenced.steps_back = 0,
        ];
        for (number, spoil) in empty.iter().enumerate() {
            let mut report = good();
            spoil(&mut report);
            let verdict = report.verdict();
            assert!(
                matches!(verdict, Verdict::Unknown(_)),
                "{number}: {verdict:?}"
            );
        }
    }
}
