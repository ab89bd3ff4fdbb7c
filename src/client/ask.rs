//! One asking for a resource, which may take several sends.

use super::clock::BootInstant;
use crate::grant::{AskedAt, RequestId, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::wire::v1;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One asking: who wants what for how long, under which request id.
///
/// All sends of one `Ask` have one effect and one answer. If a call fails and
/// [can have had an effect](super::Error::can_have_had_effect), call
/// [`Client::acquire_with`](super::Client::acquire_with) again with the same `Ask`: then the earlier
/// send and the later one cannot both act. Once it is refused its id is spent, and the next call takes
/// a new one.
#[derive(Debug, Clone)]
pub struct Ask {
    pub(super) resource: ResourceName,
    pub(super) holder: Holder,
    pub(super) ttl: Ttl,
    /// How long to stand in line.
    pub(super) wait: Duration,
    /// The same as all copies of this id carry it: shorter if a forgotten id had used a part of it up.
    pub(super) wait_that_is_sent: Duration,
    pub(super) key: RequestKey,
    /// When the first send left, if it left from this process.
    pub(super) first_sent: Option<BootInstant>,
    /// An earlier process has sent it: when is not known here.
    pub(super) resumed: bool,
    /// An earlier send may have taken effect.
    pub(super) open: bool,
}

impl Ask {
    pub(super) fn new(
        resource: ResourceName,
        holder: Holder,
        ttl: Ttl,
        request_id: RequestId,
    ) -> Self {
        Self {
            resource,
            holder,
            ttl,
            wait: Duration::ZERO,
            wait_that_is_sent: Duration::ZERO,
            key: RequestKey::new(request_id),
            first_sent: None,
            resumed: false,
            open: false,
        }
    }

    /// Stands in line for at most `wait` when the resource is not free, up to 24 h. It runs from the moment
    /// that the first copy arrived, through lost connections and elections. Zero does not wait.
    ///
    /// Set it before the first send: with another wait the cluster refuses the request id.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        (self.wait, self.wait_that_is_sent) = (wait, wait);
        self
    }

    /// Takes an asking up again that another process began. Resource, holder, TTL and
    /// [wait](Self::wait) must be the same as they were, or the cluster refuses the request id.
    #[must_use]
    pub fn resume(resource: ResourceName, holder: Holder, ttl: Ttl, key: RequestKey) -> Self {
        Self {
            resource,
            holder,
            ttl,
            wait: Duration::ZERO,
            wait_that_is_sent: Duration::ZERO,
            resumed: key.attempts > 0,
            open: key.attempts > 0,
            key,
            first_sent: None,
        }
    }

    /// The wait that all copies of this request carry: what was set, or the rest of it when an earlier request
    /// id had been forgotten.
    #[must_use]
    pub fn sent_wait(&self) -> Duration {
        self.wait_that_is_sent
    }

    /// What another process needs to take this asking up again.
    #[must_use]
    pub fn key(&self) -> &RequestKey {
        &self.key
    }

    /// Begins anew under another id.
    pub(super) fn begin_anew(&mut self, request_id: RequestId, asked_at: Option<AskedAt>) {
        self.key = RequestKey::new(request_id);
        self.key.asked_at = asked_at;
        self.wait_that_is_sent = self.wait;
        self.first_sent = None;
        self.resumed = false;
    }

    /// The message of a send that was counted.
    pub(super) fn request(&self) -> v1::AcquireRequest {
        v1::AcquireRequest {
            resource: self.resource.to_string(),
            holder: self.holder.to_string(),
            ttl_ms: self.ttl.as_ms(),
            request_id: self.key.request_id.as_bytes().to_vec().into(),
            attempt: self.key.attempts,
            asked_at: self.key.asked_at(),
            // Not a moment less than was asked for.
            wait_ms: u64::try_from(self.wait_that_is_sent.as_nanos().div_ceil(1_000_000))
                .unwrap_or(u64::MAX),
        }
    }

    /// What is left of it when nobody asks any more.
    pub(super) fn place(&self) -> Place {
        Place {
            resource: self.resource.clone(),
            holder: self.holder.clone(),
            key: self.key.clone(),
        }
    }

    /// Counts a send that leaves at `now`.
    pub(super) fn count_send(&mut self, now: BootInstant) {
        self.key.attempts = self.key.attempts.saturating_add(1);
        self.first_sent.get_or_insert(now);
    }

    /// When the first send left; `None` if that is not known here.
    pub(super) fn known_start(&self) -> Option<BootInstant> {
        self.first_sent.filter(|_| !self.resumed)
    }
}

