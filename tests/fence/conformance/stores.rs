//! Our stores behind a [`FencedResource`], each held to the whole promise.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use fencepost::{
    fence::{
        EqualTokens, Mark,
        conformance::{
            Answer, Case, Contents, Fault, Handle, Place, Profile, Steps, Subject, Write,
        },
        fenced::{ConditionalStore, FencedResource, Update},
        file::FileStore,
        memory::{MemoryStore, TooManyResources},
        object::GuardedObjects,
        redis::RedisStore,
    },
    resource::ResourceName,
};
use object_store::memory::InMemory;
use redis::aio::MultiplexedConnection;

use crate::databases;

use super::ours::{BOTH, ONE_STEP, conforms, profile, rules};

/// What the kit needs of a store beside its conditional update.
pub(super) trait Valued: ConditionalStore<Mutation: Send> + Send + Sync + 'static {
    /// The change that puts a number there.
    fn mutation(value: u32) -> Box<Self::Mutation>;
    fn value(
        &self,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<Option<u32>, Fault>> + Send;
}

type Opening<S> = Pin<Box<dyn Future<Output = Result<S, Fault>> + Send>>;

/// A fresh place for a store: how it is opened, and its directory if it has one.
pub(super) struct StorePlace<S> {
    pub(super) open: Box<dyn Fn() -> Opening<S> + Send + Sync>,
    pub(super) directory: Option<tempfile::TempDir>,
    pub(super) equal: EqualTokens,
}

/// A kind of store.
pub(super) struct Stores<S> {
    pub(super) profile: Profile,
    pub(super) make: Box<dyn Fn() -> Result<StorePlace<S>, Fault> + Send + Sync>,
}

pub(super) struct StoreHandle<S>(FencedResource<S>);

impl<S: Valued> Subject for Stores<S> {
    type Place = StorePlace<S>;

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    async fn place(&self) -> Result<StorePlace<S>, Fault> {
        (self.make)()
    }
}

impl<S: Valued> Place for StorePlace<S> {
    type Handle = StoreHandle<S>;

    async fn open(&self) -> Result<StoreHandle<S>, Fault> {
        let store = (self.open)().await?;
        Ok(StoreHandle(FencedResource::new(store, rules(self.equal))))
    }

    /// As an administrator would: a copy of the directory.
    async fn back_up(&mut self) -> Result<(), Fault> {
        let (directory, backup) = self.paths()?;
        copy(&directory, &backup)
    }

    async fn restore(&mut self) -> Result<(), Fault> {
        let (directory, backup) = self.paths()?;
        std::fs::remove_dir_all(&directory)?;
        copy(&backup, &directory)
    }
}

impl<S> StorePlace<S> {
    fn paths(&self) -> Result<(PathBuf, PathBuf), Fault> {
        let directory = self.directory.as_ref().ok_or("there is no directory")?;
        Ok((data(directory), directory.path().join("backup")))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Fault> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status()?;
    copied
        .success()
        .then_some(())
        .ok_or(Fault::from("cp failed"))
}

fn data(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("data")
}

impl<S: Valued> Handle for StoreHandle<S> {
    async fn write(&mut self, write: &Write, _: &mut Steps) -> Result<Answer, Fault> {
        let Some(sequencer) = write.sequencer() else {
            return Ok(Answer::Invalid);
        };
        let mutation = S::mutation(write.value);
        let applied = self.0.apply(&write.resource, &mutation, &sequencer).await?;
        Ok(applied.into())
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let value = self.0.store().value(resource).await?;
        let mark = self.0.token(resource).await?;
        Ok(Contents {
            value,
            mark: mark.map(|mark| mark.token),
        })
    }
}

/// The store in memory, shared by all who open it.
struct Shared(Arc<MemoryStore<u32>>);

impl ConditionalStore for Shared {
    type Mutation = u32;
    type Error = TooManyResources;

    async fn conditional_update(&self, update: &Update<'_, u32>) -> Result<bool, TooManyResources> {
        self.0.conditional_update(update).await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, TooManyResources> {
        self.0.read_token(resource).await
    }
}

impl Valued for Shared {
    fn mutation(value: u32) -> Box<u32> {
        Box::new(value)
    }

    async fn value(&self, resource: &ResourceName) -> Result<Option<u32>, Fault> {
        Ok(self.0.read(resource).and_then(|(value, _)| value))
    }
}

impl Valued for FileStore {
    fn mutation(value: u32) -> Box<[u8]> {
        Box::new(value.to_be_bytes())
    }

