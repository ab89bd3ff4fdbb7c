//! Word from guards to the issuer: what a watched guard admits is reported as it rises.

use super::{Client, ReportOutcome};
use crate::fence::watched::Watch;
use crate::sequencer::Sequencer;
use std::time::Duration;

/// Between two reports: marks rise with every grant, and the newest says all.
const PAUSE: Duration = Duration::from_secs(1);

/// How the last report went, so that a row of failures is one line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Answered,
    Foreign,
    Failed,
}

impl Client {
    /// Reports the highest token that a watched guard has admitted, whenever it rises, at most once a
    /// second, and brings the issuer's answer to the watch, which counts and logs a token that was never
    /// issued.
    ///
    /// It never ends: spawn it, and abort it with the service. A report that cannot be made is tried
    /// again a second later, and holds up no write.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use fencepost::{client::Client, fence::watched::Watch};
    /// # fn example(client: Client, watch: Arc<Watch>) {
    /// tokio::spawn(async move { client.report_admitted(&watch).await });
    /// # }
    /// ```
    pub async fn report_admitted(&self, watch: &Watch) {
        let mut highest = watch.feedback();
        let mut last = Last::Answered;
        loop {
            let sequencer = highest.borrow_and_update().clone();
            if let Some(sequencer) = sequencer {
                last = self.tell(watch, &sequencer, last).await;
                tokio::time::sleep(PAUSE).await;
            }
            // Whoever borrows the watch keeps the other end of the channel.
            if last != Last::Failed && highest.changed().await.is_err() {
                return;
            }
        }
    }

    async fn tell(&self, watch: &Watch, sequencer: &Sequencer, last: Last) -> Last {
        match self.report(sequencer).await {
            Ok(ReportOutcome::Fine { .. }) => Last::Answered,
            Ok(ReportOutcome::Ahead(ahead)) => {
                watch.ahead(sequencer, ahead.last_token);
                Last::Answered
            }
            Ok(ReportOutcome::Foreign { expected }) => {
                if last != Last::Foreign {
                    tracing::warn!(
                        guard = watch.name(),
                        issuer = %sequencer.issuer,
                        %expected,
                        "a guard's tokens are reported to a cluster that did not issue them"
                    );
                }
                Last::Foreign
            }
            Err(error) => {
                if last != Last::Failed {
                    tracing::warn!(guard = watch.name(), %error, "a token could not be reported");
                }
                Last::Failed
            }
        }
    }
}
