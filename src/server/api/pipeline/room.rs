//! How much one stream may make the node keep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Context,
};

use futures_util::task::AtomicWaker;

use crate::server::api::calls::Calls;

/// What one `Pipeline` may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineLimits {
    /// Operations that are read and whose answer has not left; beyond it the stream is not read. Large
    /// ones count for several.
    pub operations: usize,
    /// Acquires that may wait in line, beside those; one more is refused.
    pub waits: usize,
}

/// What an operation occupies from when it is read until its answer has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// So much of the room for operations.
    Operation(usize),
    /// One wait.
    Wait,
}

/// The room of one stream. Its task alone takes from it; whoever takes the answers gives back.
#[derive(Debug)]
pub(super) struct Room {
    /// Where what all streams of the node occupy is counted, too.
    node: Arc<Calls>,
    limits: PipelineLimits,
    operations: AtomicUsize,
    waits: AtomicUsize,
    /// The task has found no room, and is woken once there is some.
    starved: AtomicBool,
    task: AtomicWaker,
}

impl Room {
    pub(super) fn new(node: Arc<Calls>, limits: PipelineLimits) -> Self {
        Room {
            node,
            limits,
            operations: AtomicUsize::new(0),
            waits: AtomicUsize::new(0),
            starved: AtomicBool::new(false),
            task: AtomicWaker::new(),
        }
    }

    /// Whether another request may be read. If not, the task is woken when it is worth another look.
    pub(super) fn is_open(&self, context: &Context<'_>) -> bool {
        if self.has_room() {
            return true;
        }
        self.task.register(context.waker());
        self.starved.store(true, Ordering::SeqCst);
        // Somebody may have given back before the flag was up.
        self.has_room()
    }

    fn has_room(&self) -> bool {
        self.operations.load(Ordering::SeqCst) < self.limits.operations
    }

    /// Takes a share in. An operation that was read is always let in, so the last one may be too large;
    /// a wait only if there are not too many. `Err`: so many there may be.
    pub(super) fn take(&self, share: Share) -> Result<(), usize> {
        match share {
            Share::Operation(size) => {
                self.operations.fetch_add(size, Ordering::SeqCst);
                self.node.occupy(size);
            }
            Share::Wait if self.waits.load(Ordering::SeqCst) >= self.limits.waits => {
                return Err(self.limits.waits);
            }
            Share::Wait => {
                self.waits.fetch_add(1, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// An answer has left.
    pub(super) fn give_back(&self, share: Share) {
        let left = match share {
            Share::Operation(size) => {
                self.node.vacate(size);
                self.operations.fetch_sub(size, Ordering::SeqCst) - size
            }
            Share::Wait => {
                self.waits.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        };
        // Not for every single answer: a stream at its limit would change tasks for each.
        let worth_it = self.limits.operations - self.limits.operations / 8;
        if left < worth_it && self.starved.swap(false, Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Drop for Room {
    /// Answers that nobody took are gone with their stream.
    fn drop(&mut self) {
        self.node.vacate(*self.operations.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Wake, Waker},
    };

    use super::*;
    use crate::server::api::calls::Kind;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_full_room_is_closed_and_its_task_woken_once_there_is_some_again() {
        let limits = PipelineLimits {
            operations: 16,
            waits: 1,
        };
        let room = Room::new(Arc::new(Calls::new(64)), limits);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        for _ in 0..15 {
            room.take(Share::Operation(1)).unwrap();
        }
        assert!(room.is_open(&context));
        room.take(Share::Operation(5)).unwrap();
        assert!(!room.is_open(&context));
        room.give_back(Share::Operation(5));
        assert_eq!(woken.0.load(Ordering::SeqCst), 0, "not worth it yet");
        room.give_back(Share::Operation(1));
        room.give_back(Share::Operation(1));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(room.is_open(&context));
    }

    #[test]
    fn what_a_stream_left_behind_is_given_back_to_the_node() {
        let node = Arc::new(Calls::new(8));
        let limits = PipelineLimits {
            operations: 16,
            waits: 1,
        };
        let room = Room::new(Arc::clone(&node), limits);
        room.take(Share::Operation(6)).unwrap();
        room.take(Share::Operation(6)).unwrap();
        room.give_back(Share::Operation(6));
        assert!(node.has_room(Kind::Starts).is_ok());
        room.take(Share::Operation(6)).unwrap();
        assert!(node.has_room(Kind::Starts).is_err());
        drop(room);
        node.occupy(7);
        assert!(node.has_room(Kind::Starts).is_ok(), "nothing else is left");
    }

    #[test]
    fn waits_leave_the_room_of_others_alone() {
        let limits = PipelineLimits {
            operations: 1,
            waits: 2,
        };
        let room = Room::new(Arc::new(Calls::new(64)), limits);
        let context = Context::from_waker(Waker::noop());
        room.take(Share::Wait).unwrap();
        room.take(Share::Wait).unwrap();
        assert_eq!(room.take(Share::Wait), Err(2));
        assert!(room.is_open(&context));
        room.give_back(Share::Wait);
        assert_eq!(room.take(Share::Wait), Ok(()));
    }
}
