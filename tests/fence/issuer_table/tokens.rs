//! Tokens rise, whatever the clock does, and survive their table's users.

use fencepost::{
    fence::{
        issuer_table::IssuerTable,
        sql::{Dialect, SqlError},
    },
    token::TokenValue,
};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use super::{acquire, bank, granted, holder, on_each_table, resource, sqlite, ttl};

/// As after a restore on a machine whose clock is behind, or behind another issuer.
async fn tokens_rise_where_the_clock_is_behind<DB: Dialect>(table: IssuerTable<DB>) {
    let (report, a) = (resource("report"), holder("a"));
    let first = granted(acquire(&table, &report, &a, ttl(60_000)).await);
    let ahead = TokenValue::new(first.token.get() * 2).unwrap();
    table.raise(&report, ahead).await.unwrap();
    let mut last = ahead;
    for _ in 0..20 {
        let next = granted(acquire(&table, &report, &a, ttl(60_000)).await).token;
        assert_eq!(next.get(), last.get() + 1);
        last = next;
    }
    // A resource that has no row yet can be raised, too, and nothing is ever lowered.
    let fresh = resource("fresh");
    table.raise(&fresh, ahead).await.unwrap();
    table.raise(&fresh, first.token).await.unwrap();
    assert!(granted(acquire(&table, &fresh, &a, ttl(60_000)).await).token > ahead);
}
on_each_table!(
    tokens_rise_where_the_clock_is_behind,
    rise_in_postgres,
    rise_in_mariadb,
    rise_in_sqlite
);

/// Microseconds since 1970 on the first day of 2020: any clock that is set shows more.
const LONG_AGO: u64 = 1_577_836_800_000_000;

/// As in a table that was emptied, or restored from a time before the resource: by the clock. SQLite's
/// counts milliseconds, so two rows that are made at once may begin with the same number.
async fn tokens_rise_over_those_of_a_forgotten_row<DB: Dialect>(table: IssuerTable<DB>) {
    let a = holder("a");
    let of_one = granted(acquire(&table, &resource("one"), &a, ttl(60_000)).await).token;
    let of_two = granted(acquire(&table, &resource("two"), &a, ttl(60_000)).await).token;
    assert!(of_two >= of_one, "{of_two} after {of_one}");
    assert!(
        of_two.get() > LONG_AGO,
        "a new row begins at the clock, not at 1: {of_two}"
    );
    assert!(of_two.get() < 1 << 53, "JavaScript still counts exactly");
}
on_each_table!(
    tokens_rise_over_those_of_a_forgotten_row,
    forgotten_in_postgres,
    forgotten_in_mariadb,
    forgotten_in_sqlite
);

#[tokio::test]
async fn a_file_that_is_opened_again_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (report, a) = (resource("report"), holder("a"));
    let mut last = None;
    for _ in 0..3 {
        let pool = sqlite(&directory).await;
        let table = IssuerTable::open(pool.clone(), "lock_grants", bank())
            .await
            .unwrap();
        let token = granted(acquire(&table, &report, &a, ttl(60_000)).await).token;
        assert!(Some(token) > last);
        last = Some(token);
        pool.close().await;
    }
}

#[tokio::test]
async fn a_table_that_is_made_is_found_and_one_that_does_not_fit_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let pool = sqlite(&directory).await;
    for _ in 0..2 {
        IssuerTable::create(pool.clone(), "more_grants", bank())
            .await
            .unwrap();
    }
    sqlx::query("CREATE TABLE odd (resource TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL)")
        .execute(&pool)
        .await
        .unwrap();
    for (name, part) in [
        ("odd", "holder"),
        ("nowhere", "no such table"),
        ("a;b", "cannot be the name"),
    ] {
        let error: SqlError = IssuerTable::open(pool.clone(), name, bank())
            .await
            .unwrap_err();
        assert!(error.to_string().contains(part), "{name}: {error}");
    }
    sqlx::query("DELETE FROM lock_grants")
        .execute(&pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_database_makes_its_table() {
    async fn made<DB: Dialect>(pool: sqlx::Pool<DB>) {
        let table = IssuerTable::create(pool, "own_grants", bank())
            .await
            .unwrap();
        granted(acquire(&table, &resource("r"), &holder("a"), ttl(60_000)).await);
    }
    if let Some(pool) = super::postgres("SELECT 1").await {
        made::<sqlx::Postgres>(pool as PgPool).await;
    }
    if let Some(pool) = super::mariadb("SELECT 1").await {
        made::<sqlx::MySql>(pool as MySqlPool).await;
    }
    let directory = tempfile::tempdir().unwrap();
    made::<sqlx::Sqlite>(sqlite(&directory).await as SqlitePool).await;
}
