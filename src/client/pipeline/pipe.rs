//! One `Pipeline` stream: what is to be sent, what is in flight, and the task that reads the answers.

use super::outgoing::Outgoing;
use super::{Class, Missed};
use crate::client::clock::{BootInstant, Clock};
use crate::wire::v1::issuer_client::IssuerClient;
use crate::wire::v1::pipeline_request::Operation;
use crate::wire::v1::pipeline_response::Answer;
use crate::wire::v1::{PipelineRequest, PipelineResponse};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Operations of each class in flight on one stream. A node has twice the room, so that it never has to
/// stop reading a stream of ours.
const ASKS_MAX: usize = 512;
const KEEPS_MAX: usize = 256;
const WAITS_MAX: usize = 512;

/// A stream with nothing in flight for so long is closed: an idle client keeps none open, and so sends
/// no pings that a proxy could complain of (llm-d-kv-cache#359).
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// A stream that has been asked something and has said nothing at all for so long is given up, whatever
/// its pings say. Longer than a cluster with slow disks takes for a commit.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(3);

type Reply = Result<Answer, Missed>;

/// One stream; shared by its callers, the connection that takes its requests, and its task.
pub(super) struct Pipe {
    state: Mutex<State>,
    asks: Semaphore,
    keeps: Semaphore,
    task: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    /// Not taken by the connection yet, in order of their ids.
    queue: VecDeque<PipelineRequest>,
    /// Who gets which answer.
    in_flight: BTreeMap<u64, InFlight>,
    waits: usize,
    /// Wakes the connection.
    taker: Option<Waker>,
    /// Since when something other than a wait is asked, and nothing has been heard.
    unheard_since: Option<BootInstant>,
    ended: bool,
}

struct InFlight {
    class: Class,
    /// `None`: the caller of this wait has gone, and the node has yet to answer it.
    reply: Option<oneshot::Sender<Reply>>,
}

impl InFlight {
    /// Tells the caller; one that has gone needs no telling.
    fn tell(self, reply: Reply) {
        if let Some(waiting) = self.reply {
            let _ = waiting.send(reply);
        }
    }
}

impl Pipe {
    /// Opens a stream over `channel`. Whether that works, the first operation learns.
    pub(super) fn open(channel: Channel) -> Arc<Self> {
        let pipe = Arc::new(Self {
            state: Mutex::default(),
            asks: Semaphore::new(ASKS_MAX),
            keeps: Semaphore::new(KEEPS_MAX),
            task: OnceLock::new(),
        });
        let task = tokio::spawn(drive(channel, Arc::clone(&pipe)));
        // The cell was made above, and nobody else fills it.
        let _ = pipe.task.set(task.abort_handle());
        pipe
    }

    pub(super) fn is_open(&self) -> bool {
        !self.state().ended
    }

    /// Takes room for one more wait, if there is some.
    pub(super) fn take_waiting_room(&self) -> bool {
        let mut state = self.state();
        let fits = state.waits < WAITS_MAX;
        state.waits += usize::from(fits);
        fits
    }