    async fn value(&self, resource: &ResourceName) -> Result<Option<u32>, Fault> {
        let Some((bytes, _)) = self.read(resource).await? else {
            return Ok(None);
        };
        Ok(Some(u32::from_be_bytes(bytes.as_slice().try_into()?)))
    }
}

impl Valued for GuardedObjects {
    fn mutation(value: u32) -> Box<[u8]> {
        Box::new(value.to_be_bytes())
    }

    async fn value(&self, resource: &ResourceName) -> Result<Option<u32>, Fault> {
        let Some((bytes, _)) = self.read(resource).await? else {
            return Ok(None);
        };
        Ok(Some(u32::from_be_bytes(bytes.as_ref().try_into()?)))
    }
}

impl Valued for RedisStore<MultiplexedConnection> {
    fn mutation(value: u32) -> Box<[u8]> {
        Box::new(value.to_be_bytes())
    }

    async fn value(&self, resource: &ResourceName) -> Result<Option<u32>, Fault> {
        let Some((Some(bytes), _)) = self.read(resource).await? else {
            return Ok(None);
        };
        Ok(Some(u32::from_be_bytes(bytes.as_slice().try_into()?)))
    }
}

/// A store in memory keeps nothing.
const IN_MEMORY: [Case; 5] = [
    Case::MissingIssuer,
    Case::Restart,
    Case::InterleavedWrites,
    Case::CrashBetweenCheckAndWrite,
    Case::RestoredBackup,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_in_memory_conforms() {
    for equal in BOTH {
        let make = move || {
            let store = Arc::new(MemoryStore::new());
            let open = move || -> Opening<Shared> {
                let store = Shared(Arc::clone(&store));
                Box::pin(async move { Ok(store) })
            };
            Ok(StorePlace {
                open: Box::new(open),
                directory: None,
                equal,
            })
        };
        let subject = Stores {
            profile: profile("MemoryStore", equal).names_target_apart(),
            make: Box::new(make),
        };
        conforms(&subject, &IN_MEMORY).await;
    }
}

/// A store in a directory of its own that every handle opens anew.
fn in_directory<S: Valued>(
    name: &str,
    equal: EqualTokens,
    open: fn(PathBuf) -> Result<S, Fault>,
) -> Stores<S> {
    let make = move || {
        let directory = tempfile::tempdir()?;
        let data = data(&directory);
        std::fs::create_dir(&data)?;
        let open = move || -> Opening<S> {
            let opened = open(data.clone());
            Box::pin(async move { opened })
        };
        Ok(StorePlace {
            open: Box::new(open),
            directory: Some(directory),
            equal,
        })
    };
    Stores {
        profile: profile(name, equal)
            .names_target_apart()
            .durable()
            .backed_up(),
        make: Box::new(make),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_conform() {
    for equal in BOTH {
        let subject = in_directory("FileStore", equal, |data| Ok(FileStore::open(data)?));
        conforms(&subject, &ONE_STEP).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_a_directory_conform() {
    for equal in BOTH {
        let open = |data| Ok(GuardedObjects::local(data)?);
        let subject = in_directory("GuardedObjects, local", equal, open);
        conforms(&subject, &ONE_STEP).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_in_memory_conform() {
    for equal in BOTH {
        let make = move || {
            let objects = Arc::new(InMemory::new());
            let open = move || -> Opening<GuardedObjects> {
                let objects = Arc::clone(&objects);
                Box::pin(async move { Ok(GuardedObjects::open(objects, "fenced").await?) })
            };
            Ok(StorePlace {
                open: Box::new(open),
                directory: None,
                equal,
            })
        };
        let subject = Stores {
            profile: profile("GuardedObjects, in memory", equal).names_target_apart(),
            make: Box::new(make),
        };
        conforms(&subject, &IN_MEMORY).await;
    }
}

/// Not held to be durable: how much a Redis keeps is a matter of its settings, and never all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_in_redis_conform() {
    let Some(server) = databases::redis() else {
        return;
    };
    for equal in BOTH {
        let url = server.fresh("conformance").await;
        let places = AtomicU32::new(0);
        let make = move || {
            let prefix = format!("place-{}:", places.fetch_add(1, Ordering::Relaxed));
            let client = redis::Client::open(url.as_str())?;
            let open = move || -> Opening<RedisStore<MultiplexedConnection>> {
                let (client, prefix) = (client.clone(), prefix.clone());
                Box::pin(async move {
                    let connection = client.get_multiplexed_async_connection().await?;
                    Ok(RedisStore::open(connection, &prefix).await?)
                })
            };
            Ok(StorePlace {
                open: Box::new(open),
                directory: None,
                equal,
            })
        };
        let subject = Stores {
            profile: profile("RedisStore", equal).names_target_apart(),
            make: Box::new(make),
        };
        conforms(&subject, &IN_MEMORY).await;
    }
}
