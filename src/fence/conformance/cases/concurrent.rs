//! Writers that race, each through a handle of its own, and the judgement over what they saw.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{runtime, sync::Barrier, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    fence::{
        EqualTokens,
        conformance::{
            Fault, Handle, Place, Write,
            scene::{Scene, Stop, describe, token},
            steps::Steps,
        },
    },
    resource::ResourceName,
};

use super::{
    history::{Event, History, Operation},
    named, not_tried,
};

/// How often a thread looks whether the others are awake, at most.
const TURNS_MAX: usize = 10_000;
/// How many more races are run until two writes overlap.
const MORE_RACES_MAX: usize = 100;

/// What the writers of one race share: the counter that tells before from after, the numbers that
/// they draw their tokens from, and what there is to write.
pub(super) struct Race {
    ticks: AtomicU64,
    issued: AtomicU64,
    values: AtomicU32,
    start: Barrier,
    /// How many threads are past the barrier.
    started: AtomicUsize,
    writers: usize,
    as_threads: bool,
    write: Write,
}

/// What one writer saw, with the errors that it met.
struct Seen<H> {
    handle: H,
    operations: Vec<Operation>,
    faults: Vec<Fault>,
}

impl Race {
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn new(write: Write, writers: usize, as_threads: bool) -> Self {
        Self {
            ticks: AtomicU64::new(0),
            issued: AtomicU64::new(0),
            values: AtomicU32::new(0),
            start: Barrier::new(writers),
            started: AtomicUsize::new(0),
            writers,
            as_threads,
            write,
        }
    }

