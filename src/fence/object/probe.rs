//! Trying out whether a store keeps to the conditions of a put.

use object_store::{Error, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion, path::Path};

use super::{ObjectError, Objects, location::version};

/// The object to try it on. It stays, so that any number of processes may try at the same time: none
/// relies on having it for itself.
const PROBE: &str = ".fencepost/probe";
const BODY: &str = "fencepost tries conditional puts on this object\n";
/// A version that no object has: no store's `ETag`, and no generation of an object of today.
const NO_ETAG: &str = "\"fencepost-has-no-such-version\"";
const NO_VERSION: &str = "1";

const LACKS: &str = "it has no conditional put, so that check and write cannot be one step (a local \
                     directory: GuardedObjects::local; S3: not with S3ConditionalPut::Disabled)";
const IGNORES_CREATE: &str = "it overwrites an object that is there although it was told to make a \
                              new one only (If-None-Match), so that two first writers would both win";
const IGNORES_VERSION: &str = "it overwrites an object that has changed although it was told not to \
                               (If-Match), so that a stale writer would win";
const NEVER: &str = "it refuses to overwrite an unchanged object, again and again";

/// Tries to overwrite the object while it changes under us at most this often: by others who try.
const ATTEMPTS_MAX: u32 = 16;

/// Refuses a store that lacks conditional puts, or that ignores their conditions.
pub(super) async fn conditional_puts(objects: &Objects) -> Result<(), ObjectError> {
    let probe = Probe {
        objects,
        location: objects.named(PROBE)?,
    };
    // Whether it is there or not, afterwards it is.
    probe.put(PutMode::Create).await?;
    if probe.put(PutMode::Create).await? {
        return Err(probe.unfit(IGNORES_CREATE));
    }
    let nothing = UpdateVersion {
        e_tag: Some(NO_ETAG.to_owned()),
        version: Some(NO_VERSION.to_owned()),
    };
    if probe.put(PutMode::Update(nothing)).await? {
        return Err(probe.unfit(IGNORES_VERSION));
    }
    for _ in 0..ATTEMPTS_MAX {
        let meta = objects.store.head(&probe.location).await?;
        if probe.put(PutMode::Update(version(&meta))).await? {
            return Ok(());
        }
    }
    Err(probe.unfit(NEVER))
}

struct Probe<'a> {
    objects: &'a Objects,
    location: Path,
}

impl Probe<'_> {
    /// Whether the store wrote.
    async fn put(&self, mode: PutMode) -> Result<bool, ObjectError> {
        let (store, options) = (&self.objects.store, PutOptions::from(mode));
        match store.put_opts(&self.location, BODY.into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(false),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                Err(self.unfit(LACKS))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn unfit(&self, reason: &'static str) -> ObjectError {
        ObjectError::Unfit {
            store: self.objects.store.to_string(),
            reason,
        }
    }
}
