//! Writers that race, each through a handle of its own, and the judgement over what they saw.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{sync::Barrier, task::JoinSet};

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

/// What the writers of one race share: the counter that tells before from after, the numbers that
/// they draw their tokens from, and what there is to write.
pub(super) struct Race {
    ticks: AtomicU64,
    issued: AtomicU64,
    values: AtomicU32,
    start: Barrier,
    write: Write,
}

/// What one writer saw, with the last error that it met.
struct Seen<H> {
    handle: H,
    operations: Vec<Operation>,
    fault: Option<Fault>,
}

impl Race {
    pub(super) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(super) fn new(write: Write, writers: usize) -> Self {
        Self {
            ticks: AtomicU64::new(0),
            issued: AtomicU64::new(0),
            values: AtomicU32::new(0),
            start: Barrier::new(writers),
            write,
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

pub(super) async fn concurrent_writers<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let mut handles = Vec::new();
    for _ in 0..scene.settings.writers {
        handles.push(scene.open().await?);
    }
    let (mut overlaps, mut admitted, mut refused, mut errors) = (0, 0, 0, Vec::new());
    for round in 0..scene.settings.rounds {
        scene.new_story();
        let resource = named(format!("raced/{round}"));
        let race = Arc::new(Race::new(scene.write_of(&resource, 1), handles.len()));
        let (returned, mut operations, faults) = run(scene, &race, handles).await?;
        handles = returned;
        errors.extend(faults);
        // Once all is quiet, one more reader looks at what is left.
        let operation = read(&mut handles[0], 0, &race, &resource).await;
        operations.push(operation.map_err(|fault| scene.failed("a read", &fault))?);
        let history = History::new(&operations, &scene.profile);
        overlaps += history.overlaps();
        admitted += history.admitted();
        refused += history.refused();
        if let Some(found) = history.contradiction() {
            tell(scene, &race, &found.shown_by);
            return Err(scene.broken(found.what));
        }
    }
    if let Some(fault) = errors.pop() {
        if admitted == 0 {
            return Err(scene.failed("every write", &fault));
        }
        let count = errors.len() + 1;
        scene.notes.push(format!(
            "{count} operations failed while they raced, such as: {fault}"
        ));
    }
    if overlaps == 0 {
        return not_tried(
            "no two writes overlapped: run the kit on a runtime with several threads",
        );
    }
    let raced = format!(
        "{admitted} writes admitted, {refused} refused as stale, {overlaps} pairs overlapped"
    );
    scene.notes.push(raced);
    Ok(())
}

/// Lets all handles loose on one resource at once.
async fn run<P: Place>(
    scene: &mut Scene<P>,
    race: &Arc<Race>,
    handles: Vec<P::Handle>,
) -> Result<(Vec<P::Handle>, Vec<Operation>, Vec<Fault>), Stop> {
    let writes = match scene.profile.equal {
        EqualTokens::MayWriteAgain => 2,
        EqualTokens::Once => 1,
    };
    let mut tasks = JoinSet::new();
    for (by, handle) in handles.into_iter().enumerate() {
        let rng = StdRng::seed_from_u64(scene.rng.random());
        let writer = writer(
            Arc::clone(race),
            by,
            handle,
            rng,
            scene.settings.writes_each,
            writes,
        );
        tasks.spawn(writer);
    }
    let (mut handles, mut operations, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(ended) = tasks.join_next().await {
        let seen = ended.map_err(|panic| Stop::Failed(format!("a writer panicked: {panic}")))?;
        handles.push(seen.handle);
        operations.extend(seen.operations);
        faults.extend(seen.fault);
    }
    Ok((handles, operations, faults))
}

/// Takes one token after another, dawdles while others may get newer ones, writes, and reads.
async fn writer<H: Handle>(
    race: Arc<Race>,
    by: usize,
    mut handle: H,
    mut rng: StdRng,
    grants: usize,
    writes: usize,
) -> Seen<H> {
    let mut operations = Vec::new();
    let mut fault = None;
    let resource = race.write.resource.clone();
    race.start.wait().await;
    for _ in 0..grants {
        let granted = race.issued.fetch_add(1, Ordering::SeqCst) + 1;
        for _ in 0..rng.random_range(0..4) {
            tokio::task::yield_now().await;
        }
        for _ in 0..writes {
            let write = race.write(granted);
            let mut steps = Steps::shaken(StdRng::seed_from_u64(rng.random()));
            let start = race.tick();
            let answer = handle.write(&write, &mut steps).await;
            let end = race.tick();
            let answer = answer.map_err(|error| fault = Some(error)).ok();
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
            Err(error) => fault = Some(error),
        }
    }
    Seen {
        handle,
        operations,
        fault,
    }
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
