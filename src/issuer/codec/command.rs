//! Commands, as they rest in the log and travel between nodes.

use super::bytes::{Put, Reader};
use super::{DecodeError, fields, tag};
use crate::grant::{AskedAt, ClusterId};
use crate::issuer::{
    Acquire, Admit, Command, DueLease, Expire, Leaving, Promote, RaiseFloor, Release, Renew,
    Renewal, RequestKey, Revoke, Withdraw,
};
use crate::limits::{
    EXPIRIES_PER_COMMAND_MAX, EXPIRY_BYTES, RENEWAL_BYTES_MIN, WITHDRAWAL_BYTES_MIN,
};

pub(super) fn put(bytes: &mut Vec<u8>, command: &Command) {
    match command {
        Command::Acquire(acquire) => put_acquire(bytes, acquire),
        Command::Renew(renew) => put_renew(bytes, renew),
        Command::Release(release) => {
            bytes.put_u8(tag::RELEASE);
            bytes.put_u64(release.stamped_at_ms);
            bytes.put_u64(release.token.get());
        }
        Command::Expire(expire) => put_expire(bytes, expire),
        Command::Revoke(revoke) => {
            bytes.put_u8(tag::REVOKE);
            bytes.put_u64(revoke.stamped_at_ms);
            bytes.put_text(revoke.resource.as_str());
            bytes.put_u64(revoke.token.get());
            fields::put_reason(bytes, revoke.reason.as_ref());
        }
        Command::RaiseFloor(raise) => {
            bytes.put_u8(tag::RAISE_FLOOR);
            bytes.put_u64(raise.stamped_at_us);
            bytes.put_u64(raise.above);
        }
        Command::Withdraw(withdraw) => put_withdraw(bytes, withdraw),
        Command::Promote(promote) => {
            bytes.put_u8(tag::PROMOTE);
            bytes.put_u64(promote.stamped_at_ms);
            bytes.put_text(promote.resource.as_str());
        }
        Command::Admit(admit) => {
            bytes.put_u8(tag::ADMIT);
            bytes.put_u64(admit.stamped_at_ms);
            bytes.put_text(admit.resource.as_str());
            bytes.put_u64(admit.token.get());
            bytes.put_u8(u8::from(admit.once));
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Command, DecodeError> {
    match reader.u8()? {
        tag::ACQUIRE => read_acquire(reader).map(Command::Acquire),
        tag::RENEW => read_renew(reader).map(Command::Renew),
        tag::RELEASE => {
            let stamped_at_ms = reader.u64()?;
            let token = fields::token_value(reader)?;
            Ok(Command::Release(Release {
                token,
                stamped_at_ms,
            }))
        }
        tag::EXPIRE => read_expire(reader).map(Command::Expire),
        tag::REVOKE => read_revoke(reader).map(Command::Revoke),
        tag::RAISE_FLOOR => {
            let stamped_at_us = reader.u64()?;
            let above = reader.u64()?;
            Ok(Command::RaiseFloor(RaiseFloor {
                above,
                stamped_at_us,
            }))
        }
        tag::WITHDRAW => read_withdraw(reader).map(Command::Withdraw),
        tag::PROMOTE => {
            let stamped_at_ms = reader.u64()?;
            Ok(Command::Promote(Promote {
                resource: fields::resource(reader)?,
                stamped_at_ms,
            }))
        }
        tag::ADMIT => {
            let stamped_at_ms = reader.u64()?;
            Ok(Command::Admit(Admit {
                resource: fields::resource(reader)?,
                token: fields::token_value(reader)?,
                once: fields::flag(reader, "once")?,
                stamped_at_ms,
            }))
        }
        found => Err(DecodeError::Tag {
            what: "command",
            found,
        }),
    }
}

fn put_acquire(bytes: &mut Vec<u8>, acquire: &Acquire) {
    bytes.put_u8(tag::ACQUIRE);
    bytes.put_u64(acquire.stamped_at_ms);
    bytes.put_text(acquire.resource.as_str());
    bytes.put_text(acquire.holder.as_str());
    fields::put_ttl(bytes, acquire.ttl);
    bytes.put(acquire.request.as_bytes());
    bytes.put_varint(u64::from(acquire.attempt));
    bytes.put_varint(u64::from(acquire.wait_ms));
    bytes.put_u8(u8::from(acquire.asked_at.is_some()));
    if let Some(asked_at) = &acquire.asked_at {
        bytes.put_u128(asked_at.cluster.get());
        bytes.put_u64(asked_at.applied);
    }
}

fn read_acquire(reader: &mut Reader<'_>) -> Result<Acquire, DecodeError> {
    let stamped_at_ms = reader.u64()?;
    let resource = fields::resource(reader)?;
    let holder = fields::holder(reader)?;
    let ttl = fields::ttl(reader)?;
    let request = RequestKey::from_bytes(reader.array()?);
    let attempt = reader.varint_u32("attempt")?;
    let wait_ms = reader.varint_u32("wait")?;
    let asked_at = if fields::flag(reader, "asked_at")? {
        Some(AskedAt {
            cluster: ClusterId::new(reader.u128()?),
            applied: reader.u64()?,
        })
    } else {
        None
    };
    Ok(Acquire {
        resource,
        holder,
        ttl,
        request,
        attempt,
        asked_at,
        wait_ms,
        stamped_at_ms,
    })
}

fn put_renew(bytes: &mut Vec<u8>, renew: &Renew) {
    bytes.put_u8(tag::RENEW);
    bytes.put_u64(renew.stamped_at_ms);
    bytes.put_varint(renew.renewals.len() as u64);
    for renewal in &renew.renewals {
        bytes.put_u64(renewal.token.get());
        fields::put_optional_ttl(bytes, renewal.ttl);
    }
}

fn read_renew(reader: &mut Reader<'_>) -> Result<Renew, DecodeError> {
    let stamped_at_ms = reader.u64()?;
    let count = reader.count(RENEWAL_BYTES_MIN)?;
    let mut renewals = Vec::with_capacity(count);
    for _ in 0..count {
        let token = fields::token_value(reader)?;
        let ttl = fields::optional_ttl(reader)?;
        renewals.push(Renewal { token, ttl });
    }
    Ok(Renew {
        renewals,
        stamped_at_ms,
    })
}

fn put_expire(bytes: &mut Vec<u8>, expire: &Expire) {
    bytes.put_u8(tag::EXPIRE);
    bytes.put_u64(expire.stamped_at_ms);
    bytes.put_varint(expire.leases.len() as u64);
    for lease in &expire.leases {
        bytes.put_u64(lease.token.get());
        bytes.put_u64(lease.renewals);
    }
}

fn read_expire(reader: &mut Reader<'_>) -> Result<Expire, DecodeError> {
    let stamped_at_ms = reader.u64()?;
    let count = reader.count(EXPIRY_BYTES)?;
    if count > EXPIRIES_PER_COMMAND_MAX {
        return Err(DecodeError::Field { field: "leases" });
    }
    let mut leases = Vec::with_capacity(count);
    for _ in 0..count {
        let token = fields::token_value(reader)?;
        let renewals = reader.u64()?;
        leases.push(DueLease { token, renewals });
    }
    Ok(Expire {
        leases,
        stamped_at_ms,
    })
}

fn read_revoke(reader: &mut Reader<'_>) -> Result<Revoke, DecodeError> {
    let stamped_at_ms = reader.u64()?;
    let resource = fields::resource(reader)?;
    let token = fields::token_value(reader)?;
    let reason = fields::reason(reader)?;
    Ok(Revoke {
        resource,
        token,
        reason,
        stamped_at_ms,
    })
}

fn put_withdraw(bytes: &mut Vec<u8>, withdraw: &Withdraw) {
    bytes.put_u8(tag::WITHDRAW);
    bytes.put_u64(withdraw.stamped_at_ms);
    fields::put_left(bytes, withdraw.how);
    bytes.put_varint(withdraw.places.len() as u64);
    for Leaving { request, attempt } in &withdraw.places {
        bytes.put(request.as_bytes());
        bytes.put_varint(u64::from(*attempt));
    }
}

fn read_withdraw(reader: &mut Reader<'_>) -> Result<Withdraw, DecodeError> {
    let stamped_at_ms = reader.u64()?;
    let how = fields::left(reader)?;
    let count = reader.count(WITHDRAWAL_BYTES_MIN)?;
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        let request = RequestKey::from_bytes(reader.array()?);
        let attempt = reader.varint_u32("attempt")?;
        places.push(Leaving { request, attempt });
    }
    Ok(Withdraw {
        places,
        how,
        stamped_at_ms,
    })
}
