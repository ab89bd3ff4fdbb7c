//! The ways in which a grant ends: released, expired, revoked, superseded.
//!
//! Each names the token. So whatever is late, retried or proposed by a deposed leader can end the
//! grant that it was meant for, and never its successor.

use super::Machine;
use crate::grant::EndedHow;
use crate::issuer::requests::{CameOut, Settled};
use crate::issuer::{
    Broken, Event, Expire, LogId, Outcome, Release, ReleaseOutcome, Revoke, RevokeOutcome,
};
use crate::resource::Reason;
use crate::token::TokenValue;

impl Machine {
    pub(super) fn release(
        &mut self,
        at: LogId,
        release: Release,
        events: &mut Vec<Event>,
    ) -> Result<ReleaseOutcome, Broken> {
        if self.grants.get(release.token).is_some() {
            self.end(at, release.token, EndedHow::Released, None, events)?;
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
        for lease in &expire.leases {
            let live = self.grants.get(lease.token);
            if live.is_some_and(|live| live.grant.renewals == lease.renewals) {
                self.end(at, lease.token, EndedHow::Expired, None, events)?;
                ended += 1;
            }
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
            self.end(
                at,
                revoke.token,
                EndedHow::Revoked,
                revoke.reason.clone(),
                events,
            )?;
            return Ok(RevokeOutcome::Revoked);
        }
        Ok(match self.requests.how_ended(revoke.token) {
            Some(EndedHow::Revoked) => RevokeOutcome::Revoked,
            Some(how) => RevokeOutcome::Ended { how },
            None => RevokeOutcome::Unknown,
        })
    }

    /// Ends a live grant: its request id settles, and with it how the grant ended.
    pub(super) fn end(
        &mut self,
        at: LogId,
        token: TokenValue,
        how: EndedHow,
        reason: Option<Reason>,
        events: &mut Vec<Event>,
    ) -> Result<(), Broken> {
        let what = "a grant that was to be ended is not there";
        let live = self
            .grants
            .remove(token)
            .ok_or(Broken::Inconsistent { at, what })?;
        let came_out = CameOut::Ended {
            token: live.grant.token,
            how,
        };
        if !self.requests.settle(Settled {
            asked: live.asked,
            came_out,
        }) {
            let what = "the request id of a live grant had settled";
            return Err(Broken::Inconsistent { at, what });
        }
        events.push(Event::Ended {
            resource: live.grant.resource,
            holder: live.grant.holder,
            token: live.grant.token,
            how,
            renewals: live.grant.renewals,
            reason,
        });
        Ok(())
    }
}
