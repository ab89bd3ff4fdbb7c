//! The waiting queues: who waits for what, first come first served.
//!
//! A queue exists only while somebody waits in it, and one holder has at most one place in it. The
//! order is that of the entries that made the places; a place that a newer request of the same holder
//! takes over stays where it is. Nothing here decides who is granted: that is the machine's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::grant::Ttl;
use crate::issuer::RequestKey;
use crate::issuer::grants::Asked;
use crate::resource::{Holder, ResourceName};

/// Somebody who waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// What is waited for.
    pub resource: ResourceName,
    /// Who waits.
    pub holder: Holder,
    /// Which request.
    pub request: RequestKey,
    /// Its highest send so far.
    pub attempt: u32,
    /// The TTL that it asks for.
    pub ttl: Ttl,
    /// How long it waits at most, in milliseconds, from its first applied send.
    pub wait_ms: u32,
    /// Since when the holder has had this place, milliseconds since 1970 by the wall clock of the
    /// leader of that moment. For people: nothing is decided by it.
    pub queued_at_ms: u64,
}

/// A waiter, and the index of the first entry that carried its request.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) waiter: Waiter,
    pub(super) first_index: u64,
    ticket: Ticket,
}

impl Place {
    /// The request as the memory of ids keeps it.
    pub(super) fn asked(&self) -> Asked {
        Asked {
            key: self.waiter.request,
            first_index: self.first_index,
            ttl: self.waiter.ttl,
            wait_ms: self.waiter.wait_ms,
            attempt: self.waiter.attempt,
        }
    }
}

/// Orders the places of a queue. Counts up, and is no part of the state: only the order is.
type Ticket = u64;

/// One queue; never empty.
#[derive(Debug, Default)]
struct Queue {
    /// In the order of tickets, so that a place is found in it by bisection.
    line: VecDeque<(Ticket, RequestKey)>,
    by_holder: BTreeMap<Holder, RequestKey>,
}

/// All queues.
#[derive(Debug, Default)]
pub(super) struct Queues {
    places: BTreeMap<RequestKey, Box<Place>>,
    by_resource: BTreeMap<ResourceName, Queue>,
    /// The resources that have a queue and no live grant.
    free: BTreeSet<ResourceName>,
    next_ticket: Ticket,
}

impl Queues {
    /// How many wait, for whatever.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many wait for a resource.
    pub(super) fn len_of(&self, resource: &ResourceName) -> u32 {
        let queue = self.by_resource.get(resource);
        queue.map_or(0, |queue| number(queue.line.len()))
    }

    pub(super) fn get(&self, request: &RequestKey) -> Option<&Place> {
        self.places.get(request).map(|place| &**place)
    }

    /// A later send of a request that waits; a lower attempt moves nothing.
    pub(super) fn note_attempt(&mut self, request: &RequestKey, attempt: u32) {
        if let Some(place) = self.places.get_mut(request) {
            place.waiter.attempt = place.waiter.attempt.max(attempt);
        }
    }

    /// The request under which a holder waits for a resource.
    pub(super) fn of_holder(
        &self,
        resource: &ResourceName,
        holder: &Holder,
    ) -> Option<&RequestKey> {
        self.by_resource.get(resource)?.by_holder.get(holder)
    }

    /// Who is next.
    pub(super) fn head(&self, resource: &ResourceName) -> Option<&RequestKey> {
        let queue = self.by_resource.get(resource)?;
        queue.line.front().map(|(_, request)| request)
    }

    /// Where a request stands, counted from 1.
    pub(super) fn position(&self, request: &RequestKey) -> Option<u32> {
        let place = self.places.get(request)?;
        let queue = self.by_resource.get(&place.waiter.resource)?;
        queue.at(place.ticket).map(|at| number(at + 1))
    }

