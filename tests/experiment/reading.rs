//! Why the holder's read carries the token, too.
//!
//! With tokens on writes alone every write is in order, and an acknowledged update can still be lost: the
//! older holder writes after the newer one has read. A read that raises the mark closes that gap.

use fencepost::{
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use crate::{
    databases,
    members::Members,
    registers::{GuardedRead, ISSUER, LEDGER, Registers},
    script::Outcome,
};

fn holder(token: u64) -> Sequencer {
    Sequencer {
        issuer: IssuerName::new(ISSUER).unwrap(),
        resource: ResourceName::new(LEDGER).unwrap(),
        token: TokenValue::new(token).unwrap(),
    }
}

/// The registers, empty; `None` without a PostgreSQL.
async fn registers() -> Option<Registers> {
    let database = databases::postgres()?.fresh("reading").await;
    Some(Registers::create(&database).await)
}

async fn read(registers: &Registers, holder: &Sequencer) -> Members {
    match registers.read_fenced(holder, "a holder").await {
        GuardedRead::Read(members) => members,
        GuardedRead::Not(outcome) => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn with_tokens_on_writes_alone_an_acknowledged_update_can_be_lost() {
    let Some(registers) = registers().await else {
        return;
    };
    let (older, newer) = (holder(5), holder(6));
    // Reads that leave the mark alone.
    let (seen_by_older, _) = registers.values().await;
    let (seen_by_newer, _) = registers.values().await;
    // Each write is admitted, in the order of the tokens.
    let wrote = registers.write_fenced(&older, &seen_by_older.with(1)).await;
    assert_eq!(wrote, Outcome::Acknowledged);
    let wrote = registers.write_fenced(&newer, &seen_by_newer.with(2)).await;
    assert_eq!(wrote, Outcome::Acknowledged);
    let (value, _) = registers.values().await;
    assert_eq!(value.iter().collect::<Vec<_>>(), [2], "the first is gone");
    assert_eq!(registers.steps_back("fenced").await, 0);
}

#[tokio::test]
async fn a_read_that_raises_the_mark_refuses_the_older_holder_before_it_can_lose_anything() {
    let Some(registers) = registers().await else {
        return;
    };
    let (older, newer) = (holder(5), holder(6));
    let seen_by_older = read(&registers, &older).await;
    let seen_by_newer = read(&registers, &newer).await;
    let wrote = registers.write_fenced(&older, &seen_by_older.with(1)).await;
    assert_eq!(wrote, Outcome::Stale { required: 6 });
    let wrote = registers.write_fenced(&newer, &seen_by_newer.with(2)).await;
    assert_eq!(wrote, Outcome::Acknowledged);
    let (value, _) = registers.values().await;
    assert_eq!(value.iter().collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn a_register_without_a_guard_takes_what_is_late() {
    let Some(registers) = registers().await else {
        return;
    };
    let late = registers.read_unfenced().await.unwrap();
    let newer = registers.read_unfenced().await.unwrap().with(2);
    assert_eq!(
        registers.write_unfenced(&holder(6), &newer).await,
        Outcome::Acknowledged
    );
    let late = late.with(1);
    assert_eq!(
        registers.write_unfenced(&holder(5), &late).await,
        Outcome::Acknowledged
    );
    let (_, value) = registers.values().await;
    assert_eq!(
        value.iter().collect::<Vec<_>>(),
        [1],
        "the newer one is gone"
    );
    assert_eq!(registers.steps_back("unfenced").await, 1);
}
