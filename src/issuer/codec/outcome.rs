//! Outcomes, as the chained hash covers them and as one node passes them on to another.

use super::bytes::{Put, Reader};
use super::{DecodeError, fields, tag};
use crate::issuer::{
    AcquireOutcome, AdmitOutcome, HeldBy, Outcome, PromoteOutcome, RaiseFloorOutcome,
    ReleaseOutcome, RenewOutcome, RequestKey, RevokeOutcome, WithdrawOutcome,
};

/// The numbers of answers; one set for all commands, so that a word has one number.
mod answer {
    pub(super) const GRANTED: u8 = 1;
    pub(super) const HELD: u8 = 2;
    pub(super) const ENDED: u8 = 3;
    pub(super) const TOO_OLD: u8 = 4;
    pub(super) const PARAMETERS_DIFFER: u8 = 5;
    pub(super) const TOO_MANY_GRANTS: u8 = 6;
    pub(super) const RENEWED: u8 = 7;
    pub(super) const UNKNOWN: u8 = 8;
    pub(super) const RELEASED: u8 = 9;
    pub(super) const REVOKED: u8 = 10;
    pub(super) const OTHER_RESOURCE: u8 = 11;
    pub(super) const RAISED: u8 = 12;
    pub(super) const BEYOND_CLOCK: u8 = 13;
    pub(super) const QUEUED: u8 = 14;
    pub(super) const LEFT: u8 = 15;
    pub(super) const TOO_MANY_WAITERS: u8 = 16;
    pub(super) const TOO_MANY_GRANTS_OF_HOLDER: u8 = 17;
    pub(super) const REFUSED: u8 = 18;
    pub(super) const MARKED: u8 = 19;
    pub(super) const STALE: u8 = 20;
    pub(super) const NOTHING: u8 = 21;
    pub(super) const ADMITTED: u8 = 22;
    pub(super) const AHEAD: u8 = 23;
    pub(super) const TOO_MANY_MARKS: u8 = 24;
}

/// The bits of the byte behind the number of an answer to an acquire. What came later took the next
/// bit, so that what was there before has the bytes that it always had.
mod flag {
    /// The request id was known.
    pub(super) const REPLAYED: u8 = 1;
    /// The grant came from the queue.
    pub(super) const AFTER_WAIT: u8 = 2;
    /// The limit is that of one resource.
    pub(super) const OF_RESOURCE: u8 = 2;
    /// A number of waiters, not zero, ends the answer.
    pub(super) const QUEUE: u8 = 2;
}

const WHAT: &str = "outcome";

