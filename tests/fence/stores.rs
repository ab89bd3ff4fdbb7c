//! Every store of values with the same stories: memory, files, objects, Redis.

use std::{sync::Arc, time::Duration};

use fencepost::{
    fence::{
        EqualTokens, Foreign, Guard as _, Rules,
        fenced::{Applied, FencedResource, MarkStore, Update},
        file::FileStore,
        memory::MemoryStore,
        object::GuardedObjects,
        redis::RedisStore,
    },
    resource::ResourceName,
    sequencer::Sequencer,
};
use object_store::memory::InMemory;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::aio::MultiplexedConnection;
use tokio::sync::Barrier;

use crate::{
    databases,
    scene::{issuer, resource, rules, sequencer, sequencer_for, token},
};

/// A store whose values are bytes and can be read back with their token.
pub(crate) trait Readable: MarkStore<Mutation: Send> + Send + Sync + 'static {
    /// The mutation that makes this the value.
    fn mutation(value: &str) -> Box<Self::Mutation>;

    async fn value(&self, resource: &ResourceName) -> Option<(String, u64)>;
}

fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

impl Readable for MemoryStore<Vec<u8>> {
    fn mutation(value: &str) -> Box<Vec<u8>> {
        Box::new(value.as_bytes().to_vec())
    }

    async fn value(&self, resource: &ResourceName) -> Option<(String, u64)> {
        let (value, mark) = self.read(resource)?;
        Some((text(&value.unwrap_or_default()), mark.token.get()))
    }
}

impl Readable for FileStore {
    fn mutation(value: &str) -> Box<[u8]> {
        value.as_bytes().into()
    }

    async fn value(&self, resource: &ResourceName) -> Option<(String, u64)> {
        let (value, mark) = self.read(resource).await.unwrap()?;
        Some((text(&value), mark.token.get()))
    }
}

impl Readable for GuardedObjects {
    fn mutation(value: &str) -> Box<[u8]> {
        value.as_bytes().into()
    }

    async fn value(&self, resource: &ResourceName) -> Option<(String, u64)> {
        let (value, mark) = self.read(resource).await.unwrap()?;
        Some((text(&value), mark.token.get()))
    }
}

impl Readable for RedisStore<MultiplexedConnection> {
    fn mutation(value: &str) -> Box<[u8]> {
        value.as_bytes().into()
    }

    async fn value(&self, resource: &ResourceName) -> Option<(String, u64)> {
        let (value, mark) = self.read(resource).await.unwrap()?;
        Some((text(&value.unwrap_or_default()), mark.token.get()))
    }
}

/// A store, and others that share its values by a way of their own, as other processes would.
pub(crate) struct Shared<S> {
    pub(crate) stores: Vec<Arc<S>>,
    /// What must outlive them.
    _kept: Option<tempfile::TempDir>,
}

impl<S> Shared<S> {
    pub(crate) fn one(&self) -> &S {
        &self.stores[0]
    }

    fn first(&self) -> Arc<S> {
        Arc::clone(&self.stores[0])
    }
}

const SHARERS: usize = 4;

pub(crate) fn memory() -> Shared<MemoryStore<Vec<u8>>> {
    let store = Arc::new(MemoryStore::new());
    Shared {
        stores: vec![store; SHARERS],
        _kept: None,
    }
}

pub(crate) fn files() -> Shared<FileStore> {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(FileStore::open(directory.path().join("values")).unwrap());
    Shared {
        stores: (0..SHARERS).map(|_| open()).collect(),
        _kept: Some(directory),
    }
}

pub(crate) async fn objects() -> Shared<GuardedObjects> {
    let store = Arc::new(InMemory::new());
    let mut stores = Vec::new();
    for _ in 0..SHARERS {
        let opened = GuardedObjects::open(store.clone(), "app/values").await;
        stores.push(Arc::new(opened.unwrap()));
    }
    Shared {
        stores,
        _kept: None,
    }
}

pub(crate) fn local_objects() -> Shared<GuardedObjects> {
    let directory = tempfile::tempdir().unwrap();
    let open = || Arc::new(GuardedObjects::local(directory.path().join("values")).unwrap());
    Shared {
        stores: (0..SHARERS).map(|_| open()).collect(),
        _kept: Some(directory),
    }
}

