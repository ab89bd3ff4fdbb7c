//! The places in a write at which the kit can stop it: to let another holder in, or for good.

use rand::{RngExt as _, rngs::StdRng};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// The most times that a pause gives way to other tasks while writers race.
const YIELDS_MAX: u32 = 4;

/// Handed to each write; [`Steps::pause`] marks the places between the steps.
#[derive(Debug)]
pub struct Steps {
    seen: Vec<&'static str>,
    conduct: Conduct,
}

/// The kit has ended this write in the middle, as a crash of its process would. Whoever gets it
/// returns at once and cleans nothing up: no rollback, no release, no file removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stopped after the step \"{after}\", as a crash would")]
pub struct Crashed {
    /// The last step that was carried out.
    pub after: &'static str,
}

/// What happens at a pause.
#[derive(Debug)]
enum Conduct {
    /// Nothing: the write goes on.
    Free,
    /// The writer gives way a random number of times, so that races happen more often.
    Shaken(Box<StdRng>),
    /// The write ends at the pause of this number.
    Crash { at: usize },
    /// The write tells that it arrived, and waits until it is told to go on.
    Led {
        arrived: UnboundedSender<&'static str>,
        onward: UnboundedReceiver<()>,
    },
}

impl Steps {
    /// Between two steps of a write. `after` says in a word or two which step is behind it:
    /// "checked", "mark raised", "written". What comes back is passed on with `?`.
    ///
    /// # Errors
    ///
    /// [`Crashed`] when the write must end here.
    pub async fn pause(&mut self, after: &'static str) -> Result<(), Crashed> {
        let number = self.seen.len();
        self.seen.push(after);
        match &mut self.conduct {
            Conduct::Free => {}
            Conduct::Shaken(rng) => {
                for _ in 0..rng.random_range(0..=YIELDS_MAX) {
                    std::thread::yield_now();
                    tokio::task::yield_now().await;
                }
            }
            Conduct::Crash { at } if *at == number => return Err(Crashed { after }),
            Conduct::Crash { .. } => {}
            Conduct::Led { arrived, onward } => {
                // Nobody listens any more: the case is over, and so is this write.
                let over = Crashed { after };
                arrived.send(after).map_err(|_| over.clone())?;
                onward.recv().await.ok_or(over)?;
            }
        }
        Ok(())
    }

    pub(super) fn free() -> Self {
        Self::with(Conduct::Free)
    }

    pub(super) fn shaken(rng: StdRng) -> Self {
        Self::with(Conduct::Shaken(Box::new(rng)))
    }

    pub(super) fn crash(at: usize) -> Self {
        Self::with(Conduct::Crash { at })
    }

    pub(super) fn led(
        arrived: UnboundedSender<&'static str>,
        onward: UnboundedReceiver<()>,
    ) -> Self {
        Self::with(Conduct::Led { arrived, onward })
    }

    /// The steps that were passed, in their order.
    pub(super) fn seen(&self) -> &[&'static str] {
        &self.seen
    }

    fn with(conduct: Conduct) -> Self {
        Self {
            seen: Vec::new(),
            conduct,
        }
    }
}
