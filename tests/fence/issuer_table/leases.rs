//! One holder at a time, for as long as its lease.

use std::time::{Duration, Instant};

use fencepost::{
    fence::{
        issuer_table::{Acquired, IssuerTable, Kept},
        sql::Dialect,
    },
    resource::IssuerName,
    sequencer::Sequencer,
};

use super::{acquire, bank, granted, holder, on_each_table, resource, ttl};

async fn a_holder_keeps_what_it_has_and_gives_it_back<DB: Dialect>(table: IssuerTable<DB>) {
    let (report, a, b) = (resource("report"), holder("a"), holder("b"));
    let long = ttl(60_000);
    assert_eq!(table.inspect(&report).await.unwrap(), None);
    let first = granted(acquire(&table, &report, &a, long).await);
    assert_eq!((&first.issuer, &first.resource), (&bank(), &report));
    match acquire(&table, &report, &b, long).await {
        Acquired::Held {
            holder,
            token,
            remaining,
        } => {
            assert_eq!((holder, token), (a.clone(), first.token));
            assert!(remaining < Duration::from_secs(61) && remaining > Duration::from_secs(1));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(table.renew(&first, long).await.unwrap(), Kept::Kept);
    // Names compare byte for byte.
    granted(acquire(&table, &resource("Report"), &b, long).await);
    assert_eq!(table.release(&first).await.unwrap(), Kept::Kept);
    assert_eq!(table.release(&first).await.unwrap(), Kept::Ended);
    assert_eq!(table.renew(&first, long).await.unwrap(), Kept::Ended);
    let last = table.inspect(&report).await.unwrap().unwrap();
    assert_eq!((last.token, last.remaining), (first.token, Duration::ZERO));
    let second = granted(acquire(&table, &report, &b, long).await);
    assert!(second.token > first.token);
}
on_each_table!(
    a_holder_keeps_what_it_has_and_gives_it_back,
    kept_and_given_back_in_postgres,
    kept_and_given_back_in_mariadb,
    kept_and_given_back_in_sqlite
);

async fn the_same_holder_supersedes_its_own_grant<DB: Dialect>(table: IssuerTable<DB>) {
    let (report, a) = (resource("report"), holder("a"));
    let first = granted(acquire(&table, &report, &a, ttl(60_000)).await);
    let second = granted(acquire(&table, &report, &a, ttl(60_000)).await);
    assert!(second.token > first.token);
    assert_eq!(table.renew(&first, ttl(60_000)).await.unwrap(), Kept::Ended);
    // A late release of the old grant leaves the new one alone.
    assert_eq!(table.release(&first).await.unwrap(), Kept::Ended);
    assert_eq!(table.renew(&second, ttl(60_000)).await.unwrap(), Kept::Kept);
}
on_each_table!(
    the_same_holder_supersedes_its_own_grant,
    superseded_in_postgres,
    superseded_in_mariadb,
    superseded_in_sqlite
);

async fn a_token_of_another_issuer_ends_nothing<DB: Dialect>(table: IssuerTable<DB>) {
    let (report, a) = (resource("report"), holder("a"));
    let ours = granted(acquire(&table, &report, &a, ttl(60_000)).await);
    let theirs = Sequencer {
        issuer: IssuerName::new("other").unwrap(),
        ..ours.clone()
    };
    assert_eq!(table.release(&theirs).await.unwrap(), Kept::Ended);
    assert_eq!(table.renew(&ours, ttl(60_000)).await.unwrap(), Kept::Kept);
}
on_each_table!(
    a_token_of_another_issuer_ends_nothing,
    another_issuer_in_postgres,
    another_issuer_in_mariadb,
    another_issuer_in_sqlite
);

/// Nobody else is granted before the holder's own deadline, and somebody is, after it.
async fn a_lease_that_nobody_renews_ends_and_never_early<DB: Dialect>(table: IssuerTable<DB>) {
    let (report, a, b) = (resource("report"), holder("a"), holder("b"));
    let lease = ttl(400);
    for _ in 0..3 {
        let sent = Instant::now();
        let first = granted(acquire(&table, &report, &a, lease).await);
        let taken = loop {
            // Long enough to be live still when it is released, however slow this machine is.
            let long = ttl(60_000);
            if let Acquired::Granted(taken) = acquire(&table, &report, &b, long).await {
                break taken;
            }
            assert!(sent.elapsed() < Duration::from_secs(60), "it never ends");
        };
        assert!(
            sent.elapsed() >= lease.as_duration(),
            "after {:?}",
            sent.elapsed()
        );
        assert!(taken.token > first.token);
        assert_eq!(table.renew(&first, lease).await.unwrap(), Kept::Ended);
        assert_eq!(table.release(&taken).await.unwrap(), Kept::Kept);
    }
}
on_each_table!(
    a_lease_that_nobody_renews_ends_and_never_early,
    never_early_in_postgres,
    never_early_in_mariadb,
    never_early_in_sqlite
);
