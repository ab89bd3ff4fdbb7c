//! The queue's side of the rules: who may wait, and to whom a resource goes that has a queue.
//!
//! A place counts against its holder's limit, and a free resource with a queue counts against the
//! cluster's, so a hand-over never meets a limit and cannot fail.

use super::Machine;
use crate::grant::{Grant, LeftHow};
use crate::issuer::grants::Live;
use crate::issuer::queues::Place;
use crate::issuer::requests::CameOut;
use crate::issuer::{Acquire, Broken, Event, LogId, Promote, PromoteOutcome, RequestKey, Waiter};
use crate::resource::ResourceName;

impl Machine {
    /// A request that cannot be granted now waits, or is refused; the refusal is given back.
    ///
    /// A holder that waits already has its place taken over, which needs no room. One that does not
    /// want to wait is refused like anybody else, and its old place stays: a refusal has no effect.
    pub(super) fn queue_or_refuse(
        &mut self,
        at: LogId,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> Result<Option<CameOut>, Broken> {
        let old = self.queues.of_holder(&acquire.resource, &acquire.holder);
        let old = old.copied();
        let refused = if acquire.wait_ms == 0 {
            Some(CameOut::Held)
        } else if old.is_some() {
            None
        } else {
            self.no_room_for(acquire)
        };
        if let Some(came_out) = refused {
            self.refuse(at, acquire, came_out)?;
            return Ok(refused);
        }
        match old {
            Some(old) => self.take_over(at, &old, acquire, events)?,
            None => self.join(at, acquire)?,
        }
        events.push(Event::Queued {
            resource: acquire.resource.clone(),
            holder: acquire.holder.clone(),
            request: acquire.request,
            attempt: acquire.attempt,
            position: self.queues.position(&acquire.request).unwrap_or_default(),
            ttl: acquire.ttl,
            wait_ms: acquire.wait_ms,
        });
        Ok(None)
    }

    /// Why nobody more may wait here, if so.
    fn no_room_for(&self, acquire: &Acquire) -> Option<CameOut> {
        let Self {
            queues,
            bounds,
            holders,
            ..
        } = self;
        if queues.len_of(&acquire.resource) >= bounds.waiters_per_resource_max {
            return Some(CameOut::TooManyWaiters { of_resource: true });
        }
        if queues.len() >= bounds.waiters_max as usize {
            return Some(CameOut::TooManyWaiters { of_resource: false });
        }
        let has = holders.of(&acquire.holder);
        (has >= bounds.grants_per_holder_max).then_some(CameOut::TooManyGrantsOfHolder)
    }

    fn join(&mut self, at: LogId, acquire: &Acquire) -> Result<(), Broken> {
        let mut waiter = waiter(acquire);
        waiter.holder = self.holders.enter(&acquire.holder);
        if self.requests.is_new(&acquire.request) && self.queues.join(waiter, at.index) {
            return Ok(());
        }
        let what = "a new request id, or its holder, waits already";
        Err(Broken::Inconsistent { at, what })
    }

    fn take_over(
        &mut self,
        at: LogId,
        old: &RequestKey,
        acquire: &Acquire,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        let place = self.queues.take_over(old, waiter(acquire), at.index);
        let what = "a place that was to be taken over is not there";
        let place = place.ok_or(Broken::Inconsistent { at, what })?;
        self.left(at, place, LeftHow::Superseded, events)
    }

    /// A place ends without a grant.
    pub(super) fn leave(
        &mut self,
        at: LogId,
        request: &RequestKey,
        how: LeftHow,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        let place = self.place_of(at, request)?;
        self.holders.leave(&place.waiter.holder);
        self.left(at, place, how, events)
    }

    fn place_of(&mut self, at: LogId, request: &RequestKey) -> Result<Place, Broken> {
        let what = "a place that was to end is not there";
        let place = self.queues.leave(request);
        place.ok_or(Broken::Inconsistent { at, what })
    }

    fn left(
        &mut self,
        at: LogId,
        place: Place,
        how: LeftHow,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        self.settle(at, place.asked(), CameOut::Left(how))?;
        events.push(Event::Left {
            resource: place.waiter.resource,
            holder: place.waiter.holder,
            request: place.waiter.request,
            how,
        });
        Ok(())
    }

    /// A free resource goes to the head of its queue, if there is one.
    pub(super) fn grant_to_head(
        &mut self,
        at: LogId,
        resource: &ResourceName,
        stamped_at_ms: u64,
        events: &mut Vec<Event>,
    ) -> Result<PromoteOutcome, Broken> {
        let Some(request) = self.queues.head(resource).copied() else {
            return Ok(PromoteOutcome::Nothing);
        };
        let token = self.next_token(at)?;
        let place = self.place_of(at, &request)?;
        self.holders.leave(&place.waiter.holder);
        let asked = place.asked();
        let Waiter {
            resource,
            holder,
            ttl,
            ..
        } = place.waiter;
        let grant = Grant {
            resource,
            holder,
            token,
            ttl,
            after_wait: true,
            renewals: 0,
            granted_at_ms: stamped_at_ms,
            expires_at_ms: stamped_at_ms.saturating_add(ttl.unclaimed().as_ms()),
        };
        let token = self.insert(at, Live { grant, asked }, events)?;
        Ok(PromoteOutcome::Granted { token, request })
    }

    pub(super) fn promote(
        &mut self,
        at: LogId,
        promote: &Promote,
        events: &mut Vec<Event>,
    ) -> Result<PromoteOutcome, Broken> {
        if self.grants.of(&promote.resource).is_some() {
            return Ok(PromoteOutcome::Nothing);
        }
        self.grant_to_head(at, &promote.resource, promote.stamped_at_ms, events)
    }
}

fn waiter(acquire: &Acquire) -> Waiter {
    Waiter {
        resource: acquire.resource.clone(),
        holder: acquire.holder.clone(),
        request: acquire.request,
        attempt: acquire.attempt,
        ttl: acquire.ttl,
        wait_ms: acquire.wait_ms,
        queued_at_ms: acquire.stamped_at_ms,
    }
}
