//! What the clients of a run do while they stand in line: they wait, come back to another node under the
//! same request id, withdraw, or walk away without a word.

use std::{sync::atomic::Ordering, time::Duration};

use super::client::{PATIENCE, RESOURCES, Shared, give_back, keep, resource};
use crate::{
    asking::{Asked, Asker},
    history::Outcome,
};

/// Longer than anybody is away: a place of such a wait ends in another way.
const FOREVER: Duration = Duration::from_secs(60);

/// Asks in line, and does with the outcome what one of several kinds of client would do.
pub(super) async fn stand(asker: &mut Asker, resource: &str, holder: &str, shared: &Shared) {
    let (ttl, wait) = (asker.dice.millis(300, 1_500), asker.dice.millis(100, 2_500));
    let mut asked = asker.request_in_line(resource, holder, ttl, wait);
    // Longer than the wait: the cluster says when it is over.
    let patience = wait + PATIENCE;
    match asker.dice.below(100) {
        // Waits for as long as it said. Half of those keep one call open, and half come back.
        0..70 => {
            asker.open_for = asker.dice.percent(50).then_some(patience);
            let outcome = asker.acquire(&mut asked, patience).await;
            asker.open_for = None;
            served(asker, &asked, ttl, outcome, shared).await;
        }
        // Gives up, and says so.
        70..86 => {
            let outcome = given_up(asker, &mut asked).await;
            if let Some(outcome) = outcome {
                served(asker, &asked, ttl, outcome, shared).await;
            } else if let Outcome::Granted(granted) = asker.withdraw(&asked, PATIENCE).await {
                give_back(asker, &asked, granted.token).await;
            }
        }
        // Gives up without a word, as one that is killed does: its place must end by itself. It stands
        // where somebody holds for long, so that it is not served before that.
        _ => {
            asked = asker.request_in_line(&hogged(), holder, ttl, FOREVER);
            if let Some(outcome) = given_up(asker, &mut asked).await {
                served(asker, &asked, ttl, outcome, shared).await;
            }
        }
    }
}

/// The resource that one client has most of the time.
pub(super) fn hogged() -> String {
    resource(RESOURCES - 1)
}

/// Holds one resource for seconds at a time, until it is told to stop.
pub(super) async fn hog(mut asker: Asker, shared: Shared) {
    let ttl = Duration::from_millis(1_500);
    while !shared.stop.load(Ordering::Relaxed) {
        let mut asked = asker.request_in_line(&hogged(), "hog", ttl, PATIENCE);
        let outcome = asker.acquire(&mut asked, 2 * PATIENCE).await;
        let Outcome::Granted(granted) = outcome else {
            continue;
        };
        for _ in 0..12 {
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
            asker.renew(&asked, granted.token).await;
            tokio::time::sleep(ttl / 4).await;
        }
        give_back(&mut asker, &asked, granted.token).await;
    }
}

/// Waits for a moment only; the outcome if it came within it.
async fn given_up(asker: &mut Asker, asked: &mut Asked) -> Option<Outcome> {
    let moment = asker.dice.millis(20, 400);
    asker.open_for = Some(2 * PATIENCE);
    let outcome = tokio::time::timeout(moment, asker.acquire(asked, PATIENCE)).await;
    asker.open_for = None;
    outcome.ok()
}

async fn served(
    asker: &mut Asker,
    asked: &Asked,
    ttl: Duration,
    outcome: Outcome,
    shared: &Shared,
) {
    let Outcome::Granted(granted) = outcome else {
        return;
    };
    shared.grants.fetch_add(1, Ordering::Relaxed);
    if granted.after_wait && asked.attempts() > 1 {
        shared.came_back.fetch_add(1, Ordering::Relaxed);
    }
    // What came from the queue lives for two seconds at most until it is claimed.
    match asker.dice.below(100) {
        0..50 => give_back(asker, asked, granted.token).await,
        50..90 => keep(asker, asked, granted.token, ttl).await,
        _ => {}
    }
}
