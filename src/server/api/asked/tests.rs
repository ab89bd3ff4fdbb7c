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
fn waiting_is_not_offered_yet() {
    for wait_ms in [1, u64::MAX] {
        assert_eq!(
            refused(acquire(&v1::AcquireRequest { wait_ms, ..valid() })).0,
            "wait_ms"
        );
    }
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
