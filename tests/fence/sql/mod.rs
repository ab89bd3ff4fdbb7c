//! The SQL guards: each story in SQLite, PostgreSQL and MariaDB.

pub(crate) mod database;
mod documents;
mod guard_table;
mod guarded_row;
mod isolation;
mod page;
mod races;
mod unfit;
mod versions;

/// Makes a test for each database of stories that take one.
macro_rules! on_each_database {
    ($($story:ident),+ $(,)?) => {
        on_each_database!(@ sqlite, sqlx::Sqlite, $($story),+);
        on_each_database!(@ postgres, sqlx::Postgres, $($story),+);
        on_each_database!(@ mysql, sqlx::MySql, $($story),+);
    };
    (@ $module:ident, $database:ty, $($story:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $story() {
                    let database = $crate::sql::database::Database::<$database>::new();
                    if let Some(database) = database.await {
                        super::$story(database).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use on_each_database;
