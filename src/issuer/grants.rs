//! The live grants: by token, and by the name of their resource.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::grant::{Grant, Ttl};
use crate::issuer::RequestKey;
use crate::resource::ResourceName;
use crate::token::TokenValue;

/// A live grant, and the request that it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Live {
    /// What people see of it.
    pub(super) grant: Grant,
    /// What was asked; needed to tell a retry from another call under the same id.
    pub(super) asked: Asked,
}

/// A request as the memory of ids keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// Request id, resource and holder.
    pub(super) key: RequestKey,
    /// The index of the first entry that carried it. Whoever saw this index, or a later one, applied
    /// before the first send cannot have sent this request.
    pub(super) first_index: u64,
    /// The TTL that was asked for; the grant's own may have been changed by a renewal.
    pub(super) ttl: Ttl,
    /// The wait that was asked for.
    pub(super) wait_ms: u32,
    /// The highest attempt so far.
    pub(super) attempt: u32,
}

/// All live grants. At most one for each resource.
///
/// Grants rest in boxes, because a B-tree that is filled in rising order leaves almost half of its
/// space empty; the text of a name is shared by both maps.
#[derive(Debug, Default)]
pub(super) struct Grants {
    by_token: BTreeMap<TokenValue, Box<Live>>,
    by_resource: BTreeMap<ResourceName, TokenValue>,
}

impl Grants {
    pub(super) fn len(&self) -> usize {
        self.by_token.len()
    }

    pub(super) fn get(&self, token: TokenValue) -> Option<&Live> {
        self.by_token.get(&token).map(|live| &**live)
    }

    pub(super) fn get_mut(&mut self, token: TokenValue) -> Option<&mut Live> {
        self.by_token.get_mut(&token).map(|live| &mut **live)
    }

    pub(super) fn of(&self, resource: &ResourceName) -> Option<&Live> {
        self.get(*self.by_resource.get(resource)?)
    }

    /// Adds a grant; `false`, and nothing happens, if its token or its resource has one already.
    #[must_use]
    pub(super) fn insert(&mut self, live: Live) -> bool {
        let token = live.grant.token.value();
        let resource = live.grant.resource.clone();
        if self.by_token.contains_key(&token) || self.by_resource.contains_key(&resource) {
            return false;
        }
        self.by_resource.insert(resource, token);
        self.by_token.insert(token, Box::new(live));
        true
    }

    pub(super) fn remove(&mut self, token: TokenValue) -> Option<Live> {
        let live = self.by_token.remove(&token)?;
        self.by_resource.remove(&live.grant.resource);
        Some(*live)
    }

    /// The highest token.
    pub(super) fn last(&self) -> Option<TokenValue> {
        self.by_token.last_key_value().map(|(token, _)| *token)
    }

    /// In the order of tokens, which is the order in which they were granted.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.by_token.values().map(|live| &**live)
    }

    /// The grants of resources that begin with `prefix` and come after `after`, by name.
    pub(super) fn from<'a, 'b>(
        &'a self,
        prefix: &'b str,
        after: Option<&'b str>,
    ) -> impl Iterator<Item = &'a Grant> + use<'a, 'b> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let names = self.by_resource.range::<str, _>((start, Bound::Unbounded));
        let matching = names.take_while(move |(name, _)| name.as_str().starts_with(prefix));
        matching.filter_map(|(_, token)| self.get(*token).map(|live| &live.grant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_grant_fits_two_cache_lines() {
        // There may be a million of them, so a field more is thought about.
        assert_eq!(size_of::<Live>(), 128);
    }
}