    /// Comes back when all writers are there. A woken thread is slow to start, and a quick write
    /// over by then: so threads then turn on the spot until the last one is awake.
    async fn begin(&self) {
        self.start.wait().await;
        if self.as_threads {
            self.started.fetch_add(1, Ordering::SeqCst);
            for _ in 0..TURNS_MAX {
                if self.started.load(Ordering::SeqCst) == self.writers {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    /// A write with a value of its own.
    pub(super) fn write(&self, value: u64) -> Write {
        let mut write = self.write.clone();
        write.presented.token = token(value);
        write.value = self.values.fetch_add(1, Ordering::SeqCst) + 1;
        write
    }
}

/// What all races together came to.
#[derive(Default)]
struct Tally {
    overlaps: usize,
    admitted: usize,
    refused: usize,
    failed: usize,
    fault: Option<Fault>,
}

pub(super) async fn concurrent_writers<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let mut handles = Vec::new();
    for _ in 0..scene.settings.writers {
        handles.push(scene.open().await?);
    }
    let mut tally = Tally::default();
    for round in 0..scene.settings.rounds + MORE_RACES_MAX {
        // Writers of a quick subject may each be done before the next has begun. Then once more.
        if round >= scene.settings.rounds && tally.overlaps > 0 {
            break;
        }
        handles = one_race(scene, round, handles, &mut tally).await?;
    }
    if let Some(fault) = tally.fault {
        if tally.admitted == 0 {
            return Err(scene.failed("every write", &fault));
        }
        let failed = tally.failed;
        let note = format!("{failed} operations failed while they raced, such as: {fault}");
        scene.notes.push(note);
    }
    if tally.overlaps == 0 {
        return not_tried("no two writes overlapped: one was always over before the next began");
    }
    scene.notes.push(format!(
        "{} writes admitted, {} refused as stale, {} pairs overlapped",
        tally.admitted, tally.refused, tally.overlaps
    ));
    Ok(())
}

/// One race on a resource of its own, and the judgement.
async fn one_race<P: Place>(
    scene: &mut Scene<P>,
    round: usize,
    handles: Vec<P::Handle>,
    tally: &mut Tally,
) -> Result<Vec<P::Handle>, Stop> {
    scene.new_story();
    let resource = named(format!("raced/{round}"));
    let race = Arc::new(Race::new(
        scene.write_of(&resource, 1),
        handles.len(),
        round % 2 == 1,
    ));
    let (mut handles, mut operations, faults) = run(scene, &race, handles).await?;
    // Once all is quiet, one more reader looks at what is left.
    let operation = read(&mut handles[0], 0, &race, &resource).await;
    operations.push(operation.map_err(|fault| scene.failed("a read", &fault))?);
    let history = History::new(&operations, &scene.profile);
    tally.overlaps += history.overlaps();
    tally.admitted += history.admitted();
    tally.refused += history.refused();
    tally.failed += faults.len();
    tally.fault = faults.into_iter().next_back().or(tally.fault.take());
    if let Some(found) = history.contradiction() {
        tell(scene, &race, &found.shown_by);
        return Err(scene.broken(found.what));
    }
    Ok(handles)
}

/// Lets all handles loose on one resource at once: by turns as tasks of the runtime, which meet
/// wherever they await, and as threads, which meet anywhere.
async fn run<P: Place>(
    scene: &mut Scene<P>,
    race: &Arc<Race>,
    handles: Vec<P::Handle>,
) -> Result<(Vec<P::Handle>, Vec<Operation>, Vec<Fault>), Stop> {
    let writes = match scene.profile.equal {
        EqualTokens::MayWriteAgain => 2,
        EqualTokens::Once => 1,
    };
    let stop = CancellationToken::new();
    // A thread cannot be aborted from without: when the case's time is over, this tells it.
    let _stops = stop.clone().drop_guard();
    let mut running = JoinSet::new();
    for (by, handle) in handles.into_iter().enumerate() {
        let rng = StdRng::seed_from_u64(scene.rng.random());
        let grants = scene.settings.writes_each;
        let writer = writer(Arc::clone(race), by, handle, rng, [grants, writes]);
        let stop = stop.clone();
        let until_stopped = async move { stop.run_until_cancelled(writer).await };
        if !race.as_threads {
            running.spawn(until_stopped);
        } else {
            let runtime = runtime::Handle::current();
            running.spawn_blocking(move || runtime.block_on(until_stopped));
        }
    }
    let (mut handles, mut operations, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(ended) = running.join_next().await {
        let seen = ended.map_err(|panic| Stop::Failed(format!("a writer panicked: {panic}")))?;
        let seen = seen.ok_or_else(|| Stop::Failed("a writer was stopped".to_owned()))?;
        handles.push(seen.handle);
        operations.extend(seen.operations);
        faults.extend(seen.faults);
    }
    Ok((handles, operations, faults))
}

/// Takes one token after another, dawdles while others may get newer ones, writes, and reads.
async fn writer<H: Handle>(
    race: Arc<Race>,
    by: usize,
    mut handle: H,
    mut rng: StdRng,
    [grants, writes]: [usize; 2],
) -> Seen<H> {
    let mut operations = Vec::new();
    let mut faults = Vec::new();
    let resource = race.write.resource.clone();
    race.begin().await;
    for _ in 0..grants {
        let granted = race.issued.fetch_add(1, Ordering::SeqCst) + 1;
        for _ in 0..rng.random_range(0..4) {
            give_way().await;
        }
        for _ in 0..writes {
            let write = race.write(granted);
            let mut steps = Steps::shaken(StdRng::seed_from_u64(rng.random()));
            let start = race.tick();
            if rng.random_ratio(1, 3) {
                // Under way for a while: sent, and not there yet.
                give_way().await;
            }
            let answer = handle.write(&write, &mut steps).await;
            let end = race.tick();
            let answer = answer.map_err(|fault| faults.push(fault)).ok();
            let event = Event::Write {
                token: write.presented.token,
                value: write.value,
                answer,
            };
            operations.push(Operation {
                by,
                start,
                end,
                event,
            });
        }
        match read(&mut handle, by, &race, &resource).await {
            Ok(operation) => operations.push(operation),
            Err(fault) => faults.push(fault),
        }
    }
    Seen {
        handle,
        operations,
        faults,
    }
}

/// Lets others in, be they tasks or threads.
async fn give_way() {
    std::thread::yield_now();
    tokio::task::yield_now().await;
}

pub(super) async fn read<H: Handle>(
    handle: &mut H,
    by: usize,
    race: &Race,
    resource: &ResourceName,
) -> Result<Operation, Fault> {
    let start = race.tick();
    let contents = handle.read(resource).await?;
    let end = race.tick();
    let event = Event::Read(contents);
    Ok(Operation {
        by,
        start,
        end,
        event,
    })
}

/// Tells the operations that show a contradiction, in the order in which they began.
pub(super) fn tell<P: Place>(scene: &mut Scene<P>, race: &Race, shown_by: &[Operation]) {
    let mut shown_by = shown_by.to_vec();
    shown_by.sort_by_key(|operation| operation.start);
    for Operation {
        by,
        start,
        end,
        event,
    } in shown_by
    {
        let told = match event {
            Event::Write {
                token,
                value,
                answer,
            } => {
                let mut write = race.write.clone();
                write.presented.token = token;
                write.value = value;
                let answered =
                    answer.map_or_else(|| "failed".to_owned(), |answer| describe(&answer));
                format!("{}: {answered}", scene.tell(by, &write))
            }
            Event::Read(contents) => {
                format!(
                    "handle {} reads: {}",
                    by + 1,
                    scene.describe_contents(&contents)
                )
            }
        };
        scene.note_step(format!("from tick {start} to tick {end}, {told}"));
    }
}
