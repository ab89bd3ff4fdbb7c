//! One of each command and of each outcome, as they are spelled in the golden bytes.

use fencepost::grant::{AskedAt, EndedHow, LeftHow};
use fencepost::issuer::{
    AcquireOutcome, Admit, AdmitOutcome, Command, DueLease, Expire, HeldBy, Leaving, Outcome,
    Promote, PromoteOutcome, RaiseFloor, RaiseFloorOutcome, Release, ReleaseOutcome, Renew,
    RenewOutcome, Renewal, RequestKey, Revoke, RevokeOutcome, Withdraw, WithdrawOutcome,
};
use fencepost::resource::Reason;
use fencepost::token::Token;

use crate::scene::{STAMP_MS, acquire, cluster, holder, resource, token, ttl};

pub(crate) fn commands() -> Vec<(&'static str, Command)> {
    let mut commands = commands_before_queues();
    commands.extend(commands_of_queues());
    commands.extend(commands_of_register());
    commands
}

pub(crate) fn commands_of_register() -> Vec<(&'static str, Command)> {
    let admit = |once| {
        Command::Admit(Admit {
            resource: resource("jobs/nächtlich"),
            token: token(65_537),
            once,
            stamped_at_ms: STAMP_MS,
        })
    };
    vec![
        ("command admit", admit(false)),
        ("command admit once", admit(true)),
    ]
}

pub(crate) fn commands_of_queues() -> Vec<(&'static str, Command)> {
    let places = [(b"0123456789abcdef", 1), (b"fedcba9876543210", 300)];
    let places = places.map(|(request, attempt)| Leaving {
        request: RequestKey::from_bytes(*request),
        attempt,
    });
    let withdraw = |how| {
        Command::Withdraw(Withdraw {
            places: places.to_vec(),
            how,
            stamped_at_ms: STAMP_MS,
        })
    };
    let promote = Promote {
        resource: resource("jobs/nächtlich"),
        stamped_at_ms: STAMP_MS,
    };
    vec![
        ("command withdraw", withdraw(LeftHow::Withdrawn)),
        ("command withdraw, waited out", withdraw(LeftHow::WaitedOut)),
        (
            "command withdraw, superseded",
            withdraw(LeftHow::Superseded),
        ),
        ("command withdraw, detached", withdraw(LeftHow::Detached)),
        ("command promote", Command::Promote(promote)),
    ]
}

pub(crate) fn commands_before_queues() -> Vec<(&'static str, Command)> {
    let mut asked = acquire("jobs/nächtlich", "anna", "x");
    asked.request = RequestKey::from_bytes(*b"0123456789abcdef");
    asked.attempt = 300;
    let mut waiting = asked.clone();
    waiting.asked_at = Some(AskedAt {
        cluster: cluster(),
        applied: 77,
    });
    waiting.wait_ms = 5_000;
    let renewals = vec![
        Renewal {
            token: token(65_537),
            ttl: None,
        },
        Renewal {
            token: token(i64::MAX as u64),
            ttl: Some(ttl(86_400_000)),
        },
    ];
    let leases = vec![DueLease {
        token: token(65_537),
        renewals: 3,
    }];
    let revoke = Revoke {
        resource: resource("printer"),
        token: token(65_537),
        reason: None,
        stamped_at_ms: STAMP_MS,
    };
    let reason = Some(Reason::new("on fire").unwrap());
    let raise = RaiseFloor {
        above: 1_000_000,
        stamped_at_us: STAMP_MS * 1_000,
    };
    vec![
        ("command acquire", Command::Acquire(asked)),
        ("command acquire with asked_at", Command::Acquire(waiting)),
        (
            "command renew",
            Command::Renew(Renew {
                renewals,
                stamped_at_ms: STAMP_MS,
            }),
        ),
        (
            "command release",
            Command::Release(Release {
                token: token(65_537),
                stamped_at_ms: STAMP_MS,
            }),
        ),
        (
            "command expire",
            Command::Expire(Expire {
                leases,
                stamped_at_ms: STAMP_MS,
            }),
        ),
        ("command revoke", Command::Revoke(revoke.clone())),
        (
            "command revoke with reason",
            Command::Revoke(Revoke { reason, ..revoke }),
        ),
        ("command raise_floor", Command::RaiseFloor(raise)),
    ]
}

