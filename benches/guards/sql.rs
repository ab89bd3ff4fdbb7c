//! The ways to write a row, the same for each SQL database: a macro, since sqlx's statements are of one
//! database each.
//!
//! Every way writes the same body to rows of the same shape. Without a guard: one statement, and one in a
//! transaction of its own. With one: the documented statement, the same through `GuardedTable`, a `GuardTable`
//! beside an unchanged table, and a statement without any condition on a table that triggers enforce.

/// Each way has a table of its own, so that none writes where another has just been.
pub(crate) const TABLES: [&str; 6] = [
    "plain",
    "by_hand",
    "by_library",
    "enforced",
    "bare",
    "marked",
];

/// Makes `variants`, for a database whose placeholders are in the statements: the plain ones of three tables
/// (body, id), the guarded one (body, token, id, token), and the one that only names its token (body, token, id).
macro_rules! writers {
    ($database:ty, $dialect:expr, $begin:literal, [$plain:literal, $bare:literal, $marked:literal], $guarded:literal, $named:literal) => {
        type Connection = <$database as sqlx::Database>::Connection;

        /// All ways to write, each with so many connections; the tables are made and filled here.
        async fn variants(
            writers: u64,
            schema: &str,
            connect: impl AsyncFn() -> Connection,
        ) -> Vec<crate::rounds::Variant> {
            use crate::rounds::Variant;
            let mut connection = connect().await;
            prepare(&mut connection, writers, schema).await;
            let rows = GuardedTable::<$database>::open(
                &mut connection,
                "by_library",
                &["id"],
                "fencing_token",
                crate::rules(),
            );
            let rows = rows.await.unwrap();
            let marks = GuardTable::<$database>::create(&mut connection, "marks", crate::rules());
            let marks = marks.await.unwrap();
            let each = async |make: &dyn Fn(u64, Connection) -> Box<dyn Writes>| {
                let mut all = Vec::new();
                for writer in 0..writers {
                    all.push(make(writer, connect().await));
                }
                all
            };
            let in_transaction = |marks: Option<GuardTable<$database>>| {
                move |writer, connection| in_transaction(writer, connection, marks.clone())
            };
            vec![
                Variant::new("unguarded", 0, each(&plain).await),
                Variant::new("token in the row, a statement", 0, each(&statement).await),
                Variant::new(
                    "token in the row, GuardedTable",
                    0,
                    each(&|writer, connection| guarded(writer, connection, rows.clone())).await,
                ),
                Variant::new("token in the row, triggers", 0, each(&enforced).await),
                Variant::new(
                    "unguarded, in a transaction",
                    4,
                    each(&in_transaction(None)).await,
                ),
                Variant::new(
                    "GuardTable, in a transaction",
                    4,
                    each(&in_transaction(Some(marks))).await,
                ),
            ]
        }

        async fn prepare(connection: &mut Connection, writers: u64, schema: &str) {
            use fencepost::fence::enforcement::Enforcement;
            let mut script = schema.to_owned();
            for table in crate::sql::TABLES {
                let values: Vec<_> = (0..writers * crate::ROWS)
                    .map(|id| format!("({id}, '')"))
                    .collect();
                script += &format!(
                    "INSERT INTO {table} (id, body) VALUES {};\n",
                    values.join(", ")
                );
            }
            sqlx::raw_sql(AssertSqlSafe(script))
                .execute(&mut *connection)
                .await
                .unwrap();
            let triggers = Enforcement::of_table($dialect, "enforced").unwrap();
            let triggers = triggers.key(&["id"]).unwrap().apply().unwrap();
            for step in triggers.steps() {
                sqlx::raw_sql(AssertSqlSafe(step.sql.clone()))
                    .execute(&mut *connection)
                    .await
                    .unwrap();
            }
        }

        fn plain(writer: u64, mut connection: Connection) -> Box<dyn Writes> {
            Box::new(async move |n| {
                let write = sqlx::query($plain)
                    .bind(body(n))
                    .bind(row(writer, n).cast_signed());
                write.execute(&mut connection).await.unwrap();
            })
        }

        fn statement(writer: u64, mut connection: Connection) -> Box<dyn Writes> {
            let sequencers = sequencers(writer);
            Box::new(async move |n| {
                let token = sequencers[at(n)].token.as_i64();
                let write = sqlx::query($guarded).bind(body(n)).bind(token);
                let write = write.bind(row(writer, n).cast_signed()).bind(token);
                let done = write.execute(&mut connection).await.unwrap();
                assert_eq!(done.rows_affected(), 1);
            })
        }

        fn guarded(
            writer: u64,
            mut connection: Connection,
            table: GuardedTable<$database>,
        ) -> Box<dyn Writes> {
            let sequencers = sequencers(writer);
            Box::new(async move |n| {
                let sequencer = &sequencers[at(n)];
                let write = table.write(&sequencer.resource, sequencer);
                let write = write.key(row(writer, n).cast_signed()).set("body", body(n));
                let outcome = write.update(&mut connection).await.unwrap();
                assert_eq!(outcome, WriteOutcome::Written);
            })
        }

        fn enforced(writer: u64, mut connection: Connection) -> Box<dyn Writes> {
            let sequencers = sequencers(writer);
            Box::new(async move |n| {
                let token = sequencers[at(n)].token.as_i64();
                let write = sqlx::query($named).bind(body(n)).bind(token);
                let write = write.bind(row(writer, n).cast_signed());
                write.execute(&mut connection).await.unwrap();
            })
        }

        fn in_transaction(
            writer: u64,
            mut connection: Connection,
            marks: Option<GuardTable<$database>>,
        ) -> Box<dyn Writes> {
            let sequencers = sequencers(writer);
            let sql = if marks.is_some() { $marked } else { $bare };
            Box::new(async move |n| {
                let mut transaction = connection.begin_with($begin).await.unwrap();
                if let Some(marks) = &marks {
                    let verdict = marks.fenced(&mut transaction, &sequencers[at(n)]).await;
                    verdict.unwrap().admitted().unwrap();
                }
                let write = sqlx::query(sql)
                    .bind(body(n))
                    .bind(row(writer, n).cast_signed());
                write.execute(&mut *transaction).await.unwrap();
                transaction.commit().await.unwrap();
            })
        }
    };
}
pub(crate) use writers;
