//! Our guards in SQL databases, in each dialect, each held to the whole promise: the row that
//! carries its token, the table of marks beside the data, and the table of marks by itself.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use fencepost::{
    fence::{
        EqualTokens, Verdict,
        conformance::{
            Answer, Case, Contents, Fault, Guards, Handle, Place, Profile, Settings, Steps,
            Subject, Write,
        },
        sql::{GuardTable, GuardedTable, SqlError, SqlGuard, WriteOutcome},
    },
    resource::ResourceName,
    sequencer::Sequencer,
};
use sqlx::{Connection as _, MySql, Postgres, Sqlite, Transaction};

use super::{
    dialects::{Base, Server},
    ours::{BOTH, ONE_STEP, conforms_within, profile, rules},
};

/// Where marks are: in the rows, or in a table beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarding {
    Rows,
    Table,
}

/// How often a write is repeated that a database rolled back for another's sake.
const ATTEMPTS_MAX: u32 = 100;

pub(super) struct Database<DB> {
    pub(super) guarding: Guarding,
    pub(super) equal: EqualTokens,
    /// What a connection says first, such as its isolation level.
    pub(super) says: &'static str,
    pub(super) dialect: PhantomData<fn() -> DB>,
}

pub(super) struct DatabasePlace<DB> {
    pub(super) base: Base,
    guarding: Guarding,
    equal: EqualTokens,
    says: &'static str,
    dialect: PhantomData<fn() -> DB>,
}

pub(super) struct DatabaseHandle<DB: Server> {
    pub(super) connection: DB::Connection,
    rows: GuardedTable<DB>,
    pub(super) marks: GuardTable<DB>,
    guarding: Guarding,
}

impl<DB: Server> Subject for Database<DB> {
    type Place = DatabasePlace<DB>;

    fn profile(&self) -> Profile {
        let Self {
            guarding,
            equal,
            says,
            ..
        } = self;
        let profile = profile(
            &format!("{}, {guarding:?}, {equal:?} {says}", DB::NAME),
            *equal,
        );
        let profile = match guarding {
            Guarding::Rows => profile.names_target_apart(),
            Guarding::Table => profile,
        };
        let profile = profile.durable();
        if DB::BACKED_UP {
            profile.backed_up()
        } else {
            profile
        }
    }

    async fn place(&self) -> Result<DatabasePlace<DB>, Fault> {
        let base = DB::fresh().await.ok_or("there is no server")?;
        self.place_in(base).await
    }
}

impl<DB: Server> Database<DB> {
    /// Makes the tables in an empty database.
    pub(super) async fn place_in(&self, base: Base) -> Result<DatabasePlace<DB>, Fault> {
        let mut connection = DB::connect(&base).await?;
        DB::make(&mut connection).await?;
        GuardTable::<DB>::create(&mut connection, "marks", rules(self.equal)).await?;
        Ok(DatabasePlace {
            base,
            guarding: self.guarding,
            equal: self.equal,
            says: self.says,
            dialect: self.dialect,
        })
    }
}

impl<DB: Server> Place for DatabasePlace<DB> {
    type Handle = DatabaseHandle<DB>;

    async fn open(&self) -> Result<DatabaseHandle<DB>, Fault> {
        let mut connection = DB::connect(&self.base).await?;
        let (rules, table, token) = (rules(self.equal), "documents", "fencing_token");
        let key = &["resource"];
        let rows = GuardedTable::open(&mut connection, table, key, token, rules.clone()).await?;
        let marks = GuardTable::open(&mut connection, "marks", rules).await?;
        if !self.says.is_empty() {
            DB::say(&mut connection, self.says).await?;
        }
        Ok(DatabaseHandle {
            connection,
            rows,
            marks,
            guarding: self.guarding,
        })
    }

    async fn back_up(&mut self) -> Result<(), Fault> {
        DB::back_up(&self.base).await
    }

    async fn restore(&mut self) -> Result<(), Fault> {
        DB::restore(&mut self.base).await
    }
}

impl<DB: Server> Handle for DatabaseHandle<DB> {
    async fn write(&mut self, write: &Write, steps: &mut Steps) -> Result<Answer, Fault> {
        let Some(sequencer) = write.sequencer() else {
            return Ok(Answer::Invalid);
        };
        let mut attempts = 1;
        loop {
            let answer = match self.guarding {
                Guarding::Rows => self.write_row(write, &sequencer).await,
                Guarding::Table => self.write_behind_mark(write, &sequencer, steps).await,
            };
            // Rolled back for another's sake, with no effect: what every caller of a database repeats.
            let again = |fault: &Fault| {
                fault
                    .downcast_ref::<SqlError>()
                    .is_some_and(SqlError::may_retry)
            };
            match answer {
                Err(fault) if again(&fault) && attempts < ATTEMPTS_MAX => attempts += 1,
                answer => return answer,
            }
        }
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let (value, mark) = DB::row(&mut self.connection, resource).await?;
        let mark = match self.guarding {
            Guarding::Rows => mark,
            Guarding::Table => {
                let mark = self.marks.mark(&mut self.connection, resource).await?;
                mark.map(|mark| mark.token)
            }
        };
        Ok(Contents { value, mark })
    }
}