    /// A waiter comes to the end of its queue. `false`, and nothing happens, if its request or its
    /// holder waits there already.
    #[must_use]
    pub(super) fn join(&mut self, mut waiter: Waiter, first_index: u64) -> bool {
        let request = waiter.request;
        let waits = self.of_holder(&waiter.resource, &waiter.holder).is_some();
        if waits || self.places.contains_key(&request) {
            return false;
        }
        // All in a queue share the text of its name.
        if let Some((name, _)) = self.by_resource.get_key_value(&waiter.resource) {
            waiter.resource = name.clone();
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let queue = self.by_resource.entry(waiter.resource.clone());
        let queue = queue.or_default();
        queue.line.push_back((ticket, request));
        queue.by_holder.insert(waiter.holder.clone(), request);
        let place = Place {
            waiter,
            first_index,
            ticket,
        };
        self.places.insert(request, Box::new(place));
        true
    }

    /// A newer request of the same holder takes the place of `old`, and stands where that stood.
    /// Gives the old place; `None`, and nothing happens, if there is none or it is another's.
    pub(super) fn take_over(
        &mut self,
        old: &RequestKey,
        mut waiter: Waiter,
        first_index: u64,
    ) -> Option<Place> {
        let place = self.places.get(old)?;
        let fits = place.waiter.resource == waiter.resource
            && place.waiter.holder == waiter.holder
            && !self.places.contains_key(&waiter.request);
        if !fits {
            return None;
        }
        let ticket = place.ticket;
        let queue = self.by_resource.get_mut(&waiter.resource)?;
        let at = queue.at(ticket)?;
        queue.line[at].1 = waiter.request;
        queue
            .by_holder
            .insert(waiter.holder.clone(), waiter.request);
        let old = self.places.remove(old)?;
        waiter.resource.clone_from(&old.waiter.resource);
        waiter.holder.clone_from(&old.waiter.holder);
        waiter.queued_at_ms = old.waiter.queued_at_ms;
        let request = waiter.request;
        let place = Place {
            waiter,
            first_index,
            ticket,
        };
        self.places.insert(request, Box::new(place));
        Some(*old)
    }

    /// A place ends, whatever comes of it. The last one takes its queue along.
    pub(super) fn leave(&mut self, request: &RequestKey) -> Option<Place> {
        let place = *self.places.remove(request)?;
        let resource = &place.waiter.resource;
        let queue = self.by_resource.get_mut(resource)?;
        if let Some(at) = queue.at(place.ticket) {
            queue.line.remove(at);
        }
        queue.by_holder.remove(&place.waiter.holder);
        if queue.line.is_empty() {
            self.by_resource.remove(resource);
            self.free.remove(resource);
        }
        Some(place)
    }

    /// The grant of a resource ended.
    pub(super) fn set_free(&mut self, resource: &ResourceName) {
        if let Some((name, _)) = self.by_resource.get_key_value(resource) {
            self.free.insert(name.clone());
        }
    }

    /// A resource was granted.
    pub(super) fn set_taken(&mut self, resource: &ResourceName) {
        self.free.remove(resource);
    }

    /// The resources that have a queue and no live grant, by name.
    pub(super) fn free(&self) -> impl ExactSizeIterator<Item = &ResourceName> {
        self.free.iter()
    }

    /// The last resource by name that has a queue.
    pub(super) fn last(&self) -> Option<&ResourceName> {
        self.by_resource.last_key_value().map(|(name, _)| name)
    }

    /// Who waits for a resource, in order.
    pub(super) fn of(&self, resource: &ResourceName) -> impl Iterator<Item = &Place> {
        let queue = self.by_resource.get(resource);
        queue.into_iter().flat_map(|queue| self.in_line(queue))
    }

    /// All places, by the name of their resource and then in the order of the queue.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Place> {
        let queues = self.by_resource.values();
        queues.flat_map(|queue| self.in_line(queue))
    }

    fn in_line<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a Place> {
        let requests = queue.line.iter().map(|(_, request)| request);
        requests.filter_map(|request| self.get(request))
    }
}

impl Queue {
    /// Where in the line a ticket is.
    fn at(&self, ticket: Ticket) -> Option<usize> {
        self.line.binary_search_by_key(&ticket, |(of, _)| *of).ok()
    }
}

/// Limits keep every queue far below this.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(resource: &str, holder: &str, request: u8) -> Waiter {
        Waiter {
            resource: ResourceName::new(resource).unwrap(),
            holder: Holder::new(holder).unwrap(),
            request: key(request),
            attempt: 1,
            ttl: Ttl::default(),
            wait_ms: 1,
            queued_at_ms: u64::from(request),
        }
    }

    fn key(request: u8) -> RequestKey {
        RequestKey::from_bytes([request; 16])
    }

    fn order(queues: &Queues) -> Vec<u8> {
        let requests = queues.iter().map(|place| place.waiter.request);
        requests.map(|request| request.as_bytes()[0]).collect()
    }

    #[test]
    fn what_leaves_a_queue_leaves_nothing_behind() {
        let mut queues = Queues::default();
        let printer = ResourceName::new("printer").unwrap();
        for (holder, request) in [("anna", 1), ("ben", 2), ("cleo", 3)] {
            assert!(queues.join(waiter("printer", holder, request), 1));
        }
        assert!(!queues.join(waiter("printer", "anna", 4), 1));
        assert!(!queues.join(waiter("printer", "dora", 1), 1));
        queues.set_free(&printer);
        assert_eq!(queues.free().len(), 1);
        assert!(queues.leave(&key(2)).is_some());
        assert_eq!(queues.position(&key(3)), Some(2));
        assert!(queues.leave(&key(2)).is_none());
        assert!(queues.leave(&key(1)).is_some() && queues.leave(&key(3)).is_some());
        assert_eq!((queues.len(), queues.len_of(&printer)), (0, 0));
        assert!(queues.by_resource.is_empty() && queues.free.is_empty());
    }

    #[test]
    fn a_place_that_is_taken_over_stays_where_it_is() {
        let mut queues = Queues::default();
        for (holder, request) in [("anna", 1), ("ben", 2), ("cleo", 3)] {
            assert!(queues.join(waiter("printer", holder, request), 1));
        }
        let old = queues.take_over(&key(2), waiter("printer", "ben", 4), 9);
        assert_eq!(old.unwrap().waiter.request, key(2));
        assert_eq!(order(&queues), [1, 4, 3]);
        assert_eq!(queues.get(&key(4)).unwrap().waiter.queued_at_ms, 2);
        // Neither somebody else's place, nor one elsewhere, nor one that is gone.
        for (of, by) in [
            (1, waiter("printer", "ben", 5)),
            (1, waiter("scanner", "anna", 5)),
            (2, waiter("printer", "ben", 5)),
            (1, waiter("printer", "anna", 3)),
        ] {
            assert!(queues.take_over(&key(of), by, 9).is_none());
        }
        assert_eq!(order(&queues), [1, 4, 3]);
    }
}
