//! What was asked, in words: each request is judged here, once, before anything is done with it.
//!
//! Every refusal names the field as the proto spells it, and the limit that it broke.

use bytes::Bytes;

use crate::{
    grant::{AskedAt, RequestId, Ttl},
    issuer::{Renewal, RequestKey},
    limits::{
        LIST_PAGE_DEFAULT, LIST_PAGE_MAX, RENEWALS_PER_COMMAND_MAX, RESOURCE_NAME_CHARS_MAX,
        TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
    },
    resource::{Holder, IssuerName, NameError, Reason, ResourceName},
    token::TokenValue,
    wire::{failure::Failure, v1},
};

/// An acquire.
#[derive(Debug)]
pub(super) struct AcquireAsked {
    pub(super) resource: ResourceName,
    pub(super) holder: Holder,
    pub(super) ttl: Ttl,
    pub(super) request: RequestKey,
    pub(super) attempt: u32,
    pub(super) asked_at: Option<AskedAt>,
    pub(super) wait_ms: u32,
}

/// A withdrawal, which names the Acquire that it is about.
#[derive(Debug)]
pub(super) struct WithdrawAsked {
    pub(super) request: RequestKey,
    pub(super) attempt: u32,
}

/// A look at a resource, and at a place in its queue.
#[derive(Debug)]
pub(super) struct InspectAsked {
    pub(super) resource: ResourceName,
    pub(super) holder: Option<Holder>,
}

/// A grant as its holder names it: all three parts must belong together.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) resource: ResourceName,
    pub(super) holder: Holder,
    pub(super) token: TokenValue,
}

/// A renewal of one grant.
#[derive(Debug)]
pub(super) struct RenewAsked {
    pub(super) claim: Claim,
    pub(super) renewal: Renewal,
}

/// A page of a listing.
#[derive(Debug)]
pub(super) struct ListAsked {
    pub(super) prefix: String,
    pub(super) page_size: usize,
    pub(super) after: Option<ResourceName>,
}

/// A revocation.
#[derive(Debug)]
pub(super) struct RevokeAsked {
    pub(super) resource: ResourceName,
    pub(super) token: TokenValue,
    pub(super) reason: Option<Reason>,
}

pub(super) fn acquire(request: &v1::AcquireRequest) -> Result<AcquireAsked, Failure> {
    let resource = resource("", &request.resource)?;
    let holder = holder("", &request.holder)?;
    Ok(AcquireAsked {
        request: RequestKey::new(&request_id(&request.request_id)?, &resource, &holder),
        ttl: ttl("ttl_ms", request.ttl_ms)?,
        attempt: request.attempt.max(1),
        asked_at: request.asked_at.as_ref().map(asked_at).transpose()?,
        wait_ms: wait_ms(request.wait_ms)?,
        resource,
        holder,
    })
}

pub(super) fn withdraw(request: &v1::WithdrawRequest) -> Result<WithdrawAsked, Failure> {
    let resource = resource("", &request.resource)?;
    let holder = holder("", &request.holder)?;
    // What is forgotten has settled, and has no place: there is nothing that an old withdrawal could hit,
    // so nothing comes of this but the check.
    request.asked_at.as_ref().map(asked_at).transpose()?;
    Ok(WithdrawAsked {
        request: RequestKey::new(&request_id(&request.request_id)?, &resource, &holder),
        attempt: request.attempt.max(1),
    })
}

pub(super) fn renew(request: &v1::RenewRequest) -> Result<Vec<RenewAsked>, Failure> {
    let count = request.items.len();
    if !(1..=RENEWALS_PER_COMMAND_MAX).contains(&count) {
        let limit = format!("1 to {RENEWALS_PER_COMMAND_MAX} grants, not {count}");
        return Err(Failure::invalid("items", limit));
    }
    let items = request.items.iter().enumerate();
    items.map(|(n, item)| renewal(n, item)).collect()
}

fn renewal(n: usize, item: &v1::RenewItem) -> Result<RenewAsked, Failure> {
    let at = |field: &str| format!("items[{n}].{field}");
    let claim = claim(&at(""), &item.resource, &item.holder, item.token)?;
    let ttl = match item.ttl_ms {
        0 => None,
        ms => Some(ttl(&at("ttl_ms"), ms)?),
    };
    let token = claim.token;
    Ok(RenewAsked {
        claim,
        renewal: Renewal { token, ttl },
    })
}

pub(super) fn release(request: &v1::ReleaseRequest) -> Result<Claim, Failure> {
    claim("", &request.resource, &request.holder, request.token)
}

