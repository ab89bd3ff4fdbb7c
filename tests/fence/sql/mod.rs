//! The SQL guards: each story in SQLite, PostgreSQL and MariaDB.

pub(crate) mod database;
mod documents;
mod guard_table;
mod guarded_row;
mod isolation;
mod old_snapshots;
mod page;
mod races;
mod unfit;
mod versions;

/// Makes a test for each database of stories that take one.
macro_rules! on_each_database {
    ($($story:ident),+ $(,)?) => {
        on_each_database!(@ sqlite, sqlx::Sqlite, new, $($story),+);
        on_each_database!(@ postgres, sqlx::Postgres, new, $($story),+);
        on_each_database!(@ mysql, sqlx::MySql, new, $($story),+);
    };
    // And, for what a table of marks does, on a server of MySQL's dialect that is no help with old snapshots.
    (and_old; $($story:ident),+ $(,)?) => {
        on_each_database!($($story),+);
        on_each_database!(@ old_mysql, sqlx::MySql, old, $($story),+);
    };
    (@ $module:ident, $database:ty, $made:ident, $($story:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $story() {
                    let database = $crate::sql::database::Database::<$database>::$made();
                    if let Some(database) = database.await {
                        super::$story(database).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_each_database;
