//! A payment service, over real HTTP, that knows idempotency keys and nothing of tokens.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use tokio::{net::TcpListener, task::JoinHandle};

/// What it keeps. `log` has everything that arrived, in order, notes of the workers included.
#[derive(Default)]
struct Book {
    answers: HashMap<String, (String, String)>,
    payments: Vec<String>,
    log: Vec<String>,
}

/// The service, which ends with the test.
pub(crate) struct Ledger {
    pub(crate) address: String,
    book: Arc<Mutex<Book>>,
    task: JoinHandle<()>,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ledger {
    pub(crate) async fn start() -> Self {
        let book: Arc<Mutex<Book>> = Arc::default();
        let router = Router::new()
            .route("/payments", post(pay))
            .route("/notes", post(note))
            .with_state(Arc::clone(&book));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            book,
            task,
        }
    }

    /// The payments that it made.
    pub(crate) fn payments(&self) -> Vec<String> {
        self.book.lock().unwrap().payments.clone()
    }

    /// Everything that arrived, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.book.lock().unwrap().log.clone()
    }

    /// Waits until one of these arrived.
    pub(crate) async fn wait_for(&self, these: &[&str]) {
        let start = Instant::now();
        while !self.log().iter().any(|line| these.contains(&line.as_str())) {
            let log = self.log();
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "none of {these:?}: {log:?}"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

type Shared = State<Arc<Mutex<Book>>>;

/// Once for each key; the same key for something else is a mistake of the caller's.
async fn pay(State(book): Shared, headers: HeaderMap, body: String) -> (StatusCode, String) {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mut book = book.lock().unwrap();
    book.log.push(format!("call by {}", header("x-worker")));
    if let Some((asked, answer)) = book.answers.get(&header("idempotency-key")) {
        return match *asked == body {
            true => (StatusCode::OK, answer.clone()),
            false => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "another request".to_owned(),
            ),
        };
    }
    book.payments.push(body.clone());
    let answer = format!("payment {}", book.payments.len());
    let entry = (body, answer.clone());
    book.answers.insert(header("idempotency-key"), entry);
    (StatusCode::OK, answer)
}

async fn note(State(book): Shared, text: String) {
    book.lock().unwrap().log.push(text);
}
