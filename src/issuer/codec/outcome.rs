//! Outcomes, as the chained hash covers them and as one node passes them on to another.

use super::bytes::{Put, Reader};
use super::{DecodeError, fields, tag};
use crate::issuer::{
    AcquireOutcome, HeldBy, Outcome, RaiseFloorOutcome, ReleaseOutcome, RenewOutcome, RevokeOutcome,
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
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
}

fn put_acquire(bytes: &mut Vec<u8>, outcome: &AcquireOutcome) {
    match outcome {
        AcquireOutcome::Granted {
            token,
            lease,
            replayed,
        } => {
            bytes.put(&[answer::GRANTED, u8::from(*replayed)]);
            fields::put_token(bytes, token);
            fields::put_ttl(bytes, *lease);
        }
        AcquireOutcome::Held { by, replayed } => {
            bytes.put(&[answer::HELD, u8::from(*replayed), u8::from(by.is_some())]);
            if let Some(HeldBy { holder, token }) = by {
                bytes.put_text(holder.as_str());
                fields::put_token(bytes, token);
            }
        }
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
    }
}

fn read_acquire(reader: &mut Reader<'_>) -> Result<AcquireOutcome, DecodeError> {
    match reader.u8()? {
        answer::GRANTED => {
            let replayed = fields::flag(reader, "replayed")?;
            let token = fields::token(reader)?;
            Ok(AcquireOutcome::Granted {
                token,
                lease: fields::ttl(reader)?,
                replayed,
            })
        }
        answer::HELD => {
            let replayed = fields::flag(reader, "replayed")?;
            let by = if fields::flag(reader, "held by")? {
                Some(HeldBy {
                    holder: fields::holder(reader)?,
                    token: fields::token(reader)?,
                })
            } else {
                None
            };
            Ok(AcquireOutcome::Held { by, replayed })
        }
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
        found => Err(DecodeError::Tag { what: WHAT, found }),
    }
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
