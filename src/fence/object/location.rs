//! Where the object of a resource is, and what it says.

use std::sync::Arc;

use bytes::Bytes;
use object_store::{
    Error, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    UpdateVersion, path::Path,
};

use crate::resource::ResourceName;

use super::{Head, ObjectError, Objects};
use crate::fence::{
    Mark,
    frame::{Damage, LINE_BYTES_MAX, Line},
    naming::pieces,
};

/// The longest key that S3, GCS and Azure all take, in bytes.
const KEY_BYTES_MAX: usize = 1024;

impl Objects {
    pub(super) fn below(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, ObjectError> {
        let prefix = parsed(prefix)?;
        Ok(Self { store, prefix })
    }

    /// Prefix, percent-encoded name, `.value`.
    pub(super) fn location(&self, resource: &ResourceName) -> Result<Path, ObjectError> {
        self.named(&pieces(resource).join("/"))
    }

    /// A location below the prefix.
    pub(super) fn named(&self, name: &str) -> Result<Path, ObjectError> {
        let location = parsed(&format!("{}/{name}", self.prefix))?;
        if location.as_ref().len() > KEY_BYTES_MAX {
            return Err(odd(
                location.as_ref(),
                format!("it has more than {KEY_BYTES_MAX} bytes, percent-encoded"),
            ));
        }
        Ok(location)
    }

    /// The line and the version of an object, as of one moment, from its first bytes.
    pub(super) async fn head(&self, resource: &ResourceName) -> Result<Option<Head>, ObjectError> {
        let location = self.location(resource)?;
        let options = GetOptions {
            range: Some(GetRange::Bounded(0..LINE_BYTES_MAX as u64)),
            ..GetOptions::default()
        };
        let got = match self.store.get_opts(&location, options).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.explained(&location, error).await),
        };
        let (total, version) = (got.meta.size, version(&got.meta));
        let head = got.bytes().await?;
        let line = Line::read(&head, resource).and_then(|line| {
            line.fits(total)?;
            Ok(line)
        });
        Ok(Some((line.map_err(damaged(&location))?, version)))
    }

    /// Stores differ in how they refuse a range of an empty object. An empty object has no mark.
    async fn explained(&self, location: &Path, error: Error) -> ObjectError {
        match self.store.head(location).await {
            Ok(meta) if meta.size == 0 => damaged(location)(Damage::NoMark),
            _ => error.into(),
        }
    }

    /// The value of an object, its mark and its version, as of one moment.
    pub(super) async fn value(
        &self,
        resource: &ResourceName,
    ) -> Result<Option<(Bytes, Mark, UpdateVersion)>, ObjectError> {
        let location = self.location(resource)?;
        let got: GetResult = match self.store.get(&location).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let version = version(&got.meta);
        let mut bytes = got.bytes().await?;
        let line = Line::read(&bytes, resource).map_err(damaged(&location))?;
        let value = bytes.split_off(line.bytes);
        line.agrees(&value).map_err(damaged(&location))?;
        Ok(Some((value, line.mark(), version)))
    }
}

/// What a conditional put compares: stores use the one or the other of the two.
pub(super) fn version(meta: &ObjectMeta) -> UpdateVersion {
    UpdateVersion {
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    }
}

fn damaged(location: &Path) -> impl Fn(Damage) -> ObjectError {
    let location = location.to_string();
    move |damage| ObjectError::Damaged {
        location: location.clone(),
        damage,
    }
}

fn parsed(location: &str) -> Result<Path, ObjectError> {
    Path::parse(location).map_err(|error| odd(location, error.to_string()))
}

fn odd(location: &str, reason: String) -> ObjectError {
    ObjectError::Location {
        location: location.chars().take(80).collect(),
        reason,
    }
}
