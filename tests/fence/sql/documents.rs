//! The smallest storage that fences, shared by processes that know nothing of each other.

use fencepost::fence::{
    sql::{SqlError, WriteOutcome},
    sqlite::{Document, Documents},
};

use crate::scene::{ACCOUNT, issuer, resource, sequencer, sequencer_for, token};

#[tokio::test]
async fn a_document_is_written_by_rising_tokens_and_outlives_its_writers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("documents.db");
    let open = || Documents::open(&file, issuer("bank"));
    let (older, newer) = (open().await.unwrap(), open().await.unwrap());
    let written = older.write(&sequencer(5), "older").await.unwrap();
    assert_eq!(written, WriteOutcome::Written);
    let written = newer.write(&sequencer(6), "newer").await.unwrap();
    assert_eq!(written, WriteOutcome::Written);
    let stale = WriteOutcome::Stale {
        presented: token(5),
        required: token(6),
    };
    assert_eq!(older.write(&sequencer(5), "late").await.unwrap(), stale);
    older.close().await;
    newer.close().await;

    let again = open().await.unwrap();
    assert_eq!(again.write(&sequencer(5), "later").await.unwrap(), stale);
    let document = Document {
        body: "newer".to_owned(),
        token: token(6),
    };
    let stored = again.read(&resource(ACCOUNT)).await.unwrap();
    assert_eq!(stored, Some(document));
    assert_eq!(again.read(&resource("other")).await.unwrap(), None);
    let forged = sequencer_for("casino", ACCOUNT, 9);
    let outcome = again.write(&forged, "forged").await.unwrap();
    assert!(matches!(outcome, WriteOutcome::Foreign(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("documents.db");
    std::fs::write(
        &file,
        "not a database, but long enough to look like one".repeat(50),
    )
    .unwrap();
    let error = Documents::open(&file, issuer("bank")).await.unwrap_err();
    assert!(matches!(error, SqlError::Database(_)), "{error}");
    assert!(!error.may_retry());
}
