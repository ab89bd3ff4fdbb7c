//! Turning a panic of the database engine into an error.
//!
//! sled asserts on what it reads, so damaged files can make it panic. Such a panic is caught where
//! the engine is called, its message becomes part of one typed error, and the process-wide hook
//! does not print it as if it were a bug of ours. Panics elsewhere are printed as before.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CAUGHT_HERE: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic in it comes back as its message.
///
/// After a panic nothing that `work` touched may be used again: the store is closed, or was never
/// opened. That is what makes the assertion of unwind safety true.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CAUGHT_HERE.get() && !on_engine_thread() {
                previous(info);
            }
        }));
    });
    let before = CAUGHT_HERE.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    CAUGHT_HERE.set(before);
    outcome.map_err(|payload| message(payload.as_ref()))
}

/// sled reads segments on threads of its own, and catches their panics.
fn on_engine_thread() -> bool {
    std::thread::current()
        .name()
        .is_some_and(|name| name.starts_with("sled-io-"))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(catch(|| 7), Ok(7));
        let plain = catch(|| -> u8 { panic!("bad page") });
        assert_eq!(plain, Err("bad page".to_owned()));
        let formatted = catch(|| -> u8 { panic!("bad page {}", 9) });
        assert_eq!(formatted, Err("bad page 9".to_owned()));
    }
}
