//! Naive statements, without any condition, race at every isolation level: the mark never falls.

use fencepost::fence::enforcement::{Deletes, Dialect, Refused};

use super::{Place, Session, on_each_database};

const WRITERS: u64 = 6;
const WRITES: u64 = 25;

/// How a transaction of the level begins, in each database.
fn levels(dialect: Dialect) -> Vec<Vec<&'static str>> {
    match dialect {
        Dialect::Postgres => vec![
            vec!["BEGIN ISOLATION LEVEL READ COMMITTED"],
            vec!["BEGIN ISOLATION LEVEL REPEATABLE READ"],
            vec!["BEGIN ISOLATION LEVEL SERIALIZABLE"],
        ],
        Dialect::MariaDb | Dialect::MySql => vec![
            vec!["SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", "BEGIN"],
            vec!["SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN"],
            vec!["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN"],
            vec!["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN"],
        ],
        Dialect::Sqlite => vec![
            vec!["BEGIN"],
            vec!["BEGIN IMMEDIATE"],
            vec!["BEGIN EXCLUSIVE"],
        ],
    }
}

/// What a writer saw: tokens written, stale ones refused, and transactions that the database gave up.
#[derive(Default, Debug)]
struct Seen {
    written: u64,
    stale: u64,
    given_up: u64,
}

/// One transaction: it reads, so that it has a snapshot, and then writes as if nobody else could.
async fn naive(session: &mut Session, begin: &[&str], statements: &[String], seen: &mut Seen) {
    session.all(begin).await;
    session.rows("SELECT count(*) FROM history").await;
    for sql in statements {
        let Err(error) = session.run(sql).await else {
            continue;
        };
        match Refused::from_message(&error.to_string()) {
            Some(Refused::Stale { .. }) => seen.stale += 1,
            None => seen.given_up += 1, // a deadlock, a busy file, or a snapshot that is too old
            other => panic!("{sql}: {other:?}"),
        }
        // MariaDB may have rolled back already, and SQLite's COMMIT may find it busy.
        session.run("ROLLBACK").await.ok();
        return;
    }
    match session.run("COMMIT").await {
        Ok(_) => seen.written += 1,
        Err(_) => {
            seen.given_up += 1;
            session.run("ROLLBACK").await.ok();
        }
    }
}

/// Writers with tokens that interleave: 1, 7, 13, ...; 2, 8, 14, ...
async fn race(place: &Place, begin: &[&'static str], write: fn(u64) -> Vec<String>) -> Seen {
    let writer = |number: u64, mut session: Session, begin: Vec<&'static str>| async move {
        let mut seen = Seen::default();
        for n in 0..WRITES {
            let token = 10 + n * WRITERS + number;
            naive(&mut session, &begin, &write(token), &mut seen).await;
        }
        seen
    };
    let mut running = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        running.spawn(writer(number, place.session().await, begin.to_vec()));
    }
    let mut all = Seen::default();
    for seen in running.join_all().await {
        all.written += seen.written;
        all.stale += seen.stale;
        all.given_up += seen.given_up;
    }
    all
}

async fn history_of(dialect: Dialect, session: &mut Session) {
    let number = match dialect {
        Dialect::Postgres => "n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        Dialect::MariaDb | Dialect::MySql => "n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
        Dialect::Sqlite => "n INTEGER PRIMARY KEY AUTOINCREMENT",
    };
    session
        .all(&[&format!(
            "CREATE TABLE history ({number}, token BIGINT NOT NULL)"
        )])
        .await;
}

/// The tokens of the committed writes, in their order: the row's lock is held from the write to the
/// commit, and the number of the history is drawn in between.
async fn committed(session: &mut Session) -> Vec<i64> {
    let rows = session.rows("SELECT token FROM history ORDER BY n").await;
    rows.iter().map(|token| token.parse().unwrap()).collect()
}

on_each_database! {
    async fn naive_writers_never_lower_the_mark(dialect) {
        let Some((place, mut session)) = Place::guarded(dialect, "race", |plan| plan).await else { return };
        history_of(dialect, &mut session).await;
        let write = |token: u64| vec![
            format!("UPDATE accounts SET balance = balance + 1, fencing_token = {token} WHERE id = 3"),
            format!("INSERT INTO history (token) VALUES ({token})"),
        ];
        for begin in levels(dialect) {
            session.all(&["DELETE FROM history"]).await;
            let plan = fencepost::fence::enforcement::Enforcement::of_table(dialect, "accounts").unwrap();
            session.apply(&plan.undo().unwrap()).await.unwrap();
            session.all(&["UPDATE accounts SET balance = 0, fencing_token = 0 WHERE id = 3"]).await;
            session.apply(&plan.apply().unwrap()).await.unwrap();
            let seen = race(&place, &begin, write).await;
            let tokens = committed(&mut session).await;
            assert!(tokens.is_sorted(), "{begin:?}: {tokens:?}");
            assert_eq!(u64::try_from(tokens.len()).unwrap(), seen.written, "{begin:?}");
            let row = session.rows("SELECT balance, fencing_token FROM accounts WHERE id = 3").await;
            assert_eq!(row, [format!("{},{}", tokens.len(), tokens.last().unwrap())], "{begin:?}");
            assert_eq!(seen.written + seen.stale + seen.given_up, WRITERS * WRITES, "{seen:?}");
            assert!(seen.stale + seen.given_up > 0, "nobody met anybody: {seen:?}");
        }
    }

    async fn a_row_that_goes_and_comes_never_forgets_its_mark(dialect) {
        let Some((place, mut session)) = Place::guarded(dialect, "comes", |plan| plan.deletes(Deletes::KeepMark)).await else { return };
        history_of(dialect, &mut session).await;
        let write = |token: u64| vec![
            "DELETE FROM accounts WHERE id = 3".to_owned(),
            format!("INSERT INTO accounts VALUES (3, 1, {token})"),
            format!("INSERT INTO history (token) VALUES ({token})"),
        ];
        for begin in levels(dialect) {
            // Each round's tokens would be stale, so the marks go with their triggers.
            let plan = fencepost::fence::enforcement::Enforcement::of_table(dialect, "accounts").unwrap().deletes(Deletes::KeepMark);
            session.apply(&plan.undo_and_drop().unwrap()).await.unwrap();
            session.all(&["DELETE FROM history", "DELETE FROM accounts WHERE id = 3"]).await;
            session.apply(&plan.apply().unwrap()).await.unwrap();
            let seen = race(&place, &begin, write).await;
            let tokens = committed(&mut session).await;
            assert!(tokens.is_sorted(), "{begin:?}: {tokens:?}");
            assert_eq!(u64::try_from(tokens.len()).unwrap(), seen.written, "{begin:?}");
            let row = session.rows("SELECT fencing_token FROM accounts WHERE id = 3").await;
            assert_eq!(row, [tokens.last().unwrap().to_string()], "{begin:?}");
        }
    }
}
