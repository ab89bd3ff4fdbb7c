//! Work that waits in a queue: the envelope travels in the message, and whoever takes it up later
//! works under the grant of whoever put it there.

use fencepost::{
    fence::{Verdict, context, sql::GuardTable},
    sequencer::{Envelope, MissingIssuer, Sequencer},
};
use serde::{Deserialize, Serialize};
use sqlx::{Executor as _, SqlitePool};

use crate::{
    scene::{ACCOUNT, issuer, rules, sequencer, sequencer_for},
    sql::database::Database,
};

/// A message: the envelope, and fields of its own beside it.
#[derive(Serialize, Deserialize)]
struct Job {
    #[serde(flatten)]
    envelope: Envelope,
    add: i64,
}

/// A queue in a table beside the accounts that its jobs change.
struct Queue {
    pool: SqlitePool,
    marks: GuardTable<sqlx::Sqlite>,
}

/// What became of a job, as its row says: number, state, and why.
type Row = (i64, String, Option<String>);

impl Queue {
    async fn new(database: &Database<sqlx::Sqlite>) -> Self {
        let pool = database.pool(4).await;
        let jobs = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, payload TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting', note TEXT)";
        pool.execute(jobs).await.unwrap();
        let marks = database.marks(rules()).await;
        Self { pool, marks }
    }

    /// The producer's half. It knows of no token: the context does.
    async fn put(&self, add: i64) {
        let sequencer = context::current().unwrap();
        let envelope = Envelope::new(&sequencer, None);
        let payload = serde_json::to_string(&Job { envelope, add }).unwrap();
        self.put_text(&payload).await;
    }

    async fn put_text(&self, payload: &str) {
        let put = sqlx::query("INSERT INTO jobs (payload) VALUES (?)").bind(payload);
        put.execute(&self.pool).await.unwrap();
    }

    /// The worker's half: takes the next job, and works it off or says in its row why not.
    async fn work(&self) -> bool {
        let taken: Option<(i64, String)> = sqlx::query_as(
            "UPDATE jobs SET state = 'taken' WHERE id =
                 (SELECT id FROM jobs WHERE state = 'waiting' ORDER BY id LIMIT 1)
             RETURNING id, payload",
        )
        .fetch_optional(&self.pool)
        .await
        .unwrap();
        let Some((id, payload)) = taken else {
            return false;
        };
        if let Err(why) = self.carry_out(id, &payload).await {
            sqlx::query("UPDATE jobs SET state = 'refused', note = ? WHERE id = ?")
                .bind(why)
                .bind(id)
                .execute(&self.pool)
                .await
                .unwrap();
        }
        true
    }

    async fn carry_out(&self, id: i64, payload: &str) -> Result<(), String> {
        let job: Job = serde_json::from_str(payload).map_err(|error| error.to_string())?;
        let presented = job
            .envelope
            .presented()
            .map_err(|other| other.to_string())?;
        let sequencer = presented
            .by(&issuer("bank"), MissingIssuer::Refuse)
            .map_err(|missing| missing.to_string())?;
        context::scope(sequencer, self.write(id, job.add)).await
    }

    /// The write itself, which takes the token from the context: with the job's own end, or not at all.
    async fn write(&self, id: i64, add: i64) -> Result<(), String> {
        let sequencer: Sequencer = context::current().unwrap();
        let mut tx = self.pool.begin().await.unwrap();
        let verdict: Verdict = self.marks.fenced(&mut tx, &sequencer).await.unwrap();
        verdict.admitted().map_err(|refusal| refusal.to_string())?;
        let add = sqlx::query("UPDATE accounts SET balance = balance + ? WHERE id = 1").bind(add);
        add.execute(&mut *tx).await.unwrap();
        let done = sqlx::query("UPDATE jobs SET state = 'done' WHERE id = ?").bind(id);
        done.execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        Ok(())
    }

    async fn rows(&self) -> Vec<Row> {
        sqlx::query_as("SELECT id, state, note FROM jobs ORDER BY id")
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }
}

fn row(id: i64, state: &str, note: Option<&str>) -> Row {
    (id, state.to_owned(), note.map(str::to_owned))
}

