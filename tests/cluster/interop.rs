//! Interoperability: a Python client that was made with the public grpcio tools, from the proto files
//! alone. Its script is `tests/interop/python/interop.py`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::nodes::Cluster;

/// What stays between runs: the virtual environment, once it is complete.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_made_from_the_protos_alone_acquires_renews_and_is_refused() {
    let Some(python) = tokio::task::spawn_blocking(virtual_environment)
        .await
        .unwrap()
    else {
        return;
    };
    let cluster = Cluster::of_three().await;
    let addresses: Vec<String> = cluster
        .founders()
        .map(|node| cluster.place.client(node).to_string())
        .collect();
    let stubs = cluster.place.dir().join("stubs");
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(python);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(Path::new(PROJECT).join("tests/interop/python/interop.py"));
        command
            .arg(Path::new(PROJECT).join("proto"))
            .arg(stubs)
            .args(addresses);
        command.output().unwrap()
    });
    let output = ran.await.unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The Python of a virtual environment with the requirements in it, made once for each version of
/// them. `None` if this machine cannot make one, which is told, and which CI does not accept.
fn virtual_environment() -> Option<PathBuf> {
    let requirements = Path::new(PROJECT).join("tests/interop/python/requirements.txt");
    let wanted = std::fs::read(&requirements).unwrap();
    let place = Path::new(SCRATCH).join("interop-python");
    let (python, complete) = (place.join("bin/python"), place.join("complete"));
    if std::fs::read(&complete).is_ok_and(|made_for| made_for == wanted) {
        return Some(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place);
    let mut fill = Command::new(&python);
    fill.args(["-m", "pip", "install", "--quiet", "-r"])
        .arg(&requirements);
    for mut step in [make, fill] {
        if let Err(why) = succeeds(step.output()) {
            println!(
                "SKIPPED: no Python environment, so interoperability was not tested: {step:?}: {why}"
            );
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
