//! Whether resource, holder and token belong together.
//!
//! A renewal or a release names its grant by all three, so that a token which somebody guessed or mixed
//! up ends nothing. What the leader sees to fit is proposed, and decided when it is applied. What does
//! not fit may only look so because this leader is behind, or not the leader any more: that is decided
//! from the state behind a read barrier.

use std::time::Instant;

use crate::{
    grant::EndedHow,
    issuer::Replica,
    server::api::{Api, asked::Claim, method::Halt},
};

/// What the state says about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The grant lives, and all three parts are its own.
    Live,
    /// There was such a token.
    Ended(EndedHow),
    /// No grant that lives or is remembered.
    Unknown,
}

fn standing(replica: &Replica, claim: &Claim) -> Standing {
    let machine = replica.machine();
    match machine.grant(claim.token) {
        Some(grant) if grant.resource == claim.resource && grant.holder == claim.holder => {
            Standing::Live
        }
        Some(_) => Standing::Unknown,
        None => machine
            .how_ended(claim.token)
            .map_or(Standing::Unknown, Standing::Ended),
    }
}

impl Api {
    /// Judges claims. `Live` may be outdated by the time that something is applied; the others are as
    /// current as the call.
    pub(super) async fn judge(
        &self,
        claims: &[&Claim],
        deadline: Instant,
    ) -> Result<Vec<Standing>, Halt> {
        let seen = self.standings(claims);
        if seen.iter().all(|standing| *standing == Standing::Live) {
            return Ok(seen);
        }
        self.read_barrier(deadline).await?;
        Ok(self.standings(claims))
    }

    fn standings(&self, claims: &[&Claim]) -> Vec<Standing> {
        let look = |replica: &Replica| {
            let standings = claims.iter().map(|claim| standing(replica, claim));
            standings.collect()
        };
        let seen = self.raft.state().read(look);
        // Nothing was ever applied here.
        seen.unwrap_or_else(|| vec![Standing::Unknown; claims.len()])
    }
}
