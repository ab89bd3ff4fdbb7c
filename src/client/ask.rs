//! One asking for a resource, which may take several sends.

use super::clock::BootInstant;
use crate::grant::{AskedAt, RequestId, Ttl};
use crate::resource::{Holder, ResourceName};
use std::fmt;
use std::str::FromStr;

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
            key: RequestKey::new(request_id),
            first_sent: None,
            resumed: false,
            open: false,
        }
    }

    /// Takes an asking up again that another process began. Resource, holder and TTL must be the same
    /// as they were, or the cluster refuses the request id.
    #[must_use]
    pub fn resume(resource: ResourceName, holder: Holder, ttl: Ttl, key: RequestKey) -> Self {
        Self {
            resource,
            holder,
            ttl,
            resumed: key.attempts > 0,
            open: key.attempts > 0,
            key,
            first_sent: None,
        }
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
        self.first_sent = None;
        self.resumed = false;
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
