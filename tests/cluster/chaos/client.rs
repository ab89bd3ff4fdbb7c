//! One client of the run: it acquires, stands in line, keeps, gives back, forgets, asks again, and is
//! refused.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{guards::Tokens, in_line};
use crate::{
    asking::{Asked, Asker},
    history::Outcome,
};

/// The resources of a run.
pub(crate) const RESOURCES: u64 = 40;

/// How long a client goes on with one call.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// What the clients of a run have in common.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// The clients finish what they are about, and end.
    pub(crate) stop: Arc<AtomicBool>,
    /// Answers that were replayed from the memory of request ids.
    pub(crate) replays: Arc<AtomicU64>,
    /// Requests that were answered in two ways.
    pub(crate) contradictions: Arc<Mutex<Vec<String>>>,
    /// What holders were granted, for guards to see.
    pub(crate) tokens: Arc<Tokens>,
    /// Grants answered so far.
    pub(crate) grants: Arc<AtomicU64>,
    /// Waiters that were granted after they had come back under the same request id.
    pub(crate) came_back: Arc<AtomicU64>,
    /// Handles of the client library that said that their lease was lost.
    pub(crate) lost: Arc<AtomicU64>,
    /// The run's last entry, once it is known: watchers end when they have reached it.
    pub(crate) watch_until: Arc<AtomicU64>,
}

pub(crate) fn resource(number: u64) -> String {
    format!("resource-{number}")
}

/// Works until it is told to stop.
pub(crate) async fn work(mut asker: Asker, shared: Shared) {
    let holder = format!("client-{}", asker.client);
    while !shared.stop.load(Ordering::Relaxed) {
        tokio::time::sleep(asker.dice.millis(5, 45)).await;
        // Half of the calls go to a tenth of the resources, so that there is somebody to be refused by.
        let among = if asker.dice.percent(50) {
            RESOURCES / 10
        } else {
            RESOURCES
        };
        let (resource, ttl) = (
            resource(asker.dice.below(among)),
            asker.dice.millis(300, 1_500),
        );
        if asker.dice.percent(40) {
            in_line::stand(&mut asker, &resource, &holder, &shared).await;
            continue;
        }
        let mut asked = asker.request(&resource, &holder, ttl);
        let Some(token) = acquire(&mut asker, &mut asked, &shared).await else {
            continue;
        };
        shared.tokens.granted(&resource, token);
        match asker.dice.below(100) {
            0..40 => give_back(&mut asker, &asked, token).await,
            40..70 => keep(&mut asker, &asked, token, ttl).await,
            // Asks again although it has it: the first grant is superseded.
            70..80 => {
                let mut again = asker.request(&resource, &holder, ttl);
                if let Some(token) = acquire(&mut asker, &mut again, &shared).await {
                    give_back(&mut asker, &again, token).await;
                }
            }
            // An operator takes it away; the late release after that must not hit a successor.
            80..83 => {
                asker.revoke(&resource, token, PATIENCE).await;
                give_back(&mut asker, &asked, token).await;
            }
            83..90 => send_again(&mut asker, &mut asked, token, &shared).await,
            // Forgets it: its lease runs out.
            _ => {}
        }
    }
}

async fn acquire(asker: &mut Asker, asked: &mut Asked, shared: &Shared) -> Option<u64> {
    match asker.acquire(asked, PATIENCE).await {
        Outcome::Granted(granted) => {
            shared.grants.fetch_add(1, Ordering::Relaxed);
            shared
                .replays
                .fetch_add(u64::from(granted.start_unknown), Ordering::Relaxed);
            Some(granted.token)
        }
        _ => None,
    }
}

/// Renews at once, and a few times at a third of the TTL, then gives it back; ends early if it is not there any more.
pub(super) async fn keep(asker: &mut Asker, asked: &Asked, token: u64, ttl: Duration) {
    for round in 0..1 + asker.dice.below(4) {
        if round > 0 {
            tokio::time::sleep(ttl / 3).await;
        }
        let mut outcome = asker.renew(asked, token).await;
        // A lost renewal is tried again at once, as a call of its own.
        if matches!(outcome, Outcome::Unknown(_) | Outcome::Failed(_)) {
            outcome = asker.renew(asked, token).await;
        }
        if matches!(outcome, Outcome::Refused(_)) {
            return;
        }
    }
    give_back(asker, asked, token).await;
}

pub(super) async fn give_back(asker: &mut Asker, asked: &Asked, token: u64) {
    asker.release(asked, token, PATIENCE).await;
}

/// Sends a request that was answered once more. It must get its first answer again.
async fn send_again(asker: &mut Asker, asked: &mut Asked, token: u64, shared: &Shared) {
    match asker.send(asked).await {
        Ok(Outcome::Granted(granted)) if granted.token == token && granted.start_unknown => {
            shared.replays.fetch_add(1, Ordering::Relaxed);
        }
        Ok(other) => {
            let what = format!("{asked:?} was granted as token {token}; sent again: {other:?}");
            shared.contradictions.lock().unwrap().push(what);
        }
        // Without an answer nothing is learned.
        Err(_) => {}
    }
}
