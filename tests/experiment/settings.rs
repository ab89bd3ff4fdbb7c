//! What a run is like. The defaults are the gate's run, of about three quarters of a minute; the
//! environment makes it a soak.

use std::{str::FromStr, time::Duration};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `FENCEPOST_EXPERIMENT_TTL_MS`: how long a lease lives without a renewal.
    pub(crate) ttl: Duration,
    /// `FENCEPOST_EXPERIMENT_STOP_EVERY_MS`: from one stop of a holder to the next.
    pub(crate) stop_every: Duration,
    /// `FENCEPOST_EXPERIMENT_OTHERS`: how often others have to write before a stopped holder goes on.
    pub(crate) others: u64,
    /// `FENCEPOST_EXPERIMENT_CLIENTS`: processes that take turns.
    pub(crate) clients: u64,
    /// `FENCEPOST_EXPERIMENT_SECS`: the run goes on for at least that long.
    pub(crate) at_least: Duration,
    /// `FENCEPOST_EXPERIMENT_UPDATES`: and until the fenced register has acknowledged that many.
    pub(crate) updates: u64,
    /// `FENCEPOST_EXPERIMENT_STOPS`: and until a holder was stopped that often.
    pub(crate) stops: u64,
    /// What bounds a run whose counts do not come together; it is judged as *unknown* then.
    pub(crate) at_most: Duration,
}

impl Settings {
    pub(crate) fn from_environment() -> Self {
        let at_least = Duration::from_secs(number("SECS", 40));
        let clients = number("CLIENTS", 5);
        assert!(
            clients >= 2,
            "somebody else must write while a holder stands still"
        );
        Self {
            ttl: Duration::from_millis(number("TTL_MS", 2_000)),
            stop_every: Duration::from_millis(number("STOP_EVERY_MS", 5_000)),
            others: number("OTHERS", 20),
            clients,
            at_least,
            updates: number("UPDATES", 2_000),
            stops: number("STOPS", 6),
            at_most: at_least + Duration::from_secs(240),
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    let name = format!("FENCEPOST_EXPERIMENT_{name}");
    match std::env::var(&name) {
        Err(_) => default,
        Ok(text) => u64::from_str(&text)
            .ok()
            .filter(|number| *number > 0)
            .unwrap_or_else(|| panic!("{name} is a number above 0, not \"{text}\"")),
    }
}