pub(crate) fn outcomes() -> Vec<(&'static str, Outcome)> {
    let acquired = acquired().into_iter().chain(acquired_of_queues());
    let mut outcomes: Vec<_> = acquired
        .map(|(name, outcome)| (name, Outcome::Acquire(outcome)))
        .collect();
    let each = vec![
        RenewOutcome::Renewed {
            lease: ttl(30_000),
            renewals: 200,
        },
        RenewOutcome::Ended {
            how: EndedHow::Expired,
        },
        RenewOutcome::Unknown,
    ];
    outcomes.extend(outcomes_of_queues());
    outcomes.extend(outcomes_of_register().map(|(name, outcome)| (name, Outcome::Admit(outcome))));
    let how = EndedHow::Revoked;
    outcomes.extend([
        ("outcome renewals", Outcome::Renew(each)),
        (
            "outcome released",
            Outcome::Release(ReleaseOutcome::Released),
        ),
        (
            "outcome release ended",
            Outcome::Release(ReleaseOutcome::Ended { how }),
        ),
        (
            "outcome release unknown",
            Outcome::Release(ReleaseOutcome::Unknown),
        ),
        ("outcome expired", Outcome::Expire { ended: 200 }),
        ("outcome revoked", Outcome::Revoke(RevokeOutcome::Revoked)),
        (
            "outcome revoke ended",
            Outcome::Revoke(RevokeOutcome::Ended {
                how: EndedHow::Released,
            }),
        ),
        (
            "outcome revoke other",
            Outcome::Revoke(RevokeOutcome::OtherResource),
        ),
        (
            "outcome revoke unknown",
            Outcome::Revoke(RevokeOutcome::Unknown),
        ),
        (
            "outcome raised",
            Outcome::RaiseFloor(RaiseFloorOutcome::Raised { floor: 9 }),
        ),
        (
            "outcome beyond",
            Outcome::RaiseFloor(RaiseFloorOutcome::BeyondClock { limit: 9 }),
        ),
    ]);
    outcomes
}

fn outcomes_of_queues() -> Vec<(&'static str, Outcome)> {
    let token = Token::new(token(131_079), 2, 7);
    let request = RequestKey::from_bytes(*b"0123456789abcdef");
    let each = vec![
        WithdrawOutcome::Left {
            how: LeftHow::WaitedOut,
        },
        WithdrawOutcome::Granted { token },
        WithdrawOutcome::Ended {
            token,
            how: EndedHow::Released,
        },
        WithdrawOutcome::Refused,
        WithdrawOutcome::Marked,
        WithdrawOutcome::Stale,
        WithdrawOutcome::Unknown,
    ];
    vec![
        ("outcome withdrawals", Outcome::Withdraw(each)),
        (
            "outcome promoted",
            Outcome::Promote(PromoteOutcome::Granted { token, request }),
        ),
        (
            "outcome nothing to promote",
            Outcome::Promote(PromoteOutcome::Nothing),
        ),
    ]
}

fn outcomes_of_register() -> [(&'static str, AdmitOutcome); 4] {
    let required = token(65_538);
    [
        ("outcome admitted", AdmitOutcome::Admitted),
        ("outcome stale", AdmitOutcome::Stale { required }),
        ("outcome ahead", AdmitOutcome::Ahead { last_token: 0 }),
        (
            "outcome too_many_marks",
            AdmitOutcome::TooManyMarks { limit: 1_000_000 },
        ),
    ]
}

fn acquired_of_queues() -> Vec<(&'static str, AcquireOutcome)> {
    let token = Token::new(token(131_079), 2, 7);
    let by = Some(HeldBy {
        holder: holder("ben"),
        token,
    });
    vec![
        (
            "outcome granted after waiting",
            AcquireOutcome::Granted {
                token,
                lease: ttl(2_000),
                replayed: true,
                after_wait: true,
            },
        ),
        (
            "outcome queued",
            AcquireOutcome::Queued {
                position: 1,
                queue: 300,
                replayed: false,
            },
        ),
        (
            "outcome left",
            AcquireOutcome::Left {
                how: LeftHow::Detached,
            },
        ),
        (
            "outcome held with a queue",
            AcquireOutcome::Held {
                by,
                queue: 300,
                replayed: false,
            },
        ),
        (
            "outcome too_many_waiters",
            AcquireOutcome::TooManyWaiters {
                limit: 8_192,
                of_resource: true,
                replayed: true,
            },
        ),
        (
            "outcome too_many_grants_of_holder",
            AcquireOutcome::TooManyGrantsOfHolder {
                limit: 100_000,
                replayed: false,
            },
        ),
    ]
}

fn acquired() -> Vec<(&'static str, AcquireOutcome)> {
    let token = Token::new(token(131_079), 2, 7);
    let by = Some(HeldBy {
        holder: holder("ben"),
        token,
    });
    let lease = ttl(30_000);
    vec![
        (
            "outcome granted",
            AcquireOutcome::Granted {
                token,
                lease,
                replayed: false,
                after_wait: false,
            },
        ),
        (
            "outcome granted again",
            AcquireOutcome::Granted {
                token,
                lease,
                replayed: true,
                after_wait: false,
            },
        ),
        (
            "outcome held",
            AcquireOutcome::Held {
                by,
                queue: 0,
                replayed: false,
            },
        ),
        (
            "outcome was held",
            AcquireOutcome::Held {
                by: None,
                queue: 0,
                replayed: true,
            },
        ),
        (
            "outcome ended",
            AcquireOutcome::Ended {
                token,
                how: EndedHow::Superseded,
            },
        ),
        ("outcome too_old", AcquireOutcome::TooOld),
        (
            "outcome parameters_differ",
            AcquireOutcome::ParametersDiffer,
        ),
        (
            "outcome too_many",
            AcquireOutcome::TooManyGrants {
                limit: 1_000_000,
                replayed: false,
            },
        ),
    ]
}
