//! The records of a snapshot, each written by one function and read back by another.

use super::{SnapshotError, head::Format};
use crate::grant::Grant;
use crate::issuer::codec::bytes::{Put, Reader};
use crate::issuer::codec::{DecodeError, fields};
use crate::issuer::grants::{Asked, Live};
use crate::issuer::queues::Place;
use crate::issuer::requests::{CameOut, Mark, Settled, Settlement};
use crate::issuer::{InstanceId, Machine, RequestKey, Waiter};
use crate::resource::ResourceName;
use crate::token::TokenValue;

pub(super) const HEAD: u8 = 1;
pub(super) const NODE_ID: u8 = 2;
const SETTLED: u8 = 3;
const GRANT: u8 = 4;
pub(super) const END: u8 = 5;
const MARKED: u8 = 6;
const OVERTAKEN: u8 = 7;
const PLACE: u8 = 8;
const MARK: u8 = 9;

const CAME_OUT_HELD: u8 = 1;
const CAME_OUT_TOO_MANY_GRANTS: u8 = 2;
const CAME_OUT_ENDED: u8 = 3;
const CAME_OUT_LEFT: u8 = 4;
const CAME_OUT_TOO_MANY_WAITERS: u8 = 5;
const CAME_OUT_TOO_MANY_GRANTS_OF_HOLDER: u8 = 6;

fn put_asked(bytes: &mut Vec<u8>, asked: &Asked) {
    bytes.put(asked.key.as_bytes());
    bytes.put_u64(asked.first_index);
    fields::put_ttl(bytes, asked.ttl);
    bytes.put_varint(u64::from(asked.wait_ms));
    bytes.put_varint(u64::from(asked.attempt));
}

fn read_asked(reader: &mut Reader<'_>) -> Result<Asked, DecodeError> {
    Ok(Asked {
        key: RequestKey::from_bytes(reader.array()?),
        first_index: reader.u64()?,
        ttl: fields::ttl(reader)?,
        wait_ms: reader.varint_u32("wait")?,
        attempt: reader.varint_u32("attempt")?,
    })
}

pub(super) fn put_settlement(bytes: &mut Vec<u8>, settlement: &Settlement) {
    match settlement {
        Settlement::Settled(Settled { asked, came_out }) => {
            bytes.put_u8(SETTLED);
            put_asked(bytes, asked);
            put_came_out(bytes, came_out);
        }
        Settlement::Marked(mark) => {
            bytes.put_u8(MARKED);
            bytes.put(mark.key.as_bytes());
            bytes.put_u64(mark.first_index);
            bytes.put_varint(u64::from(mark.attempt));
        }
        Settlement::Overtaken => bytes.put_u8(OVERTAKEN),
    }
}

fn put_came_out(bytes: &mut Vec<u8>, came_out: &CameOut) {
    match came_out {
        CameOut::Held => bytes.put_u8(CAME_OUT_HELD),
        CameOut::TooManyGrants => bytes.put_u8(CAME_OUT_TOO_MANY_GRANTS),
        CameOut::Ended { token, how } => {
            bytes.put_u8(CAME_OUT_ENDED);
            fields::put_token(bytes, token);
            fields::put_how(bytes, *how);
        }
        CameOut::Left(how) => {
            bytes.put_u8(CAME_OUT_LEFT);
            fields::put_left(bytes, *how);
        }
        CameOut::TooManyWaiters { of_resource } => {
            bytes.put(&[CAME_OUT_TOO_MANY_WAITERS, u8::from(*of_resource)]);
        }
        CameOut::TooManyGrantsOfHolder => bytes.put_u8(CAME_OUT_TOO_MANY_GRANTS_OF_HOLDER),
    }
}

fn read_came_out(reader: &mut Reader<'_>) -> Result<CameOut, DecodeError> {
    let what = "settled request";
    match reader.u8()? {
        CAME_OUT_HELD => Ok(CameOut::Held),
        CAME_OUT_TOO_MANY_GRANTS => Ok(CameOut::TooManyGrants),
        CAME_OUT_ENDED => {
            let token = fields::token(reader)?;
            let how = fields::how(reader)?;
            Ok(CameOut::Ended { token, how })
        }
        CAME_OUT_LEFT => fields::left(reader).map(CameOut::Left),
        CAME_OUT_TOO_MANY_WAITERS => {
            let of_resource = fields::flag(reader, "of_resource")?;
            Ok(CameOut::TooManyWaiters { of_resource })
        }
        CAME_OUT_TOO_MANY_GRANTS_OF_HOLDER => Ok(CameOut::TooManyGrantsOfHolder),
        found => Err(DecodeError::Tag { what, found }),
    }
}

pub(super) fn put_grant(bytes: &mut Vec<u8>, live: &Live) {
    let Live { grant, asked } = live;
    bytes.put_u8(GRANT);
    bytes.put_text(grant.resource.as_str());
    bytes.put_text(grant.holder.as_str());
    fields::put_token(bytes, &grant.token);
    fields::put_ttl(bytes, grant.ttl);
    bytes.put_varint(grant.renewals);
    bytes.put_u64(grant.granted_at_ms);
    bytes.put_u64(grant.expires_at_ms);
    put_asked(bytes, asked);
    bytes.put_u8(u8::from(grant.after_wait));
}

pub(super) fn put_place(bytes: &mut Vec<u8>, place: &Place) {
    bytes.put_u8(PLACE);
    bytes.put_text(place.waiter.resource.as_str());
    bytes.put_text(place.waiter.holder.as_str());
    bytes.put_u64(place.waiter.queued_at_ms);
    put_asked(bytes, &place.asked());
}

pub(super) fn put_mark(bytes: &mut Vec<u8>, resource: &ResourceName, token: TokenValue) {
    bytes.put_u8(MARK);
    bytes.put_text(resource.as_str());
    bytes.put_u64(token.get());
}

