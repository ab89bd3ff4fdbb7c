//! Guards under watch: what is counted, what passes, and what the issuer is told.

use std::{convert::Infallible, fmt, io, sync::Arc};

use fencepost::{
    fence::{
        Foreign, Guard, Mark, Rules, Unjudged, Verdict,
        fenced::{Applied, FencedResource},
        memory::{MemoryGuard, MemoryStore},
        watched::{Counts, Mode, Watch, Watched, openmetrics},
    },
    resource::ResourceName,
    sequencer::Sequencer,
};

use crate::scene::{ACCOUNT, issuer, resource, rules, sequencer, sequencer_for, token};

fn watch(mode: Mode) -> Arc<Watch> {
    Arc::new(Watch::new("accounts", mode))
}

fn stale(presented: u64, required: u64) -> Verdict {
    Verdict::Stale {
        presented: token(presented),
        required: token(required),
    }
}

async fn high<G: Guard>(guard: &G) -> u64 {
    let mark = guard.high_water(&resource(ACCOUNT)).await.unwrap();
    mark.unwrap().token.get()
}

#[tokio::test]
async fn what_enforces_refuses_and_counts() {
    let guard = Watched::new(MemoryGuard::new(rules()), watch(Mode::Enforce));
    assert_eq!(guard.admit(&sequencer(5)).await, Ok(Verdict::Admitted));
    assert_eq!(guard.admit(&sequencer(4)).await, Ok(stale(4, 5)));
    let foreign = guard.admit(&sequencer_for("casino", ACCOUNT, 9)).await;
    assert!(matches!(foreign, Ok(Verdict::Foreign(_))));
    for why in unjudged() {
        assert!(!guard.overlooks(&why), "{why:?}");
    }
    let counts = Counts {
        admitted: 1,
        stale: 1,
        foreign: 2,
        missing: 1,
        invalid: 1,
        ..Counts::default()
    };
    assert_eq!(guard.watch().counts(), counts);
}

fn unjudged() -> [Unjudged; 3] {
    let foreign = Foreign::Resource {
        presented: resource("account/2"),
        expected: resource(ACCOUNT),
    };
    [
        Unjudged::Missing,
        Unjudged::Invalid,
        Unjudged::Foreign(foreign),
    ]
}

#[tokio::test]
async fn what_observes_refuses_nothing_and_never_lowers_the_mark() {
    let guard = Watched::new(MemoryGuard::new(rules()), watch(Mode::Observe));
    let casino = sequencer_for("casino", ACCOUNT, 9);
    for presented in [
        sequencer(5),
        sequencer(4),
        casino,
        sequencer(3),
        sequencer(6),
    ] {
        assert_eq!(guard.admit(&presented).await, Ok(Verdict::Admitted));
    }
    assert_eq!(high(&guard).await, 6);
    for why in unjudged() {
        assert!(guard.overlooks(&why), "{why:?}");
    }
    let counts = Counts {
        admitted: 2,
        stale: 2,
        foreign: 2,
        missing: 1,
        invalid: 1,
        overlooked: 6,
        ..Counts::default()
    };
    assert_eq!(guard.watch().counts(), counts);
    // From one call to the next.
    guard.watch().set_mode(Mode::Enforce);
    assert_eq!(guard.admit(&sequencer(5)).await, Ok(stale(5, 6)));
    guard.watch().set_mode(Mode::Observe);
    assert_eq!(guard.admit(&sequencer(5)).await, Ok(Verdict::Admitted));
    assert_eq!(high(&guard).await, 6);
}

/// A guard whose store is away.
struct Away;

#[derive(Debug, thiserror::Error)]
#[error("the store is away")]
struct IsAway;

impl Guard for Away {
    type Error = IsAway;

    async fn admit(&self, _: &Sequencer) -> Result<Verdict, IsAway> {
        Err(IsAway)
    }

    async fn high_water(&self, _: &ResourceName) -> Result<Option<Mark>, IsAway> {
        Err(IsAway)
    }
}

#[tokio::test]
async fn a_guard_that_fails_stops_nobody_while_it_observes() {
    let guard = Watched::new(Away, watch(Mode::Observe));
    assert_eq!(guard.admit(&sequencer(5)).await.unwrap(), Verdict::Admitted);
    guard.watch().set_mode(Mode::Enforce);
    assert!(guard.admit(&sequencer(5)).await.is_err());
    let counts = guard.watch().counts();
    assert_eq!(
        (counts.errors, counts.overlooked, counts.admitted),
        (2, 1, 0)
    );
}

type Values = Watched<FencedResource<MemoryStore<&'static str>>>;

fn values(rules: Rules) -> Values {
    Watched::new(
        FencedResource::new(MemoryStore::new(), rules),
        watch(Mode::Observe),
    )
}

async fn apply(values: &Values, value: &'static str, sequencer: &Sequencer) -> Applied {
    let applied = values.apply(&resource(ACCOUNT), &value, sequencer).await;
    applied.unwrap()
}

fn now(values: &Values) -> (Option<&'static str>, Mark) {
    values.inner().store().read(&resource(ACCOUNT)).unwrap()
}

