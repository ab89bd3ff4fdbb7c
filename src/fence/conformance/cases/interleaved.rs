//! Two writes, step by step, in every order in which their steps can come.
//!
//! A step may have to wait for the other write (a lock that it holds). After a moment of patience
//! the kit goes on with the other one, as PostgreSQL's isolation tester does. Whether a step was
//! given up too early changes only which order was tried, never whether what came out is right.

use std::sync::Arc;

use rand::seq::SliceRandom as _;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use crate::fence::conformance::{
    Fault, Handle, Place, Write,
    scene::{Scene, Stop},
    steps::Steps,
};

use super::{
    concurrent::{Race, read, tell},
    history::{Event, History, Operation},
    named, not_tried,
};

/// The tokens of the two writes.
const LOWER: u64 = 10;
const HIGHER: u64 = 20;

/// A write under way, one step at a time.
struct Walk<H> {
    task: JoinHandle<(H, Operation, Option<Fault>)>,
    onward: UnboundedSender<()>,
    arrived: UnboundedReceiver<&'static str>,
    by: usize,
    /// It was told to go on, and has not arrived anywhere since.
    under_way: bool,
    over: bool,
}

pub(super) async fn interleaved_writes<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    scene
        .admitted(0, &named("interleaved/alone"), LOWER)
        .await?;
    let pauses = scene.pauses().to_vec();
    if pauses.is_empty() {
        return not_tried(
            "check and write are one step, at least the author names none between them",
        );
    }
    let steps = pauses.len() + 1;
    let mut orders = orders(steps, steps);
    let all = orders.len();
    orders.shuffle(&mut scene.rng);
    orders.truncate(scene.settings.interleavings_max);
    let tried = orders.len();
    let (mut lower, mut higher) = (scene.open().await?, scene.open().await?);
    for (n, order) in orders.into_iter().enumerate() {
        scene.new_story();
        let resource = named(format!("interleaved/{n}"));
        let race = Arc::new(Race::new(scene.write_of(&resource, 1), 2, false));
        let mut operations = Vec::new();
        // Every other time there is something already: a row to update rather than to make.
        if n.is_multiple_of(2) {
            let first = operate(race.write(1), 0, &race, &mut lower, Steps::free()).await;
            operations.push(first.0);
        }
        let walks = [
            walk(lower, 0, race.write(LOWER), &race),
            walk(higher, 1, race.write(HIGHER), &race),
        ];
        let [first, second] = follow(scene, &order, walks).await?;
        operations.extend([first.1, second.1]);
        (lower, higher) = (first.0, second.0);
        let left = read(&mut lower, 0, &race, &resource).await;
        operations.push(left.map_err(|fault| scene.failed("a read", &fault))?);
        if let Some(found) = History::new(&operations, &scene.profile).contradiction() {
            tell(scene, &race, &found.shown_by);
            return Err(scene.broken(found.what));
        }
        // Whatever came out, the place is not stuck.
        scene.admitted(0, &resource, HIGHER + 1).await?;
    }
    let steps = pauses.join(", ");
    scene.notes.push(format!(
        "{tried} of {all} interleavings, stopped after: {steps}"
    ));
    Ok(())
}

/// All orders of `lower` steps of write 0 and `higher` steps of write 1.
fn orders(lower: usize, higher: usize) -> Vec<Vec<usize>> {
    if lower == 0 || higher == 0 {
        return vec![[vec![0; lower], vec![1; higher]].concat()];
    }
    let first = |by: usize, rest: Vec<Vec<usize>>| {
        rest.into_iter()
            .map(move |order| [vec![by], order].concat())
    };
    let after_lower = first(0, orders(lower - 1, higher));
    after_lower
        .chain(first(1, orders(lower, higher - 1)))
        .collect()
}

async fn operate<H: Handle>(
    write: Write,
    by: usize,
    race: &Race,
    handle: &mut H,
    mut steps: Steps,
) -> (Operation, Option<Fault>) {
    let start = race.tick();
    let answer = handle.write(&write, &mut steps).await;
    let end = race.tick();
    let (answer, fault) = match answer {
        Ok(answer) => (Some(answer), None),
        Err(fault) => (None, Some(fault)),
    };
    let event = Event::Write {
        token: write.presented.token,
        value: write.value,
        answer,
    };
    (
        Operation {
            by,
            start,
            end,
            event,
        },
        fault,
    )
}

/// Starts a write that waits before its first step.
fn walk<H: Handle>(mut handle: H, by: usize, write: Write, race: &Arc<Race>) -> Walk<H> {
    let (onward, mut told) = unbounded_channel();
    let (arrives, arrived) = unbounded_channel();
    let race = Arc::clone(race);
    let task = tokio::spawn(async move {
        // Nobody tells it to begin any more only when the case is over.
        let _ = told.recv().await;
        let steps = Steps::led(arrives, told);
        let (operation, fault) = operate(write, by, &race, &mut handle, steps).await;
        (handle, operation, fault)
    });
    Walk {
        task,
        onward,
        arrived,
        by,
        under_way: false,
        over: false,
    }
}

impl<H> Walk<H> {
    /// Tells the write to make its next step, unless it is still at one.
    fn go_on(&mut self) {
        if !self.under_way && !self.over {
            // A write that ended on its own has nobody listening; `arrive` then says so.
            let _ = self.onward.send(());
            self.under_way = true;
        }
    }

    /// Waits until the step is done: where it ended, or none if that was the end of the write.
    async fn arrive(&mut self) -> Option<&'static str> {
        let at = self.arrived.recv().await;
        self.under_way = false;
        self.over = at.is_none();
        at
    }
}

/// Leads both writes along the order, then to their ends.
async fn follow<P: Place>(
    scene: &mut Scene<P>,
    order: &[usize],
    mut walks: [Walk<P::Handle>; 2],
) -> Result<[(P::Handle, Operation); 2], Stop> {
    let patience = scene.settings.patience;
    for by in order {
        let walk = &mut walks[*by];
        if walk.over {
            continue;
        }
        walk.go_on();
        let name = name(walk.by);
        match tokio::time::timeout(patience, walk.arrive()).await {
            Ok(Some(at)) => scene.note_step(format!("{name} has gone as far as \"{at}\"")),
            Ok(None) => scene.note_step(format!("{name} has ended")),
            Err(_) => scene.note_step(format!("{name} has to wait")),
        }
    }
    // What had to wait catches up. Either may hold what the other waits for, so both move.
    while !walks.iter().all(|walk| walk.over) {
        let [lower, higher] = &mut walks;
        for walk in [&mut *lower, &mut *higher] {
            walk.go_on();
        }
        tokio::select! {
            _ = lower.arrive(), if !lower.over => {}
            _ = higher.arrive(), if !higher.over => {}
        }
    }
    let [lower, higher] = walks;
    Ok([ended(scene, lower).await?, ended(scene, higher).await?])
}

async fn ended<P: Place>(
    scene: &mut Scene<P>,
    walk: Walk<P::Handle>,
) -> Result<(P::Handle, Operation), Stop> {
    let name = name(walk.by);
    let ended = walk.task.await;
    let (handle, operation, fault) =
        ended.map_err(|panic| Stop::Failed(format!("{name} panicked: {panic}")))?;
    if let Some(fault) = fault {
        scene.note_step(format!("{name} failed: {fault}"));
    }
    Ok((handle, operation))
}

fn name(by: usize) -> String {
    let token = [LOWER, HIGHER][by];
    format!("the write of token {token}")
}
