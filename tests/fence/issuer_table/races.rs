//! Many holders at once, at every isolation level: exclusive, and strictly rising.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fencepost::{
    fence::{
        issuer_table::{Acquired, IssuerTable, Kept},
        sql::Dialect,
    },
    token::TokenValue,
};

use super::{acquire, bank, holder, mariadb, postgres, resource, sqlite, ttl};

const HOLDERS: usize = 8;
const GRANTS: usize = 40;

/// What a referee knows: the tokens in the order of their grants, and until when somebody holds.
#[derive(Default)]
struct Referee {
    tokens: Vec<TokenValue>,
    safe_until: Option<Instant>,
}

/// One holder: asks until enough was granted; releases every second grant, and lets the others run out.
async fn compete<DB: Dialect>(table: IssuerTable<DB>, name: String, referee: Arc<Mutex<Referee>>) {
    let report = resource("report");
    let started = Instant::now();
    for turn in 0.. {
        assert!(started.elapsed() < Duration::from_secs(120), "not done");
        // A grant that runs out is short; one that is released outlasts any pause of this machine.
        let lease = if turn % 2 == 0 { ttl(60_000) } else { ttl(100) };
        // A name of its own each time: the same one would supersede its last grant instead of waiting.
        let me = holder(&format!("{name}-{turn}"));
        let sent = Instant::now();
        let acquired = acquire(&table, &report, &me, lease).await;
        let Acquired::Granted(sequencer) = acquired else {
            if referee.lock().unwrap().tokens.len() >= GRANTS {
                return;
            }
            continue;
        };
        {
            let mut referee = referee.lock().unwrap();
            let (now, safe_until) = (Instant::now(), sent + lease.as_duration());
            // Who learns of its grant after its own deadline has nothing, and another may have it.
            if safe_until <= now {
                continue;
            }
            assert!(referee.safe_until <= Some(now), "two holders at once");
            referee.safe_until = Some(safe_until);
            referee.tokens.push(sequencer.token);
        }
        if turn % 2 == 0 {
            // From here on another may be granted it.
            referee.lock().unwrap().safe_until = None;
            let mut released = table.release(&sequencer).await;
            while released
                .as_ref()
                .is_err_and(fencepost::fence::sql::SqlError::may_retry)
            {
                released = table.release(&sequencer).await;
            }
            assert_eq!(released.unwrap(), Kept::Kept);
        }
        if referee.lock().unwrap().tokens.len() >= GRANTS {
            return;
        }
    }
}

async fn race<DB: Dialect>(table: IssuerTable<DB>) {
    let referee = Arc::new(Mutex::new(Referee::default()));
    let mut running = tokio::task::JoinSet::new();
    for n in 0..HOLDERS {
        running.spawn(compete(
            table.clone(),
            format!("holder-{n}"),
            Arc::clone(&referee),
        ));
    }
    running.join_all().await;
    let tokens = &referee.lock().unwrap().tokens;
    assert!(tokens.len() >= GRANTS);
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
}

/// Makes a test that lets holders race on a server, with connections that begin with each of these in turn.
macro_rules! race_at_every_level {
    ($test:ident, $connect:ident, [$($begin:literal),+ $(,)?]) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            for begin in [$($begin),+] {
                let Some(pool) = $connect(begin).await else {
                    return;
                };
                let table = IssuerTable::open(pool, "lock_grants", bank()).await;
                race(table.unwrap()).await;
            }
        }
    };
}

race_at_every_level!(
    exclusive_and_rising_at_every_level_of_postgres,
    postgres,
    [
        "SET default_transaction_isolation = 'read committed'",
        "SET default_transaction_isolation = 'repeatable read'",
        "SET default_transaction_isolation = 'serializable'",
    ]
);

race_at_every_level!(
    exclusive_and_rising_at_every_level_of_mariadb,
    mariadb,
    [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        // And whatever the time zone of the connection is.
        "SET time_zone = '-11:00'",
    ]
);

#[tokio::test(flavor = "multi_thread")]
async fn exclusive_and_rising_in_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let pool = sqlite(&directory).await;
    let table = IssuerTable::open(pool, "lock_grants", bank()).await;
    race(table.unwrap()).await;
}