/// A place in line, or what became of it: named by the request that it was asked for with.
pub(super) struct Place {
    pub(super) resource: ResourceName,
    pub(super) holder: Holder,
    key: RequestKey,
}

impl Place {
    /// The message that leaves it.
    pub(super) fn request(&self) -> v1::WithdrawRequest {
        v1::WithdrawRequest {
            resource: self.resource.to_string(),
            holder: self.holder.to_string(),
            request_id: self.key.request_id.as_bytes().to_vec().into(),
            attempt: self.key.attempts,
            asked_at: self.key.asked_at(),
        }
    }
}

/// The identity of an asking: its request id, the moment seen before its first send, and how many times it
/// was sent. As text `id/cluster/index/sends`, or the hexadecimal id alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    pub(super) request_id: RequestId,
    pub(super) asked_at: Option<AskedAt>,
    pub(super) attempts: u32,
}

impl RequestKey {
    fn new(request_id: RequestId) -> Self {
        Self {
            request_id,
            asked_at: None,
            attempts: 0,
        }
    }

    fn asked_at(&self) -> Option<v1::AskedAt> {
        self.asked_at
            .map(|AskedAt { cluster, applied }| v1::AskedAt {
                cluster_id: cluster.to_string(),
                applied_index: applied,
            })
    }

    /// The request id.
    #[must_use]
    pub fn request_id(&self) -> &RequestId {
        &self.request_id
    }
}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.request_id)?;
        if let Some(asked_at) = self.asked_at {
            write!(
                f,
                "/{}/{}/{}",
                asked_at.cluster, asked_at.applied, self.attempts
            )?;
        }
        Ok(())
    }
}

/// A text that is not a request key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a request id: give 1 to 64 bytes as hexadecimal digits, or what an earlier failure printed (id/cluster/index/sends)"
)]
pub struct RequestKeyError;

impl FromStr for RequestKey {
    type Err = RequestKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('/');
        let id = parts.next().and_then(bytes_of_hex).ok_or(RequestKeyError)?;
        let mut key = Self::new(RequestId::new(id).map_err(|_| RequestKeyError)?);
        let Some(cluster) = parts.next() else {
            return Ok(key);
        };
        let (applied, attempts) = (parts.next(), parts.next());
        if parts.next().is_some() {
            return Err(RequestKeyError);
        }
        key.asked_at = Some(AskedAt {
            cluster: cluster.parse().map_err(|_| RequestKeyError)?,
            applied: number(applied)?,
        });
        key.attempts = number(attempts)?;
        Ok(key)
    }
}

fn number<T: FromStr>(text: Option<&str>) -> Result<T, RequestKeyError> {
    text.and_then(|text| text.parse().ok())
        .ok_or(RequestKeyError)
}

/// Reads pairs of hexadecimal digits.
fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::ClusterId;

    #[test]
    fn a_key_survives_being_printed() {
        let mut key = RequestKey::new(RequestId::from([0xab; 16]));
        assert_eq!(key.to_string().parse(), Ok(key.clone()));
        key.asked_at = Some(AskedAt {
            cluster: ClusterId::new(7),
            applied: 42,
        });
        key.attempts = 3;
        assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn anything_else_is_not_a_key() {
        for text in [
            "",
            "abc",
            "zz",
            "é1",
            "ab/",
            "ab/1/2/3",
            "ab/00000000000000000000000000000007/1",
        ] {
            assert_eq!(text.parse::<RequestKey>(), Err(RequestKeyError), "{text:?}");
        }
        assert!("ab".repeat(64).parse::<RequestKey>().is_ok());
        assert!("ab".repeat(65).parse::<RequestKey>().is_err());
    }

    #[test]
    fn a_resumed_asking_knows_no_start() {
        let (resource, holder) = ("r".parse().unwrap(), "h".parse().unwrap());
        let now = BootInstant::from_boot(std::time::Duration::from_secs(9));
        let id = RequestId::from([1; 16]);
        let mut ask = Ask::new(resource, holder, Ttl::default(), id);
        ask.count_send(now);
        ask.count_send(now.plus(std::time::Duration::from_secs(1)));
        assert_eq!((ask.known_start(), ask.key.attempts), (Some(now), 2));
        let mut resumed = Ask::resume(ask.resource, ask.holder, ask.ttl, ask.key);
        resumed.count_send(now);
        assert_eq!((resumed.known_start(), resumed.key.attempts), (None, 3));
    }
}