impl<DB: Server> DatabaseHandle<DB> {
    async fn write_row(&mut self, write: &Write, sequencer: &Sequencer) -> Result<Answer, Fault> {
        let outcome = DB::upsert(&self.rows, &mut self.connection, write, sequencer).await?;
        Ok(match outcome {
            WriteOutcome::Written => Answer::Admitted,
            WriteOutcome::Stale { required, .. } => Answer::Stale {
                required: Some(required),
            },
            WriteOutcome::Foreign(_) => Answer::Foreign,
            other => return Err(format!("{other:?}").into()),
        })
    }

    async fn write_behind_mark(
        &mut self,
        write: &Write,
        sequencer: &Sequencer,
        steps: &mut Steps,
    ) -> Result<Answer, Fault> {
        let begun = self.connection.begin().await;
        let mut transaction: Transaction<'_, DB> = begun.map_err(SqlError::from)?;
        steps.pause("begun").await?;
        let verdict = self.marks.fenced(&mut transaction, sequencer).await?;
        if verdict != Verdict::Admitted {
            transaction.rollback().await.map_err(SqlError::from)?;
            return Ok(verdict.into());
        }
        steps.pause("mark raised").await?;
        DB::put(&mut transaction, write).await?;
        steps.pause("written").await?;
        transaction.commit().await.map_err(SqlError::from)?;
        Ok(Answer::Admitted)
    }
}

/// A database takes a thousand times as long as memory; what is tried is the same.
pub(super) fn settings() -> Settings {
    let settings = Settings::default().patience(Duration::from_millis(8));
    settings.interleavings_max(35).rounds(6).resources(30)
}

/// What cannot be tried on a row that carries its token.
fn untried<DB: Server>(guarding: Guarding) -> Vec<Case> {
    let mut untried = match guarding {
        Guarding::Rows => ONE_STEP.to_vec(),
        Guarding::Table => vec![Case::ForeignResource, Case::MissingIssuer],
    };
    if !DB::BACKED_UP {
        untried.push(Case::RestoredBackup);
    }
    untried
}

async fn database_conforms<DB: Server>(guarding: Guarding, equal: EqualTokens, says: &'static str) {
    if DB::fresh().await.is_none() {
        return;
    }
    let subject = Database::<DB> {
        guarding,
        equal,
        says,
        dialect: PhantomData,
    };
    conforms_within(&subject, &settings(), &untried::<DB>(guarding)).await;
}

/// The table of marks by itself, behind pools of connections.
async fn guard_conforms<DB: Server>(equal: EqualTokens) {
    if DB::fresh().await.is_none() {
        return;
    }
    let make = || async { Ok(Arc::new(DB::fresh().await.ok_or("no server")?)) };
    let open = move |base: Arc<Base>| async move {
        let mut connection = DB::connect(&base).await?;
        let table = GuardTable::<DB>::create(&mut connection, "marks", rules(equal)).await?;
        Ok(SqlGuard::new(DB::pool(&base), table))
    };
    let profile = profile(&format!("SqlGuard, {}, {equal:?}", DB::NAME), equal);
    let subject = Guards::new(profile.durable(), make, open);
    let untried = [
        Case::ForeignResource,
        Case::MissingIssuer,
        Case::InterleavedWrites,
        Case::CrashBetweenCheckAndWrite,
        Case::RestoredBackup,
    ];
    conforms_within(&subject, &settings(), &untried).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_sqlite_conform() {
    for equal in BOTH {
        database_conforms::<Sqlite>(Guarding::Rows, equal, "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_postgres_conform() {
    for equal in BOTH {
        database_conforms::<Postgres>(Guarding::Rows, equal, "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_mariadb_conform() {
    for equal in BOTH {
        database_conforms::<MySql>(Guarding::Rows, equal, "").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_marks_in_sqlite_conforms() {
    for equal in BOTH {
        database_conforms::<Sqlite>(Guarding::Table, equal, "").await;
        guard_conforms::<Sqlite>(equal).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_marks_in_postgres_conforms_at_every_isolation_level() {
    for says in [
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        database_conforms::<Postgres>(Guarding::Table, EqualTokens::MayWriteAgain, says).await;
    }
    database_conforms::<Postgres>(Guarding::Table, EqualTokens::Once, "").await;
    guard_conforms::<Postgres>(EqualTokens::MayWriteAgain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_marks_in_mariadb_conforms_at_every_isolation_level() {
    for says in [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        database_conforms::<MySql>(Guarding::Table, EqualTokens::MayWriteAgain, says).await;
    }
    database_conforms::<MySql>(Guarding::Table, EqualTokens::Once, "").await;
    guard_conforms::<MySql>(EqualTokens::MayWriteAgain).await;
}
