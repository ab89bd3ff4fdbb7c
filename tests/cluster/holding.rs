//! Holding through the client library in a recorded history.
//!
//! The library's calls are not seen here, and its request ids are its own. So each holder has a name of
//! its own, by which the applied log tells the id, and what a handle says of itself is written down as a
//! claim: until then its holder relies on the lease.

use std::time::Duration;

use fencepost::{
    client::{Client, Held},
    grant::Ttl,
    resource::{Holder, ResourceName},
};

use crate::history::{Call, Granted, Outcome, recorder::Recorder};

/// The resource that a test's holder of this number holds.
pub(crate) fn resource(number: u32) -> String {
    format!("ledger-{number}")
}

/// Holds what is free, with renewals in the background.
pub(crate) async fn held(client: &Client, recorder: &Recorder, number: u32, ttl: Duration) -> Held {
    let (name, holder) = (resource(number), format!("library-{number}"));
    let call = Call::Acquire {
        holder: holder.clone(),
        request_id: String::new(),
        ttl,
        wait: Duration::ZERO,
    };
    let pending = recorder.begin(number, &name, call);
    let hold = client.hold(
        &ResourceName::new(name.as_str()).unwrap(),
        &Holder::new(holder.as_str()).unwrap(),
    );
    let ttl = Ttl::from_ms(u64::try_from(ttl.as_millis()).unwrap()).unwrap();
    let held = hold.ttl(ttl).await.unwrap().held().unwrap();
    pending.end(Outcome::Granted(Granted {
        token: held.token().value().get(),
        index: held.token().index(),
        start_unknown: held.acquired().replayed,
        after_wait: false,
    }));
    held
}

/// Writes down until when a handle says that it is safe.
pub(crate) fn claim(recorder: &Recorder, client: u32, held: &Held) {
    // The time is taken first, so that no more is claimed than the handle did.
    let (now, safe_for) = (recorder.now(), held.remaining());
    let (token, until) = (held.token().value().get(), now + safe_for);
    if safe_for > Duration::ZERO {
        let name = held.resource().as_str();
        let pending = recorder.begin(client, name, Call::Rely { token, until });
        pending.end(Outcome::Renewed);
    }
}