/// An outcome begins with the number of the command that it answers.
pub(super) fn put(bytes: &mut Vec<u8>, outcome: &Outcome) {
    match outcome {
        Outcome::Acquire(acquire) => {
            bytes.put_u8(tag::ACQUIRE);
            put_acquire(bytes, acquire);
        }
        Outcome::Renew(each) => {
            bytes.put_u8(tag::RENEW);
            bytes.put_varint(each.len() as u64);
            each.iter().for_each(|renewal| put_renew(bytes, *renewal));
        }
        Outcome::Release(release) => {
            bytes.put_u8(tag::RELEASE);
            put_release(bytes, *release);
        }
        Outcome::Expire { ended } => {
            bytes.put_u8(tag::EXPIRE);
            bytes.put_varint(u64::from(*ended));
        }
        Outcome::Revoke(revoke) => {
            bytes.put_u8(tag::REVOKE);
            put_revoke(bytes, *revoke);
        }
        Outcome::RaiseFloor(raise) => {
            bytes.put_u8(tag::RAISE_FLOOR);
            let (number, value) = match raise {
                RaiseFloorOutcome::Raised { floor } => (answer::RAISED, floor),
                RaiseFloorOutcome::BeyondClock { limit } => (answer::BEYOND_CLOCK, limit),
            };
            bytes.put_u8(number);
            bytes.put_u64(*value);
        }
        Outcome::Withdraw(each) => {
            bytes.put_u8(tag::WITHDRAW);
            bytes.put_varint(each.len() as u64);
            each.iter().for_each(|place| put_withdraw(bytes, *place));
        }
        Outcome::Promote(promote) => {
            bytes.put_u8(tag::PROMOTE);
            put_promote(bytes, *promote);
        }
        Outcome::Admit(admit) => {
            bytes.put_u8(tag::ADMIT);
            put_admit(bytes, *admit);
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
    match reader.u8()? {
        tag::ACQUIRE => read_acquire(reader).map(Outcome::Acquire),
        tag::RENEW => {
            let count = reader.count(1)?;
            (0..count)
                .map(|_| read_renew(reader))
                .collect::<Result<_, _>>()
                .map(Outcome::Renew)
        }
        tag::RELEASE => read_release(reader).map(Outcome::Release),
        tag::EXPIRE => Ok(Outcome::Expire {
            ended: reader.varint_u32("ended")?,
        }),
        tag::REVOKE => read_revoke(reader).map(Outcome::Revoke),
        tag::RAISE_FLOOR => match reader.u8()? {
            answer::RAISED => Ok(Outcome::RaiseFloor(RaiseFloorOutcome::Raised {
                floor: reader.u64()?,
            })),
            answer::BEYOND_CLOCK => Ok(Outcome::RaiseFloor(RaiseFloorOutcome::BeyondClock {
                limit: reader.u64()?,
            })),
            found => Err(DecodeError::Tag { what: WHAT, found }),
        },
        tag::WITHDRAW => {
            let count = reader.count(1)?;
            (0..count)
                .map(|_| read_withdraw(reader))
                .collect::<Result<_, _>>()
                .map(Outcome::Withdraw)
        }
        tag::PROMOTE => read_promote(reader).map(Outcome::Promote),
        tag::ADMIT => read_admit(reader).map(Outcome::Admit),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_acquire(bytes: &mut Vec<u8>, outcome: &AcquireOutcome) {
    match outcome {
        AcquireOutcome::Granted {
            token,
            lease,
            replayed,
            after_wait,
        } => {
            bytes.put_u8(answer::GRANTED);
            put_flags(bytes, *replayed, *after_wait, flag::AFTER_WAIT);
            fields::put_token(bytes, token);
            fields::put_ttl(bytes, *lease);
        }
        AcquireOutcome::Queued {
            position,
            queue,
            replayed,
        } => {
            bytes.put(&[answer::QUEUED, u8::from(*replayed)]);
            bytes.put_varint(u64::from(*position));
            bytes.put_varint(u64::from(*queue));
        }
        AcquireOutcome::Left { how } => {
            bytes.put_u8(answer::LEFT);
            fields::put_left(bytes, *how);
        }
        AcquireOutcome::Held {
            by,
            queue,
            replayed,
        } => put_held(bytes, by.as_ref(), *queue, *replayed),
        AcquireOutcome::Ended { token, how } => {
            bytes.put_u8(answer::ENDED);
            fields::put_token(bytes, token);
            fields::put_how(bytes, *how);
        }
        AcquireOutcome::TooOld => bytes.put_u8(answer::TOO_OLD),
        AcquireOutcome::ParametersDiffer => bytes.put_u8(answer::PARAMETERS_DIFFER),
        AcquireOutcome::TooManyGrants { limit, replayed } => {
            bytes.put(&[answer::TOO_MANY_GRANTS, u8::from(*replayed)]);
            bytes.put_u64(*limit);
        }
        AcquireOutcome::TooManyWaiters {
            limit,
            of_resource,
            replayed,
        } => {
            bytes.put_u8(answer::TOO_MANY_WAITERS);
            put_flags(bytes, *replayed, *of_resource, flag::OF_RESOURCE);
            bytes.put_varint(u64::from(*limit));
        }
        AcquireOutcome::TooManyGrantsOfHolder { limit, replayed } => {
            bytes.put(&[answer::TOO_MANY_GRANTS_OF_HOLDER, u8::from(*replayed)]);
            bytes.put_varint(u64::from(*limit));
        }
    }
}

fn put_held(bytes: &mut Vec<u8>, by: Option<&HeldBy>, queue: u32, replayed: bool) {
    bytes.put_u8(answer::HELD);
    put_flags(bytes, replayed, queue > 0, flag::QUEUE);
    bytes.put_u8(u8::from(by.is_some()));
    if let Some(HeldBy { holder, token }) = by {
        bytes.put_text(holder.as_str());
        fields::put_token(bytes, token);
    }
    if queue > 0 {
        bytes.put_varint(u64::from(queue));
    }
}

fn read_acquire(reader: &mut Reader<'_>) -> Result<AcquireOutcome, DecodeError> {
    match reader.u8()? {
        answer::GRANTED => {
            let (replayed, after_wait) = flags(reader, flag::AFTER_WAIT)?;
            let token = fields::token(reader)?;
            Ok(AcquireOutcome::Granted {
                token,
                lease: fields::ttl(reader)?,
                replayed,
                after_wait,
            })
        }
        answer::QUEUED => Ok(AcquireOutcome::Queued {
            replayed: fields::flag(reader, "replayed")?,
            position: reader.varint_u32("position")?,
            queue: reader.varint_u32("queue")?,
        }),
        answer::LEFT => Ok(AcquireOutcome::Left {
            how: fields::left(reader)?,
        }),
        answer::HELD => read_held(reader),
        answer::ENDED => {
            let token = fields::token(reader)?;
            Ok(AcquireOutcome::Ended {
                token,
                how: fields::how(reader)?,
            })
        }
        answer::TOO_OLD => Ok(AcquireOutcome::TooOld),
        answer::PARAMETERS_DIFFER => Ok(AcquireOutcome::ParametersDiffer),
        answer::TOO_MANY_GRANTS => {
            let replayed = fields::flag(reader, "replayed")?;
            Ok(AcquireOutcome::TooManyGrants {
                limit: reader.u64()?,
                replayed,
            })
        }
        answer::TOO_MANY_WAITERS => {
            let (replayed, of_resource) = flags(reader, flag::OF_RESOURCE)?;
            Ok(AcquireOutcome::TooManyWaiters {
                limit: reader.varint_u32("limit")?,
                of_resource,
                replayed,
            })
        }
        answer::TOO_MANY_GRANTS_OF_HOLDER => Ok(AcquireOutcome::TooManyGrantsOfHolder {
            replayed: fields::flag(reader, "replayed")?,
            limit: reader.varint_u32("limit")?,
        }),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn read_held(reader: &mut Reader<'_>) -> Result<AcquireOutcome, DecodeError> {
    let (replayed, queued) = flags(reader, flag::QUEUE)?;
    let by = if fields::flag(reader, "held by")? {
        Some(HeldBy {
            holder: fields::holder(reader)?,
            token: fields::token(reader)?,
        })
    } else {
        None
    };
    let queue = match queued {
        false => 0,
        true => reader.varint_u32("queue")?,
    };
    // One form only: no waiters are not spelled.
    if queued && queue == 0 {
        return Err(DecodeError::Field { field: "queue" });
    }
    Ok(AcquireOutcome::Held {
        by,
        queue,
        replayed,
    })
}

/// Whether it is a replay, and one thing more.
fn put_flags(bytes: &mut Vec<u8>, replayed: bool, other: bool, bit: u8) {
    let replayed = if replayed { flag::REPLAYED } else { 0 };
    bytes.put_u8(replayed | if other { bit } else { 0 });
}

fn flags(reader: &mut Reader<'_>, bit: u8) -> Result<(bool, bool), DecodeError> {
    let byte = reader.u8()?;
    if byte & !(flag::REPLAYED | bit) != 0 {
        return Err(DecodeError::Field { field: "flags" });
    }
    Ok((byte & flag::REPLAYED != 0, byte & bit != 0))
}

fn put_renew(bytes: &mut Vec<u8>, outcome: RenewOutcome) {
    match outcome {
        RenewOutcome::Renewed { lease, renewals } => {
            bytes.put_u8(answer::RENEWED);
            fields::put_ttl(bytes, lease);
            bytes.put_varint(renewals);
        }
        RenewOutcome::Ended { how } => {
            bytes.put_u8(answer::ENDED);
            fields::put_how(bytes, how);
        }
        RenewOutcome::Unknown => bytes.put_u8(answer::UNKNOWN),
    }
}

fn read_renew(reader: &mut Reader<'_>) -> Result<RenewOutcome, DecodeError> {
    match reader.u8()? {
        answer::RENEWED => {
            let lease = fields::ttl(reader)?;
            Ok(RenewOutcome::Renewed {
                lease,
                renewals: reader.varint()?,
            })
        }
        answer::ENDED => Ok(RenewOutcome::Ended {
            how: fields::how(reader)?,
        }),
        answer::UNKNOWN => Ok(RenewOutcome::Unknown),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_release(bytes: &mut Vec<u8>, outcome: ReleaseOutcome) {
    match outcome {
        ReleaseOutcome::Released => bytes.put_u8(answer::RELEASED),
        ReleaseOutcome::Ended { how } => {
            bytes.put_u8(answer::ENDED);
            fields::put_how(bytes, how);
        }
        ReleaseOutcome::Unknown => bytes.put_u8(answer::UNKNOWN),
    }
}

fn read_release(reader: &mut Reader<'_>) -> Result<ReleaseOutcome, DecodeError> {
    match reader.u8()? {
        answer::RELEASED => Ok(ReleaseOutcome::Released),
        answer::ENDED => Ok(ReleaseOutcome::Ended {
            how: fields::how(reader)?,
        }),
        answer::UNKNOWN => Ok(ReleaseOutcome::Unknown),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_revoke(bytes: &mut Vec<u8>, outcome: RevokeOutcome) {
    match outcome {
        RevokeOutcome::Revoked => bytes.put_u8(answer::REVOKED),
        RevokeOutcome::Ended { how } => {
            bytes.put_u8(answer::ENDED);
            fields::put_how(bytes, how);
        }
        RevokeOutcome::OtherResource => bytes.put_u8(answer::OTHER_RESOURCE),
        RevokeOutcome::Unknown => bytes.put_u8(answer::UNKNOWN),
    }
}

fn read_revoke(reader: &mut Reader<'_>) -> Result<RevokeOutcome, DecodeError> {
    match reader.u8()? {
        answer::REVOKED => Ok(RevokeOutcome::Revoked),
        answer::ENDED => Ok(RevokeOutcome::Ended {
            how: fields::how(reader)?,
        }),
        answer::OTHER_RESOURCE => Ok(RevokeOutcome::OtherResource),
        answer::UNKNOWN => Ok(RevokeOutcome::Unknown),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_withdraw(bytes: &mut Vec<u8>, outcome: WithdrawOutcome) {
    match outcome {
        WithdrawOutcome::Left { how } => {
            bytes.put_u8(answer::LEFT);
            fields::put_left(bytes, how);
        }
        WithdrawOutcome::Granted { token } => {
            bytes.put_u8(answer::GRANTED);
            fields::put_token(bytes, &token);
        }
        WithdrawOutcome::Ended { token, how } => {
            bytes.put_u8(answer::ENDED);
            fields::put_token(bytes, &token);
            fields::put_how(bytes, how);
        }
        WithdrawOutcome::Refused => bytes.put_u8(answer::REFUSED),
        WithdrawOutcome::Marked => bytes.put_u8(answer::MARKED),
        WithdrawOutcome::Stale => bytes.put_u8(answer::STALE),
        WithdrawOutcome::Unknown => bytes.put_u8(answer::UNKNOWN),
    }
}

fn read_withdraw(reader: &mut Reader<'_>) -> Result<WithdrawOutcome, DecodeError> {
    match reader.u8()? {
        answer::LEFT => Ok(WithdrawOutcome::Left {
            how: fields::left(reader)?,
        }),
        answer::GRANTED => Ok(WithdrawOutcome::Granted {
            token: fields::token(reader)?,
        }),
        answer::ENDED => {
            let token = fields::token(reader)?;
            Ok(WithdrawOutcome::Ended {
                token,
                how: fields::how(reader)?,
            })
        }
        answer::REFUSED => Ok(WithdrawOutcome::Refused),
        answer::MARKED => Ok(WithdrawOutcome::Marked),
        answer::STALE => Ok(WithdrawOutcome::Stale),
        answer::UNKNOWN => Ok(WithdrawOutcome::Unknown),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_promote(bytes: &mut Vec<u8>, outcome: PromoteOutcome) {
    match outcome {
        PromoteOutcome::Granted { token, request } => {
            bytes.put_u8(answer::GRANTED);
            fields::put_token(bytes, &token);
            bytes.put(request.as_bytes());
        }
        PromoteOutcome::Nothing => bytes.put_u8(answer::NOTHING),
    }
}

fn read_promote(reader: &mut Reader<'_>) -> Result<PromoteOutcome, DecodeError> {
    match reader.u8()? {
        answer::GRANTED => Ok(PromoteOutcome::Granted {
            token: fields::token(reader)?,
            request: RequestKey::from_bytes(reader.array()?),
        }),
        answer::NOTHING => Ok(PromoteOutcome::Nothing),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_admit(bytes: &mut Vec<u8>, outcome: AdmitOutcome) {
    match outcome {
        AdmitOutcome::Admitted => bytes.put_u8(answer::ADMITTED),
        AdmitOutcome::Stale { required } => {
            bytes.put_u8(answer::STALE);
            bytes.put_u64(required.get());
        }
        AdmitOutcome::Ahead { last_token } => {
            bytes.put_u8(answer::AHEAD);
            bytes.put_u64(last_token);
        }
        AdmitOutcome::TooManyMarks { limit } => {
            bytes.put_u8(answer::TOO_MANY_MARKS);
            bytes.put_u64(limit);
        }
    }
}

fn read_admit(reader: &mut Reader<'_>) -> Result<AdmitOutcome, DecodeError> {
    match reader.u8()? {
        answer::ADMITTED => Ok(AdmitOutcome::Admitted),
        answer::STALE => Ok(AdmitOutcome::Stale {
            required: fields::token_value(reader)?,
        }),
        answer::AHEAD => Ok(AdmitOutcome::Ahead {
            last_token: reader.u64()?,
        }),
        answer::TOO_MANY_MARKS => Ok(AdmitOutcome::TooManyMarks {
            limit: reader.u64()?,
        }),
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}
