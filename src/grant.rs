//! The grant: one giving of a resource to a holder, and the words around it.

use std::fmt;
use std::time::Duration;

pub use crate::id::{ClusterId, ClusterIdError};
use crate::limits::{
    REQUEST_ID_BYTES_MAX, TTL_MS_DEFAULT, TTL_MS_MAX, TTL_MS_MIN, UNCLAIMED_LEASE_MS,
};
use crate::resource::{Holder, ResourceName};
use crate::token::Token;

/// How long a lease lives without a renewal: 100 ms to 24 h, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// Takes a number of milliseconds; nothing is clamped.
    pub const fn from_ms(ms: u64) -> Result<Self, TtlError> {
        if ms < TTL_MS_MIN || ms > TTL_MS_MAX {
            return Err(TtlError { ms });
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "TTL_MS_MAX fits, asserted in limits"
        )]
        Ok(Self(ms as u32))
    }

    /// The number of milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0 as u64
    }

    /// The same as a duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.as_ms())
    }
}

impl Ttl {
    /// The lease that a grant with this TTL starts with when it is handed to a waiter: 2 s, or the
    /// TTL if that is shorter. The first renewal claims it and makes it the TTL.
    #[must_use]
    pub const fn unclaimed(self) -> Self {
        if self.as_ms() <= UNCLAIMED_LEASE_MS {
            return self;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "less than a TTL, asserted in limits"
        )]
        Self(UNCLAIMED_LEASE_MS as u32)
    }
}

impl Default for Ttl {
    /// 30 seconds.
    fn default() -> Self {
        Self::from_ms(TTL_MS_DEFAULT).expect("the default lies within the limits, asserted there")
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = TtlError;

    /// Takes the whole milliseconds of a duration; one beyond 64 bits of them is too long.
    fn try_from(duration: Duration) -> Result<Self, Self::Error> {
        Self::from_ms(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// A TTL outside its limits. Nanoseconds given for milliseconds end here too (etcd#9374).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "ttl of {ms} ms is out of range: it must lie between {TTL_MS_MIN} ms and {TTL_MS_MAX} ms (24 h)"
)]
pub struct TtlError {
    /// The milliseconds as given.
    pub ms: u64,
}

/// What makes sends of one call the same call: 1 to 64 bytes that the client chose, random ones.
///
/// It is known together with the resource and the holder, so two holders cannot get into each
/// other's way by choosing the same bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Box<[u8]>);

impl RequestId {
    /// Takes 1 to 64 bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, RequestIdError> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > REQUEST_ID_BYTES_MAX {
            return Err(RequestIdError {
                length: bytes.len(),
            });
        }
        Ok(Self(bytes))
    }

    /// The bytes as the client chose them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 16]> for RequestId {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Display for RequestId {
    /// Lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A request id of a wrong length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "request_id has {length} bytes: it needs 1 to {REQUEST_ID_BYTES_MAX} bytes, 16 random ones for instance"
)]
pub struct RequestIdError {
    /// The length as given, in bytes.
    pub length: usize,
}

/// What the asker had seen before the *first* send of a request id: a cluster, and an index that it
/// had applied. It makes at-most-once exact, because an id can only have been forgotten if it could
/// have been applied, and it can only have been applied after this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AskedAt {
    /// The cluster that was asked.
    pub cluster: ClusterId,
    /// A log index that it had applied, taken from any of its answers.
    pub applied: u64,
}

/// A live grant as people see it in an inspection or a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// What is held.
    pub resource: ResourceName,
    /// Who holds it.
    pub holder: Holder,
    /// The token of this grant, and of no other.
    pub token: Token,
    /// How long the lease lives without a renewal.
    pub ttl: Ttl,
    /// Whether it was handed to a waiter: its first renewal claims it.
    pub after_wait: bool,
    /// How often it was renewed.
    pub renewals: u64,
    /// When it was granted, milliseconds since 1970 by the wall clock of the leader of that moment.
    /// For people: nothing is decided by it.
    pub granted_at_ms: u64,
    /// When it would end without another renewal, by the same kind of clock. For people.
    pub expires_at_ms: u64,
}

impl Grant {
    /// How long its lease lasts from its last start: the TTL, or less if it was handed to a waiter
    /// that has not claimed it yet.
    #[must_use]
    pub const fn lease(&self) -> Ttl {
        if self.after_wait && self.renewals == 0 {
            self.ttl.unclaimed()
        } else {
            self.ttl
        }
    }
}

/// How a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndedHow {
    /// Its holder gave it back.
    Released,
    /// Its lease ran out.
    Expired,
    /// An operator ended it.
    Revoked,
    /// The same holder was granted the resource anew, with a higher token.
    Superseded,
}

impl EndedHow {
    /// The word for logs, metrics and command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Superseded => "superseded",
        }
    }
}

impl fmt::Display for EndedHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a place in a queue ended without a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeftHow {
    /// Its caller gave up and said so.
    Withdrawn,
    /// Its wait ran out.
    WaitedOut,
    /// The same holder asked anew, and the new request took the place over.
    Superseded,
    /// Nobody vouched for its caller any more.
    Detached,
}

impl LeftHow {
    /// The word for logs, metrics and command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Withdrawn => "withdrawn",
            Self::WaitedOut => "waited_out",
            Self::Superseded => "superseded",
            Self::Detached => "detached",
        }
    }
}

impl fmt::Display for LeftHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_beyond_its_limits_is_refused_and_never_wraps() {
        for ms in [
            0,
            1,
            99,
            86_400_001,
            86_400_000_000_000,
            1 << 50,
            1 << 53,
            1 << 62,
            1 << 63,
            i64::MAX as u64,
            u64::MAX,
        ] {
            let error = Ttl::from_ms(ms).unwrap_err();
            assert_eq!(error, TtlError { ms });
            assert!(
                error.to_string().contains("between 100 ms and 86400000 ms"),
                "{error}"
            );
        }
        assert_eq!(Ttl::from_ms(100).unwrap().as_ms(), 100);
        assert_eq!(
            Ttl::from_ms(86_400_000).unwrap().as_duration(),
            Duration::from_secs(86_400)
        );
        assert_eq!(Ttl::default().as_ms(), 30_000);
        assert!(Ttl::try_from(Duration::MAX).is_err());
        assert!(Ttl::try_from(Duration::from_micros(99_999)).is_err());
    }

    #[test]
    fn a_request_id_has_one_to_sixty_four_bytes() {
        assert!(RequestId::new(vec![]).is_err());
        assert!(RequestId::new(vec![0; 64]).is_ok());
        assert_eq!(
            RequestId::new(vec![0; 65]),
            Err(RequestIdError { length: 65 })
        );
        assert_eq!(RequestId::new(vec![0xab, 1]).unwrap().to_string(), "ab01");
    }
}
