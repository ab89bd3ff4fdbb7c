//! A call as a row: its table, and how a row is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fence::sql::{Cells, Driver, Identifier, SqlError, Statement, TableName, quoted};
use crate::resource::{IssuerName, ResourceName};
use crate::sequencer::Sequencer;
use crate::token::TokenValue;

use super::call::{Call, CallState};
use super::error::CallError;
use super::key::IdempotencyKey;
use super::operation::Operation;

const TEXTS: [&str; 7] = [
    "call_key",
    "resource",
    "issuer",
    "operation",
    "request",
    "state",
    "answer",
];
const NUMBERS: [&str; 4] = ["token", "attempts", "recorded_ms", "sent_ms"];

/// The statements that make the table. Names compare byte for byte, as in a table of marks, or two
/// calls would have one record.
pub(super) fn create_sql<DB: Driver>(table: &TableName) -> String {
    let name = |bytes: usize| match (DB::QUOTE, DB::SCHEMAS) {
        ('`', _) => format!("VARBINARY({bytes}) NOT NULL"),
        (_, true) => "text COLLATE \"C\" NOT NULL".to_owned(),
        _ => "TEXT NOT NULL".to_owned(),
    };
    let text = if DB::QUOTE == '`' {
        "MEDIUMTEXT CHARACTER SET utf8mb4"
    } else {
        "TEXT"
    };
    let end = if DB::QUOTE == '`' {
        " ENGINE=InnoDB"
    } else {
        ""
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\n    \
             {key} {long} PRIMARY KEY,\n    \
             {resource} {names},\n    \
             {issuer} {names},\n    \
             {token} BIGINT NOT NULL,\n    \
             {operation} {names},\n    \
             {request} {text} NOT NULL,\n    \
             {state} {short},\n    \
             {answer} {text},\n    \
             {attempts} BIGINT NOT NULL,\n    \
             {recorded} BIGINT NOT NULL,\n    \
             {sent} BIGINT,\n    \
             UNIQUE ({resource}, {token}, {operation})\n\
         ){end}",
        table = table.quoted::<DB>(),
        long = name(super::KEY_BYTES_MAX),
        names = name(640),
        short = name(8),
        key = quoted::<DB>("call_key"),
        resource = quoted::<DB>("resource"),
        issuer = quoted::<DB>("issuer"),
        token = quoted::<DB>("token"),
        operation = quoted::<DB>("operation"),
        request = quoted::<DB>("request"),
        state = quoted::<DB>("state"),
        answer = quoted::<DB>("answer"),
        attempts = quoted::<DB>("attempts"),
        recorded = quoted::<DB>("recorded_ms"),
        sent = quoted::<DB>("sent_ms"),
    )
}

/// Finds the table, and checks that it is one of calls.
pub(super) async fn open<DB: Driver>(
    connection: &mut DB::Connection,
    mut table: TableName,
) -> Result<TableName, SqlError> {
    let key = [Identifier::column("call_key")?];
    let shape = DB::shape(connection, &table, &key).await?;
    shape.check::<DB>(&table, &key, &Identifier::column("token")?)?;
    for column in TEXTS.iter().chain(&NUMBERS) {
        shape.column::<DB>(&table, &Identifier::column(column)?)?;
    }
    table.schema = shape.schema;
    Ok(table)
}

/// `SELECT` of whole calls, up to `WHERE`.
pub(super) fn select<DB: Driver>(table: &TableName) -> Statement<DB> {
    let texts = TEXTS
        .iter()
        .map(|name| DB::text_as_text(&quoted::<DB>(name)));
    let numbers = NUMBERS
        .iter()
        .map(|name| DB::number_as_text(&quoted::<DB>(name)));
    let mut sql = Statement::<DB>::new("SELECT ");
    sql.list(texts.chain(numbers), |sql, column| {
        sql.push(&column);
    });
    sql.push(" FROM ")
        .push(&table.quoted::<DB>())
        .push(" WHERE ");
    sql
}

/// Reads one row of [`select`].
pub(super) fn read(cells: Cells) -> Result<Call, CallError> {
    let key = cells.first().cloned().flatten().unwrap_or_default();
    let wrong = |field| CallError::Record {
        key: key.chars().take(80).collect(),
        field,
    };
    let names = TEXTS.iter().chain(&NUMBERS);
    let mut cells = names
        .zip(cells)
        .collect::<std::collections::BTreeMap<_, _>>();
    let mut cell = |name: &'static str| cells.remove(&name).flatten();
    let mut needed = |name| cell(name).ok_or_else(|| wrong(name));
    let resource = ResourceName::new(needed("resource")?).map_err(|_| wrong("resource"))?;
    let issuer = IssuerName::new(needed("issuer")?).map_err(|_| wrong("issuer"))?;
    let token: TokenValue = needed("token")?.parse().map_err(|_| wrong("token"))?;
    let operation = Operation::stored(&needed("operation")?).map_err(|_| wrong("operation"))?;
    let (request, state) = (needed("request")?, needed("state")?);
    let attempts = needed("attempts")?.parse().map_err(|_| wrong("attempts"))?;
    let recorded = needed("recorded_ms")?;
    let state = state_of(&state, cell("answer")).ok_or_else(|| wrong("state"))?;
    let moment = |text: String, field| moment(&text).ok_or_else(|| wrong(field));
    Ok(Call {
        sequencer: Sequencer {
            issuer,
            resource,
            token,
        },
        operation,
        request,
        state,
        attempts,
        recorded_at: moment(recorded, "recorded_ms")?,
        sent_at: cell("sent_ms")
            .map(|text| moment(text, "sent_ms"))
            .transpose()?,
        key: IdempotencyKey::stored(&key),
    })
}

fn state_of(state: &str, answer: Option<String>) -> Option<CallState> {
    match (state, answer) {
        ("pending", _) => Some(CallState::Pending),
        ("unknown", _) => Some(CallState::Unknown),
        ("done", answer) => Some(CallState::Done(answer.unwrap_or_default())),
        ("refused", answer) => Some(CallState::Refused(answer.unwrap_or_default())),
        _ => None,
    }
}

pub(super) fn moment(text: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(text.parse().ok()?))
}

/// Milliseconds since 1970, as they are stored; 0 for a clock before that.
pub(super) fn millis(moment: SystemTime) -> i64 {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
