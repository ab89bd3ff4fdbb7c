//! Waiting until a resource is free, without asking for it.

use super::{Change, Moment, Watching};
use crate::client::Client;
use crate::client::error::{Error, ErrorKind};
use crate::client::method::Inspect;
use crate::resource::ResourceName;
use crate::wire::v1;

impl Client {
    /// Returns when `resource` is free: nobody holds it and nobody waits for it. By the time it returns
    /// somebody may have taken it again; to have it, acquire it with a wait.
    ///
    /// Once the cluster has answered, this waits through any outage, for ever; put a timeout around it.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be asked in the first place, or its answers cannot be used.
    pub async fn until_free(&self, resource: &ResourceName) -> Result<(), Error> {
        loop {
            // The watch comes first: what happens after the look is then told.
            let mut watch = self.watch(Watching::resource(resource));
            let mut look = true;
            while let Some(told) = watch.next().await {
                let begun = watch.cursor().is_some();
                match told {
                    Ok(moment) => look |= may_be_free(&moment),
                    Err(error) if begun && error.may_retry() => continue,
                    // It begins anew, with a look.
                    Err(error) if matches!(error.kind(), ErrorKind::HistoryLost { .. }) => break,
                    Err(error) => return Err(error),
                }
                while std::mem::take(&mut look) {
                    match self.is_free(resource).await {
                        Ok(true) => return Ok(()),
                        Ok(false) => {}
                        Err(error) if error.may_retry() => look = true,
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    async fn is_free(&self, resource: &ResourceName) -> Result<bool, Error> {
        let mut trial = self.shared.trial::<Inspect>();
        let request = |_| v1::InspectRequest {
            resource: resource.to_string(),
            ..v1::InspectRequest::default()
        };
        let answer = self.shared.call::<Inspect>(&mut trial, request).await?;
        Ok(answer.response.grant.is_none() && answer.response.queue == 0)
    }
}

/// Whether an entry may have freed the resource: something ended in it, and nobody got it in the same
/// step. A hand-over from one holder to the next is not worth a look.
fn may_be_free(moment: &Moment) -> bool {
    let ends = |change: &Change| matches!(change, Change::Ended { .. } | Change::Left { .. });
    moment
        .events
        .last()
        .is_some_and(|event| ends(&event.change))
}
