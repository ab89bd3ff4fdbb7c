//! Stores that put on the condition that an object is unchanged.

use bytes::Bytes;
use object_store::{Error, PutMode, PutOptions, PutPayload, UpdateVersion};

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{ObjectError, Objects};
use crate::fence::{
    Mark,
    fenced::{Put, Versioned, VersionedStore},
    frame::line,
};

/// What becomes of a value.
#[derive(Debug, Clone)]
pub(super) enum New {
    /// It is replaced.
    Value(Bytes),
    /// It stays as it is, empty if there is none: only the mark rises.
    Same,
}

/// Objects as a store with compare-and-swap.
#[derive(Debug, Clone)]
pub(super) struct IfUnchanged {
    objects: Objects,
}

impl IfUnchanged {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects }
    }
}

impl VersionedStore for IfUnchanged {
    type Mutation = New;
    type Version = UpdateVersion;
    type Error = ObjectError;

    async fn read(
        &self,
        resource: &ResourceName,
    ) -> Result<Option<Versioned<UpdateVersion>>, ObjectError> {
        let head = self.objects.head(resource).await?;
        Ok(head.map(|(line, version)| Versioned {
            mark: Some(line.mark()),
            version,
        }))
    }

    async fn put_if_version(&self, put: &Put<'_, New, UpdateVersion>) -> Result<bool, ObjectError> {
        let location = self.objects.location(put.resource)?;
        let mode = match put.expected {
            Some(version) => PutMode::Update(version.clone()),
            None => PutMode::Create,
        };
        let value = match put.mutation {
            New::Value(value) => value.clone(),
            New::Same => match self.objects.value(put.resource).await? {
                // Not the one that was judged, be it the same mark: where each token passes once, that
                // is somebody else's.
                Some((_, _, version)) if Some(&version) != put.expected => return Ok(false),
                Some((_, mark, _)) if mark == *put.mark => return Ok(true),
                Some((value, ..)) => value,
                None => Bytes::new(),
            },
        };
        let payload = payload(put.resource, put.mark, value);
        let options = PutOptions::from(mode);
        match self
            .objects
            .store
            .put_opts(&location, payload, options)
            .await
        {
            Ok(_) => Ok(true),
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The mark's line and the value, as one body of two pieces.
pub(super) fn payload(resource: &ResourceName, mark: &Mark, value: Bytes) -> PutPayload {
    let sequencer = Sequencer {
        issuer: mark.issuer.clone(),
        resource: resource.clone(),
        token: mark.token,
    };
    let line = Bytes::from(line(&sequencer, &value));
    [line, value].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::{resource::IssuerName, token::TokenValue};

    /// Two callers have judged the same mark, and both mean to raise it to the same token: the second
    /// must judge anew, since it may be that each token passes once.
    #[tokio::test]
    async fn a_mark_that_another_raised_to_the_same_token_is_not_taken_for_ones_own() {
        let objects = Objects::below(Arc::new(InMemory::new()), "").unwrap();
        let store = IfUnchanged::new(objects);
        let resource = ResourceName::new("account/1").unwrap();
        let mut judged = None;
        for token in [5, 6] {
            let mark = Mark {
                issuer: IssuerName::new("bank").unwrap(),
                token: TokenValue::new(token).unwrap(),
            };
            let put = Put {
                resource: &resource,
                mutation: &New::Same,
                mark: &mark,
                expected: judged.as_ref(),
            };
            assert!(store.put_if_version(&put).await.unwrap());
            assert!(!store.put_if_version(&put).await.unwrap());
            judged = store.read(&resource).await.unwrap().map(|it| it.version);
        }
    }
}
