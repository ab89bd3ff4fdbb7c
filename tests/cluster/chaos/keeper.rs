//! A client of the run that uses the client library as its users do: it holds, with renewals in the
//! background, and believes what its handle says.
//!
//! The library's own calls are not recorded. What is recorded is what counts: that it asked, what it was
//! told, and at many moments until when the handle said that it was safe.

use std::{sync::atomic::Ordering, time::Duration};

use fencepost::{
    client::{Client, Held, HoldOutcome, Options},
    grant::Ttl,
    resource::{Holder, ResourceName},
};

use super::client::{RESOURCES, Shared, resource};
use crate::{
    dice::Dice,
    history::{Call, Granted, Outcome, recorder::Recorder},
    holding::claim,
};

pub(crate) struct Holding {
    pub(crate) number: u32,
    pub(crate) recorder: Recorder,
    pub(crate) dice: Dice,
}

impl Holding {
    /// Works until it is told to stop.
    pub(crate) async fn work(mut self, endpoints: String, shared: Shared) {
        let options = Options::default()
            .timeout(Duration::from_secs(4))
            .attempt_timeout(Duration::from_millis(300));
        let client = Client::connect(endpoints.split(','), options).unwrap();
        let mut times = 0;
        while !shared.stop.load(Ordering::Relaxed) {
            times += 1;
            tokio::time::sleep(self.dice.millis(10, 80)).await;
            // A name for each request, by which the applied log tells what became of it.
            let holder = format!("library-{}-{times}", self.number);
            let name = resource(self.dice.below(RESOURCES));
            self.hold_once(&client, &name, &holder, &shared).await;
        }
    }

    async fn hold_once(&mut self, client: &Client, name: &str, holder: &str, shared: &Shared) {
        let ttl = self.dice.millis(600, 1_500);
        // Half of them stand in line.
        let wait = Duration::from_millis(self.dice.below(2) * self.dice.below(1_500));
        let call = Call::Acquire {
            holder: holder.into(),
            request_id: String::new(),
            ttl,
            wait,
        };
        let pending = self.recorder.begin(self.number, name, call);
        let (resource, holder) = (
            ResourceName::new(name).unwrap(),
            Holder::new(holder).unwrap(),
        );
        let hold = client
            .hold(&resource, &holder)
            .ttl(Ttl::from_ms(u64::try_from(ttl.as_millis()).unwrap()).unwrap())
            .wait(wait);
        let held = match hold.await {
            Ok(HoldOutcome::Held(held)) => held,
            Ok(HoldOutcome::Refused(_)) => return pending.end(Outcome::Refused("held".into())),
            Ok(HoldOutcome::Left(how)) => return pending.end(Outcome::Left(how.to_string())),
            Ok(HoldOutcome::Ended(ended)) => {
                return pending.end(Outcome::Granted(Granted {
                    token: ended.token.value().get(),
                    index: ended.token.index(),
                    start_unknown: true,
                    after_wait: false,
                }));
            }
            Err(error) if error.can_have_had_effect() => {
                return pending.end(Outcome::Unknown(error.to_string()));
            }
            Err(error) => return pending.end(Outcome::Failed(error.to_string())),
        };
        let token = held.token();
        let acquired = held.acquired();
        pending.end(Outcome::Granted(Granted {
            token: token.value().get(),
            index: token.index(),
            start_unknown: acquired.replayed || acquired.after_wait,
            after_wait: acquired.after_wait,
        }));
        shared.grants.fetch_add(1, Ordering::Relaxed);
        self.rely(&held, shared).await;
        self.let_go(held, name).await;
    }

    /// Believes the handle, several times a TTL, until it has had enough or the lease is lost.
    async fn rely(&mut self, held: &Held, shared: &Shared) {
        for _ in 0..self.dice.below(60) {
            claim(&self.recorder, self.number, held);
            tokio::select! {
                _ = held.lost() => {
                    shared.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
    }

    /// Gives it back, in one of the two ways.
    async fn let_go(&mut self, held: Held, name: &str) {
        let token = held.token().value().get();
        let pending = self
            .recorder
            .begin(self.number, name, Call::Release { token });
        if self.dice.percent(50) {
            // In the background; nobody is told what became of it.
            drop(held);
            return;
        }
        use fencepost::client::ReleaseOutcome as Said;
        match held.release().await {
            Ok(Said::Released) => pending.end(Outcome::Released),
            Ok(Said::Ended(_)) => pending.end(Outcome::Refused("ended".into())),
            Ok(Said::Unknown) => pending.end(Outcome::Refused("unknown".into())),
            Err(error) => pending.end(Outcome::Unknown(error.to_string())),
        }
    }
}
