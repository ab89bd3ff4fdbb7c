//! Many renewals, one log entry.
//!
//! A batch goes out as soon as none is under way; those that arrive meanwhile make the next one, so a
//! lone renewal waits for nobody and ten thousand holders cost tens of entries a second. A batch that
//! is full goes out at once, beside those under way.

use std::{collections::VecDeque, time::Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::{method::Halt, propose::Proposals};
use crate::{
    issuer::{Command, Outcome, Renew, RenewOutcome, Renewal},
    limits::{
        COMMAND_BYTES_MAX, COMMAND_HEAD_BYTES_MAX, RENEWAL_BYTES_MAX, RENEWAL_BYTES_MIN,
        RENEWALS_PER_COMMAND_MAX,
    },
    server::clock,
};

/// Calls that may stand in front of the task; more wait in their own tasks.
const ASKS_MAX: usize = 4_096;

/// Full batches that may be under way at once.
const UNDER_WAY_MAX: usize = 8;

/// What of a command is left for its renewals.
const BYTES_MAX: usize = COMMAND_BYTES_MAX - COMMAND_HEAD_BYTES_MAX;

/// Renewals that are answered together, as part of one batch.
#[derive(Debug)]
struct Ask {
    renewals: Vec<Renewal>,
    deadline: Instant,
    answer: oneshot::Sender<Result<Vec<RenewOutcome>, Halt>>,
}

/// Where callers hand in their renewals.
#[derive(Clone, Debug)]
pub(super) struct Renewals {
    asks: mpsc::Sender<Ask>,
}

impl Renewals {
    /// Starts the task that collects them. It ends when the last clone of the handle is gone.
    pub(super) fn start(proposals: Proposals) -> Self {
        let (asks, queue) = mpsc::channel(ASKS_MAX);
        tokio::spawn(collect(queue, proposals));
        Renewals { asks }
    }

    /// Renews, each on its own; the outcomes come in the order of `renewals`.
    pub(super) async fn renew(
        &self,
        renewals: Vec<Renewal>,
        deadline: Instant,
    ) -> Result<Vec<RenewOutcome>, Halt> {
        let mut waiting = Vec::new();
        for renewals in chunks(renewals) {
            let (answer, outcome) = oneshot::channel();
            let ask = Ask {
                renewals,
                deadline,
                answer,
            };
            self.asks.send(ask).await.map_err(|_| stopped())?;
            waiting.push(outcome);
        }
        let mut outcomes = Vec::new();
        for outcome in waiting {
            outcomes.extend(outcome.await.map_err(|_| stopped())??);
        }
        Ok(outcomes)
    }
}

fn stopped() -> Halt {
    super::propose::stopping().into()
}

/// What a renewal takes in an encoded command.
fn bytes_of(renewal: &Renewal) -> usize {
    match renewal.ttl {
        None => RENEWAL_BYTES_MIN,
        Some(_) => RENEWAL_BYTES_MAX,
    }
}

/// What a batch has room for.
#[derive(Debug, Default)]
struct Load {
    count: usize,
    bytes: usize,
}

impl Load {
    /// Takes the renewals in if they all fit.
    fn take(&mut self, renewals: &[Renewal]) -> bool {
        let count = self.count + renewals.len();
        let bytes = self.bytes + renewals.iter().map(bytes_of).sum::<usize>();
        if count > RENEWALS_PER_COMMAND_MAX || bytes > BYTES_MAX {
            return false;
        }
        (self.count, self.bytes) = (count, bytes);
        true
    }
}

/// Cuts a call's renewals into parts that fit one command each.
fn chunks(renewals: Vec<Renewal>) -> Vec<Vec<Renewal>> {
    let mut whole = Load::default();
    if whole.take(&renewals) {
        return vec![renewals];
    }
    let mut parts = vec![Vec::new()];
    let mut load = Load::default();
    for renewal in renewals {
        if !load.take(&[renewal]) {
            load = Load::default();
            load.take(&[renewal]);
            parts.push(Vec::new());
        }
        parts.last_mut().expect("there is always one").push(renewal);
    }
    parts
}

/// Sends a batch when none is under way, or when it is full.
async fn collect(mut queue: mpsc::Receiver<Ask>, proposals: Proposals) {
    let mut waiting: VecDeque<Ask> = VecDeque::new();
    let mut under_way = FuturesUnordered::new();
    loop {
        let room = under_way.len() < UNDER_WAY_MAX;
        if room && let Some(batch) = next_batch(&mut waiting, under_way.is_empty()) {
            under_way.push(send(batch, &proposals));
            continue;
        }
        tokio::select! {
            ask = queue.recv() => {
                let Some(ask) = ask else { return };
                waiting.push_back(ask);
                while let Ok(ask) = queue.try_recv() {
                    waiting.push_back(ask);
                }
            }
            Some(()) = under_way.next() => {}
        }
    }
}

/// The asks of the next entry, in the order in which they came; none while it pays to wait for more.
fn next_batch(waiting: &mut VecDeque<Ask>, idle: bool) -> Option<Vec<Ask>> {
    let mut load = Load::default();
    let fitting = waiting
        .iter()
        .take_while(|ask| load.take(&ask.renewals))
        .count();
    let full = fitting < waiting.len();
    (fitting > 0 && (idle || full)).then(|| waiting.drain(..fitting).collect())
}

/// Proposes a batch and gives each caller its own outcomes.
async fn send(batch: Vec<Ask>, proposals: &Proposals) {
    let deadline = batch.iter().map(|ask| ask.deadline).max();
    let deadline = deadline.unwrap_or_else(clock::now);
    let renewals: Vec<Renewal> = batch.iter().flat_map(|ask| ask.renewals.clone()).collect();
    let count = renewals.len();
    proposals.observe_batch(count);
    let command = Command::Renew(Renew {
        renewals,
        stamped_at_ms: clock::wall_ms(),
    });
    let result = match proposals.propose(&command, deadline).await {
        Ok(committed) => match committed.outcome {
            Outcome::Renew(outcomes) if outcomes.len() == count => Ok(outcomes),
            other => Err(super::propose::mismatched(&other)),
        },
        Err(halt) => Err(halt),
    };
    let mut outcomes = result.as_deref().unwrap_or(&[]).iter().copied();
    for ask in batch {
        let own = match &result {
            Ok(_) => Ok(outcomes.by_ref().take(ask.renewals.len()).collect()),
            Err(halt) => Err(halt.clone()),
        };
        // A caller that is gone does not want it.
        let _ = ask.answer.send(own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{grant::Ttl, token::TokenValue};

    fn renewals(count: u64, ttl: Option<Ttl>) -> Vec<Renewal> {
        (1..=count)
            .map(|token| Renewal {
                token: TokenValue::new(token).unwrap(),
                ttl,
            })
            .collect()
    }

    fn ask(count: u64) -> Ask {
        Ask {
            renewals: renewals(count, None),
            deadline: clock::now(),
            answer: oneshot::channel().0,
        }
    }

    #[test]
    fn every_part_fits_a_command_and_nothing_is_lost() {
        for (count, ttl) in [(400, None), (400, Some(Ttl::default())), (1, None)] {
            let whole = renewals(count, ttl);
            let parts = chunks(whole.clone());
            for part in &parts {
                let renew = Renew {
                    renewals: part.clone(),
                    stamped_at_ms: u64::MAX,
                };
                assert!(crate::issuer::encode_command(&Command::Renew(renew)).is_ok());
            }
            assert_eq!(parts.concat(), whole);
        }
    }

    #[test]
    fn a_lone_renewal_goes_at_once_and_others_gather_behind_it() {
        let mut waiting = VecDeque::from([ask(1)]);
        assert_eq!(
            next_batch(&mut waiting, true).map(|batch| batch.len()),
            Some(1)
        );
        waiting.extend([ask(100), ask(100)]);
        assert!(next_batch(&mut waiting, false).is_none());
        assert_eq!(
            next_batch(&mut waiting, true).map(|batch| batch.len()),
            Some(2)
        );
    }

    #[test]
    fn a_full_batch_does_not_wait() {
        let mut waiting = VecDeque::from([ask(300), ask(100), ask(1)]);
        assert_eq!(
            next_batch(&mut waiting, false).map(|batch| batch.len()),
            Some(2)
        );
        assert!(next_batch(&mut waiting, false).is_none());
        assert_eq!(waiting.len(), 1);
    }
}
