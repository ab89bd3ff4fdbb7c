//! Watching a guard: counts, logs, a trial run before it refuses anything, and word to the issuer.
//!
//! [`Watched`] goes around any [`Guard`](super::Guard) or
//! [`FencedResource`](super::fenced::FencedResource). What it sees it puts into a [`Watch`], which is shared by as many
//! of them as form one resource in the eyes of those who run it, and by the doors in front of them.
//!
//! ```
//! use std::sync::Arc;
//! use fencepost::fence::{Guard as _, Rules, Verdict, memory::MemoryGuard};
//! use fencepost::fence::watched::{Mode, Watch, Watched, openmetrics};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let watch = Arc::new(Watch::new("accounts", Mode::Observe));
//! let guard = MemoryGuard::new(Rules::issued_by("prod".parse()?));
//! let guard = Watched::new(guard, Arc::clone(&watch));
//!
//! let _ = guard.admit(&"prod:accounts/1:131".parse()?).await?;
//! // A stale one passes, for now, and is counted.
//! assert_eq!(guard.admit(&"prod:accounts/1:130".parse()?).await?, Verdict::Admitted);
//! assert_eq!((watch.counts().stale, watch.counts().overlooked), (1, 1));
//!
//! watch.set_mode(Mode::Enforce);
//! let refused = guard.admit(&"prod:accounts/1:130".parse()?).await?;
//! assert!(matches!(refused, Verdict::Stale { .. }));
//! println!("{}", openmetrics([&*watch]));
//! # Ok(()) }
//! ```
//!
//! # Rolling out
//!
//! Begin with [`Mode::Observe`]: everything passes, marks rise as they will, and what *would* have been
//! refused is counted and logged. When for some days nothing is missing, foreign or stale that should
//! not be, switch to [`Mode::Enforce`]; it needs no restart, and can be switched back.
//!
//! While a guard observes, **nothing is protected**: a stale write goes through and overwrites that of
//! the newer holder, as it did before there was a guard. What is kept is the mark: it is never lowered,
//! by whatever passes, so that on the day of the switch it is right.
//!
//! # Word to the issuer
//!
//! A token above everything that the issuer ever issued is the sign of a restore gone wrong: an issuer
//! that has forgotten grants will issue their tokens again. [`Watch::feedback`] hands out the highest
//! admitted sequencer whenever it rises, for a task that reports it to the issuer
//! (`fencepost guard report` does it by hand); it holds up no write, and when reports are slower than
//! grants, only the newest is kept, which says all. What the issuer answers goes to
//! [`Watch::ahead`]. The remedy is `fencepost raise-floor TOKEN`.

mod counts;
mod fenced;
mod guard;
mod openmetrics;
mod watch;

pub use counts::Counts;
pub use guard::Watched;
pub use openmetrics::openmetrics;
pub use watch::{Mode, ModeError, Watch};