pub(super) fn inspect(request: &v1::InspectRequest) -> Result<InspectAsked, Failure> {
    Ok(InspectAsked {
        resource: resource("", &request.resource)?,
        holder: match request.holder.as_str() {
            "" => None,
            name => Some(holder("", name)?),
        },
    })
}

pub(super) fn list(request: &v1::ListRequest) -> Result<ListAsked, Failure> {
    let prefix = prefix(&request.prefix)?.to_owned();
    let page_size = match usize::try_from(request.page_size).unwrap_or(usize::MAX) {
        0 => LIST_PAGE_DEFAULT,
        size if size <= LIST_PAGE_MAX => size,
        size => {
            let limit = format!("1 to {LIST_PAGE_MAX}, or 0 for {LIST_PAGE_DEFAULT}, not {size}");
            return Err(Failure::invalid("page_size", limit));
        }
    };
    let after = match request.page_token.as_str() {
        "" => None,
        token => Some(page_token(token, &request.prefix)?),
    };
    Ok(ListAsked {
        prefix,
        page_size,
        after,
    })
}

/// What names begin with. It need not be a name itself: it may be empty, or end with a blank.
pub(super) fn prefix(text: &str) -> Result<&str, Failure> {
    if text.chars().nth(RESOURCE_NAME_CHARS_MAX).is_none() {
        return Ok(text);
    }
    let limit = format!("at most {RESOURCE_NAME_CHARS_MAX} Unicode scalars");
    Err(Failure::invalid("prefix", limit))
}

/// The name that the page before ended with, as [`ResourceName::percent_encoded`] spells it.
fn page_token(token: &str, prefix: &str) -> Result<ResourceName, Failure> {
    ResourceName::from_percent_encoded(token)
        .ok()
        .filter(|name| name.as_str().starts_with(prefix))
        .ok_or_else(|| {
            Failure::invalid(
                "page_token",
                "must be the next_page_token of the page before, with the same prefix",
            )
        })
}

pub(super) fn revoke(request: &v1::RevokeRequest) -> Result<RevokeAsked, Failure> {
    let reason = match request.reason.as_str() {
        "" => None,
        text => Some(Reason::new(text).map_err(|error| name("", &error))?),
    };
    Ok(RevokeAsked {
        resource: resource("", &request.resource)?,
        token: token("token", request.token)?,
        reason,
    })
}

/// The id of a node; 0 is none.
pub(super) fn node_id(id: u64) -> Result<u64, Failure> {
    match id {
        0 => Err(Failure::invalid("node_id", "must be at least 1")),
        id => Ok(id),
    }
}

fn claim(at: &str, resource_: &str, holder_: &str, token_: u64) -> Result<Claim, Failure> {
    Ok(Claim {
        resource: resource(at, resource_)?,
        holder: holder(at, holder_)?,
        token: token(&format!("{at}token"), token_)?,
    })
}

pub(super) fn resource(at: &str, text: &str) -> Result<ResourceName, Failure> {
    ResourceName::new(text).map_err(|error| name(at, &error))
}

/// Who issued a token.
pub(super) fn issuer(text: &str) -> Result<IssuerName, Failure> {
    IssuerName::new(text).map_err(|error| name("", &error))
}

fn holder(at: &str, text: &str) -> Result<Holder, Failure> {
    Holder::new(text).map_err(|error| name(at, &error))
}

pub(super) fn token(field: &str, value: u64) -> Result<TokenValue, Failure> {
    TokenValue::new(value).map_err(|error| wrong(field, "1 to 2^63 - 1", error))
}

fn request_id(bytes: &[u8]) -> Result<RequestId, Failure> {
    RequestId::new(bytes).map_err(|error| wrong("request_id", "1 to 64 bytes", error))
}

/// Zero does not wait.
fn wait_ms(ms: u64) -> Result<u32, Failure> {
    let fits = u32::try_from(ms).ok().filter(|_| ms <= WAIT_MS_MAX);
    fits.ok_or_else(|| Failure {
        message: format!(
            "wait_ms of {ms} is out of range: it must lie between 0 ms and {WAIT_MS_MAX} ms (24 h)"
        ),
        ..Failure::invalid("wait_ms", format!("0 to {WAIT_MS_MAX}"))
    })
}

fn ttl(field: &str, ms: u64) -> Result<Ttl, Failure> {
    Ttl::from_ms(ms).map_err(|error| wrong(field, &format!("{TTL_MS_MIN} to {TTL_MS_MAX}"), error))
}

