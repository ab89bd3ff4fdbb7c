//! Tokens that the table issues pass a guard in the order of their grants, whatever ended a grant:
//! its release, its time, its holder's next one, a crash of the server, or a backup put back.

use std::time::{Duration, Instant};

use fencepost::{
    fence::{
        Guard as _, Rules, Verdict,
        issuer_table::{Acquired, IssuerTable, Kept},
        sql::{GuardTable, SqlGuard},
    },
    sequencer::Sequencer,
};
use sqlx::{MySql, Pool, Postgres};

use super::{acquire, bank, granted, holder, resource, ttl};
use crate::own_servers::Own;

/// How long a grant of a tenth of a second may take to run out, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Issuer and guard, as a process finds them that connects anew.
struct Process<DB: Own> {
    issuer: IssuerTable<DB>,
    guard: SqlGuard<DB>,
}

impl<DB: Own> Process<DB> {
    async fn start(url: &str) -> Self {
        let pool = Pool::<DB>::connect(url).await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        let rules = Rules::issued_by(bank());
        let marks = GuardTable::<DB>::create(&mut *connection, "marks", rules);
        let marks = marks.await.unwrap();
        drop(connection);
        let issuer = IssuerTable::create(pool.clone(), "lock_grants", bank());
        Self {
            issuer: issuer.await.unwrap(),
            guard: SqlGuard::new(pool, marks),
        }
    }

    /// A grant that is above all earlier ones, for the issuer and for the guard.
    async fn next(&self, sequencer: Sequencer, earlier: &mut Vec<Sequencer>) -> Sequencer {
        for old in &*earlier {
            assert!(old.token < sequencer.token, "{sequencer} after {old}");
        }
        let verdict = self.guard.admit(&sequencer).await.unwrap();
        assert_eq!(verdict, Verdict::Admitted, "{sequencer}");
        for old in &*earlier {
            let verdict = self.guard.admit(old).await.unwrap();
            assert!(
                matches!(verdict, Verdict::Stale { required, .. } if required == sequencer.token),
                "{old} after {sequencer}: {verdict:?}"
            );
        }
        earlier.push(sequencer.clone());
        sequencer
    }

    /// Five grants to three holders; the last one is still live at the end.
    async fn grants(&self, earlier: &mut Vec<Sequencer>) {
        let report = resource("report");
        let (a, b, c) = (holder("a"), holder("b"), holder("c"));
        // The same holder in each round: what it still has does not keep it out.
        let first = granted(acquire(&self.issuer, &report, &a, ttl(60_000)).await);
        let first = self.next(first, earlier).await;
        let released = self.issuer.release(&first).await.unwrap();
        assert_eq!(released, Kept::Kept);
        let short = granted(acquire(&self.issuer, &report, &b, ttl(100)).await);
        self.next(short, earlier).await;
        let after = self.once_it_ran_out().await;
        self.next(after, earlier).await;
        // Superseded while it is live.
        let last = granted(acquire(&self.issuer, &report, &c, ttl(60_000)).await);
        let last = self.next(last, earlier).await;
        let released = self.issuer.release(&last).await.unwrap();
        assert_eq!(released, Kept::Kept);
        let live = granted(acquire(&self.issuer, &report, &a, ttl(60_000)).await);
        self.next(live, earlier).await;
    }

    async fn once_it_ran_out(&self) -> Sequencer {
        let (report, c) = (resource("report"), holder("c"));
        let begun = Instant::now();
        loop {
            let asked = acquire(&self.issuer, &report, &c, ttl(60_000)).await;
            if let Acquired::Granted(sequencer) = asked {
                return sequencer;
            }
            assert!(begun.elapsed() < PATIENCE, "the grant does not run out");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What was granted last is held by its holder still, and its writes are admitted.
    async fn remembers(&self, last: &Sequencer) {
        match acquire(&self.issuer, &last.resource, &holder("b"), ttl(60_000)).await {
            Acquired::Held { token, .. } => assert_eq!(token, last.token),
            granted @ Acquired::Granted(_) => panic!("two hold at once: {granted:?}"),
        }
        let verdict = self.guard.admit(last).await.unwrap();
        assert_eq!(verdict, Verdict::Admitted);
    }
}

async fn tokens_rise_across_a_crash_and_a_restore<DB: Own>() {
    let Some(running) = DB::start() else {
        return;
    };
    let url = DB::fresh_on(&running).await;
    let mut earlier = Vec::new();
    Process::<DB>::start(&url).await.grants(&mut earlier).await;

    tokio::task::block_in_place(|| DB::crash(&running));
    let process = Process::<DB>::start(&url).await;
    process.remembers(earlier.last().unwrap()).await;
    tokio::task::block_in_place(|| DB::back_up_on(&running, &url));
    process.grants(&mut earlier).await;

    // Issuer and guard have forgotten the same grants. The clock has not gone back.
    tokio::task::block_in_place(|| DB::restore_on(&running));
    let process = Process::<DB>::start(&url).await;
    let mark = process.guard.high_water(&resource("report")).await.unwrap();
    assert!(mark.unwrap().token < earlier.last().unwrap().token);
    process.grants(&mut earlier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_across_a_crash_and_a_restore_of_postgres() {
    tokens_rise_across_a_crash_and_a_restore::<Postgres>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_across_a_crash_and_a_restore_of_mariadb() {
    tokens_rise_across_a_crash_and_a_restore::<MySql>().await;
}
