//! The words inside commands, outcomes and snapshots.

use super::DecodeError;
use super::bytes::{Put, Reader};
use crate::grant::{EndedHow, LeftHow, Ttl};
use crate::resource::{Holder, Reason, ResourceName};
use crate::token::{Token, TokenValue};

pub(super) fn put_token(bytes: &mut Vec<u8>, token: &Token) {
    bytes.put_u64(token.value().get());
    bytes.put_u64(token.term());
    bytes.put_u64(token.index());
}

pub(super) fn token(reader: &mut Reader<'_>) -> Result<Token, DecodeError> {
    Ok(Token::new(
        token_value(reader)?,
        reader.u64()?,
        reader.u64()?,
    ))
}

pub(super) fn token_value(reader: &mut Reader<'_>) -> Result<TokenValue, DecodeError> {
    TokenValue::new(reader.u64()?).map_err(|_| DecodeError::Field { field: "token" })
}

pub(super) fn put_ttl(bytes: &mut Vec<u8>, ttl: Ttl) {
    bytes.put_varint(ttl.as_ms());
}

pub(super) fn ttl(reader: &mut Reader<'_>) -> Result<Ttl, DecodeError> {
    Ttl::from_ms(reader.varint()?).map_err(|_| DecodeError::Field { field: "ttl" })
}

/// Zero stands for none; it is no TTL.
pub(super) fn put_optional_ttl(bytes: &mut Vec<u8>, ttl: Option<Ttl>) {
    bytes.put_varint(ttl.map_or(0, Ttl::as_ms));
}

pub(super) fn optional_ttl(reader: &mut Reader<'_>) -> Result<Option<Ttl>, DecodeError> {
    match reader.varint()? {
        0 => Ok(None),
        ms => Ttl::from_ms(ms)
            .map(Some)
            .map_err(|_| DecodeError::Field { field: "ttl" }),
    }
}

pub(super) fn resource(reader: &mut Reader<'_>) -> Result<ResourceName, DecodeError> {
    let field = "resource";
    ResourceName::new(reader.text(field)?).map_err(|_| DecodeError::Field { field })
}

pub(super) fn holder(reader: &mut Reader<'_>) -> Result<Holder, DecodeError> {
    let field = "holder";
    Holder::new(reader.text(field)?).map_err(|_| DecodeError::Field { field })
}

/// The empty text stands for none; it is no reason.
pub(super) fn put_reason(bytes: &mut Vec<u8>, reason: Option<&Reason>) {
    bytes.put_text(reason.map_or("", Reason::as_str));
}

pub(super) fn reason(reader: &mut Reader<'_>) -> Result<Option<Reason>, DecodeError> {
    let field = "reason";
    match reader.text(field)? {
        "" => Ok(None),
        text => Reason::new(text)
            .map(Some)
            .map_err(|_| DecodeError::Field { field }),
    }
}

pub(super) fn flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Field { field }),
    }
}

pub(super) fn put_how(bytes: &mut Vec<u8>, how: EndedHow) {
    bytes.put_u8(match how {
        EndedHow::Released => 1,
        EndedHow::Expired => 2,
        EndedHow::Revoked => 3,
        EndedHow::Superseded => 4,
    });
}

pub(super) fn how(reader: &mut Reader<'_>) -> Result<EndedHow, DecodeError> {
    match reader.u8()? {
        1 => Ok(EndedHow::Released),
        2 => Ok(EndedHow::Expired),
        3 => Ok(EndedHow::Revoked),
        4 => Ok(EndedHow::Superseded),
        found => Err(DecodeError::Tag { what: "end", found }),
    }
}

pub(super) fn put_left(bytes: &mut Vec<u8>, how: LeftHow) {
    bytes.put_u8(match how {
        LeftHow::Withdrawn => 1,
        LeftHow::WaitedOut => 2,
        LeftHow::Superseded => 3,
        LeftHow::Detached => 4,
    });
}

pub(super) fn left(reader: &mut Reader<'_>) -> Result<LeftHow, DecodeError> {
    let what = "end of a place";
    match reader.u8()? {
        1 => Ok(LeftHow::Withdrawn),
        2 => Ok(LeftHow::WaitedOut),
        3 => Ok(LeftHow::Superseded),
        4 => Ok(LeftHow::Detached),
        found => Err(DecodeError::Tag { what, found }),
    }
}
