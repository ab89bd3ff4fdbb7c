//! The statements of an issuer's table. Times are microseconds since 1970 by the database's clock, which
//! is read anew in each place ([`Driver::CLOCK_US`]): a statement that waited for a row's lock must not
//! judge a lease by the time at which it began to wait.

use crate::{
    fence::sql::{Driver, Statement, TableName},
    grant::Ttl,
    limits::LEASE_MARGIN_PER_MILLE,
    resource::{Holder, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

/// What the next grant's token is: the last one plus one, or the clock, also where there was none.
fn next_token<DB: Driver>(last: &str) -> String {
    let clock = DB::CLOCK_US;
    format!("CASE WHEN {last} >= {clock} THEN {last} + 1 ELSE {clock} END")
}

/// What a clock may be off by at each end of a lease: SQLite's counts whole milliseconds.
const CLOCK_STEP_US: u64 = 1_000;

/// How long the database keeps a lease: longer than its TTL by what clock rates and the clock's steps may
/// differ, so that it never ends before the holder's own deadline.
fn micros(ttl: Ttl) -> i64 {
    let lease_us = ttl.as_ms() * (1_000 + LEASE_MARGIN_PER_MILLE) + 2 * CLOCK_STEP_US;
    i64::try_from(lease_us).expect("a TTL is at most a day")
}

/// PostgreSQL and SQLite: grants if the resource is new, its lease has run out, or the holder is the same;
/// gives the token, or no row. The row is locked before its condition is looked at.
pub(super) fn grant<DB: Driver>(
    table: &TableName,
    resource: &ResourceName,
    holder: &Holder,
    ttl: Ttl,
) -> Statement<DB> {
    let clock = DB::CLOCK_US;
    let (first, next) = (next_token::<DB>("max(token)"), next_token::<DB>("g.token"));
    let table = table.quoted::<DB>();
    let mut sql = Statement::new(format!(
        "INSERT INTO {table} AS g (resource, holder, token, expires_at_us) VALUES ("
    ));
    sql.text(resource.as_str()).push(", ").text(holder.as_str());
    // The clock, where there is no row yet. Where there is one, SQLite's triggers hold this against it.
    sql.push(&format!(", (SELECT {first} FROM {table} WHERE resource = "))
        .text(resource.as_str());
    sql.push(&format!("), {clock} + ")).integer(micros(ttl));
    sql.push(&format!(
        ") ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, token = {next}, \
         expires_at_us = {clock} + "
    ));
    sql.integer(micros(ttl)).push(&format!(
        " WHERE g.holder = excluded.holder OR g.expires_at_us <= {clock} RETURNING {}",
        DB::number_as_text("token")
    ));
    sql
}

/// MySQL, first: the row is there, and its lock ours, whoever has the resource. A new row is one whose
/// lease has run out.
pub(super) fn hold_row<DB: Driver>(
    table: &TableName,
    resource: &ResourceName,
    holder: &Holder,
) -> Statement<DB> {
    let clock = DB::CLOCK_US;
    let mut sql = Statement::new(format!(
        "INSERT INTO {} (resource, holder, token, expires_at_us) VALUES (",
        table.quoted::<DB>()
    ));
    sql.text(resource.as_str()).push(", ").text(holder.as_str());
    sql.push(&format!(
        ", {clock}, {clock}) ON DUPLICATE KEY UPDATE resource = resource"
    ));
    sql
}

/// MySQL, second: the same condition as [`grant`]'s. An UPDATE sees what is committed, at every isolation
/// level.
pub(super) fn grant_held_row<DB: Driver>(
    table: &TableName,
    resource: &ResourceName,
    holder: &Holder,
    ttl: Ttl,
) -> Statement<DB> {
    let clock = DB::CLOCK_US;
    let next = next_token::<DB>("token");
    let mut sql = Statement::new(format!(
        "UPDATE {} SET token = {next}, expires_at_us = {clock} + ",
        table.quoted::<DB>()
    ));
    sql.integer(micros(ttl))
        .push(", holder = ")
        .text(holder.as_str());
    sql.push(" WHERE resource = ").text(resource.as_str());
    sql.push(" AND (holder = ").text(holder.as_str());
    sql.push(&format!(" OR expires_at_us <= {clock})"));
    sql
}

/// MySQL, third: the token that was written, read where it was written and not from a snapshot.
pub(super) fn token_of_held_row<DB: Driver>(
    table: &TableName,
    resource: &ResourceName,
) -> Statement<DB> {
    let mut sql = Statement::new(format!(
        "SELECT {} FROM {} WHERE resource = ",
        DB::number_as_text("token"),
        table.quoted::<DB>()
    ));
    sql.text(resource.as_str()).push(DB::NEWEST);
    sql
}

/// Moves the end of a live grant: to the TTL from now, or to now.
pub(super) fn prolong<DB: Driver>(
    table: &TableName,
    sequencer: &Sequencer,
    ttl: Option<Ttl>,
) -> Statement<DB> {
    let clock = DB::CLOCK_US;
    let mut sql = Statement::new(format!(
        "UPDATE {} SET expires_at_us = {clock} + ",
        table.quoted::<DB>()
    ));
    sql.integer(ttl.map_or(0, micros))
        .push(" WHERE resource = ");
    sql.text(sequencer.resource.as_str()).push(" AND token = ");
    sql.integer(sequencer.token.as_i64());
    sql.push(&format!(" AND expires_at_us > {clock}"));
    sql
}

/// The row is made if it is not there, as one whose lease has run out, and its token lifted.
pub(super) fn raise<DB: Driver>(
    table: &TableName,
    resource: &ResourceName,
    above: TokenValue,
) -> Vec<Statement<DB>> {
    let table = table.quoted::<DB>();
    let mut make = Statement::new(format!(
        "INSERT INTO {table} (resource, holder, token, expires_at_us) SELECT resource, holder, token, 0 FROM (SELECT "
    ));
    make.text(resource.as_str())
        .push(" AS resource, 'raised' AS holder, ");
    make.integer(above.as_i64());
    make.push(&format!(
        " AS token) AS new WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE resource = "
    ));
    make.text(resource.as_str()).push(")");
    let mut lift = Statement::new(format!("UPDATE {table} SET token = "));
    lift.integer(above.as_i64()).push(" WHERE resource = ");
    lift.text(resource.as_str()).push(" AND token < ");
    lift.integer(above.as_i64());
    vec![make, lift]
}

pub(super) fn inspect<DB: Driver>(table: &TableName, resource: &ResourceName) -> Statement<DB> {
    let left = format!("expires_at_us - {}", DB::CLOCK_US);
    let mut sql = Statement::new(format!(
        "SELECT {}, {}, {} FROM {} WHERE resource = ",
        DB::text_as_text("holder"),
        DB::number_as_text("token"),
        DB::number_as_text(&format!("({left})")),
        table.quoted::<DB>()
    ));
    sql.text(resource.as_str());
    sql
}
