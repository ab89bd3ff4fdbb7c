//! Renew: leases start anew; tokens stay.

use super::Machine;
use crate::issuer::{Event, Renew, RenewOutcome, Renewal};

impl Machine {
    pub(super) fn renew(&mut self, renew: &Renew, events: &mut Vec<Event>) -> Vec<RenewOutcome> {
        events.reserve(renew.renewals.len());
        let each = renew.renewals.iter();
        each.map(|renewal| self.renew_one(*renewal, renew.stamped_at_ms, events))
            .collect()
    }

    fn renew_one(
        &mut self,
        renewal: Renewal,
        stamped_at_ms: u64,
        events: &mut Vec<Event>,
    ) -> RenewOutcome {
        let Some(live) = self.grants.get_mut(renewal.token) else {
            return match self.requests.how_ended(renewal.token) {
                Some(how) => RenewOutcome::Ended { how },
                None => RenewOutcome::Unknown,
            };
        };
        let grant = &mut live.grant;
        grant.ttl = renewal.ttl.unwrap_or(grant.ttl);
        grant.renewals = grant.renewals.saturating_add(1);
        grant.expires_at_ms = stamped_at_ms.saturating_add(grant.ttl.as_ms());
        events.push(Event::Renewed {
            resource: grant.resource.clone(),
            holder: grant.holder.clone(),
            token: grant.token,
            ttl: grant.ttl,
            renewals: grant.renewals,
        });
        RenewOutcome::Renewed {
            lease: grant.ttl,
            renewals: grant.renewals,
        }
    }
}
