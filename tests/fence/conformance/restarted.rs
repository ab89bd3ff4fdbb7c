//! Our guards in PostgreSQL and MariaDB on servers of their own that crash, and that are put back to a
//! backup; and guards with one mistake each that only shows there.

use std::{marker::PhantomData, sync::Arc};

use fencepost::{
    fence::{
        EqualTokens, Guard as _, Verdict,
        conformance::{
            Answer, Case, Contents, Fault, Handle, Outcome, Place, Profile, Steps, Subject, Write,
            check_only,
        },
        memory::MemoryGuard,
        sql::SqlError,
    },
    resource::ResourceName,
    sequencer::Sequencer,
};
use sqlx::{Connection as _, MySql, Postgres, Transaction};

use super::{
    databases::{Database, DatabaseHandle, DatabasePlace, Guarding, settings},
    dialects::{Base, Server},
    ours::rules,
};
use crate::own_servers::Own;

/// What is wrong with the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The service remembers the marks, and the database has the values only.
    MarksInTheService,
    /// The mark is raised in one transaction, and the value written in the next.
    TwoTransactions,
}

struct OnOwnServer<DB: Server + Own> {
    database: Database<DB>,
    running: Arc<DB::Running>,
    mistake: Mistake,
}

struct OwnPlace<DB: Server + Own> {
    database: DatabasePlace<DB>,
    running: Arc<DB::Running>,
    mistake: Mistake,
    remembered: Arc<MemoryGuard>,
}

struct OwnHandle<DB: Server + Own> {
    inner: DatabaseHandle<DB>,
    mistake: Mistake,
    remembered: Arc<MemoryGuard>,
}

fn remembered() -> Arc<MemoryGuard> {
    Arc::new(MemoryGuard::new(rules(EqualTokens::MayWriteAgain)))
}

impl<DB: Server + Own> Subject for OnOwnServer<DB> {
    type Place = OwnPlace<DB>;

    fn profile(&self) -> Profile {
        self.database.profile().backed_up()
    }

    async fn place(&self) -> Result<OwnPlace<DB>, Fault> {
        let base = Base::at(DB::fresh_on(&self.running).await);
        Ok(OwnPlace {
            database: self.database.place_in(base).await?,
            running: Arc::clone(&self.running),
            mistake: self.mistake,
            remembered: remembered(),
        })
    }
}

impl<DB: Server + Own> Place for OwnPlace<DB> {
    type Handle = OwnHandle<DB>;

    async fn open(&self) -> Result<OwnHandle<DB>, Fault> {
        Ok(OwnHandle {
            inner: self.database.open().await?,
            mistake: self.mistake,
            remembered: Arc::clone(&self.remembered),
        })
    }

    /// The service ends, and its server with it.
    async fn restart(&mut self) -> Result<(), Fault> {
        self.remembered = remembered();
        tokio::task::block_in_place(|| DB::crash(&self.running));
        Ok(())
    }

    async fn back_up(&mut self) -> Result<(), Fault> {
        let url = self.database.base.url();
        tokio::task::block_in_place(|| DB::back_up_on(&self.running, url));
        Ok(())
    }

    /// The database is put back under a service that runs on.
    async fn restore(&mut self) -> Result<(), Fault> {
        tokio::task::block_in_place(|| DB::restore_on(&self.running));
        Ok(())
    }
}

impl<DB: Server + Own> Handle for OwnHandle<DB> {
    async fn write(&mut self, write: &Write, steps: &mut Steps) -> Result<Answer, Fault> {
        if self.mistake == Mistake::None {
            return self.inner.write(write, steps).await;
        }
        let Some(sequencer) = write.sequencer() else {
            return Ok(Answer::Invalid);
        };
        let verdict = match self.mistake {
            Mistake::MarksInTheService => self.remembered.admit(&sequencer).await?,
            _ => self.raise_by_itself(&sequencer).await?,
        };
        if verdict == Verdict::Admitted {
            steps.pause("mark raised").await?;
            DB::put(&mut self.inner.connection, write).await?;
        }
        Ok(verdict.into())
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let mut contents = self.inner.read(resource).await?;
        if self.mistake == Mistake::MarksInTheService {
            let mark = self.remembered.high_water(resource).await?;
            contents.mark = mark.map(|mark| mark.token);
        }
        Ok(contents)
    }
}

impl<DB: Server + Own> OwnHandle<DB> {
    async fn raise_by_itself(&mut self, sequencer: &Sequencer) -> Result<Verdict, Fault> {
        let begun = self.inner.connection.begin().await;
        let mut transaction: Transaction<'_, DB> = begun.map_err(SqlError::from)?;
        let verdict = self.inner.marks.fenced(&mut transaction, sequencer).await?;
        transaction.commit().await.map_err(SqlError::from)?;
        Ok(verdict)
    }
}

/// The cases in which something ends, or goes back.
const ENDINGS: [Case; 3] = [
    Case::Restart,
    Case::CrashBetweenCheckAndWrite,
    Case::RestoredBackup,
];

fn on<DB: Server + Own>(
    running: &Arc<DB::Running>,
    guarding: Guarding,
    equal: EqualTokens,
    mistake: Mistake,
) -> OnOwnServer<DB> {
    OnOwnServer {
        database: Database {
            guarding,
            equal,
            says: "",
            dialect: PhantomData,
        },
        running: Arc::clone(running),
        mistake,
    }
}

/// Both kinds of guard; each policy is tried with one of them, for the sake of time.
async fn outlive_a_crash_and_a_restore<DB: Server + Own>() {
    let Some(running) = DB::start().map(Arc::new) else {
        return;
    };
    for (guarding, equal, cases) in [
        // A row that carries its token is written in one step: there is nothing between.
        (
            Guarding::Rows,
            EqualTokens::Once,
            &[Case::Restart, Case::RestoredBackup][..],
        ),
        (Guarding::Table, EqualTokens::MayWriteAgain, &ENDINGS),
    ] {
        let subject = on::<DB>(&running, guarding, equal, Mistake::None);
        let report = check_only(&subject, &settings(), cases).await;
        println!("{report}");
        for case in cases {
            assert_eq!(report.outcome(*case), Some(&Outcome::Held), "\n{report}");
        }
    }
}

async fn mistakes_are_caught<DB: Server + Own>() {
    let Some(running) = DB::start().map(Arc::new) else {
        return;
    };
    for (mistake, case) in [
        (Mistake::MarksInTheService, Case::Restart),
        (Mistake::MarksInTheService, Case::RestoredBackup),
        (Mistake::TwoTransactions, Case::CrashBetweenCheckAndWrite),
    ] {
        let equal = EqualTokens::MayWriteAgain;
        let subject = on::<DB>(&running, Guarding::Table, equal, mistake);
        let report = check_only(&subject, &settings(), &[case]).await;
        println!("{report}");
        assert_eq!(report.broken(), [case], "{mistake:?} got past:\n{report}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_in_postgres_outlive_a_crash_and_a_restore() {
    outlive_a_crash_and_a_restore::<Postgres>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_in_mariadb_outlive_a_crash_and_a_restore() {
    outlive_a_crash_and_a_restore::<MySql>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_forgets_in_front_of_postgres_is_caught() {
    mistakes_are_caught::<Postgres>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_forgets_in_front_of_mariadb_is_caught() {
    mistakes_are_caught::<MySql>().await;
}
