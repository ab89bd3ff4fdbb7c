//! Virtual environments for Python's part of a test, made once for each version of their requirements.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// What stays between runs: the virtual environments, once they are complete.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// The Python of the virtual environment `name` with `requirements` (a file of pip's) in it. `None` if
/// this machine cannot make one, which is told, and which CI does not accept.
///
/// Tests that share one run at the same time, and making it begins with clearing its place: the others
/// wait until the first has made it.
pub(crate) fn python(name: &str, requirements: &Path) -> Option<PathBuf> {
    let wanted = std::fs::read(requirements).unwrap();
    let place = Path::new(SCRATCH).join(name);
    let making = File::create(place.with_extension("lock")).unwrap();
    making.lock().unwrap();
    let (python, complete) = (place.join("bin/python"), place.join("complete"));
    if std::fs::read(&complete).is_ok_and(|made_for| made_for == wanted) {
        return Some(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place);
    let mut fill = Command::new(&python);
    fill.args(["-m", "pip", "install", "--quiet", "-r"])
        .arg(requirements);
    for mut step in [make, fill] {
        if let Err(why) = succeeds(step.output()) {
            println!("SKIPPED: no Python environment: {step:?}: {why}");
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must have python3 with venv and pip"
            );
            return None;
        }
    }
    std::fs::write(complete, wanted).unwrap();
    Some(python)
}

fn succeeds(ran: std::io::Result<Output>) -> Result<(), String> {
    let output = ran.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{}: {said}", output.status))
    }
}
