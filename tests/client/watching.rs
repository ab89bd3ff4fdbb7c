//! A watch delivers every event once, in order, over any number of nodes, or ends with a typed error.

use crate::fake::watch::{Step, event, granted};
use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, acquire};
use fencepost::client::{Change, Client, Cursor, Error, ErrorKind, Moment, Watch, Watching};
use fencepost::grant::{ClusterId, EndedHow};
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1::WatchEventKind as Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_stream::StreamExt;

fn cursor(index: u64) -> Cursor {
    Cursor {
        cluster: ClusterId::new(1),
        index,
    }
}

fn begins(index: u64) -> Step {
    Step::Tell(index, Vec::new())
}

fn fails(reason: Reason) -> Step {
    Step::Fail(Failure::new(reason, "because"))
}

/// A node whose watches follow these steps, one list a call; every further call gets the last.
async fn node(script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Fake {
    Fake::start(move |call, before| match call {
        "watch" => Act::Watch(script(before)),
        _ => Act::Answer,
    })
    .await
}

/// Two nodes; the client begins at either, so each test lets both tell the same story.
fn both(one: &Fake, other: &Fake, timeout: Duration) -> Client {
    client(&[&one.address, &other.address], timeout)
}

async fn next(watch: &mut Watch) -> Result<Moment, Error> {
    tokio::time::timeout(PLENTY, watch.next())
        .await
        .expect("it tells something")
        .expect("it is not over")
}

/// Indexes of the moments with events, up to one index.
async fn told(watch: &mut Watch, last: u64) -> Vec<u64> {
    let mut indexes = Vec::new();
    loop {
        let moment = next(watch).await.unwrap();
        assert_eq!(watch.cursor(), Some(moment.cursor));
        if !moment.events.is_empty() {
            indexes.push(moment.cursor.index);
        }
        if moment.cursor.index == last {
            return indexes;
        }
    }
}

fn watching() -> Watching {
    Watching::prefix("").after(cursor(10))
}

/// What comes after a cursor, of a history of grants at 11 to 16, up to 3 at a time; then `end`.
fn some_after(after: u64, end: impl Fn() -> Step) -> Vec<Step> {
    let mut steps = vec![begins(after)];
    steps.extend((after + 1..=16).take(3).map(granted));
    steps.push(end());
    steps
}

/// Two nodes that tell one story, whose chapters they take in the order in which they are asked.
async fn two(story: impl Fn(u64) -> Vec<Step> + Send + Sync + 'static) -> (Fake, Fake) {
    let chapter = AtomicU64::new(0);
    let told: Arc<dyn Fn() -> Vec<Step> + Send + Sync> =
        Arc::new(move || story(chapter.fetch_add(1, Ordering::SeqCst)));
    let again = Arc::clone(&told);
    (node(move |_| told()).await, node(move |_| again()).await)
}

/// Watches two nodes that end each watch after three moments: what is told, and the cursors that they
/// were asked for.
async fn broken_by(end: fn() -> Step) -> (Vec<u64>, Vec<u64>) {
    let (one, other) = two(move |chapter| some_after((10 + 3 * chapter).min(16), end)).await;
    let client = both(&one, &other, PLENTY);
    let mut watch = client.watch(watching());
    let indexes = told(&mut watch, 16).await;
    let mut cursors: Vec<u64> = [&one, &other]
        .iter()
        .flat_map(|node| node.watches())
        .map(|asked| asked.after.unwrap().index)
        .collect();
    cursors.sort_unstable();
    (indexes, cursors)
}

#[tokio::test]
async fn it_goes_on_elsewhere_from_its_last_cursor_whatever_ended_it() {
    for end in [
        || Step::Cut,
        || fails(Reason::NoLeader),
        || fails(Reason::Stopping),
    ] {
        let (indexes, cursors) = broken_by(end).await;
        assert_eq!(indexes, [11, 12, 13, 14, 15, 16]);
        assert_eq!(cursors[..2], [10, 13], "each goes on where the last ended");
    }
}

#[tokio::test]
async fn a_node_that_falls_silent_is_left() {
    // The first to be asked begins and never says another word, as over a half-open connection.
    let (one, other) = two(|chapter| match chapter {
        0 => vec![begins(10), granted(11)],
        _ => vec![begins(11), granted(12)],
    })
    .await;
    let client = both(&one, &other, PLENTY);
    let mut watch = client.watch(watching());
    assert_eq!(told(&mut watch, 12).await, [11, 12]);
    assert_eq!((one.count("watch"), other.count("watch")), (1, 1));
}

#[tokio::test]
async fn a_lost_history_is_an_error_of_its_own_and_the_end() {
    let lost = || {
        let failure = Failure::new(Reason::HistoryLost, "moved on");
        vec![Step::Fail(
            failure.oldest(ClusterId::new(1).to_string(), 40),
        )]
    };
    for begun in [false, true] {
        let node = node(move |_| {
            let mut steps = Vec::new();
            if begun {
                steps.push(begins(10));
                steps.push(granted(11));
            }
            steps.extend(lost());
            steps
        })
        .await;
        let client = client(&[&node.address], PLENTY);
        let mut watch = client.watch(watching());
        let error = loop {
            if let Err(error) = next(&mut watch).await {
                break error;
            }
        };
        let oldest = Some(Box::new(cursor(40)));
        assert_eq!(error.kind(), &ErrorKind::HistoryLost { oldest });
        assert!(!error.may_retry() && !error.can_have_had_effect());
        assert!(watch.next().await.is_none(), "it is over");
        assert_eq!(node.count("watch"), 1);
    }
}

#[tokio::test]
async fn a_node_that_tells_something_twice_or_goes_back_is_not_believed() {
    let unknown = || Step::Tell(12, vec![event(Kind::Unspecified, 12)]);
    let nobody = || {
        let mut nobody = event(Kind::Granted, 12);
        nobody.holder = String::new();
        Step::Tell(12, vec![nobody])
    };
    let stories: [fn() -> Step; 2] = [|| granted(11), || begins(9)];
    for odd in [
        &stories[0] as &(dyn Fn() -> Step + Sync),
        &stories[1],
        &unknown,
        &nobody,
    ] {
        let steps = std::sync::Mutex::new(Some(vec![begins(10), granted(11), odd()]));
        let node = node(move |_| steps.lock().unwrap().take().unwrap()).await;
        let client = client(&[&node.address], PLENTY);
        let mut watch = client.watch(watching());
        assert_eq!(told(&mut watch, 11).await, [11]);
        let error = next(&mut watch).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::BadAnswer, "{error}");
        assert!(watch.next().await.is_none());
    }
}