/// Waits longer than the crate's half a second: these tests share two cores with others.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let config = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(60)))
        .set_response_timeout(Some(Duration::from_secs(60)));
    let client = redis::Client::open(url).unwrap();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

pub(crate) async fn in_redis() -> Option<Shared<RedisStore<MultiplexedConnection>>> {
    let url = databases::redis()?.fresh("stores").await;
    let mut stores = Vec::new();
    for _ in 0..SHARERS {
        let opened = RedisStore::open(connect(&url).await, "app:").await;
        stores.push(Arc::new(opened.unwrap()));
    }
    Some(Shared {
        stores,
        _kept: None,
    })
}

/// Runs one story on every store.
macro_rules! on_every_store {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_memory() {
                super::$story(super::memory()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_files() {
                super::$story(super::files()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_objects() {
                super::$story(super::objects().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_local_objects() {
                super::$story(super::local_objects()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_redis() {
                if let Some(shared) = super::in_redis().await {
                    super::$story(shared).await;
                }
            }
        }
    )+};
}

on_every_store! {
    a_stale_write_changes_nothing,
    equal_tokens_write_again_or_once_by_policy,
    tokens_are_compared_exactly_to_the_last,
    foreign_sequencers_are_never_compared,
    the_mark_rises_alone_and_leaves_the_value,
    a_bare_refusal_of_the_store_writes_nothing,
    odd_names_stay_apart,
    racing_writers_leave_the_value_of_the_highest_token,
    each_token_is_accepted_once_however_many_race,
    every_store_does_what_the_model_does,
}

fn stale(presented: u64, required: u64) -> Applied {
    Applied::Stale {
        presented: token(presented),
        required: token(required),
    }
}

async fn put<S: Readable>(
    fenced: &FencedResource<Arc<S>>,
    value: &str,
    sequencer: &Sequencer,
) -> Applied {
    let mutation = S::mutation(value);
    let applied = fenced.apply(&sequencer.resource, &mutation, sequencer);
    applied.await.unwrap()
}

/// Every sharer presents its tokens, all at the same time; what each was accepted with.
async fn race<S: Readable>(
    shared: &Shared<S>,
    rules: Rules,
    tokens: [Vec<u64>; SHARERS],
) -> [Vec<u64>; SHARERS] {
    let start = Arc::new(Barrier::new(SHARERS));
    let begin = |(store, tokens): (&Arc<S>, Vec<u64>)| {
        let fenced = FencedResource::new(Arc::clone(store), rules.clone());
        let start = Arc::clone(&start);
        tokio::spawn(async move {
            start.wait().await;
            let mut accepted = Vec::new();
            for value in tokens {
                if put(&fenced, &value.to_string(), &sequencer(value)).await == Applied::Accepted {
                    accepted.push(value);
                }
            }
            accepted
        })
    };
    let writers: Vec<_> = shared.stores.iter().zip(tokens).map(begin).collect();
    let mut accepted = Vec::new();
    for writer in writers {
        accepted.push(writer.await.unwrap());
    }
    accepted.try_into().unwrap()
}

fn once() -> Rules {
    rules().equal_tokens(EqualTokens::Once)
}

async fn a_stale_write_changes_nothing<S: Readable>(shared: Shared<S>) {
    let fenced = FencedResource::new(shared.first(), rules());
    let account = sequencer(1).resource;
    assert_eq!(fenced.token(&account).await.unwrap(), None);
    assert_eq!(shared.one().value(&account).await, None);
    assert_eq!(put(&fenced, "five", &sequencer(5)).await, Applied::Accepted);
    assert_eq!(put(&fenced, "four", &sequencer(4)).await, stale(4, 5));
    assert_eq!(shared.one().value(&account).await, Some(("five".into(), 5)));
    assert_eq!(put(&fenced, "six", &sequencer(6)).await, Applied::Accepted);
    assert_eq!(put(&fenced, "five", &sequencer(5)).await, stale(5, 6));
    // And whoever shares the store sees the same.
    let other = FencedResource::new(Arc::clone(&shared.stores[1]), rules());
    assert_eq!(put(&other, "five", &sequencer(5)).await, stale(5, 6));
    assert_eq!(
        shared.stores[1].value(&account).await,
        Some(("six".into(), 6))
    );
}

async fn equal_tokens_write_again_or_once_by_policy<S: Readable>(shared: Shared<S>) {
    let again = FencedResource::new(shared.first(), rules());
    assert_eq!(put(&again, "a", &sequencer(5)).await, Applied::Accepted);
    assert_eq!(put(&again, "b", &sequencer(5)).await, Applied::Accepted);
    let once = FencedResource::new(shared.first(), once());
    assert_eq!(put(&once, "c", &sequencer(5)).await, stale(5, 6));
    assert_eq!(put(&once, "d", &sequencer(6)).await, Applied::Accepted);
    assert_eq!(put(&once, "e", &sequencer(6)).await, stale(6, 7));
    let value = shared.one().value(&sequencer(1).resource).await;
    assert_eq!(value, Some(("d".into(), 6)));
}

async fn tokens_are_compared_exactly_to_the_last<S: Readable>(shared: Shared<S>) {
    let fenced = FencedResource::new(shared.first(), once());
    let rising = [
        9,
        10,
        99,
        100,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        (1 << 53) + 2,
        999_999_999_999_999_999,
        1_000_000_000_000_000_000,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
    ];
    for (at, value) in rising.into_iter().enumerate() {
        let written = put(&fenced, &value.to_string(), &sequencer(value)).await;
        assert_eq!(written, Applied::Accepted, "{value}");
        for lower in &rising[..at] {
            let refused = put(&fenced, "late", &sequencer(*lower)).await;
            assert_eq!(
                refused,
                stale(*lower, value + u64::from(at < 11)),
                "{lower}"
            );
        }
    }
}

async fn foreign_sequencers_are_never_compared<S: Readable>(shared: Shared<S>) {
    let fenced = FencedResource::new(shared.first(), rules());
    let account = sequencer(1).resource;
    let casino = sequencer_for("casino", "account/1", 900);
    let refused = put(&fenced, "x", &casino).await;
    assert!(matches!(refused, Applied::Foreign(Foreign::Issuer { .. })));
    let other = sequencer_for("bank", "account/2", 900);
    let value = S::mutation("x");
    let refused = fenced.apply(&account, &value, &other).await.unwrap();
    assert!(matches!(
        refused,
        Applied::Foreign(Foreign::Resource { .. })
    ));
    assert_eq!(fenced.token(&account).await.unwrap(), None);
    // A guard that was not told its issuer holds the resource to the first one.
    let open = FencedResource::new(shared.first(), Rules::default());
    assert_eq!(put(&open, "x", &casino).await, Applied::Accepted);
    let refused = put(&open, "y", &sequencer(901)).await;
    let expected = Foreign::Issuer {
        presented: issuer("bank"),
        expected: issuer("casino"),
    };
    assert_eq!(refused, Applied::Foreign(expected));
    assert_eq!(shared.one().value(&account).await, Some(("x".into(), 900)));
}

async fn the_mark_rises_alone_and_leaves_the_value<S: Readable>(shared: Shared<S>) {
    let fenced = FencedResource::new(shared.first(), rules());
    let account = sequencer(1).resource;
    let raised = fenced.raise(&account, &sequencer(3)).await.unwrap();
    assert_eq!(raised, Applied::Accepted);
    assert_eq!(shared.one().value(&account).await, Some((String::new(), 3)));
    assert_eq!(put(&fenced, "five", &sequencer(5)).await, Applied::Accepted);
    let verdict = fenced.admit(&sequencer(5)).await.unwrap();
    assert_eq!(Applied::from(verdict), Applied::Accepted);
    let verdict = fenced.admit(&sequencer(7)).await.unwrap();
    assert_eq!(Applied::from(verdict), Applied::Accepted);
    assert_eq!(shared.one().value(&account).await, Some(("five".into(), 7)));
    let verdict = fenced.admit(&sequencer(6)).await.unwrap();
    assert_eq!(Applied::from(verdict), stale(6, 7));
    let mark = fenced.high_water(&account).await.unwrap().unwrap();
    assert_eq!((mark.issuer, mark.token), (issuer("bank"), token(7)));
}

async fn a_bare_refusal_of_the_store_writes_nothing<S: Readable>(shared: Shared<S>) {
    let store = shared.one();
    let value = S::mutation("five");
    let update = |sequencer, equal| {
        let (store, value) = (store, &value);
        async move {
            let update = Update {
                resource: &resource("account/1"),
                sequencer: &sequencer,
                mutation: &**value,
                equal,
            };
            store.conditional_update(&update).await.unwrap()
        }
    };
    let (again, once) = (EqualTokens::MayWriteAgain, EqualTokens::Once);
    assert!(update(sequencer(5), once).await);
    assert!(!update(sequencer(5), once).await);
    assert!(update(sequencer(5), again).await);
    assert!(!update(sequencer(4), again).await);
    assert!(!update(sequencer_for("casino", "account/1", 9), again).await);
}

async fn odd_names_stay_apart<S: Readable>(shared: Shared<S>) {
    let fenced = FencedResource::new(shared.first(), rules());
    let long = |last| format!("{}{last}", "x".repeat(159));
    let names = [
        "..".into(),
        "a/../b".into(),
        "b".into(),
        "a{b}c".into(),
        "a%7Bb%7Dc".into(),
        "Ünïcode 🦀".into(),
        long('1'),
        long('2'),
        "é".repeat(100),
        "é".repeat(101),
    ];
    for (at, name) in (10..).zip(&names) {
        let written = put(&fenced, name, &sequencer_for("bank", name, at)).await;
        assert_eq!(written, Applied::Accepted, "{name}");
    }
    for (at, name) in (10..).zip(&names) {
        let value = shared.one().value(&resource(name)).await;
        assert_eq!(value, Some((name.clone(), at)), "{name}");
    }
}

/// All sharers write at once, and no order of theirs leaves an older holder's value.
async fn racing_writers_leave_the_value_of_the_highest_token<S: Readable>(shared: Shared<S>) {
    let account = sequencer(1).resource;
    for round in 0..8_u64 {
        let tokens = [0_u64, 1, 2, 3].map(|sharer| {
            let of = |n: u64| round * 100 + 1 + (n * 7 + sharer * 5) % 24;
            (0..6).map(of).collect::<Vec<u64>>()
        });
        let highest = *tokens.iter().flatten().max().unwrap();
        let accepted = race(&shared, rules(), tokens).await;
        // One writer's own accepted tokens rise: the mark was at the one when it presented the next.
        for rising in &accepted {
            assert!(rising.is_sorted(), "{rising:?}");
        }
        let value = shared.one().value(&account).await.unwrap();
        assert_eq!(value, (highest.to_string(), highest), "round {round}");
        assert!(accepted.concat().contains(&highest));
    }
}

async fn each_token_is_accepted_once_however_many_race<S: Readable>(shared: Shared<S>) {
    let tokens = [(); SHARERS].map(|()| (1..=25).collect());
    let mut all = race(&shared, once(), tokens).await.concat();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "a token was accepted twice");
    assert_eq!(all.last(), Some(&25));
}

/// A number and a text, as a map would keep them.
async fn every_store_does_what_the_model_does<S: Readable>(shared: Shared<S>) {
    let mut rng = StdRng::seed_from_u64(4);
    let names = ["account/1", "account/2"];
    let mut model = [(0, String::new()), (0, String::new())];
    for step in 0..300 {
        let of = rng.random_range(0..2);
        let presented = (1 << 53) - 4 + rng.random_range(0..12);
        let single = rng.random_ratio(1, 2);
        let rules = if single { once() } else { rules() };
        let fenced = FencedResource::new(Arc::clone(&shared.stores[step % SHARERS]), rules);
        let sequencer = sequencer_for("bank", names[of], presented);
        let only_raise = rng.random_ratio(1, 4);
        let applied = if only_raise {
            fenced.raise(&sequencer.resource, &sequencer).await.unwrap()
        } else {
            put(&fenced, &step.to_string(), &sequencer).await
        };
        let (mark, value) = &mut model[of];
        let lowest = *mark + u64::from(single && *mark > 0);
        if presented < lowest {
            assert_eq!(applied, stale(presented, lowest), "step {step}");
        } else {
            assert_eq!(applied, Applied::Accepted, "step {step}");
            *mark = presented;
            if !only_raise {
                *value = step.to_string();
            }
        }
        let found = shared.one().value(&sequencer.resource).await;
        assert_eq!(found, Some((value.clone(), *mark)), "step {step}");
    }
}