#[tokio::test]
async fn a_job_is_done_under_the_grant_of_whoever_queued_it() {
    let database = Database::<sqlx::Sqlite>::new().await.unwrap();
    let queue = Queue::new(&database).await;
    context::scope(sequencer(7), queue.put(5)).await;
    assert!(queue.work().await);
    assert!(!queue.work().await);
    assert_eq!(queue.rows().await, [row(1, "done", None)]);
    assert_eq!(database.account(1).await.unwrap().0, 5);
    let (mut connection, resource) = (database.connect().await, ACCOUNT.parse().unwrap());
    let mark = queue.marks.mark(&mut connection, &resource).await.unwrap();
    assert_eq!(mark.unwrap().token.get(), 7);
}

#[tokio::test]
async fn a_job_that_became_stale_while_it_waited_is_refused_and_stays_visible_as_such() {
    let database = Database::<sqlx::Sqlite>::new().await.unwrap();
    let queue = Queue::new(&database).await;
    // The old holder queued before it lost its lease, the new one after; the new one's job is worked
    // off first, as queues with several workers do.
    context::scope(sequencer(9), queue.put(2)).await;
    context::scope(sequencer(7), queue.put(5)).await;
    while queue.work().await {}
    let why = "stale fencing token: presented 7, required at least 9";
    assert_eq!(
        queue.rows().await,
        [row(1, "done", None), row(2, "refused", Some(why))]
    );
    assert_eq!(database.account(1).await.unwrap().0, 2);
}

#[tokio::test]
async fn many_workers_keep_each_job_under_its_own_grant() {
    let database = Database::<sqlx::Sqlite>::new().await.unwrap();
    let queue = std::sync::Arc::new(Queue::new(&database).await);
    for n in 1..=40 {
        let grant = sequencer_for("bank", &format!("account/{n}"), 100 - n);
        context::scope(grant, queue.put(1)).await;
    }
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let queue = std::sync::Arc::clone(&queue);
        workers.spawn(async move { while queue.work().await {} });
    }
    workers.join_all().await;
    // A context that leaked from one job to the next would have raised the wrong mark.
    for n in 1..=40 {
        let resource = format!("account/{n}").parse().unwrap();
        let mut connection = database.connect().await;
        let mark = queue.marks.mark(&mut connection, &resource).await.unwrap();
        assert_eq!(mark.unwrap().token.get(), 100 - n);
    }
    assert_eq!(database.account(1).await.unwrap().0, 40);
}

#[tokio::test]
async fn a_message_without_a_usable_envelope_changes_nothing() {
    let database = Database::<sqlx::Sqlite>::new().await.unwrap();
    let queue = Queue::new(&database).await;
    for (payload, _) in MESSAGES {
        queue.put_text(payload).await;
    }
    while queue.work().await {}
    let rows = queue.rows().await;
    assert_eq!(rows.len(), MESSAGES.len());
    for ((_, state, note), (payload, complaint)) in rows.iter().zip(MESSAGES) {
        assert_eq!(state, "refused", "{payload}");
        let note = note.as_deref().unwrap();
        assert!(note.contains(complaint), "{payload}: {note}");
    }
    assert_eq!(database.account(1).await, Some((0, 0)));
}

/// Messages, and what is wrong with each.
const MESSAGES: [(&str, &str); 6] = [
    (r#"{"add": 1}"#, "resourceId"),
    (r#"{"add": 1, "resourceId": "account/1"}"#, "fencing"),
    (
        r#"{"add": 1, "resourceId": "account/1", "fencing": {"token": 7.5, "issuer": "bank", "scope": "resource:account/1"}}"#,
        "token",
    ),
    (
        r#"{"add": 1, "resourceId": "account/1", "fencing": {"token": 7, "scope": "resource:account/1"}}"#,
        "issuer is missing",
    ),
    (
        r#"{"add": 1, "resourceId": "account/1", "fencing": {"token": 7, "issuer": "bank", "scope": "resource:account/2"}}"#,
        "scope",
    ),
    (
        r#"{"add": 1, "resourceId": "account/1", "fencing": {"token": 7, "issuer": "mint", "scope": "resource:account/1"}}"#,
        "issued by",
    ),
];
