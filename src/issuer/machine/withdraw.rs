//! Withdraw: places in queues end. It never touches a grant, however it crossed with one: whoever
//! gave up and finds itself granted releases.

use super::Machine;
use crate::grant::LeftHow;
use crate::issuer::requests::{CameOut, Known, Mark};
use crate::issuer::{Broken, Event, Leaving, LogId, Withdraw, WithdrawOutcome};

impl Machine {
    pub(super) fn withdraw(
        &mut self,
        at: LogId,
        withdraw: &Withdraw,
        events: &mut Vec<Event>,
    ) -> Result<Vec<WithdrawOutcome>, Broken> {
        let each = withdraw.places.iter();
        each.map(|leaving| self.withdraw_one(at, *leaving, withdraw.how, events))
            .collect()
    }

    fn withdraw_one(
        &mut self,
        at: LogId,
        leaving: Leaving,
        how: LeftHow,
        events: &mut Vec<Event>,
    ) -> Result<WithdrawOutcome, Broken> {
        let Leaving { request, attempt } = leaving;
        if let Some(place) = self.queues.get(&request) {
            let acts = match how {
                // A later send is somebody who is there.
                LeftHow::Withdrawn | LeftHow::Detached => attempt >= place.waiter.attempt,
                // The wait is the request's, however often it was sent.
                LeftHow::WaitedOut => true,
                // Only a newer request of the holder supersedes.
                LeftHow::Superseded => false,
            };
            if !acts {
                return Ok(WithdrawOutcome::Stale);
            }
            self.leave(at, &request, how, events)?;
            return Ok(WithdrawOutcome::Left { how });
        }
        match self.requests.find(&request) {
            Some(Known::Live(token)) => {
                let what = "a request id names a live grant that is not there";
                let live = self.grants.get(token);
                let live = live.ok_or(Broken::Inconsistent { at, what })?;
                let token = live.grant.token;
                Ok(WithdrawOutcome::Granted { token })
            }
            Some(Known::Settled(settled)) => Ok(match settled.came_out {
                CameOut::Ended { token, how } => WithdrawOutcome::Ended { token, how },
                CameOut::Left(how) => WithdrawOutcome::Left { how },
                CameOut::Held
                | CameOut::TooManyGrants
                | CameOut::TooManyWaiters { .. }
                | CameOut::TooManyGrantsOfHolder => WithdrawOutcome::Refused,
            }),
            Some(Known::Marked(mark)) if how == LeftHow::Withdrawn => {
                mark.attempt = mark.attempt.max(attempt);
                Ok(WithdrawOutcome::Marked)
            }
            None if how == LeftHow::Withdrawn => self.mark(at, leaving),
            None | Some(Known::Marked(_)) => Ok(WithdrawOutcome::Unknown),
        }
    }

    /// The request has not come yet. Its sends up to this one shall not act when they do.
    fn mark(&mut self, at: LogId, leaving: Leaving) -> Result<WithdrawOutcome, Broken> {
        let mark = Mark {
            key: leaving.request,
            first_index: at.index,
            attempt: leaving.attempt,
        };
        if self.requests.mark(mark) {
            return Ok(WithdrawOutcome::Marked);
        }
        let what = "a request id that is not known is known";
        Err(Broken::Inconsistent { at, what })
    }
}
