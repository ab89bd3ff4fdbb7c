//! The two registers, and how a careful and a careless program update them.
//!
//! Both are a row with a set in it. Both programs read, add a number, and write back. The careless one is
//! plain SQL. The careful one goes through [`GuardedTable`], and carries its token into the database in two
//! places:
//!
//! * **The read raises the mark.** Otherwise a holder could read, an older one could still write, and then
//!   the holder would write over it: no token out of order, and yet an acknowledged update gone.
//!   `reading.rs` shows it.
//! * **The write is refused when the mark is higher**, in the same statement.

use std::{fmt::Display, future::Future, time::Duration};

use fencepost::{
    fence::{
        Rules,
        sql::{GuardedTable, RowWrite, SqlError, WriteOutcome},
    },
    resource::ResourceName,
    sequencer::Sequencer,
};
use sqlx::{
    Executor as _, PgPool, Postgres, Row as _,
    postgres::{PgPoolOptions, PgRow},
};

use crate::{members::Members, script::Outcome};

/// After this a statement's outcome is unknown. Generous: it bounds a run, and decides nothing else.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A trigger writes down the token of every write, in the order in which the row changed: it runs
/// while the row is locked.
const SCHEMA: &str = r"
    CREATE TABLE fenced (
        name TEXT PRIMARY KEY,
        members BYTEA NOT NULL,
        read_by TEXT NOT NULL DEFAULT '',
        fencing_token BIGINT NOT NULL DEFAULT 0
    );
    CREATE TABLE unfenced (LIKE fenced INCLUDING ALL);
    CREATE TABLE writes (
        position BIGSERIAL PRIMARY KEY,
        register TEXT NOT NULL,
        token BIGINT NOT NULL
    );
    CREATE FUNCTION note_token() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO writes (register, token) VALUES (TG_TABLE_NAME, NEW.fencing_token);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_token AFTER UPDATE ON fenced FOR EACH ROW EXECUTE FUNCTION note_token();
    CREATE TRIGGER note_token AFTER UPDATE ON unfenced FOR EACH ROW EXECUTE FUNCTION note_token();
    INSERT INTO fenced (name, members) VALUES ('ledger', '');
    INSERT INTO unfenced (name, members) VALUES ('ledger', '');
";

/// The row of each table that is the register, and the resource that protects it.
pub(crate) const LEDGER: &str = "ledger";
/// Who issues the tokens: the guard takes no others.
pub(crate) const ISSUER: &str = "experiment";

/// The token is stored for the record alone; nothing is compared.
const WRITE_UNFENCED: &str =
    "UPDATE unfenced SET members = $2, fencing_token = $1 WHERE name = 'ledger'";

/// What a guarded read came to.
pub(crate) enum GuardedRead {
    /// The value, and nobody older can write any more.
    Read(Members),
    /// Why not.
    Not(Outcome),
}

/// Connections of one process to the database with the two registers.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    pool: PgPool,
    fenced: GuardedTable<Postgres>,
}

impl Registers {
    /// Makes both registers, empty, in a database that has neither.
    pub(crate) async fn create(url: &str) -> Self {
        pool(url).await.execute(SCHEMA).await.unwrap();
        Self::open(url).await
    }

    pub(crate) async fn open(url: &str) -> Self {
        let pool = pool(url).await;
        let mut connection = pool.acquire().await.unwrap();
        let rules = Rules::issued_by(ISSUER.parse().unwrap());
        let fenced = GuardedTable::open(
            &mut *connection,
            "fenced",
            &["name"],
            "fencing_token",
            rules,
        );
        let fenced = fenced.await.unwrap();
        Self { pool, fenced }
    }

