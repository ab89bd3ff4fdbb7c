//! What anybody may ask: who holds a resource, and what is held.

use super::Client;
use super::error::Error;
use super::method::{Inspect, List};
use super::outcome::{Inspection, LiveGrant};
use super::words::{self, Unreadable};
use crate::resource::{Holder, ResourceName};
use crate::wire::v1;

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The grants, in byte order of the resource's name.
    pub grants: Vec<LiveGrant>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

impl Client {
    /// Who holds `resource` now, and how many wait for it. Linearizable: it reflects every grant that was
    /// acknowledged before the call.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn inspect(&self, resource: &ResourceName) -> Result<Inspection, Error> {
        self.look_at(resource, String::new()).await
    }

    /// The same, and where `holder` stands in the line.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn position(
        &self,
        resource: &ResourceName,
        holder: &Holder,
    ) -> Result<Inspection, Error> {
        self.look_at(resource, holder.to_string()).await
    }

    async fn look_at(&self, resource: &ResourceName, holder: String) -> Result<Inspection, Error> {
        let mut trial = self.shared.trial::<Inspect>();
        let request = |_| v1::InspectRequest {
            holder: holder.clone(),
            resource: resource.to_string(),
        };
        let answer = self.shared.call::<Inspect>(&mut trial, request).await?;
        words::inspection(answer.response).map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// The live grants whose resource begins with `prefix`, a page of at most `page_size` (1 to 1,000).
    /// Pass [`Page::next`] to go on. Each page is linearizable in itself; two may show two moments.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn list(
        &self,
        prefix: &str,
        page_size: u32,
        page_token: Option<&str>,
    ) -> Result<Page, Error> {
        let mut trial = self.shared.trial::<List>();
        let request = |_| v1::ListRequest {
            prefix: prefix.to_owned(),
            page_size,
            page_token: page_token.unwrap_or_default().to_owned(),
        };
        let response = self
            .shared
            .call::<List>(&mut trial, request)
            .await?
            .response;
        let grants: Result<Vec<_>, Unreadable> =
            response.grants.into_iter().map(words::grant).collect();
        let grants = grants.map_err(|unreadable| self.bad_answer(&trial, unreadable))?;
        let next = Some(response.next_page_token).filter(|token| !token.is_empty());
        Ok(Page { grants, next })
    }
}