fn asked_at(asked: &v1::AskedAt) -> Result<AskedAt, Failure> {
    let cluster = asked.cluster_id.parse();
    let cluster =
        cluster.map_err(|error| wrong("asked_at.cluster_id", "32 hexadecimal digits", error))?;
    Ok(AskedAt {
        cluster,
        applied: asked.applied_index,
    })
}

/// A name that breaks the rules of names; `at` is where its field stands in the request.
fn name(at: &str, error: &NameError) -> Failure {
    let (NameError::Empty { field, .. }
    | NameError::TooLong { field, .. }
    | NameError::Control { field, .. }
    | NameError::Blank { field }
    | NameError::Encoding { field }) = error;
    let limit = match error {
        NameError::Empty { limit, .. } => format!("at least 1 and at most {limit} Unicode scalars"),
        NameError::TooLong { limit, .. } => format!("at most {limit} Unicode scalars"),
        NameError::Control { .. } => "no control characters".to_owned(),
        NameError::Blank { .. } => "no blank at either end".to_owned(),
        NameError::Encoding { .. } => "UTF-8".to_owned(),
    };
    wrong(&format!("{at}{field}"), &limit, error)
}

/// The words' own sentence, with field and limit beside it for programs.
fn wrong(field: &str, limit: &str, error: impl std::fmt::Display) -> Failure {
    Failure {
        message: error.to_string(),
        ..Failure::invalid(field, limit)
    }
}

/// Makes request ids for callers that brought none. Such a call cannot be repeated by its caller, but
/// this node may pass it on more than once, and each copy must be the same request.
#[derive(Debug)]
pub(super) struct FreshIds {
    /// Random when the data directory was made, and how often that was started.
    life: [u8; 24],
    next: std::sync::atomic::AtomicU64,
}

