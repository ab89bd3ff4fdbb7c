//! Values in object stores: stores that cannot do it, stores that only say so, and odd objects.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use fencepost::fence::{
    fenced::{Applied, ApplyError, FencedResource, SwapError},
    object::{GuardedObjects, ObjectError},
};
use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    local::LocalFileSystem, memory::InMemory, path::Path,
};

use crate::scene::{resource, rules, sequencer, sequencer_for};

async fn opened(store: Arc<dyn ObjectStore>) -> FencedResource<GuardedObjects> {
    let objects = GuardedObjects::open(store, "app").await.unwrap();
    FencedResource::new(objects, rules())
}

/// Behaves as a store that takes the headers of a condition and does not look at them.
#[derive(Debug)]
struct Heedless {
    inner: InMemory,
    /// Of creating, or else of updating.
    creating: bool,
}

impl std::fmt::Display for Heedless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heedless")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Heedless {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let ignored = match options.mode {
            PutMode::Create => self.creating,
            PutMode::Update(_) => !self.creating,
            PutMode::Overwrite => false,
        };
        if ignored {
            options.mode = PutMode::Overwrite;
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused() {
    for (creating, complaint) in [(true, "If-None-Match"), (false, "If-Match")] {
        let inner = InMemory::new();
        let store = Arc::new(Heedless { inner, creating });
        let refused = GuardedObjects::open(store, "app").await.unwrap_err();
        assert!(matches!(refused, ObjectError::Unfit { .. }), "{refused}");
        let said = refused.to_string();
        assert!(
            said.contains("Heedless") && said.contains(complaint),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_store_without_conditions_is_refused_and_told_the_other_way() {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalFileSystem::new_with_prefix(directory.path()).unwrap();
    let refused = GuardedObjects::open(Arc::new(store), "").await.unwrap_err();
    assert!(
        refused.to_string().contains("GuardedObjects::local"),
        "{refused}"
    );
}

#[tokio::test]
async fn odd_prefixes_and_names_are_refused_by_name_and_limit() {
    let store = || Arc::new(InMemory::new());
    let odd = GuardedObjects::open(store(), "a//b").await.unwrap_err();
    assert!(matches!(odd, ObjectError::Location { .. }), "{odd}");
    let fenced = opened(store()).await;
    let longest = "🦀".repeat(160);
    let sequencer = sequencer_for("bank", &longest, 1);
    let odd = fenced
        .apply(&sequencer.resource, b"x", &sequencer)
        .await
        .unwrap_err();
    assert!(odd.to_string().contains("more than 1024 bytes"), "{odd}");
}

#[tokio::test]
async fn an_object_without_a_mark_admits_nobody() {
    let store = Arc::new(InMemory::new());
    let fenced = opened(store.clone()).await;
    let account = resource("account/1");
    let location = Path::parse("app/account%2F1.value").unwrap();
    assert_eq!(
        fenced
            .apply(&account, b"five", &sequencer(5))
            .await
            .unwrap(),
        Applied::Accepted
    );
    let good = store.get(&location).await.unwrap().bytes().await.unwrap();
    for damaged in [&b""[..], b"plain", &good[..good.len() - 1], &good[1..]] {
        store.put(&location, damaged.to_vec().into()).await.unwrap();
        let failed = fenced
            .apply(&account, b"x", &sequencer(9))
            .await
            .unwrap_err();
        assert!(
            matches!(
                failed,
                ApplyError::Store(SwapError::Store(ObjectError::Damaged { .. }))
            ),
            "{failed}"
        );
        assert!(fenced.token(&account).await.is_err());
        assert!(fenced.store().read(&account).await.is_err());
    }
}

#[tokio::test]
async fn the_same_bytes_under_a_higher_token_are_another_object() {
    // What an ETag that is a hash of the bytes relies on.
    let store = Arc::new(InMemory::new());
    let fenced = opened(store.clone()).await;
    let account = resource("account/1");
    let location = Path::parse("app/account%2F1.value").unwrap();
    let mut bodies = Vec::new();
    for token in [5, 6] {
        let applied = fenced.apply(&account, b"same", &sequencer(token)).await;
        assert_eq!(applied.unwrap(), Applied::Accepted);
        bodies.push(store.get(&location).await.unwrap().bytes().await.unwrap());
    }
    assert_ne!(bodies[0], bodies[1]);
    assert!(bodies.iter().all(|body| body.ends_with(b"\nsame")));
}

#[tokio::test]
async fn a_caller_that_gives_up_on_a_local_write_keeps_its_turn_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let objects = GuardedObjects::local(directory.path()).unwrap();
    let fenced = FencedResource::new(objects, rules());
    let account = resource("account/1");
    for token in 1..60 {
        let older = sequencer(2 * token);
        let write = fenced.apply(&account, b"older", &older);
        // Dropped after its first steps, with the rest under way.
        tokio::select! {
            biased;
            _ = write => {}
            () = tokio::task::yield_now() => {}
        }
        let newer = sequencer(2 * token + 1);
        let applied = fenced.apply(&account, b"newer", &newer).await.unwrap();
        assert_eq!(applied, Applied::Accepted);
        let (value, mark) = fenced.store().read(&account).await.unwrap().unwrap();
        assert_eq!((&value[..], mark.token), (&b"newer"[..], newer.token));
    }
}
