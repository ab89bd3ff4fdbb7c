//! The task-local context: whose grant the work is done under.

use fencepost::fence::context;
use tokio::task::JoinSet;

use crate::scene::sequencer;

fn now() -> Option<u64> {
    context::current().map(|sequencer| sequencer.token.get())
}

#[tokio::test]
async fn scopes_nest_and_end() {
    assert_eq!(now(), None);
    context::scope(sequencer(7), async {
        assert_eq!(now(), Some(7));
        context::scope(sequencer(8), async { assert_eq!(now(), Some(8)) }).await;
        context::apart(async { assert_eq!(now(), None) }).await;
        assert_eq!(now(), Some(7));
    })
    .await;
    assert_eq!(now(), None);
}

#[tokio::test]
async fn a_spawned_task_has_no_context_unless_it_is_carried_there() {
    context::scope(sequencer(7), async {
        assert_eq!(tokio::spawn(async { now() }).await.unwrap(), None);
        let carried = context::carried(async { now() });
        assert_eq!(tokio::spawn(carried).await.unwrap(), Some(7));
        let sequencer = context::current();
        let blocking = move || context::sync_scope(sequencer, now);
        let found = tokio::task::spawn_blocking(blocking).await.unwrap();
        assert_eq!(found, Some(7));
    })
    .await;
}

#[tokio::test]
async fn what_is_carried_is_that_of_where_it_was_made() {
    let made = async || Some(context::carried(async { now() }));
    let carried = context::scope(sequencer(7), made()).await.unwrap();
    let elsewhere = context::scope(sequencer(8), carried).await;
    assert_eq!(elsewhere, Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_move_between_threads_keep_their_own() {
    let mut tasks = JoinSet::new();
    for token in 1..=100 {
        tasks.spawn(context::scope(sequencer(token), async move {
            for _ in 0..50 {
                tokio::task::yield_now().await;
                assert_eq!(now(), Some(token));
            }
        }));
    }
    tasks.join_all().await;
}
