//! Holding: kept alive in the background, lost in time, given back.

mod given_back;
mod kept;
mod lost;

use crate::PLENTY;
use crate::fake::Fake;
use fencepost::client::{
    BootClock, BootInstant, Client, Clock, Held, Lost, Options, Sleep, Surroundings,
};
use fencepost::grant::Ttl;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// A clock that stands until the test moves it.
pub(super) struct HandClock(watch::Sender<BootInstant>);

impl HandClock {
    pub(super) fn new() -> Arc<Self> {
        let start = BootInstant::from_boot(Duration::from_secs(5_000));
        Arc::new(Self(watch::channel(start).0))
    }

    pub(super) fn advance(&self, by: Duration) {
        self.0.send_modify(|now| *now = now.plus(by));
    }
}

impl Clock for HandClock {
    fn now(&self) -> BootInstant {
        *self.0.borrow()
    }

    fn sleep_until(&self, moment: BootInstant) -> Sleep<'_> {
        let mut hands = self.0.subscribe();
        Box::pin(async move {
            // The clock outlives whoever waits on it.
            let _ = hands.wait_for(|now| *now >= moment).await;
        })
    }
}

/// A client of `node` on `clock`, with a seed.
pub(super) fn client_on(clock: Arc<dyn Clock>, node: &Fake) -> Client {
    let surroundings = Surroundings {
        clock,
        seed: Some(7),
        ..Surroundings::default()
    };
    let options = Options::default()
        .attempt_timeout(Duration::from_millis(200))
        .timeout(PLENTY);
    Client::connect_in(surroundings, [&node.address], options).unwrap()
}

/// A client of `node` on the machine's clock.
pub(super) fn client(node: &Fake) -> Client {
    client_on(Arc::new(BootClock), node)
}

/// Holds `resource` in the name of "me".
pub(super) async fn hold(client: &Client, resource: &str, ttl_ms: u64) -> Held {
    let (resource, holder) = (resource.parse().unwrap(), "me".parse().unwrap());
    let hold = client.hold(&resource, &holder);
    let outcome = hold.ttl(Ttl::from_ms(ttl_ms).unwrap()).await;
    outcome.unwrap().held().unwrap()
}

/// What must come, and soon.
pub(super) async fn soon<T>(what: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(PLENTY, what).await.expect("in time")
}

/// Waits until the lease is lost.
pub(super) async fn lost(held: &Held) -> Lost {
    soon(held.lost()).await
}

/// Waits until a look gives true.
pub(super) async fn until(mut look: impl FnMut() -> bool) {
    soon(async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
