//! Our guards that need no server and keep no values, each held to the whole promise.

use std::sync::Arc;

use fencepost::{
    fence::{
        EqualTokens, Rules,
        conformance::{Case, Guards, Profile, Settings, Subject, check},
        fenced::FencedResource,
        file::FileStore,
        memory::MemoryGuard,
    },
    resource::IssuerName,
};

pub(super) fn bank() -> IssuerName {
    "bank".parse().unwrap()
}

pub(super) fn rules(equal: EqualTokens) -> Rules {
    Rules::issued_by(bank()).equal_tokens(equal)
}

pub(super) fn profile(name: &str, equal: EqualTokens) -> Profile {
    Profile::new(name).issued_by(bank()).equal_tokens(equal)
}

pub(super) const BOTH: [EqualTokens; 2] = [EqualTokens::MayWriteAgain, EqualTokens::Once];

/// Holds one of ours to the promise: nothing is broken, and nothing stays untried that is not
/// listed here.
pub(super) async fn conforms<S: Subject>(subject: &S, untried: &[Case]) {
    conforms_within(subject, &Settings::default(), untried).await;
}

pub(super) async fn conforms_within<S: Subject>(
    subject: &S,
    settings: &Settings,
    untried: &[Case],
) {
    let report = check(subject, settings).await;
    println!("{report}");
    assert!(report.conforms(), "it broke something");
    assert_eq!(report.not_tried(), untried);
}

/// What no guard by itself, in memory, can be held to: it keeps nothing and names no target.
const GUARD_IN_MEMORY: [Case; 6] = [
    Case::ForeignResource,
    Case::MissingIssuer,
    Case::Restart,
    Case::InterleavedWrites,
    Case::CrashBetweenCheckAndWrite,
    Case::RestoredBackup,
];

/// What one atomic step cannot be tried on.
pub(super) const ONE_STEP: [Case; 3] = [
    Case::MissingIssuer,
    Case::InterleavedWrites,
    Case::CrashBetweenCheckAndWrite,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_in_memory_conforms() {
    for equal in BOTH {
        let make = || async move { Ok(Arc::new(MemoryGuard::new(rules(equal)))) };
        let open = |guard: Arc<MemoryGuard>| async move { Ok(guard) };
        let subject = Guards::new(profile("MemoryGuard", equal), make, open);
        conforms(&subject, &GUARD_IN_MEMORY).await;
    }
}

/// Not told its issuer, a guard holds each resource to the first one that it saw there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_was_told_no_issuer_conforms() {
    let make = || async { Ok(Arc::new(MemoryGuard::new(Rules::default()))) };
    let open = |guard: Arc<MemoryGuard>| async move { Ok(guard) };
    let subject = Guards::new(Profile::new("MemoryGuard, told no issuer"), make, open);
    conforms(&subject, &GUARD_IN_MEMORY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_alone_in_files_conform() {
    for equal in BOTH {
        let make = || async { Ok(Arc::new(tempfile::tempdir()?)) };
        let open = move |directory: Arc<tempfile::TempDir>| async move {
            let store = FileStore::open(directory.path())?;
            Ok(FencedResource::new(store, rules(equal)))
        };
        let subject = Guards::new(profile("FileStore as a guard", equal).durable(), make, open);
        let untried = GUARD_IN_MEMORY
            .into_iter()
            .filter(|case| *case != Case::Restart);
        conforms(&subject, &untried.collect::<Vec<_>>()).await;
    }
}
