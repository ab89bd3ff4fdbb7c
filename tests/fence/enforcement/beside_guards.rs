//! Triggers and this crate's own guards on one table: the guards answer as they do without.

use fencepost::fence::{
    Rules, Verdict,
    enforcement::{Deletes, Dialect, Enforcement, GuardTableScript, Refused},
    sql::{self, GuardTable, GuardedTable, WriteOutcome, refused_by_trigger},
};
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

use super::Place;
use crate::scene::{issuer, resource, sequencer, token};

/// The account that these sequencers protect.
const ACCOUNT: &str = crate::scene::ACCOUNT;

fn rules() -> Rules {
    Rules::issued_by(issuer("bank"))
}

async fn rows<DB: sql::Dialect>(connection: &mut DB::Connection)
where
    i64: for<'v> sqlx::Encode<'v, DB> + sqlx::Type<DB>,
{
    let table = GuardedTable::<DB>::open(connection, "accounts", &["id"], "fencing_token", rules());
    let table = table.await.unwrap();
    let account = resource(ACCOUNT);
    let refused = WriteOutcome::Stale {
        presented: token(6),
        required: token(7),
    };
    for (presented, expected) in [
        (6, refused.clone()),
        (7, WriteOutcome::Written),
        (9, WriteOutcome::Written),
    ] {
        let sequencer = sequencer(presented);
        let write = table
            .write(&account, &sequencer)
            .key(1_i64)
            .set("balance", 11_i64);
        let outcome = write.update(connection).await.unwrap();
        assert_eq!(outcome, expected);
    }
    let late = sequencer(8);
    let write = table
        .write(&account, &late)
        .key(1_i64)
        .set("balance", 12_i64);
    let outcome = write.upsert(connection).await.unwrap();
    let stale = WriteOutcome::Stale {
        presented: token(8),
        required: token(9),
    };
    assert_eq!(outcome, stale);
    let new = sequencer(5);
    let write = table
        .write(&account, &new)
        .key(4_i64)
        .set("balance", 40_i64);
    assert_eq!(
        write.upsert(connection).await.unwrap(),
        WriteOutcome::Written
    );
}

async fn a_row_that_was_deleted<DB: sql::Dialect>(connection: &mut DB::Connection)
where
    i64: for<'v> sqlx::Encode<'v, DB> + sqlx::Type<DB>,
{
    let table = GuardedTable::<DB>::open(connection, "accounts", &["id"], "fencing_token", rules());
    let table = table.await.unwrap();
    let late = sequencer(6);
    let write = table
        .write(&resource(ACCOUNT), &late)
        .key(1_i64)
        .set("balance", 12_i64);
    let stale = WriteOutcome::Stale {
        presented: token(6),
        required: token(7),
    };
    assert_eq!(write.upsert(connection).await.unwrap(), stale);
}

async fn marks<DB: sql::Dialect>(connection: &mut DB::Connection) {
    let guard = GuardTable::<DB>::open(connection, "fencing_marks", rules())
        .await
        .unwrap();
    for (presented, expected) in [
        (7, Verdict::Admitted),
        (7, Verdict::Admitted),
        (9, Verdict::Admitted),
        (
            8,
            Verdict::Stale {
                presented: token(8),
                required: token(9),
            },
        ),
    ] {
        let mut transaction = connection.begin().await.unwrap();
        let verdict = guard
            .fenced(&mut transaction, &sequencer(presented))
            .await
            .unwrap();
        assert_eq!(verdict, expected);
        transaction.commit().await.unwrap();
    }
}

/// Runs everything on one connection of one database.
macro_rules! beside {
    ($name:ident, $dialect:expr, $connection:ty, $database:ty) => {
        #[tokio::test]
        async fn $name() {
            let Some((place, mut session)) = Place::guarded($dialect, "beside", |plan| plan).await
            else {
                return;
            };
            let mut connection = <$connection>::connect(&place.url).await.unwrap();
            rows::<$database>(&mut connection).await;
            let error = sqlx::query("DELETE FROM accounts")
                .execute(&mut connection)
                .await
                .unwrap_err();
            assert_eq!(refused_by_trigger(&error), Some(Refused::Delete));
            assert_eq!(refused_by_trigger(&sqlx::Error::RowNotFound), None);
            let error = sqlx::query("SELECT 'fencepost: delete refused' FROM nowhere")
                .execute(&mut connection)
                .await
                .unwrap_err();
            assert_eq!(refused_by_trigger(&error), None);

            let plain = Enforcement::of_table($dialect, "accounts").unwrap();
            session.apply(&plain.undo().unwrap()).await.unwrap();
            session
                .all(&["UPDATE accounts SET balance = 0, fencing_token = 7 WHERE id = 1"])
                .await;
            session
                .apply(&plain.deletes(Deletes::KeepMark).apply().unwrap())
                .await
                .unwrap();
            session.all(&["DELETE FROM accounts WHERE id = 1"]).await;
            a_row_that_was_deleted::<$database>(&mut connection).await;

            session
                .apply(
                    &GuardTableScript::new($dialect, "fencing_marks")
                        .unwrap()
                        .apply(),
                )
                .await
                .unwrap();
            marks::<$database>(&mut connection).await;
        }
    };
}
beside!(
    guards_answer_in_postgres,
    Dialect::Postgres,
    PgConnection,
    sqlx::Postgres
);
beside!(
    guards_answer_in_mariadb,
    Dialect::MariaDb,
    MySqlConnection,
    sqlx::MySql
);
beside!(
    guards_answer_in_sqlite,
    Dialect::Sqlite,
    SqliteConnection,
    sqlx::Sqlite
);