impl FreshIds {
    pub(super) fn new(instance: [u8; 16], boot: u64) -> Self {
        let mut life = [0; 24];
        life[..16].copy_from_slice(&instance);
        life[16..].copy_from_slice(&boot.to_be_bytes());
        FreshIds {
            life,
            next: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Never the same twice, here or on another node.
    pub(super) fn next(&self) -> Bytes {
        let count = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut id = self.life.to_vec();
        id.extend_from_slice(&count.to_be_bytes());
        id.into()
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::failure::Reason as Why;

    use super::*;

    fn valid() -> v1::AcquireRequest {
        v1::AcquireRequest {
            resource: "resource".to_owned(),
            holder: "holder".to_owned(),
            ttl_ms: 30_000,
            request_id: Bytes::from_static(b"id"),
            ..v1::AcquireRequest::default()
        }
    }

    /// Field and limit of a refusal.
    fn refused<T: std::fmt::Debug>(result: Result<T, Failure>) -> (String, String) {
        let failure = result.unwrap_err();
        assert_eq!(failure.reason, Why::InvalidField);
        (failure.field.unwrap(), failure.limit.unwrap())
    }

    #[test]
    fn a_ttl_out_of_range_names_its_limits_and_never_wraps() {
        for ttl_ms in [
            0,
            1,
            99,
            86_400_001,
            86_400_000_000_000,
            1 << 53,
            1 << 63,
            u64::MAX,
        ] {
            let (field, limit) = refused(acquire(&v1::AcquireRequest { ttl_ms, ..valid() }));
            assert_eq!(
                (field.as_str(), limit.as_str()),
                ("ttl_ms", "100 to 86400000")
            );
        }
        for ttl_ms in [100, 86_400_000] {
            assert!(acquire(&v1::AcquireRequest { ttl_ms, ..valid() }).is_ok());
        }
    }

    #[test]
    fn odd_names_are_refused_by_field_and_limit() {
        for (odd, limit) in [
            (String::new(), "at least 1 and at most 160 Unicode scalars"),
            ("a".repeat(161), "at most 160 Unicode scalars"),
            ("a".repeat(1 << 20), "at most 160 Unicode scalars"),
            ("a\0b".to_owned(), "no control characters"),
            (" a".to_owned(), "no blank at either end"),
        ] {
            let found = refused(acquire(&v1::AcquireRequest {
                resource: odd,
                ..valid()
            }));
            assert_eq!((found.0.as_str(), found.1.as_str()), ("resource", limit));
        }
        let (field, _) = refused(acquire(&v1::AcquireRequest {
            holder: "h".repeat(81),
            ..valid()
        }));
        assert_eq!(field, "holder");
    }

    #[test]
    fn a_wait_out_of_range_names_its_limits_and_never_wraps() {
        for wait_ms in [86_400_001, 1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX] {
            let (field, limit) = refused(acquire(&v1::AcquireRequest { wait_ms, ..valid() }));
            assert_eq!(
                (field.as_str(), limit.as_str()),
                ("wait_ms", "0 to 86400000")
            );
        }
        for wait_ms in [0, 1, 86_400_000] {
            let asked = acquire(&v1::AcquireRequest { wait_ms, ..valid() });
            assert_eq!(u64::from(asked.unwrap().wait_ms), wait_ms);
        }
    }

    #[test]
    fn a_withdrawal_names_the_same_request_as_its_acquire() {
        let asked = withdraw(&v1::WithdrawRequest {
            resource: "resource".to_owned(),
            holder: "holder".to_owned(),
            request_id: Bytes::from_static(b"id"),
            ..v1::WithdrawRequest::default()
        });
        let asked = asked.unwrap();
        assert_eq!(asked.request, acquire(&valid()).unwrap().request);
        assert_eq!(asked.attempt, 1);
        let (field, _) = refused(withdraw(&v1::WithdrawRequest {
            resource: "resource".to_owned(),
            holder: "holder".to_owned(),
            ..v1::WithdrawRequest::default()
        }));
        assert_eq!(field, "request_id", "nobody else can have made it up");
    }

    #[test]
    fn a_request_id_has_one_to_sixty_four_bytes() {
        for length in [0, 65, 1 << 20] {
            let request_id = Bytes::from(vec![7; length]);
            let (field, _) = refused(acquire(&v1::AcquireRequest {
                request_id,
                ..valid()
            }));
            assert_eq!(field, "request_id");
        }
    }

    #[test]
    fn asked_at_names_a_cluster() {
        let asked_at = Some(v1::AskedAt {
            cluster_id: "nobody".to_owned(),
            applied_index: 1,
        });
        let (field, _) = refused(acquire(&v1::AcquireRequest {
            asked_at,
            ..valid()
        }));
        assert_eq!(field, "asked_at.cluster_id");
    }

    #[test]
    fn the_item_at_fault_is_named() {
        let good = v1::RenewItem {
            resource: "r".to_owned(),
            holder: "h".to_owned(),
            token: 1,
            ttl_ms: 0,
        };
        let with = |bad: v1::RenewItem| {
            renew(&v1::RenewRequest {
                items: vec![good.clone(), bad],
            })
        };
        assert_eq!(
            refused(with(v1::RenewItem {
                token: 0,
                ..good.clone()
            }))
            .0,
            "items[1].token"
        );
        assert_eq!(
            refused(with(v1::RenewItem {
                ttl_ms: 99,
                ..good.clone()
            }))
            .0,
            "items[1].ttl_ms"
        );
        let holder = String::new();
        assert_eq!(
            refused(with(v1::RenewItem {
                holder,
                ..good.clone()
            }))
            .0,
            "items[1].holder"
        );
        assert_eq!(
            refused(renew(&v1::RenewRequest { items: vec![] })).0,
            "items"
        );
        assert_eq!(
            refused(renew(&v1::RenewRequest {
                items: vec![good.clone(); 401]
            }))
            .0,
            "items"
        );
        assert_eq!(
            renew(&v1::RenewRequest {
                items: vec![good; 400]
            })
            .unwrap()
            .len(),
            400
        );
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_ended() {
        let request = |prefix: &str, page_size, page_token: &str| v1::ListRequest {
            prefix: prefix.to_owned(),
            page_size,
            page_token: page_token.to_owned(),
        };
        let asked = list(&request("jobs/", 0, "jobs%2F1")).unwrap();
        assert_eq!(asked.page_size, LIST_PAGE_DEFAULT);
        assert_eq!(asked.after.unwrap().as_str(), "jobs/1");
        assert_eq!(refused(list(&request("jobs/", 0, "other"))).0, "page_token");
        assert_eq!(refused(list(&request("", 0, "%00"))).0, "page_token");
        assert_eq!(refused(list(&request("", 1_001, ""))).0, "page_size");
        assert_eq!(refused(list(&request(&"é".repeat(161), 0, ""))).0, "prefix");
        assert!(list(&request(&"é".repeat(160), 1_000, "")).is_ok());
    }

    #[test]
    fn fresh_ids_are_never_the_same() {
        let (one, other) = (FreshIds::new([1; 16], 1), FreshIds::new([1; 16], 2));
        let ids = [one.next(), one.next(), other.next()];
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert!(RequestId::new(ids[0].to_vec()).is_ok());
    }
}
