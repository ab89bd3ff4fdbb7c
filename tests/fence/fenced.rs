//! What the handling over all stores makes of stores that behave oddly.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use fencepost::{
    fence::{
        EqualTokens, Foreign, Mark,
        fenced::{
            Applied, ApplyError, CompareAndSwap, ConditionalStore, FencedResource, Put, SwapError,
            Update, Versioned, VersionedStore,
        },
    },
    resource::ResourceName,
};

use crate::scene::{issuer, resource, rules, sequencer, token};

fn mark(by: &str, value: u64) -> Mark {
    Mark {
        issuer: issuer(by),
        token: token(value),
    }
}

/// Updates nothing, and shows this mark.
struct Unwilling(Option<Mark>);

impl ConditionalStore for Unwilling {
    type Mutation = ();
    type Error = Infallible;

    async fn conditional_update(&self, _: &Update<'_, ()>) -> Result<bool, Infallible> {
        Ok(false)
    }

    async fn read_token(&self, _: &ResourceName) -> Result<Option<Mark>, Infallible> {
        Ok(self.0.clone())
    }
}

#[tokio::test]
async fn an_unexplained_refusal_is_an_error_and_never_accepted() {
    let account = resource("account/1");
    for (found, named) in [
        (None, "none"),
        (Some(mark("bank", 5)), "token 5 of issuer \"bank\""),
        (Some(mark("bank", 4)), "token 4"),
    ] {
        let fenced = FencedResource::new(Unwilling(found), rules());
        let failed = fenced
            .apply(&account, &(), &sequencer(5))
            .await
            .unwrap_err();
        assert!(matches!(failed, ApplyError::Unexplained { .. }));
        let said = failed.to_string();
        assert!(
            said.contains(named) && said.contains("bank:account/1:5"),
            "{said}"
        );
    }
    // While a mark that explains it is an answer.
    let once = rules().equal_tokens(EqualTokens::Once);
    let fenced = FencedResource::new(Unwilling(Some(mark("bank", 5))), once);
    let stale = Applied::Stale {
        presented: token(5),
        required: token(6),
    };
    assert_eq!(
        fenced.apply(&account, &(), &sequencer(5)).await.unwrap(),
        stale
    );
    let fenced = FencedResource::new(Unwilling(Some(mark("casino", 1))), rules());
    let foreign = fenced.apply(&account, &(), &sequencer(5)).await.unwrap();
    assert!(matches!(foreign, Applied::Foreign(Foreign::Issuer { .. })));
    assert!(
        foreign
            .accepted()
            .unwrap_err()
            .to_string()
            .starts_with("foreign fencing token")
    );
}

/// A store with compare-and-swap in which others write before each of our writes: these marks.
#[derive(Default)]
struct Crowded {
    others: Mutex<VecDeque<u64>>,
    now: Mutex<Option<(u64, Mark)>>,
    reads: AtomicU32,
}

impl VersionedStore for Crowded {
    type Mutation = ();
    type Version = u64;
    type Error = Infallible;

    async fn read(&self, _: &ResourceName) -> Result<Option<Versioned<u64>>, Infallible> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let now = self.now.lock().unwrap().clone();
        Ok(now.map(|(version, mark)| Versioned {
            mark: Some(mark),
            version,
        }))
    }

    async fn put_if_version(&self, put: &Put<'_, (), u64>) -> Result<bool, Infallible> {
        let mut now = self.now.lock().unwrap();
        let version = now.as_ref().map_or(0, |(version, _)| version + 1);
        if let Some(other) = self.others.lock().unwrap().pop_front() {
            *now = Some((version, mark("bank", other)));
        }
        if now.as_ref().map(|(version, _)| version) != put.expected {
            return Ok(false);
        }
        *now = Some((version + 1, put.mark.clone()));
        Ok(true)
    }
}

fn crowded(others: impl IntoIterator<Item = u64>) -> Crowded {
    Crowded {
        others: Mutex::new(others.into_iter().collect()),
        ..Crowded::default()
    }
}

#[tokio::test]
async fn compare_and_swap_reads_anew_whenever_somebody_came_in_between() {
    let account = resource("account/1");
    let fenced = FencedResource::new(CompareAndSwap::new(crowded([3, 4, 5])), rules());
    let applied = fenced.apply(&account, &(), &sequencer(5)).await.unwrap();
    assert_eq!(applied, Applied::Accepted);
    assert_eq!(fenced.store().store().reads.load(Ordering::Relaxed), 4);
    // And is refused as soon as one of those was newer.
    let fenced = FencedResource::new(CompareAndSwap::new(crowded([3, 9, 4])), rules());
    let applied = fenced.apply(&account, &(), &sequencer(5)).await.unwrap();
    let stale = Applied::Stale {
        presented: token(5),
        required: token(9),
    };
    assert_eq!(applied, stale);
}

#[tokio::test]
async fn compare_and_swap_gives_up_after_so_many_attempts() {
    let swap = CompareAndSwap::new(crowded([1; 100])).attempts_max(3);
    let fenced = FencedResource::new(swap, rules());
    let account = resource("account/1");
    let failed = fenced
        .apply(&account, &(), &sequencer(5))
        .await
        .unwrap_err();
    let ApplyError::Store(SwapError::Contended { attempts: 3, .. }) = failed else {
        panic!("{failed}");
    };
    let mark = fenced.token(&account).await.unwrap().unwrap();
    assert_eq!(mark.token, token(1), "it wrote nothing of its own");
}