#[tokio::test]
async fn a_stale_write_that_passes_leaves_the_mark_where_it_is() {
    let values = values(rules());
    assert_eq!(
        apply(&values, "five", &sequencer(5)).await,
        Applied::Accepted
    );
    assert_eq!(
        apply(&values, "four", &sequencer(4)).await,
        Applied::Accepted
    );
    let mark = Mark {
        issuer: issuer("bank"),
        token: token(5),
    };
    // Written it is, as it would have been without a guard; but under the mark.
    assert_eq!(now(&values), (Some("four"), mark));
    values.watch().set_mode(Mode::Enforce);
    let refused = apply(&values, "late", &sequencer(4)).await;
    assert_eq!(refused, Applied::from(stale(4, 5)));
    let counts = values.watch().counts();
    assert_eq!(
        (counts.stale, counts.overlooked, counts.admitted),
        (2, 1, 1)
    );
}

#[tokio::test]
async fn a_foreign_write_that_passes_does_not_make_its_issuer_the_rightful_one() {
    let values = values(rules());
    let casino = sequencer_for("casino", ACCOUNT, 900);
    assert_eq!(apply(&values, "dice", &casino).await, Applied::Accepted);
    assert_eq!(now(&values).0, Some("dice"));
    let other = sequencer_for("bank", "account/2", 900);
    assert_eq!(apply(&values, "two", &other).await, Applied::Accepted);
    values.watch().set_mode(Mode::Enforce);
    assert_eq!(
        apply(&values, "five", &sequencer(5)).await,
        Applied::Accepted
    );
    assert_eq!(values.watch().counts().foreign, 2);
}

#[tokio::test]
async fn the_highest_token_is_handed_on_whenever_it_rises() {
    let guard = Watched::new(MemoryGuard::new(rules()), watch(Mode::Enforce));
    let mut feedback = guard.watch().feedback();
    assert_eq!(*feedback.borrow_and_update(), None);
    for presented in [
        sequencer(5),
        sequencer_for("bank", "account/2", 9),
        sequencer(7),
    ] {
        assert_eq!(guard.admit(&presented).await, Ok(Verdict::Admitted));
    }
    // Of three, nobody waited for us to take the first.
    feedback.changed().await.unwrap();
    let highest = feedback.borrow_and_update().clone().unwrap();
    assert_eq!(highest, sequencer_for("bank", "account/2", 9));
    assert_eq!(guard.admit(&sequencer(8)).await, Ok(Verdict::Admitted));
    assert_eq!(guard.admit(&sequencer(6)).await, Ok(stale(6, 8)));
    assert!(!feedback.has_changed().unwrap(), "neither rose above 9");
    assert_eq!(guard.admit(&sequencer(10)).await, Ok(Verdict::Admitted));
    assert!(feedback.has_changed().unwrap());
    let highest = guard.watch().highest();
    assert_eq!(
        highest.into_iter().collect::<Vec<_>>(),
        [(issuer("bank"), token(10))]
    );
}

/// What was logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0.lock().unwrap()))
    }
}

#[tokio::test]
async fn a_token_that_was_never_issued_is_said_loudly_with_the_remedy() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let logged = tracing::subscriber::set_default(subscriber);
    let guard = Watched::new(MemoryGuard::new(rules()), watch(Mode::Observe));
    assert_eq!(guard.admit(&sequencer(9)).await, Ok(Verdict::Admitted));
    assert_eq!(guard.admit(&sequencer(3)).await, Ok(Verdict::Admitted));
    guard.watch().ahead(&sequencer(9), Some(token(4)));
    drop(logged);
    assert_eq!(guard.watch().counts().ahead, 1);
    let text = log.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "each is said once: {text}");
    for (line, words) in lines.iter().zip([
        [
            "WARN",
            "mode=observe",
            "resource=account/1",
            "token=3",
            "required=9",
        ],
        [
            "ERROR",
            "raise-floor",
            "issuer=bank",
            "token=9",
            "last_token=4",
        ],
    ]) {
        for word in words {
            assert!(line.contains(word), "{word}: {line}");
        }
    }
}

#[tokio::test]
async fn the_counts_are_text_that_prometheus_reads() -> Result<(), Infallible> {
    let watches = [
        watch(Mode::Enforce),
        Arc::new(Watch::new("jobs", Mode::Observe)),
    ];
    let guard = Watched::new(MemoryGuard::new(rules()), Arc::clone(&watches[0]));
    for value in [5, 4, 6] {
        let _ = guard.admit(&sequencer(value)).await.unwrap();
    }
    watches[1].missing(Some(&resource("job/1")));
    let text = openmetrics(watches.iter().map(|watch| &**watch));
    for line in [
        "# TYPE fencepost_guard_stale counter",
        "fencepost_guard_admitted_total{guard=\"accounts\"} 2",
        "fencepost_guard_stale_total{guard=\"accounts\"} 1",
        "fencepost_guard_overlooked_total{guard=\"accounts\"} 0",
        "fencepost_guard_missing_total{guard=\"jobs\"} 1",
        "fencepost_guard_overlooked_total{guard=\"jobs\"} 1",
        "fencepost_guard_enforcing{guard=\"accounts\"} 1",
        "fencepost_guard_enforcing{guard=\"jobs\"} 0",
        "fencepost_guard_highest_token{guard=\"accounts\",issuer=\"bank\"} 6",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    // Each family is described once, and its samples stand together under it.
    let mut family = "";
    let mut described = std::collections::BTreeSet::new();
    for line in text.lines() {
        let word = |at| line.split([' ', '{']).nth(at).unwrap();
        match line.strip_prefix("# ") {
            Some(_) if word(1) == "HELP" => {
                family = word(2);
                assert!(described.insert(family), "{family} twice");
            }
            Some(_) => assert_eq!(word(2), family),
            None => assert!(word(0).starts_with(family), "{line} under {family}"),
        }
    }
    Ok(())
}
