//! What the core answers, as the golden scripts spell it.

use std::fmt::Write as _;

use fencepost::grant::Grant;
use fencepost::issuer::{
    AcquireOutcome, AdmitOutcome, DueLease, Event, HeldBy, Outcome, PromoteOutcome,
    RaiseFloorOutcome, ReleaseOutcome, RenewOutcome, RevokeOutcome, Standing, Waiter,
    WithdrawOutcome,
};
use fencepost::resource::ResourceName;

use crate::scene::Scene;

pub(crate) fn said(scene: &Scene, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Acquire(outcome) => acquired(scene, outcome),
        Outcome::Renew(each) => {
            let each: Vec<_> = each.iter().map(renewed).collect();
            format!("renewals: {}", each.join("; "))
        }
        Outcome::Release(ReleaseOutcome::Released) => "released".to_owned(),
        Outcome::Release(ReleaseOutcome::Ended { how })
        | Outcome::Revoke(RevokeOutcome::Ended { how }) => format!("had ended: {how}"),
        Outcome::Release(ReleaseOutcome::Unknown) | Outcome::Revoke(RevokeOutcome::Unknown) => {
            "unknown".to_owned()
        }
        Outcome::Expire { ended } => format!("{ended} expired"),
        Outcome::Revoke(RevokeOutcome::Revoked) => "revoked".to_owned(),
        Outcome::Revoke(RevokeOutcome::OtherResource) => {
            "refused: the token is of another resource".to_owned()
        }
        Outcome::RaiseFloor(RaiseFloorOutcome::Raised { floor }) => format!("floor {floor}"),
        Outcome::RaiseFloor(RaiseFloorOutcome::BeyondClock { limit }) => {
            format!("refused: beyond the clock, at most {limit}")
        }
        Outcome::Withdraw(each) => {
            let each: Vec<_> = each.iter().map(withdrawn).collect();
            format!("withdrawals: {}", each.join("; "))
        }
        Outcome::Promote(PromoteOutcome::Granted { token, .. }) => format!("promoted: {token}"),
        Outcome::Promote(PromoteOutcome::Nothing) => "nothing to promote".to_owned(),
        Outcome::Admit(outcome) => admitted(outcome),
    }
}

fn admitted(outcome: &AdmitOutcome) -> String {
    match outcome {
        AdmitOutcome::Admitted => "admitted".to_owned(),
        AdmitOutcome::Stale { required } => format!("stale: {required} is required"),
        AdmitOutcome::Ahead { last_token } => format!("ahead: the last token is {last_token}"),
        AdmitOutcome::TooManyMarks { limit } => format!("refused: {limit} marks already"),
    }
}

fn withdrawn(outcome: &WithdrawOutcome) -> String {
    match outcome {
        WithdrawOutcome::Left { how } => format!("the place is {how}"),
        WithdrawOutcome::Granted { token } => format!("has token {token}, release it"),
        WithdrawOutcome::Ended { token, how } => format!("had token {token}, which {how}"),
        WithdrawOutcome::Refused => "was refused".to_owned(),
        WithdrawOutcome::Marked => "not known, marked".to_owned(),
        WithdrawOutcome::Stale => "stale".to_owned(),
        WithdrawOutcome::Unknown => "not known".to_owned(),
    }
}

