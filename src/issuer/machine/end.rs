//! The ways in which a grant ends: released, expired, revoked, superseded.
//!
//! An entry that ends one grant hands the resource to the head of its queue in the same step. One that
//! ends several only ends them, because one entry issues at most one token.
//!
//! Each names the token. So whatever is late, retried or proposed by a deposed leader can end the
//! grant that it was meant for, and never its successor.

use super::Machine;
use crate::grant::EndedHow;
use crate::issuer::requests::CameOut;
use crate::issuer::{
    Broken, Event, Expire, LogId, Outcome, Release, ReleaseOutcome, Revoke, RevokeOutcome,
};
use crate::resource::{Reason, ResourceName};
use crate::token::TokenValue;

impl Machine {
    pub(super) fn release(
        &mut self,
        at: LogId,
        release: Release,
        events: &mut Vec<Event>,
    ) -> Result<ReleaseOutcome, Broken> {
        if self.grants.get(release.token).is_some() {
            let resource = self.end(at, release.token, EndedHow::Released, None, events)?;
            self.grant_to_head(at, &resource, release.stamped_at_ms, events)?;
            return Ok(ReleaseOutcome::Released);
        }
        Ok(match self.requests.how_ended(release.token) {
            Some(EndedHow::Released) => ReleaseOutcome::Released,
            Some(how) => ReleaseOutcome::Ended { how },
            None => ReleaseOutcome::Unknown,
        })
    }

    /// Ends the leases that nobody renewed since their deadlines were computed.
    pub(super) fn expire(
        &mut self,
        at: LogId,
        expire: &Expire,
        events: &mut Vec<Event>,
    ) -> Result<Outcome, Broken> {
        let mut ended = 0;
        let mut last = None;
        for lease in &expire.leases {
            let live = self.grants.get(lease.token);
            if live.is_some_and(|live| live.grant.renewals == lease.renewals) {
                let resource = self.end(at, lease.token, EndedHow::Expired, None, events)?;
                last = Some(resource);
                ended += 1;
            }
        }
        if let (1, Some(resource)) = (ended, last) {
            self.grant_to_head(at, &resource, expire.stamped_at_ms, events)?;
        }
        Ok(Outcome::Expire { ended })
    }

    pub(super) fn revoke(
        &mut self,
        at: LogId,
        revoke: &Revoke,
        events: &mut Vec<Event>,
    ) -> Result<RevokeOutcome, Broken> {
        if let Some(live) = self.grants.get(revoke.token) {
            if live.grant.resource != revoke.resource {
                return Ok(RevokeOutcome::OtherResource);
            }
            let reason = revoke.reason.clone();
            let resource = self.end(at, revoke.token, EndedHow::Revoked, reason, events)?;
            self.grant_to_head(at, &resource, revoke.stamped_at_ms, events)?;
            return Ok(RevokeOutcome::Revoked);
        }
        Ok(match self.requests.how_ended(revoke.token) {
            Some(EndedHow::Revoked) => RevokeOutcome::Revoked,
            Some(how) => RevokeOutcome::Ended { how },
            None => RevokeOutcome::Unknown,
        })
    }

    /// Ends a live grant: its request id settles, and with it how the grant ended. Gives back the
    /// resource, which is free from here on, with or without a queue.
    pub(super) fn end(
        &mut self,
        at: LogId,
        token: TokenValue,
        how: EndedHow,
        reason: Option<Reason>,
        events: &mut Vec<Event>,
    ) -> Result<ResourceName, Broken> {
        let what = "a grant that was to be ended is not there";
        let live = self
            .grants
            .remove(token)
            .ok_or(Broken::Inconsistent { at, what })?;
        let grant = live.grant;
        let token = grant.token;
        self.settle(at, live.asked, CameOut::Ended { token, how })?;
        self.holders.leave(&grant.holder);
        self.queues.set_free(&grant.resource);
        events.push(Event::Ended {
            resource: grant.resource.clone(),
            holder: grant.holder,
            token,
            how,
            renewals: grant.renewals,
            reason,
        });
        Ok(grant.resource)
    }
}