    /// Leaves `operation` to be sent, once there is room for its class. Gives it back when the stream has
    /// ended.
    pub(super) async fn enter(
        self: &Arc<Self>,
        class: Class,
        operation: Operation,
        limit: Duration,
        clock: &dyn Clock,
    ) -> Result<Entered, Operation> {
        if let Some(room) = self.room(class) {
            match room.acquire().await {
                // Given back when the operation is over.
                Ok(permit) => permit.forget(),
                Err(_ended) => return Err(operation),
            }
        }
        let mut state = self.state();
        if state.ended {
            return Err(operation);
        }
        state.last_id += 1;
        let id = state.last_id;
        let (reply, answer) = oneshot::channel();
        let reply = Some(reply);
        state.in_flight.insert(id, InFlight { class, reply });
        state.queue.push_back(PipelineRequest {
            id,
            timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1),
            operation: Some(operation),
        });
        if class != Class::Wait && state.unheard_since.is_none() {
            state.unheard_since = Some(clock.now());
        }
        let taker = state.taker.take();
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
        }
        let pipe = Arc::clone(self);
        Ok(Entered { pipe, id, answer })
    }

    /// Moves all that waits to be sent to `taken`, or leaves a waker. False when nothing will ever come.
    pub(super) fn take_requests(
        &self,
        taken: &mut VecDeque<PipelineRequest>,
        context: &Context<'_>,
    ) -> bool {
        let mut state = self.state();
        if state.queue.is_empty() {
            state.taker = Some(context.waker().clone());
            return !state.ended;
        }
        std::mem::swap(taken, &mut state.queue);
        true
    }

    /// Hands an answer to whoever waits for it; one that nobody waits for any more is dropped.
    fn answer(&self, response: PipelineResponse) {
        let mut state = self.state();
        state.unheard_since = None;
        let Some(over) = state.in_flight.remove(&response.id) else {
            return;
        };
        self.give_room_back(&mut state, over.class);
        drop(state);
        let reply = match response.answer {
            Some(Answer::Failure(failure)) => Err(failure.into()),
            Some(answer) => Ok(answer),
            None => Err(Missed::failed(Status::internal("an answer is empty"))),
        };
        over.tell(reply);
    }

    /// Ends the stream because of `status`, and with it everything in flight.
    fn end(&self, status: &Status) {
        let mut state = self.state();
        state.ended = true;
        let first_unsent = state.queue.front().map_or(u64::MAX, |request| request.id);
        state.queue.clear();
        let in_flight = std::mem::take(&mut state.in_flight);
        let taker = state.taker.take();
        drop(state);
        // Those who wait for room look for another stream.
        self.asks.close();
        self.keeps.close();
        if let Some(taker) = taker {
            taker.wake();
        }
        for (id, over) in in_flight {
            let status = status.clone();
            let sent = id < first_unsent;
            over.tell(Err(Missed::Failed { status, sent }));
        }
    }

    /// Ends the stream from this side, without waiting for the node.
    pub(super) fn abandon(&self, why: &'static str) {
        self.end(&Status::unavailable(why));
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Ends the stream if nobody waits for anything on it. True when it has ended.
    fn end_if_idle(&self) -> bool {
        let mut state = self.state();
        let idle = state.in_flight.values().all(|one| one.reply.is_none());
        state.ended |= idle;
        drop(state);
        if idle {
            self.end(&Status::unavailable("the stream was idle"));
        }
        idle
    }

    /// The caller of `id` does not wait any more. True if the request can have left.
    fn leave(&self, id: u64) -> bool {
        let mut state = self.state();
        let first_unsent = state.queue.front().map_or(u64::MAX, |request| request.id);
        let sent = id < first_unsent;
        if !sent && let Ok(at) = state.queue.binary_search_by_key(&id, |request| request.id) {
            state.queue.remove(at);
        }
        match state.in_flight.get_mut(&id) {
            Some(wait) if sent && wait.class == Class::Wait => wait.reply = None,
            Some(over) => {
                let class = over.class;
                state.in_flight.remove(&id);
                self.give_room_back(&mut state, class);
            }
            None => {}
        }
        sent
    }

    fn give_room_back(&self, state: &mut State, class: Class) {
        match self.room(class) {
            Some(room) => room.add_permits(1),
            None => state.waits = state.waits.saturating_sub(1),
        }
    }

    fn room(&self, class: Class) -> Option<&Semaphore> {
        match class {
            Class::Ask => Some(&self.asks),
            Class::Keep => Some(&self.keeps),
            Class::Wait => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change under the lock is complete in itself, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An operation that is to be sent, or was. Dropping it stops waiting for its answer.
pub(super) struct Entered {
    pipe: Arc<Pipe>,
    id: u64,
    answer: oneshot::Receiver<Reply>,
}

impl Entered {
    pub(super) async fn answer(&mut self) -> Reply {
        let reply = (&mut self.answer).await;
        self.id = 0;
        // Without a reply, the task was dropped with its runtime.
        let gone = || Missed::failed(Status::cancelled("the runtime has ended"));
        reply.map_err(|_| gone()).flatten()
    }

    /// Stops waiting because the time is up. True if the request can have left. If nothing else was heard
    /// for long either, the stream is abandoned.
    pub(super) fn give_up(&mut self, now: BootInstant) -> bool {
        let sent = self.pipe.leave(self.id);
        self.id = 0;
        let unheard_since = self.pipe.state().unheard_since;
        if unheard_since.is_some_and(|since| now.since(since) >= DEAD_AFTER) {
            self.pipe.abandon("nothing was heard for long");
        }
        sent
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // 0 is nobody's id: the operation is over.
        if self.id != 0 {
            self.pipe.leave(self.id);
        }
    }
}

/// Ends the stream even when its task is dropped in the middle, as at the end of a runtime.
struct AtTheEnd(Arc<Pipe>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0
            .end(&Status::cancelled("the runtime of the stream has ended"));
    }
}

/// Opens the stream, and hands out its answers until it ends.
async fn drive(channel: Channel, pipe: Arc<Pipe>) {
    let _at_the_end = AtTheEnd(Arc::clone(&pipe));
    let requests = Outgoing::new(Arc::clone(&pipe));
    let status = match IssuerClient::new(channel).pipeline(requests).await {
        Ok(answers) => read(answers.into_inner(), &pipe).await,
        Err(status) if status.code() == Code::Unimplemented => Status::unimplemented(
            "it does not know Pipeline: its version is older than this client's",
        ),
        Err(status) => status,
    };
    pipe.end(&status);
}

/// Hands out answers; returns why no more will come.
async fn read(mut answers: Streaming<PipelineResponse>, pipe: &Pipe) -> Status {
    loop {
        match timeout(IDLE_AFTER, answers.message()).await {
            Ok(Ok(Some(response))) => pipe.answer(response),
            Ok(Ok(None)) => return Status::unavailable("the node closed the stream"),
            Ok(Err(status)) => return status,
            Err(_quiet) if pipe.end_if_idle() => return Status::unavailable("idle"),
            Err(_quiet) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::clock::BootClock;
    use crate::wire::v1::{InspectRequest, InspectResponse};

    /// A stream that nothing is connected to.
    fn pipe() -> Arc<Pipe> {
        Arc::new(Pipe {
            state: Mutex::default(),
            asks: Semaphore::new(ASKS_MAX),
            keeps: Semaphore::new(KEEPS_MAX),
            task: OnceLock::new(),
        })
    }

    async fn enter(pipe: &Arc<Pipe>, class: Class) -> Entered {
        let operation = Operation::Inspect(InspectRequest::default());
        let entered = pipe.enter(class, operation, Duration::from_secs(1), &BootClock);
        match entered.await {
            Ok(entered) => entered,
            Err(_) => panic!("the stream is open"),
        }
    }

    /// The ids that the connection takes now.
    fn taken(pipe: &Pipe) -> Vec<u64> {
        let mut taken = VecDeque::new();
        pipe.take_requests(&mut taken, &Context::from_waker(Waker::noop()));
        taken.iter().map(|request| request.id).collect()
    }

    fn answer(pipe: &Pipe, id: u64) {
        let answer = Some(Answer::Inspect(InspectResponse::default()));
        pipe.answer(PipelineResponse { id, answer });
    }

    fn was_sent(reply: Reply) -> bool {
        match reply {
            Err(Missed::Failed { sent, .. }) => sent,
            other => panic!("expected a broken stream, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn what_the_connection_had_not_taken_was_certainly_not_sent() {
        let pipe = pipe();
        let mut first = enter(&pipe, Class::Ask).await;
        assert_eq!(taken(&pipe), [1]);
        let mut second = enter(&pipe, Class::Keep).await;
        pipe.end(&Status::unavailable("gone"));
        assert!(was_sent(first.answer().await));
        assert!(!was_sent(second.answer().await));
        assert!(!pipe.is_open());
    }

    #[tokio::test]
    async fn whoever_leaves_early_takes_the_request_back() {
        let pipe = pipe();
        let (first, second, third) = (
            enter(&pipe, Class::Ask).await,
            enter(&pipe, Class::Ask).await,
            enter(&pipe, Class::Ask).await,
        );
        drop(second);
        assert_eq!(taken(&pipe), [1, 3]);
        drop((first, third));
        assert!(pipe.state().in_flight.is_empty());
        assert_eq!(pipe.asks.available_permits(), ASKS_MAX);
    }

    #[tokio::test]
    async fn a_wait_that_has_left_takes_room_until_the_node_answers_it() {
        let pipe = pipe();
        assert!(pipe.take_waiting_room());
        drop(enter(&pipe, Class::Wait).await);
        assert_eq!(pipe.state().waits, 0, "it never left");

        assert!(pipe.take_waiting_room());
        let wait = enter(&pipe, Class::Wait).await;
        assert_eq!(taken(&pipe), [2]);
        drop(wait);
        assert_eq!(pipe.state().waits, 1);
        answer(&pipe, 2);
        assert_eq!(pipe.state().waits, 0);
        assert!(pipe.end_if_idle());
    }

    #[tokio::test]
    async fn a_stream_that_says_nothing_for_long_is_abandoned_and_a_quiet_wait_is_no_reason() {
        let pipe = pipe();
        let later = |after: Duration| BootClock.now().plus(after);
        let mut wait = enter(&pipe, Class::Wait).await;
        assert_eq!(taken(&pipe), [1]);
        assert!(wait.give_up(later(DEAD_AFTER * 9)));
        assert!(pipe.is_open());

        let mut ask = enter(&pipe, Class::Ask).await;
        assert_eq!(taken(&pipe), [2]);
        assert!(ask.give_up(later(DEAD_AFTER / 2)));
        assert!(pipe.is_open(), "slow disks take as long");
        let (mut ask, mut other) = (
            enter(&pipe, Class::Ask).await,
            enter(&pipe, Class::Keep).await,
        );
        assert_eq!(taken(&pipe), [3, 4]);
        assert!(ask.give_up(later(DEAD_AFTER)));
        assert!(!pipe.is_open());
        assert!(was_sent(other.answer().await));
    }
}