    /// The careful program's read. It raises the mark first, by a guarded write that leaves the value alone.
    pub(crate) async fn read_fenced(&self, sequencer: &Sequencer, reader: &str) -> GuardedRead {
        let raise = self.row(sequencer).set("read_by", reader.to_owned());
        let raised = self.write(raise).await;
        if raised != Outcome::Acknowledged {
            return GuardedRead::Not(raised);
        }
        let read = sqlx::query("SELECT members FROM fenced WHERE name = 'ledger'");
        match bounded(read.fetch_one(&self.pool)).await {
            Ok(row) => GuardedRead::Read(members(&row)),
            Err(unknown) => GuardedRead::Not(unknown),
        }
    }

    /// The careful program's write.
    pub(crate) async fn write_fenced(&self, sequencer: &Sequencer, members: &Members) -> Outcome {
        let value = members.as_bytes().to_vec();
        self.write(self.row(sequencer).set("members", value)).await
    }

    /// A guarded write to the register, with nothing set yet.
    fn row(&self, sequencer: &Sequencer) -> RowWrite<'_, Postgres> {
        let ledger = ResourceName::new(LEDGER).unwrap();
        self.fenced.write(&ledger, sequencer).key(LEDGER)
    }

    async fn write(&self, write: RowWrite<'_, Postgres>) -> Outcome {
        let written = async {
            let mut connection = self.pool.acquire().await?;
            write.update(&mut connection).await
        };
        match bounded::<_, SqlError>(written).await {
            Ok(WriteOutcome::Written) => Outcome::Acknowledged,
            Ok(WriteOutcome::Stale { required, .. }) => Outcome::Stale {
                required: required.get(),
            },
            Ok(other) => panic!("the register is there, and its resource is right: {other:?}"),
            Err(unknown) => unknown,
        }
    }

    /// The careless program's read.
    pub(crate) async fn read_unfenced(&self) -> Result<Members, Outcome> {
        let read = sqlx::query("SELECT members FROM unfenced WHERE name = 'ledger'");
        let row = bounded(read.fetch_one(&self.pool)).await?;
        Ok(members(&row))
    }

    /// The careless program's write.
    pub(crate) async fn write_unfenced(&self, sequencer: &Sequencer, members: &Members) -> Outcome {
        let token = sequencer.token.as_i64();
        let write = sqlx::query(WRITE_UNFENCED)
            .bind(token)
            .bind(members.as_bytes());
        match bounded(write.execute(&self.pool)).await {
            Ok(_) => Outcome::Acknowledged,
            Err(unknown) => unknown,
        }
    }

    /// The final values: fenced, then unfenced.
    pub(crate) async fn values(&self) -> (Members, Members) {
        let read = async |sql: &'static str| {
            let row = sqlx::query(sql).fetch_one(&self.pool).await.unwrap();
            members(&row)
        };
        (
            read("SELECT members FROM fenced WHERE name = 'ledger'").await,
            read("SELECT members FROM unfenced WHERE name = 'ledger'").await,
        )
    }

    /// How often a register took a write with a lower token than the one before.
    pub(crate) async fn steps_back(&self, register: &str) -> u64 {
        let tokens = sqlx::query("SELECT token FROM writes WHERE register = $1 ORDER BY position");
        let rows = tokens.bind(register).fetch_all(&self.pool).await.unwrap();
        let tokens: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        tokens.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64
    }
}

fn members(row: &PgRow) -> Members {
    Members::from_bytes(row.get(0))
}

async fn pool(url: &str) -> PgPool {
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.acquire_timeout(STATEMENT_TIMEOUT).connect(url);
    pool.await.unwrap()
}

/// An error or a silence leaves open what happened.
async fn bounded<T, E: Display>(
    statement: impl Future<Output = Result<T, E>>,
) -> Result<T, Outcome> {
    let unknown = |why: String| Outcome::Unknown { why };
    match tokio::time::timeout(STATEMENT_TIMEOUT, statement).await {
        Ok(done) => done.map_err(|error| unknown(error.to_string())),
        Err(_) => Err(unknown("no answer in time".into())),
    }
}
