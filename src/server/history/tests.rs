//! The history against the plain list of everything that happened.

use super::*;
use crate::{
    grant::{EndedHow, Ttl},
    issuer::{Outcome, Release, ReleaseOutcome, Renew},
    resource::{Holder, ResourceName},
    token::{Token, TokenValue},
};

const MIB: usize = 1 << 20;

fn token(index: u64) -> Token {
    Token::new(TokenValue::new(index).unwrap(), 0, index)
}

fn ended(index: u64) -> Event {
    Event::Ended {
        resource: ResourceName::new(format!("r-{index}")).unwrap(),
        holder: Holder::new("h").unwrap(),
        token: token(index),
        how: EndedHow::Released,
        renewals: 0,
        reason: None,
    }
}

fn record(index: u64, command: Command, events: Vec<Event>) -> Arc<Record> {
    Arc::new(Record {
        at: LogId::new(1, index),
        hash: [0; 32],
        kind: RecordKind::Command {
            command,
            outcome: Outcome::Release(ReleaseOutcome::Unknown),
            events,
        },
    })
}

/// An entry that ended a grant.
fn change(index: u64) -> Arc<Record> {
    let release = Release {
        token: token(index).value(),
        stamped_at_ms: index,
    };
    record(index, Command::Release(release), vec![ended(index)])
}

/// An entry that renewed so many leases.
fn renewals(index: u64, count: u64) -> Arc<Record> {
    let renewed = |n| Event::Renewed {
        resource: ResourceName::new(format!("r-{n}")).unwrap(),
        holder: Holder::new("h").unwrap(),
        token: token(n),
        ttl: Ttl::default(),
        renewals: 1,
    };
    let renew = Renew {
        renewals: Vec::new(),
        stamped_at_ms: index,
    };
    record(
        index,
        Command::Renew(renew),
        (1..=count).map(renewed).collect(),
    )
}

/// An entry that changed nothing.
fn nothing(index: u64) -> Arc<Record> {
    Arc::new(Record {
        at: LogId::new(1, index),
        hash: [0; 32],
        kind: RecordKind::Blank,
    })
}

fn indexes(read: &Read) -> Vec<u64> {
    read.moments.iter().map(|moment| moment.at.index).collect()
}

/// Everything after a cursor, read in portions.
fn all(history: &History, mut after: u64, renewals: bool, portion: usize) -> Vec<u64> {
    let mut found = Vec::new();
    loop {
        let read = history.read(after, renewals, portion).unwrap();
        assert!(read.through >= after && read.moments.len() <= portion);
        found.extend(indexes(&read));
        if read.moments.len() < portion {
            assert_eq!(read.through, read.applied.max(after));
            return found;
        }
        after = read.through;
    }
}

#[test]
fn every_cursor_finds_what_came_after_it_in_portions_of_any_size() {
    let history = History::new(MIB, 1);
    let records: Vec<_> = (1..=60)
        .map(|index| match index % 3 {
            0 => nothing(index),
            1 => change(index),
            _ => renewals(index, 2),
        })
        .collect();
    for batch in records.chunks(7) {
        history.applied(batch);
    }
    for after in 0..=60 {
        for portion in [1, 2, 5, 100] {
            let expected = |with: bool| -> Vec<u64> {
                let wanted = |index: &u64| index % 3 == 1 || (with && index % 3 == 2);
                (after + 1..=60).filter(wanted).collect()
            };
            assert_eq!(all(&history, after, false, portion), expected(false));
            assert_eq!(all(&history, after, true, portion), expected(true));
        }
    }
}

#[test]
fn a_cursor_ahead_of_what_is_applied_reads_nothing_and_stays() {
    let history = History::new(MIB, 1);
    history.applied(&[change(1)]);
    let read = history.read(9, true, 10).unwrap();
    assert_eq!((indexes(&read), read.through, read.applied), (vec![], 9, 1));
}

#[test]
fn what_does_not_fit_is_dropped_and_older_cursors_are_lost() {
    let history = History::new(MIB, 1);
    let last = 50_000;
    for index in 1..=last {
        history.applied(&[change(index)]);
    }
    let facts = history.facts();
    assert!(
        facts.oldest > 0 && facts.bytes <= u64::try_from(MIB).unwrap(),
        "{facts:?}"
    );
    let oldest = facts.oldest;
    assert_eq!(
        all(&history, oldest, false, 64),
        (oldest + 1..=last).collect::<Vec<_>>()
    );
    let lost = history.read(oldest - 1, false, 1).unwrap_err();
    assert_eq!(lost, Lost { oldest });
}

#[test]
fn the_default_size_holds_what_the_documents_say() {
    let history = History::new(8 * MIB, 1);
    for index in 1..=25_000 {
        history.applied(&[change(index)]);
    }
    assert_eq!(history.facts().oldest, 0, "25,000 ends of grants fit");
}

#[test]
fn renewals_push_no_change_out() {
    let history = History::new(MIB, 1);
    history.applied(&[change(1)]);
    for index in 2..200 {
        history.applied(&[renewals(index, 400)]);
    }
    assert_eq!(all(&history, 0, false, 10), [1]);
    let lost = history.read(0, true, 10).unwrap_err();
    assert!(lost.oldest > 1);
    assert!(history.read(lost.oldest, true, 10).is_ok());
    assert!(history.facts().bytes <= u64::try_from(MIB).unwrap());
}

#[test]
fn the_newest_moment_is_kept_however_large() {
    let history = History::new(1, 1);
    history.applied(&[change(1), change(2)]);
    assert_eq!(all(&history, 1, false, 10), [2]);
    assert!(history.read(0, false, 10).is_err());
}

#[test]
fn a_snapshot_begins_the_history_anew() {
    let history = History::new(MIB, 1);
    history.applied(&[change(1), change(2)]);
    let issuer = crate::resource::IssuerName::new("issuer").unwrap();
    let cluster = crate::grant::ClusterId::new(1);
    let machine = crate::issuer::Machine::new(issuer, cluster);
    let replica = Replica::new(machine, crate::server::clock::now());
    history.replaced(LogId::new(2, 9), &replica);
    assert_eq!(history.read(8, false, 10).unwrap_err(), Lost { oldest: 9 });
    assert_eq!(history.read(8, true, 10).unwrap_err(), Lost { oldest: 9 });
    assert_eq!(history.read(9, true, 10).unwrap().applied, 9);
    history.applied(&[change(10)]);
    assert_eq!(all(&history, 9, true, 10), [10]);
}

#[test]
fn a_moment_says_when_it_was_proposed() {
    let history = History::new(MIB, 1);
    history.applied(&[change(7)]);
    assert_eq!(history.read(0, false, 1).unwrap().moments[0].at_ms, 7);
}

#[test]
fn seats_are_limited_and_come_back() {
    let history = History::new(MIB, 2);
    let (one, _other) = (history.seat().unwrap(), history.seat().unwrap());
    assert_eq!(history.seat().unwrap_err(), Full { max: 2 });
    drop(one);
    assert_eq!(history.facts().watchers, 1);
    assert!(history.seat().is_ok());
}
