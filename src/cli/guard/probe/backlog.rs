//! Connections that wait because the service's listen backlog is full.
//!
//! Where the backlog is full the kernel drops the first packet of a connection, and it is sent again after
//! a second (RFC 6298, section 2), then two, then four. Writers that are let loose at once, each with a
//! new connection, fill a backlog of five at once, and a run of 200 rounds then takes minutes in which
//! hardly two writes meet. So it is noticed, and the writers become fewer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::unversioned::transport::{ConnectionDetails, Connector, DefaultConnector, Transport};

use super::silence::Unconnected;

/// The first wait before a dropped packet is sent again, in Linux and in RFC 6298; a little less, for
/// clocks that tick coarsely.
const FIRST_RESENT_AFTER: Duration = Duration::from_millis(950);

/// How many connections were as late as one whose first packet was dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct Late(Arc<AtomicU32>);

impl Late {
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes connections as usual, counts the late ones, and marks what fails before there is one.
#[derive(Debug)]
pub(super) struct Punctual {
    pub(super) inner: DefaultConnector,
    pub(super) late: Late,
}

impl Connector<()> for Punctual {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let begun = now();
        let connected = self.inner.connect(details, chained);
        if now().duration_since(begun) >= FIRST_RESENT_AFTER {
            self.late.0.fetch_add(1, Ordering::Relaxed);
        }
        connected.map_err(|error| Unconnected::Unreached(error).into())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the network takes decides how many write at once, and nothing about any token"
)]
fn now() -> Instant {
    Instant::now()
}
