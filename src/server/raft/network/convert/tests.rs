//! What is sent comes back as it was, and what nobody sends is refused.

use openraft::EntryPayload;

use super::*;

fn request(entries: Vec<Entry>) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(theirs(LogId::new(2, 41))),
        leader_commit: Some(theirs(LogId::new(2, 40))),
        entries,
    }
}

fn entry(term: u64, index: u64, payload: &'static [u8]) -> Entry {
    let payload = decode_payload(Bytes::from_static(payload)).unwrap();
    Entry::new(theirs(LogId::new(term, index)), payload)
}

#[test]
fn golden_bytes_of_a_run() {
    let sent = request(vec![entry(3, 42, &[1]), entry(3, 43, &[2, 0xaa])]);
    let message = append(&sent);
    let expected = [
        &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 1][..],
        &[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 2, 0xaa],
    ]
    .concat();
    assert_eq!(message.entries, expected);
    let received = append_request(message).unwrap();
    assert_eq!(received.vote, sent.vote);
    assert_eq!(received.prev_log_id, sent.prev_log_id);
    assert_eq!(received.leader_commit, sent.leader_commit);
    assert_eq!(received.entries, sent.entries);
}

#[test]
fn a_log_begins_at_entry_0() {
    let mut sent = request(vec![entry(0, 0, &[1])]);
    sent.prev_log_id = None;
    let received = append_request(append(&sent)).unwrap();
    assert_eq!(received.entries[0].log_id.index, 0);
}

#[test]
fn a_payload_is_a_slice_of_its_message() {
    let message = append(&request(vec![entry(3, 42, &[2, 0xaa, 0xbb])]));
    let run = message.entries.clone();
    let received = append_request(message).unwrap();
    let EntryPayload::Normal(_) = &received.entries[0].payload else {
        panic!("it is a command");
    };
    let payload = encode_payload(&received.entries[0].payload);
    assert!(run.as_ptr_range().contains(&payload.as_ptr()));
}

#[test]
fn a_run_that_is_not_whole_is_refused() {
    let whole = append(&request(vec![entry(3, 42, &[1]), entry(3, 43, &[2, 0xaa])]));
    // Where an entry ends, a shorter run is one.
    for cut in (1..whole.entries.len()).filter(|cut| *cut != ENTRY_HEAD_BYTES + 1) {
        let mut short = whole.clone();
        short.entries = whole.entries.slice(..cut);
        assert!(append_request(short).is_err(), "cut at {cut}");
    }
    let mut nobody = whole.clone();
    nobody.leader = None;
    assert!(append_request(nobody).is_err());
    let mut greedy = whole.clone();
    greedy.entries = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 1]);
    assert!(append_request(greedy).is_err());
    let mut beyond = whole;
    beyond.previous = Some(wire::LogId {
        term: 1,
        index: u64::MAX,
    });
    assert!(append_request(beyond).is_err());
}

#[test]
fn replies_come_back_as_they_were() {
    let at = theirs(LogId::new(2, 7));
    let higher = Vote::new(9, 3);
    let results: [StreamAppendResult<Types>; 4] = [
        Ok(Some(at)),
        Ok(None),
        Err(StreamAppendError::Conflict(at)),
        Err(StreamAppendError::HigherVote(higher)),
    ];
    for result in results {
        assert_eq!(append_result(append_reply(result.clone())), Ok(result));
    }
    assert!(append_result(wire::AppendReply { outcome: None }).is_err());
}
