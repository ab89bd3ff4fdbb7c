//! The page about databases: its statements do what it says.

use fencepost::fence::enforcement::{Dialect, Refused};

use super::{Place, on_each_database};

const PAGE: &str = include_str!("../../../docs/fencing-database.md");

/// The statements of the blocks marked `sql all` or `sql DIALECT`, each with the error that the comment
/// below it promises.
fn statements(dialect: Dialect) -> Vec<(String, Option<String>)> {
    let own = match dialect {
        Dialect::Postgres => "sql postgres",
        Dialect::MariaDb | Dialect::MySql => "sql mariadb",
        Dialect::Sqlite => "sql sqlite",
    };
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for block in PAGE.split("```").skip(1).step_by(2) {
        let (marks, text) = block.split_once('\n').unwrap();
        if marks != own && marks != "sql all" {
            continue;
        }
        let mut statement = String::new();
        for line in text.lines() {
            if let Some(error) = line.strip_prefix("-- ") {
                found.last_mut().unwrap().1 = Some(error.to_owned());
                continue;
            }
            statement += line;
            statement += "\n";
            if line.ends_with(';') {
                found.push((std::mem::take(&mut statement), None));
            }
        }
    }
    found
}

on_each_database! {
    async fn the_statements_of_the_page_do_what_it_says(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "page", |plan| plan).await else { return };
        let statements = statements(dialect);
        assert!(statements.len() > 9, "{statements:?}");
        for (sql, error) in statements {
            match error {
                None => session.all(&[&sql]).await,
                Some(error) => {
                    let refused: Refused = session.refused(&sql).await;
                    assert_eq!(refused.to_string(), error, "{sql}");
                }
            }
        }
        if dialect != Dialect::Sqlite {
            let grants = session.rows("SELECT CASE WHEN token > 1000000000000000 AND expires_at_us > token THEN 1 ELSE 0 END FROM lock_grants").await;
            assert_eq!(grants, ["1"]);
        }
    }
}

#[tokio::test]
async fn the_words_around_sqlites_numbers_are_on_the_page() {
    let Some((_place, mut session)) = Place::guarded(Dialect::Sqlite, "words", |plan| plan).await
    else {
        return;
    };
    let error = session
        .run("UPDATE accounts SET balance = 0, fencing_token = 6 WHERE id = 1")
        .await
        .unwrap_err()
        .to_string();
    let text = "'fencepost: stale fencing token: presented 6, required 7'";
    let (before, after) = error.split_once(text).unwrap();
    let before = before.rsplit(") ").next().unwrap();
    assert_eq!(after, "");
    assert!(PAGE.contains(&format!("`{before}{text}`")), "{error}");
}
