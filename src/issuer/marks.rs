//! The marks of the cluster's own guard register: for each resource the highest token admitted.

use std::collections::BTreeMap;

use crate::resource::ResourceName;
use crate::token::TokenValue;

/// All marks. None is ever lowered or forgotten: either would admit tokens that were refused.
#[derive(Debug, Default)]
pub(super) struct Marks {
    by_resource: BTreeMap<ResourceName, TokenValue>,
    /// No mark counts as lower than this, be it there or not. A restore sets it to the value that it
    /// restores to: tokens may have been admitted after the backup was taken, for resources that the
    /// backup has no mark of. Zero until then.
    floor: u64,
}

impl Marks {
    /// The mark of a resource, or zero, which is below every token.
    pub(super) fn of(&self, resource: &ResourceName) -> u64 {
        let named = self.by_resource.get(resource);
        named.map_or(0, |token| token.get()).max(self.floor)
    }

    /// Whether the resource has a mark of its own.
    pub(super) fn names(&self, resource: &ResourceName) -> bool {
        self.by_resource.contains_key(resource)
    }

    /// Raises a mark, or makes it. A lower token changes nothing.
    pub(super) fn raise(&mut self, resource: &ResourceName, token: TokenValue) {
        if let Some(mark) = self.by_resource.get_mut(resource) {
            *mark = token.max(*mark);
            return;
        }
        self.by_resource.insert(resource.clone(), token);
    }

    pub(super) fn len(&self) -> usize {
        self.by_resource.len()
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn set_floor(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// By the name of the resource.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceName, TokenValue)> {
        self.by_resource.iter().map(|(name, token)| (name, *token))
    }

    /// The last name.
    pub(super) fn last(&self) -> Option<&ResourceName> {
        self.by_resource.last_key_value().map(|(name, _)| name)
    }
}
