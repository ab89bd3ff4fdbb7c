//! Not outliving the process that started us: the kernel kills the one when the other ends, even by
//! `kill -9`.

use super::exit::{Failure, UNEXPECTED};

/// Takes the leash of `parent`, the process that started this one. It stays on through an exec. On systems
/// without such a thing nothing happens.
pub(super) fn take(parent: u32) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, getppid, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| Failure::new(UNEXPECTED, format_args!("prctl failed: {error}")))?;
        // It may have ended before the leash was taken.
        let now = getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
        if now != Some(parent) {
            return Err(Failure::silent(UNEXPECTED));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    Ok(())
}
