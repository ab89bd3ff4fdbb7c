//! Events, as the chained hash covers them. Nobody reads them back.

use super::bytes::Put;
use super::fields;
use crate::issuer::Event;

const GRANTED: u8 = 1;
const RENEWED: u8 = 2;
const ENDED: u8 = 3;
const FLOOR_RAISED: u8 = 4;

pub(super) fn put(bytes: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Granted {
            resource,
            holder,
            token,
            ttl,
            request,
        } => {
            bytes.put_u8(GRANTED);
            bytes.put_text(resource.as_str());
            bytes.put_text(holder.as_str());
            fields::put_token(bytes, token);
            fields::put_ttl(bytes, *ttl);
            bytes.put(request.as_bytes());
        }
        Event::Renewed {
            resource,
            token,
            ttl,
            renewals,
        } => {
            bytes.put_u8(RENEWED);
            bytes.put_text(resource.as_str());
            fields::put_token(bytes, token);
            fields::put_ttl(bytes, *ttl);
            bytes.put_varint(*renewals);
        }
        Event::Ended {
            resource,
            holder,
            token,
            how,
            renewals,
            reason,
        } => {
            bytes.put_u8(ENDED);
            bytes.put_text(resource.as_str());
            bytes.put_text(holder.as_str());
            fields::put_token(bytes, token);
            fields::put_how(bytes, *how);
            bytes.put_varint(*renewals);
            fields::put_reason(bytes, reason.as_ref());
        }
        Event::FloorRaised { floor } => {
            bytes.put_u8(FLOOR_RAISED);
            bytes.put_u64(*floor);
        }
    }
}
