//! The bytes stand still, and nothing that comes in makes a node panic.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn record(n: u8) -> NodeRecord {
    NodeRecord {
        instance: InstanceId::from_bytes([n; 16]),
        peer_address: format!("p{n}:1"),
        client_address: format!("c{n}:2"),
    }
}

/// Voter 1, going on to voters 1 and 2.
fn joint() -> Membership {
    let configs = vec![BTreeSet::from([1]), BTreeSet::from([1, 2])];
    let nodes = BTreeMap::from([(1, record(1)), (2, record(2))]);
    Membership::new(configs, nodes).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`joint`] is on disk.
const JOINT: &str = concat!(
    "00000002",                         // two configurations
    "00000001",                         // of one voter
    "0000000000000001",                 //
    "00000002",                         // and of two
    "00000000000000010000000000000002", //
    "00000002",                         // two nodes
    "0000000000000001",                 // id, instance, peer address, client address
    "01010101010101010101010101010101", //
    "0000000470313a31",                 //
    "0000000463313a32",                 //
    "0000000000000002",                 //
    "02020202020202020202020202020202", //
    "0000000470323a31",                 //
    "0000000463323a32",                 //
);

#[test]
fn golden_bytes_of_entries() {
    let blank = EntryPayload::Blank;
    assert_eq!(hex(&encode_payload(&blank)), "01");
    let mut command = command_head(2);
    command.put_slice(&[0xaa, 0xbb]);
    let proposal = Proposal(command.freeze());
    assert_eq!(command_body(&proposal), [0xaa, 0xbb]);
    let command = EntryPayload::Normal(proposal);
    assert_eq!(hex(&encode_payload(&command)), "02aabb");
    let membership = EntryPayload::Membership(joint());
    assert_eq!(hex(&encode_payload(&membership)), format!("03{JOINT}"));
    for payload in [blank, command, membership] {
        assert_eq!(decode_payload(encode_payload(&payload)), Ok(payload));
    }
}

#[test]
fn golden_bytes_of_a_snapshots_head() {
    let at = LogId::new(3, 5);
    let head = SnapshotHead {
        last: Some(LogId::new(4, 9)),
        membership: StoredMembership::new(Some(theirs(at)), joint()),
    };
    let expected = concat!(
        "01",                                 // the format
        "0100000000000000040000000000000009", // the last entry
        "0100000000000000030000000000000005", // the entry of the membership
    );
    assert_eq!(hex(&head.encode()), format!("{expected}{JOINT}"));
    assert_eq!(SnapshotHead::decode(head.encode()), Ok(head));
    let empty = SnapshotHead::default();
    assert_eq!(hex(&empty.encode()), "0100000000000000000000");
    assert_eq!(SnapshotHead::decode(empty.encode()), Ok(empty));
}

#[test]
fn a_command_is_never_copied_on_its_way() {
    let payload = Bytes::from(vec![COMMAND, 7, 7]);
    let Ok(EntryPayload::Normal(proposal)) = decode_payload(payload.clone()) else {
        panic!("it is a command");
    };
    let again = encode_payload(&EntryPayload::Normal(proposal));
    assert_eq!(again.as_ptr(), payload.as_ptr());
}

#[test]
fn bytes_that_nobody_wrote_are_refused() {
    let membership = encode_payload(&EntryPayload::Membership(joint()));
    for cut in 1..membership.len() {
        assert!(
            decode_payload(membership.slice(..cut)).is_err(),
            "cut at {cut}"
        );
    }
    let mut longer = BytesMut::from(&membership[..]);
    longer.put_u8(0);
    assert!(decode_payload(longer.freeze()).is_err());
    for odd in [&[][..], &[0], &[9, 1], &[BLANK, 0]] {
        assert!(
            decode_payload(Bytes::copy_from_slice(odd)).is_err(),
            "{odd:?}"
        );
    }
    // A count that promises more than there is must not be believed.
    let greedy = Bytes::from_static(&[MEMBERSHIP, 0xff, 0xff, 0xff, 0xff]);
    assert!(decode_payload(greedy).is_err());
    // A voter without a record is no membership.
    let headless = Bytes::from_static(&[
        MEMBERSHIP, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,
    ]);
    assert!(decode_payload(headless).is_err());
    assert!(SnapshotHead::decode(Bytes::new()).is_err());
    assert!(SnapshotHead::decode(Bytes::from_static(&[2])).is_err());
}
