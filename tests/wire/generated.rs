//! The checked-in code under `src/wire/generated/` is rebuilt from `proto/` with protox and compared.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use prost::Message;

/// Set to rewrite the checked-in code instead of comparing it.
const REGENERATE: &str = "FENCEPOST_REGENERATE";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Builds one package's services and messages, and its descriptors, into `out`.
fn generate(package: &str, files: &[&str], out: &Path) {
    let proto = root().join("proto");
    let set = protox::compile(files, [&proto]).expect("the protos compile");
    fs::write(
        out.join(format!("{package}.binpb")),
        without_source_info(&set),
    )
    .expect("the output directory is writable");
    tonic_prost_build::configure()
        .bytes(".")
        .out_dir(out)
        .compile_fds(set)
        .expect("the descriptors generate");
}

/// Reflection needs no comments, and they would double what every binary carries.
fn without_source_info(set: &prost_types::FileDescriptorSet) -> Vec<u8> {
    let mut set = set.clone();
    for file in &mut set.file {
        file.source_code_info = None;
    }
    set.encode_to_vec()
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("the directory exists") {
        let path = entry.expect("the directory is readable").path();
        let name = path
            .file_name()
            .expect("entries have names")
            .to_string_lossy()
            .into_owned();
        files.insert(name, fs::read(&path).expect("the file is readable"));
    }
    files
}

#[test]
fn generated_code_is_what_the_protos_say() {
    let out = tempfile::tempdir().expect("a temporary directory");
    generate(
        "fencepost.v1",
        &[
            "fencepost/v1/issuer.proto",
            "fencepost/v1/cluster.proto",
            "fencepost/v1/guard.proto",
        ],
        out.path(),
    );
    generate(
        "fencepost.peer.v1",
        &["fencepost/peer/v1/raft.proto"],
        out.path(),
    );
    let fresh = contents(out.path());
    let checked_in = root().join("src/wire/generated");
    if std::env::var_os(REGENERATE).is_some() {
        for (name, bytes) in &fresh {
            fs::write(checked_in.join(name), bytes).expect("the source tree is writable");
        }
    }
    let stale: Vec<_> = contents(&checked_in)
        .into_iter()
        .filter(|(name, bytes)| fresh.get(name) != Some(bytes))
        .map(|(name, _)| name)
        .chain(
            fresh
                .keys()
                .filter(|name| !checked_in.join(name).exists())
                .cloned(),
        )
        .collect();
    assert!(
        stale.is_empty(),
        "stale: {stale:?}; run {REGENERATE}=1 cargo test --test wire"
    );
}
