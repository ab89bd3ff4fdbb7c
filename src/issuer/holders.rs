//! How much each holder has: its live grants, and the places at which it waits.

use std::collections::BTreeMap;

use crate::resource::Holder;

/// Counts grants and places together, because a place may become a grant at any moment, and that must
/// never fail. A holder without either has no entry.
#[derive(Debug, Default)]
pub(super) struct Holders {
    by_name: BTreeMap<Holder, u32>,
}

impl Holders {
    /// How much a holder has.
    pub(super) fn of(&self, holder: &Holder) -> u32 {
        self.by_name.get(holder).copied().unwrap_or_default()
    }

    /// A holder gets one more. Gives the name back, with its text shared among all that the holder
    /// has, so that a thousand grants of one holder do not spell it a thousand times.
    #[must_use]
    pub(super) fn enter(&mut self, holder: &Holder) -> Holder {
        // Two look-ups and not an entry, whose key is the given name and not the one that is there.
        if let Some((shared, _)) = self.by_name.get_key_value(holder) {
            let shared = shared.clone();
            let count = self.by_name.entry(shared.clone()).or_default();
            *count = count.saturating_add(1);
            return shared;
        }
        self.by_name.insert(holder.clone(), 1);
        holder.clone()
    }

    /// A holder has one less.
    pub(super) fn leave(&mut self, holder: &Holder) {
        let Some(count) = self.by_name.get_mut(holder) else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.by_name.remove(holder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_has_nothing_any_more_leaves_nothing_behind() {
        let mut holders = Holders::default();
        let (anna, again) = (Holder::new("anna").unwrap(), Holder::new("anna").unwrap());
        let shared = holders.enter(&anna);
        let second = holders.enter(&again);
        assert!(std::ptr::eq(shared.as_str(), second.as_str()));
        assert_eq!(holders.of(&anna), 2);
        holders.leave(&anna);
        assert_eq!(holders.of(&again), 1);
        holders.leave(&anna);
        holders.leave(&anna);
        assert_eq!(holders.of(&anna), 0);
        assert!(holders.by_name.is_empty());
    }
}
