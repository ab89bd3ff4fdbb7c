//! Interoperability: a Python client that was made with the public grpcio tools, from the proto files
//! alone. Its script is `tests/interop/python/interop.py`.

use std::{path::Path, process::Command};

use crate::environment;
use crate::nodes::Cluster;

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_client_made_from_the_protos_alone_acquires_renews_and_is_refused() {
    let requirements = Path::new(PROJECT).join("tests/interop/python/requirements.txt");
    let environment = move || environment::python("interop-python", &requirements);
    let Some(python) = tokio::task::spawn_blocking(environment).await.unwrap() else {
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
