//! Whether a server refuses old snapshots by itself, if it is asked to.
//!
//! MariaDB can be told so by `innodb_snapshot_isolation`: a statement that locks or writes a row which
//! changed since the transaction's snapshot fails with error 1020, and the server rolls the whole
//! transaction back. It came in the middle of several series, and at first let a transaction through that
//! had to wait for the row. Only releases that are known to look again after the wait are taken at their
//! word. All others, MySQL among them, have no such thing, or none that a guard could lean on.

use sqlx::{MySqlConnection, mysql::MySqlDatabaseError};

use crate::fence::sql::{Driver as _, SqlError, Statement};

/// What begins a statement that is to fail on an old snapshot, whatever the session's own setting is.
pub(super) const REFUSE_OLD: &str = "SET STATEMENT innodb_snapshot_isolation = ON FOR ";

/// The setting that a server must have.
const SETTING: &str = "innodb_snapshot_isolation";

/// The first release of each series that looks again after a wait (MDEV-36639), and opens a
/// snapshot at SERIALIZABLE before it takes a lock (MDEV-36330). A later series has both.
const FIRST: [(u32, u32, u32); 4] = [(10, 11, 14), (11, 4, 8), (11, 8, 3), (12, 1, 1)];

/// ER_CHECKREAD: the row has changed since the snapshot.
const CHANGED: u16 = 1020;

/// Asks the server for its release, and whether it has the setting.
pub(super) async fn can_be_refused(connection: &mut MySqlConnection) -> Result<bool, SqlError> {
    let sql = format!("SHOW VARIABLES WHERE Variable_name IN ('version', '{SETTING}')");
    let rows = sqlx::MySql::ask(connection, Statement::new(sql)).await?;
    let value = |name: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|row| {
            row.first()
                .is_some_and(|cell| cell.as_deref() == Some(name))
        })?;
        row.get(1)?.as_deref()
    };
    Ok(value(SETTING).is_some() && value("version").is_some_and(release_is_known))
}

/// A release is shown as `10.11.14-MariaDB-0+deb12u2`; MySQL's has no such word in it.
fn release_is_known(version: &str) -> bool {
    let Some((numbers, _)) = version.split_once("-MariaDB") else {
        return false;
    };
    let mut numbers = numbers.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return false;
    };
    let [.., newest] = FIRST;
    let same = |first: &&(u32, u32, u32)| (first.0, first.1) == (major, minor);
    match FIRST.iter().find(same) {
        Some(first) => patch >= first.2,
        None => (major, minor) > (newest.0, newest.1),
    }
}

/// The error of a raise, or that the snapshot was too old, if that is what it says.
pub(super) fn told_apart(error: SqlError, old: SqlError) -> SqlError {
    let number = match &error {
        SqlError::Database(sqlx::Error::Database(error)) => error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map(MySqlDatabaseError::number),
        _ => None,
    };
    if number == Some(CHANGED) { old } else { error }
}

#[cfg(test)]
mod tests {
    use super::release_is_known;

    #[test]
    fn only_releases_that_look_again_after_a_wait_are_taken_at_their_word() {
        for known in [
            "10.11.14-MariaDB-0+deb12u2",
            "10.11.19-MariaDB-0+deb12u1-log",
            "11.4.8-MariaDB",
            "11.8.3-MariaDB-ubu2404",
            "12.1.1-MariaDB",
            "12.2.2-MariaDB",
            "13.0.1-MariaDB",
        ] {
            assert!(release_is_known(known), "{known}");
        }
        for unknown in [
            "8.0.36",
            "8.4.3-commercial",
            "9.1.0",
            "12.3.4",
            "5.5.5-MariaDB",
            "10.6.23-MariaDB",
            "10.11.13-MariaDB",
            "11.3.9-MariaDB",
            "11.4.7-MariaDB",
            "11.8.2-MariaDB",
            "12.0.2-MariaDB",
            "12.1-MariaDB",
            "-MariaDB",
            "",
        ] {
            assert!(!release_is_known(unknown), "{unknown}");
        }
    }
}
