//! Guards that keep their marks in the cluster's own register: whatever token was granted, and however
//! long ago, is presented to whichever node comes to hand.

use std::sync::{Mutex, PoisonError, atomic::Ordering};

use fencepost::wire::v1::{AdmitRequest, admit_response::Outcome as Said};

use super::client::Shared;
use crate::{
    asking::failed,
    dice::Dice,
    history::{Call, Outcome, recorder::Recorder},
    nodes::calls::Calls,
};

/// How many tokens are remembered, so that late holders turn up.
const REMEMBERED: usize = 300;

/// How many of the newest are presented most of the time.
const RECENT: usize = 12;

/// Tokens that holders were granted, with what they are for, the newest last.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Mutex<Vec<(String, u64)>>);

impl Tokens {
    pub(super) fn granted(&self, resource: &str, token: u64) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.push((resource.to_owned(), token));
        if tokens.len() > REMEMBERED {
            tokens.remove(0);
        }
    }

    /// Mostly a new one.
    fn pick(&self, dice: &mut Dice) -> Option<(String, u64)> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = match dice.percent(70) {
            true => tokens.len().saturating_sub(RECENT),
            false => 0,
        };
        let from = &tokens[from..];
        (!from.is_empty()).then(|| dice.pick(from).clone())
    }
}

/// One guard. Each call is sent once, to any node.
pub(super) struct RegisterGuard {
    pub(super) number: u32,
    pub(super) nodes: Vec<Calls>,
    pub(super) recorder: Recorder,
    pub(super) dice: Dice,
}

impl RegisterGuard {
    /// Presents tokens until it is told to stop.
    pub(super) async fn work(mut self, shared: Shared) {
        while !shared.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(self.dice.millis(5, 40)).await;
            let Some((resource, token)) = shared.tokens.pick(&mut self.dice) else {
                continue;
            };
            let node = self.dice.pick(&self.nodes).clone();
            let call = Call::Admit { token };
            let pending = self.recorder.begin(self.number, &resource, call);
            let presented = AdmitRequest {
                issuer: "fencepost".into(),
                resource,
                token,
                once: false,
            };
            pending.end(match node.admit(presented).await {
                Ok(answer) => match answer.outcome.expect("an answer says how it came out") {
                    Said::Admitted(_) => Outcome::Admitted,
                    Said::Stale(stale) => Outcome::Stale(stale.required),
                    Said::Ahead(_) => Outcome::NeverIssued,
                    Said::Foreign(_) => Outcome::Refused("foreign".into()),
                },
                Err(status) => failed(&status),
            });
        }
    }
}
