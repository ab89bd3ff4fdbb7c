//! The text of the statements on rows that carry their own mark.
//!
//! `docs/fencing-sql.md` has them for people who write their own.

use super::{Dialect, RowWrite, comparison::comparison, names::quoted, statement::Statement};

impl<DB: Dialect> RowWrite<'_, DB> {
    pub(super) fn update_statement(&self) -> Statement<DB> {
        let mut sql = Statement::new("UPDATE ");
        sql.push(&self.table.table.quoted::<DB>()).push(" SET ");
        for (column, value) in &self.columns {
            sql.name(column.name()).push(" = ");
            value(&mut sql);
            sql.push(", ");
        }
        if let Some((column, expected)) = &self.version {
            sql.name(column.name()).push(" = ");
            sql.integer(expected.saturating_add(1)).push(", ");
        }
        sql.name(self.table.token.name()).push(" = ");
        sql.integer(self.presented.as_i64()).push(" WHERE ");
        self.match_key(&mut sql);
        sql.push(" AND ").push(&self.own(self.table.token.name()));
        sql.push(comparison(&self.table.rules));
        sql.integer(self.presented.as_i64());
        if let Some((column, expected)) = &self.version {
            sql.push(" AND ").push(&self.own(column.name())).push(" = ");
            sql.integer(*expected);
        }
        sql
    }

    pub(super) fn insert_statement(&self) -> Statement<DB> {
        let table = &self.table;
        let mut sql = Statement::new("INSERT INTO ");
        sql.push(&table.table.quoted::<DB>()).push(" (");
        let set = self.columns.iter().map(|(column, _)| column);
        let all = table.key.iter().chain(set).chain([&table.token]);
        sql.list(all, |sql, column| {
            sql.name(column.name());
        });
        sql.push(") VALUES (");
        let set = self.columns.iter().map(|(_, value)| value);
        sql.list(self.key.iter().chain(set), |sql, value| value(sql));
        sql.push(", ").integer(self.presented.as_i64()).push(")");
        sql
    }

    pub(super) fn upsert_statement(&self) -> Statement<DB> {
        let table = &self.table;
        let mut sql = self.insert_statement();
        sql.push(" ON CONFLICT (");
        sql.list(&table.key, |sql, column| {
            sql.name(column.name());
        });
        sql.push(") DO UPDATE SET ");
        let set = self.columns.iter().map(|(column, _)| column);
        sql.list(set.chain([&table.token]), |sql, column| {
            sql.name(column.name()).push(" = excluded.");
            sql.name(column.name());
        });
        sql.push(" WHERE ").push(&self.own(table.token.name()));
        sql.push(comparison(&table.rules)).push("excluded.");
        sql.name(table.token.name());
        sql
    }

    /// What the row has where the statement had conditions.
    pub(super) fn question(&self) -> Statement<DB> {
        let mut sql = Statement::new("SELECT ");
        sql.push(&DB::number_as_text(&self.own(self.table.token.name())));
        if let Some((column, _)) = &self.version {
            sql.push(", ")
                .push(&DB::number_as_text(&self.own(column.name())));
        }
        sql.push(" FROM ").push(&self.table.table.quoted::<DB>());
        sql.push(" WHERE ");
        self.match_key(&mut sql);
        sql.push(DB::NEWEST);
        sql
    }

    fn match_key(&self, sql: &mut Statement<DB>) {
        for (n, (column, value)) in self.table.key.iter().zip(&self.key).enumerate() {
            if n > 0 {
                sql.push(" AND ");
            }
            sql.push(&self.own(column.name())).push(" = ");
            value(sql);
        }
    }

    /// A column of the row itself, not of `excluded`.
    fn own(&self, column: &str) -> String {
        let table = quoted::<DB>(self.table.table.table.name());
        format!("{table}.{}", quoted::<DB>(column))
    }
}
