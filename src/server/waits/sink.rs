//! From applied entries to those who wait for them.

use std::sync::Arc;

use super::{Turn, Waits};
use crate::{
    issuer::{Event, LogId, Replica, RequestKey, Standing},
    server::raft::{AppliedSink, Record, RecordKind},
};

impl AppliedSink for Waits {
    fn applied(&self, records: &[Arc<Record>]) {
        let mut freed = false;
        let mut turns = Vec::new();
        for record in records {
            let RecordKind::Command {
                command, events, ..
            } = &record.kind
            else {
                continue;
            };
            turns.extend(events.iter().filter_map(|event| turn(record.at, event)));
            freed |= leaves_free(events);
            self.counted.count(command, events);
        }
        if !turns.is_empty() {
            self.calls.tell(turns);
        }
        if freed {
            self.freed.notify_one();
        }
    }

    fn replaced(&self, at: LogId, replica: &Replica) {
        let machine = replica.machine();
        self.calls
            .look_up(|request| came_out(at, machine.standing(request)));
    }
}

/// Whether an entry ended a grant and gave nothing to anybody: there may be a queue behind it.
fn leaves_free(events: &[Event]) -> bool {
    let ended = |event: &Event| matches!(event, Event::Ended { .. });
    let granted = |event: &Event| matches!(event, Event::Granted { .. });
    events.iter().any(ended) && !events.iter().any(granted)
}

/// Whom an event answers.
fn turn(at: LogId, event: &Event) -> Option<(RequestKey, Turn)> {
    match event {
        Event::Granted {
            token,
            lease,
            request,
            after_wait,
            ..
        } => Some((
            *request,
            Turn::Granted {
                at,
                token: *token,
                lease: *lease,
                after_wait: *after_wait,
            },
        )),
        Event::Left { request, how, .. } => Some((*request, Turn::Left { at, how: *how })),
        Event::Renewed { .. }
        | Event::Ended { .. }
        | Event::Queued { .. }
        | Event::FloorRaised { .. }
        | Event::Admitted { .. } => None,
    }
}

/// How a request came out, for a node that skipped the entry which said so. One that is not known may not
/// have been proposed yet, and one that was refused hears so from the leader.
fn came_out(at: LogId, standing: Standing) -> Option<Turn> {
    match standing {
        Standing::Waiting { .. } | Standing::Refused | Standing::Unknown => None,
        Standing::Granted {
            token,
            lease,
            after_wait,
        } => Some(Turn::Granted {
            at,
            token,
            lease,
            after_wait,
        }),
        Standing::Ended { token, how } => Some(Turn::Ended { at, token, how }),
        Standing::Left { how } => Some(Turn::Left { at, how }),
    }
}
