//! Short synthetic histories for the checks' own tests, written the way one would tell them.
//!
//! Times are milliseconds. A grant's request id is its holder's name and the time of its first send.

use std::time::Duration;

use super::{Evidence, Facts};
use crate::history::{Call, Granted, Moment, Operation, Outcome, audit::NodeAudit};

#[derive(Default)]
pub(crate) struct Story {
    operations: Vec<Operation>,
    lines: Vec<String>,
    /// Terms begun after the first.
    later_terms: u64,
    pub(crate) facts: Facts,
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Story {
    /// Adds any operation; `back` 0 means that it never returned.
    pub(crate) fn op(
        mut self,
        resource: &str,
        call: Call,
        at: u64,
        back: u64,
        outcome: Outcome,
    ) -> Self {
        let returned: Option<Moment> = (back > 0).then(|| ms(back));
        let operation = Operation {
            client: 1,
            resource: resource.into(),
            call,
            sent: ms(at),
            returned,
            outcome,
            applied: None,
        };
        self.operations.push(operation);
        self
    }

    /// An acquire with a TTL of 1,000 ms and any outcome.
    pub(crate) fn acquire(
        self,
        resource: &str,
        holder: &str,
        at: u64,
        back: u64,
        outcome: Outcome,
    ) -> Self {
        let request_id = format!("{holder}@{at}");
        self.op(
            resource,
            Call::Acquire {
                holder: holder.into(),
                request_id,
                ttl: ms(1_000),
                wait: ms(0),
            },
            at,
            back,
            outcome,
        )
    }

    /// An acquire that was granted.
    pub(crate) fn grant(
        self,
        resource: &str,
        holder: &str,
        at: u64,
        back: u64,
        token: u64,
    ) -> Self {
        let granted = Granted {
            token,
            index: token,
            start_unknown: false,
            after_wait: false,
        };
        self.acquire(resource, holder, at, back, Outcome::Granted(granted))
    }

    /// An acquire that waited in line and was granted then.
    pub(crate) fn grant_after_wait(
        self,
        resource: &str,
        holder: &str,
        at: u64,
        back: u64,
        token: u64,
    ) -> Self {
        let granted = Granted {
            token,
            index: token,
            start_unknown: true,
            after_wait: true,
        };
        self.acquire(resource, holder, at, back, Outcome::Granted(granted))
    }

    /// A renewal, for 1,000 ms from its send if it was acknowledged.
    pub(crate) fn renew(
        self,
        resource: &str,
        token: u64,
        at: u64,
        back: u64,
        outcome: Outcome,
    ) -> Self {
        self.op(
            resource,
            Call::Renew {
                token,
                ttl: ms(1_000),
            },
            at,
            back,
            outcome,
        )
    }

    pub(crate) fn release(
        self,
        resource: &str,
        token: u64,
        at: u64,
        back: u64,
        outcome: Outcome,
    ) -> Self {
        self.op(resource, Call::Release { token }, at, back, outcome)
    }

    /// A line of the audit logs of all three nodes; its index is its position.
    pub(crate) fn logged(mut self, rest: &str) -> Self {
        let (index, term) = (self.next_index(), self.later_terms + 1);
        self.lines.push(format!(
            r#"{{"kind":"entry","term":{term},"index":{index},"hash":"h{index}"{rest}}}"#
        ));
        self
    }

    /// The index of the line that is logged next.
    pub(crate) fn next_index(&self) -> u64 {
        self.lines.len() as u64 + 1
    }

    /// Another leader makes the entries from here on.
    pub(crate) fn new_term(mut self) -> Self {
        self.later_terms += 1;
        self
    }

    /// The entry of a grant to a waiter that asked at `at`, with the lease that it starts with.
    pub(crate) fn logged_waited_grant(
        self,
        resource: &str,
        holder: &str,
        at: u64,
        token: u64,
        lease_ms: u64,
    ) -> Self {
        let event = format!(
            r#","events":[{{"event":"granted","resource":"{resource}","holder":"{holder}","token":"{token}","request_id":"{holder}@{at}","ttl_ms":1000,"lease_ms":{lease_ms},"after_wait":true}}]"#
        );
        self.logged(&event)
    }

    /// The entry of a grant, asked for at `at`.
    pub(crate) fn logged_grant(self, resource: &str, holder: &str, at: u64, token: u64) -> Self {
        let event = format!(
            r#","events":[{{"event":"granted","resource":"{resource}","holder":"{holder}","token":"{token}","request_id":"{holder}@{at}","ttl_ms":1000,"lease_ms":1000}}]"#
        );
        self.logged(&event)
    }

    /// The entry of a renewal of one grant that took effect.
    pub(crate) fn logged_renewal(self, token: u64) -> Self {
        self.logged(&format!(
            r#","events":[{{"event":"renewed","token":"{token}","ttl_ms":1000}}]"#
        ))
    }

    /// The entry of a release that took effect.
    pub(crate) fn logged_release(self, resource: &str, token: u64) -> Self {
        self.logged(&format!(
            r#","events":[{{"event":"released","resource":"{resource}","token":"{token}"}}]"#
        ))
    }

    /// The entry in which a mark of the guard register rises.
    pub(crate) fn logged_mark(self, resource: &str, token: u64) -> Self {
        self.logged(&format!(
            r#","events":[{{"event":"admitted","resource":"{resource}","token":"{token}"}}]"#
        ))
    }

    /// The entry in which a waiter that asked at `at` takes its place in the queue.
    pub(crate) fn logged_place(self, resource: &str, holder: &str, at: u64, position: u32) -> Self {
        self.logged(&format!(
            r#","events":[{{"event":"queued","resource":"{resource}","holder":"{holder}","request_id":"{holder}@{at}","position":{position}}}]"#
        ))
    }

    /// The entry in which a waiter that asked at `at` leaves the queue.
    pub(crate) fn logged_left(self, resource: &str, holder: &str, at: u64, how: &str) -> Self {
        self.logged(&format!(
            r#","events":[{{"event":"left","resource":"{resource}","holder":"{holder}","request_id":"{holder}@{at}","how":"{how}"}}]"#
        ))
    }

    /// The entry of an expiry that was computed for so many renewals and took effect.
    pub(crate) fn logged_expiry(self, token: u64, renewals: u64) -> Self {
        self.logged(&format!(
            r#","command":{{"leases":[{{"token":"{token}","renewals":{renewals}}}]}},"events":[{{"event":"expired","token":"{token}"}}]"#
        ))
    }

    /// Three nodes that all wrote the same.
    pub(crate) fn evidence(self) -> Evidence {
        let text = self.lines.join("\n");
        self.evidence_with([&text, &text, &text])
    }

    /// Three nodes that wrote what is given.
    pub(crate) fn evidence_with(self, texts: [&str; 3]) -> Evidence {
        let audits = texts
            .iter()
            .zip(1..)
            .map(|(text, node)| NodeAudit::parse(node, text))
            .collect();
        Evidence::new(self.operations, audits, self.facts)
    }
}