#[tokio::test]
async fn a_watch_that_nobody_can_serve_says_so_and_goes_on_when_it_is_read_on() {
    let node = Fake::start(|call, _| match call {
        "watch" => Act::Fail(Failure::new(Reason::NoLeader, "election")),
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], SHORT);
    let mut watch = client.watch(watching());
    let error = next(&mut watch).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(error.may_retry() && !error.can_have_had_effect());
    node.become_(|node| {
        node.script = Box::new(|call, _| match call {
            "watch" => Act::Watch(vec![begins(10), granted(11)]),
            _ => Act::Answer,
        });
    });
    assert_eq!(told(&mut watch, 11).await, [11]);
}

#[tokio::test]
async fn a_node_that_is_full_sends_it_elsewhere() {
    let full = Fake::start(|call, _| match call {
        "watch" => {
            let limit = Failure::new(Reason::Limit, "1,000 watches are open");
            Act::Fail(limit.retry_after(Duration::from_secs(1)))
        }
        _ => Act::Answer,
    })
    .await;
    let free = node(|_| vec![begins(10), granted(11)]).await;
    let client = both(&full, &free, PLENTY);
    let mut watch = client.watch(watching());
    assert_eq!(told(&mut watch, 11).await, [11]);
}

#[tokio::test]
async fn reading_may_be_given_up_at_any_moment_and_loses_nothing() {
    let node = node(|_| {
        let mut steps = vec![begins(10)];
        steps.extend((11..=60).map(granted));
        steps
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut watch = client.watch(watching());
    let mut indexes = Vec::new();
    while indexes.last() != Some(&60) {
        let impatient = tokio::time::timeout(Duration::from_micros(50), watch.next());
        if let Ok(Some(moment)) = impatient.await {
            let moment = moment.unwrap();
            indexes.extend(moment.events.iter().map(|_| moment.cursor.index));
        }
    }
    assert_eq!(indexes, (11..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn it_is_a_stream_and_says_what_happened_in_words() {
    let node = node(|_| {
        let mut revoked = event(Kind::Revoked, 11);
        revoked.reason = "why not".to_owned();
        let queued = event(Kind::Queued, 0);
        vec![begins(10), Step::Tell(12, vec![revoked, queued])]
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let moments = client.watch(watching()).take(2);
    let moments: Vec<_> = moments.map(Result::unwrap).collect().await;
    assert_eq!(moments[0].cursor, cursor(10));
    let [revoked, queued] = &moments[1].events[..] else {
        panic!("two events")
    };
    let Change::Ended { token, how, reason } = &revoked.change else {
        panic!("{revoked:?}")
    };
    assert_eq!((token.value().get(), *how), (11, EndedHow::Revoked));
    assert_eq!(reason.as_deref(), Some("why not"));
    assert_eq!(queued.change.as_str(), "queued");
    assert!(queued.change.token().is_none());
    // The watch does not get into the way of calls.
    acquire(&client).await.unwrap();
}

#[tokio::test]
async fn until_free_looks_only_when_something_may_have_freed_it() {
    let said = std::sync::Arc::new(tokio::sync::Notify::new());
    let node = node(|_| {
        let (ended, next) = (event(Kind::Released, 11), event(Kind::Granted, 12));
        let handed_over = Step::Tell(12, vec![ended, next]);
        vec![
            begins(10),
            handed_over,
            Step::Tell(13, vec![event(Kind::Expired, 12)]),
        ]
    })
    .await;
    node.become_(|node| node.grants = vec![crate::fake::grant("jobs", "me", 11)]);
    let waiting = {
        let (client, said) = (client(&[&node.address], PLENTY), said.clone());
        tokio::spawn(async move {
            said.notified().await;
            client.until_free(&"jobs".parse().unwrap()).await
        })
    };
    said.notify_one();
    // One look at the beginning, one when the lease had expired: none for the hand-over.
    let deadline = std::time::Instant::now() + PLENTY;
    while node.count("inspect") < 2 {
        assert!(std::time::Instant::now() < deadline, "it looks twice");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!waiting.is_finished());
    waiting.abort();
    node.become_(|node| node.grants.clear());
    let client = client(&[&node.address], PLENTY);
    client.until_free(&"jobs".parse().unwrap()).await.unwrap();
    assert_eq!(node.count("inspect"), 3);
}