/// A state that is being read.
pub(super) struct Reading {
    machine: Machine,
    format: Format,
}

impl Reading {
    /// What the head says is there; the rest is to come.
    pub(super) fn of(machine: Machine, format: Format) -> Self {
        Self { machine, format }
    }

    pub(super) fn node_id(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = tagged(record, NODE_ID)?;
        let (id, instance) = (reader.u64()?, InstanceId::new(reader.u128()?));
        reader.end()?;
        let node_ids = &mut self.machine.node_ids;
        if node_ids
            .last_key_value()
            .is_some_and(|(last, _)| *last >= id)
        {
            return Err(SnapshotError::Inconsistent {
                what: "node ids do not rise",
            });
        }
        node_ids.insert(id, instance);
        Ok(())
    }

    pub(super) fn settlement(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = Reader::new(record);
        let requests = &mut self.machine.requests;
        let new = match reader.u8()? {
            SETTLED => {
                let asked = read_asked(&mut reader)?;
                let came_out = read_came_out(&mut reader)?;
                requests.settle(Settled { asked, came_out })
            }
            MARKED => {
                let mark = Mark {
                    key: RequestKey::from_bytes(reader.array()?),
                    first_index: reader.u64()?,
                    attempt: reader.varint_u32("attempt")?,
                };
                requests.mark(mark)
            }
            OVERTAKEN => {
                requests.remember_overtaken();
                true
            }
            found => {
                let what = "snapshot record";
                return Err(DecodeError::Tag { what, found }.into());
            }
        };
        reader.end()?;
        if new {
            return Ok(());
        }
        Err(SnapshotError::Inconsistent {
            what: "a request or a token settled twice",
        })
    }

    pub(super) fn grant(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = tagged(record, GRANT)?;
        let mut grant = Grant {
            resource: fields::resource(&mut reader)?,
            holder: fields::holder(&mut reader)?,
            token: fields::token(&mut reader)?,
            ttl: fields::ttl(&mut reader)?,
            after_wait: false,
            renewals: reader.varint()?,
            granted_at_ms: reader.u64()?,
            expires_at_ms: reader.u64()?,
        };
        let asked = read_asked(&mut reader)?;
        grant.after_wait = self.format.knows_queues() && fields::flag(&mut reader, "after_wait")?;
        reader.end()?;
        let machine = &mut self.machine;
        let token = grant.token.value();
        let ordered = machine.grants.last().is_none_or(|last| last < token);
        if !ordered || token.get() > machine.last_token || machine.how_ended(token).is_some() {
            return Err(SnapshotError::Inconsistent {
                what: "a live token does not fit the others",
            });
        }
        grant.holder = machine.holders.enter(&grant.holder);
        if machine.requests.granted(asked.key, token)
            && machine.grants.insert(Live { grant, asked })
        {
            return Ok(());
        }
        Err(SnapshotError::Inconsistent {
            what: "a resource or a request has two grants",
        })
    }

    pub(super) fn place(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = tagged(record, PLACE)?;
        let resource = fields::resource(&mut reader)?;
        let holder = fields::holder(&mut reader)?;
        let queued_at_ms = reader.u64()?;
        let asked = read_asked(&mut reader)?;
        reader.end()?;
        let what = "a place does not fit the others";
        if !self.fits(&resource) || !self.machine.requests.is_new(&asked.key) {
            return Err(SnapshotError::Inconsistent { what });
        }
        let machine = &mut self.machine;
        let live = machine.grants.of(&resource);
        let held = live.is_some();
        let holds = live.is_some_and(|live| live.grant.holder == holder);
        let waiter = Waiter {
            resource: resource.clone(),
            holder: machine.holders.enter(&holder),
            request: asked.key,
            attempt: asked.attempt,
            ttl: asked.ttl,
            wait_ms: asked.wait_ms,
            queued_at_ms,
        };
        if holds || !machine.queues.join(waiter, asked.first_index) {
            return Err(SnapshotError::Inconsistent { what });
        }
        if !held {
            machine.queues.set_free(&resource);
        }
        Ok(())
    }

    pub(super) fn mark(&mut self, record: &[u8]) -> Result<(), SnapshotError> {
        let mut reader = tagged(record, MARK)?;
        let resource = fields::resource(&mut reader)?;
        let token = fields::token_value(&mut reader)?;
        reader.end()?;
        let machine = &mut self.machine;
        let ordered = machine.marks.last().is_none_or(|last| *last < resource);
        // A register admits nothing that was not issued.
        if !ordered || token.get() > machine.last_token {
            return Err(SnapshotError::Inconsistent {
                what: "a mark does not fit the others",
            });
        }
        machine.marks.raise(&resource, token);
        Ok(())
    }

    /// Names never go back, and no queue is longer than it may be.
    fn fits(&self, resource: &ResourceName) -> bool {
        let queues = &self.machine.queues;
        queues.last().is_none_or(|last| last <= resource)
            && queues.len_of(resource) < self.machine.bounds.waiters_per_resource_max
    }

    /// All of it is there.
    pub(super) fn end(self) -> Result<Machine, SnapshotError> {
        let machine = self.machine;
        let grants = machine.grants.len() + machine.queues.free().len();
        if grants as u64 > machine.bounds.live_grants_max {
            return Err(SnapshotError::Inconsistent {
                what: "there are more grants to come than there may be",
            });
        }
        Ok(machine)
    }
}

pub(super) fn tagged(record: &[u8], expected: u8) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(record);
    match reader.u8()? {
        tag if tag == expected => Ok(reader),
        found => Err(DecodeError::Tag {
            what: "snapshot record",
            found,
        }),
    }
}