fn acquired(scene: &Scene, outcome: &AcquireOutcome) -> String {
    let again = |replayed: &bool| if *replayed { ", replayed" } else { "" };
    match outcome {
        AcquireOutcome::Granted {
            token,
            lease,
            replayed,
            after_wait,
        } => {
            let evidence = format!("from {}.{}", token.term(), token.index());
            let waited = if *after_wait { ", after waiting" } else { "" };
            format!(
                "granted token {token} ({evidence}), lease {lease}{waited}{}",
                again(replayed)
            )
        }
        AcquireOutcome::Queued {
            position,
            queue,
            replayed,
        } => format!("waits, {position} of {queue}{}", again(replayed)),
        AcquireOutcome::Left { how } => format!("waited, place {how}"),
        AcquireOutcome::Held {
            by: Some(HeldBy { holder, token }),
            queue,
            replayed,
        } => {
            let left = scene.replica.clock().remaining(token.value(), scene.now);
            let left = left.unwrap_or_default().as_millis();
            let waiting = match queue {
                0 => String::new(),
                many => format!(", {many} waiting"),
            };
            let again = again(replayed);
            format!("refused: held by {holder} with token {token}, {left} ms left{waiting}{again}")
        }
        AcquireOutcome::Held {
            by: None, replayed, ..
        } => {
            format!("refused: was held, is free now{}", again(replayed))
        }
        AcquireOutcome::Ended { token, how } => format!("had token {token}, which {how}"),
        AcquireOutcome::TooOld => "too old: outcome unknown".to_owned(),
        AcquireOutcome::ParametersDiffer => "refused: parameters differ".to_owned(),
        AcquireOutcome::TooManyGrants { limit, replayed } => {
            format!("refused: {limit} grants live already{}", again(replayed))
        }
        AcquireOutcome::TooManyWaiters {
            limit,
            of_resource,
            replayed,
        } => {
            let whose = if *of_resource { "for it" } else { "in all" };
            format!("refused: {limit} wait {whose} already{}", again(replayed))
        }
        AcquireOutcome::TooManyGrantsOfHolder { limit, replayed } => {
            format!("refused: the holder has {limit} already{}", again(replayed))
        }
    }
}

pub(crate) fn lines(lines: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    lines.for_each(|line| writeln!(text, "{line}").unwrap());
    text
}

pub(crate) fn due(lease: &DueLease) -> String {
    format!("token {}, renewed {} times", lease.token, lease.renewals)
}

fn renewed(outcome: &RenewOutcome) -> String {
    match outcome {
        RenewOutcome::Renewed { lease, renewals } => format!("lease {lease}, renewal {renewals}"),
        RenewOutcome::Ended { how } => format!("had ended: {how}"),
        RenewOutcome::Unknown => "unknown".to_owned(),
    }
}

pub(crate) fn described(grant: &Grant) -> String {
    let Grant {
        resource,
        holder,
        token,
        ttl,
        renewals,
        ..
    } = grant;
    format!("{resource} is held by {holder}: token {token}, ttl {ttl}, renewed {renewals} times")
}

pub(crate) fn happened(event: &Event) -> String {
    match event {
        Event::Granted {
            resource,
            holder,
            token,
            lease,
            after_wait,
            ..
        } => {
            let lease = match after_wait {
                true => format!(", unclaimed for {lease}"),
                false => String::new(),
            };
            format!("granted {resource} to {holder}, token {token}{lease}")
        }
        Event::Queued {
            resource,
            holder,
            position,
            ..
        } => format!("queued {holder} for {resource} at {position}"),
        Event::Left {
            resource,
            holder,
            how,
            ..
        } => format!("{holder} left the queue for {resource}: {how}"),
        Event::Renewed {
            resource, token, ..
        } => format!("renewed {resource}, token {token}"),
        Event::Ended {
            resource,
            holder,
            token,
            how,
            reason,
            ..
        } => {
            let why = reason
                .as_ref()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            format!("{how} {resource} of {holder}, token {token}{why}")
        }
        Event::FloorRaised { floor } => format!("floor raised to {floor}"),
        Event::Admitted { resource, token } => format!("mark of {resource} at {token}"),
    }
}

pub(crate) fn waiter(waiter: &Waiter) -> String {
    let Waiter {
        holder,
        attempt,
        ttl,
        wait_ms,
        ..
    } = waiter;
    format!("{holder} waits {wait_ms} ms at most, for a ttl of {ttl}, attempt {attempt}")
}

pub(crate) fn names(names: &[ResourceName]) -> impl Iterator<Item = String> {
    names.iter().map(ResourceName::to_string)
}

pub(crate) fn stands(standing: &Standing) -> String {
    match standing {
        Standing::Waiting {
            position,
            queue,
            attempt,
        } => format!("waits, {position} of {queue}, attempt {attempt}"),
        Standing::Granted {
            token,
            lease,
            after_wait,
        } => {
            let waited = if *after_wait { ", after waiting" } else { "" };
            format!("has token {token}, lease {lease}{waited}")
        }
        Standing::Ended { token, how } => format!("had token {token}, which {how}"),
        Standing::Left { how } => format!("waited, place {how}"),
        Standing::Refused => "was refused".to_owned(),
        Standing::Unknown => "not known".to_owned(),
    }
}
