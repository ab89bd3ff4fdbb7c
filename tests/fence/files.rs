//! Values in files: several processes, crashes, and files that somebody else wrote.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use fencepost::fence::{
    EqualTokens,
    fenced::{Applied, ApplyError, FencedResource},
    file::{Damage, FileError, FileStore},
};

use crate::scene::{resource, rules, sequencer, sequencer_for};

/// Set in a process that is to write, to the directory.
const WRITER: &str = "FENCEPOST_TEST_FILE_WRITER";
/// Tokens that a writing process goes through.
const TOKENS: u64 = 400;

fn account_file(directory: &Path) -> PathBuf {
    directory.join("account%2F1.value")
}

async fn put(store: &FileStore, value: &[u8], token: u64) -> Applied {
    let fenced = FencedResource::new(store.clone(), rules());
    let (account, sequencer) = (resource("account/1"), sequencer(token));
    fenced.apply(&account, value, &sequencer).await.unwrap()
}

#[tokio::test]
async fn people_can_read_the_files() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    assert_eq!(put(&store, b"hello\n", 7).await, Applied::Accepted);
    let text = fs::read_to_string(account_file(directory.path())).unwrap();
    let (mark, value) = text.split_once('\n').unwrap();
    assert!(mark.contains(" bank:account/1:7 "), "{mark}");
    assert_eq!(value, "hello\n");
}

/// What else can stand where a value was: its mark is unknown, and nobody is admitted by it.
#[tokio::test]
async fn what_is_no_file_of_values_is_never_no_mark() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    let (file, moved) = (
        account_file(directory.path()),
        directory.path().join("moved"),
    );
    assert_eq!(put(&store, b"hello", 7).await, Applied::Accepted);
    fs::rename(&file, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &file).unwrap();
    let fenced = FencedResource::new(store.clone(), rules());
    let (account, late) = (resource("account/1"), sequencer(6));
    let refused = fenced.apply(&account, b"late", &late).await.unwrap();
    assert!(matches!(refused, Applied::Stale { .. }), "{refused:?}");
    // Its target is away, as on a disk that is not mounted.
    let good = fs::read(&moved).unwrap();
    fs::remove_file(&moved).unwrap();
    let failed = fenced.apply(&account, b"late", &late).await.unwrap_err();
    assert!(failed.to_string().contains("account%2F1.value"), "{failed}");
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    fs::write(&moved, good).unwrap();
    let refused = fenced.apply(&account, b"late", &late).await.unwrap();
    assert!(matches!(refused, Applied::Stale { .. }), "{refused:?}");
    // A pipe would be waited for without end.
    fs::remove_file(&file).unwrap();
    let made = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(made.success());
    let failed = fenced.apply(&account, b"late", &late).await.unwrap_err();
    assert!(failed.to_string().contains("no regular file"), "{failed}");
}

#[tokio::test]
async fn a_damaged_file_admits_nobody_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    assert_eq!(put(&store, b"hello", 7).await, Applied::Accepted);
    let file = account_file(directory.path());
    let good = fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damages = [
        Vec::new(),
        good[..good.len() - 1].to_vec(),
        good[..10].to_vec(),
        [good.as_slice(), b"!"].concat(),
        flipped(20),
        flipped(40),
        b"something else entirely\n".to_vec(),
    ];
    let fenced = FencedResource::new(store.clone(), rules());
    let account = resource("account/1");
    for damaged in damages {
        fs::write(&file, &damaged).unwrap();
        let shown = String::from_utf8_lossy(&damaged).into_owned();
        let failed = fenced.apply(&account, b"new", &sequencer(9)).await;
        let failed = failed.expect_err(&shown);
        assert!(
            matches!(failed, ApplyError::Store(FileError::Damaged { .. })),
            "{shown}: {failed}"
        );
        assert!(failed.to_string().contains("account%2F1.value is damaged"));
        assert!(
            fenced.raise(&account, &sequencer(9)).await.is_err(),
            "{shown}"
        );
        assert!(fenced.token(&account).await.is_err(), "{shown}");
        assert!(store.read(&account).await.is_err(), "{shown}");
        assert_eq!(fs::read(&file).unwrap(), damaged, "it was changed");
    }
    // A value whose mark is whole may be replaced, and cannot be read until then.
    fs::write(&file, flipped(good.len() - 1)).unwrap();
    let failed = store.read(&account).await.unwrap_err();
    assert!(matches!(
        failed,
        FileError::Damaged {
            damage: Damage::Value,
            ..
        }
    ));
    assert_ne!(put(&store, b"late", 6).await, Applied::Accepted);
    assert_eq!(put(&store, b"new", 7).await, Applied::Accepted);
}

#[tokio::test]
async fn the_file_of_another_resource_is_no_file_of_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    assert_eq!(put(&store, b"hello", 7).await, Applied::Accepted);
    let copy = directory.path().join("account%2F2.value");
    fs::copy(account_file(directory.path()), copy).unwrap();
    let fenced = FencedResource::new(store, rules());
    let other = sequencer_for("bank", "account/2", 9);
    let failed = fenced
        .apply(&other.resource, b"x", &other)
        .await
        .unwrap_err();
    assert!(
        failed
            .to_string()
            .contains("holds the value of resource \"account/1\"")
    );
}

#[tokio::test]
async fn a_value_has_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    let fenced = FencedResource::new(store, rules());
    let long = vec![b'x'; fencepost::fence::file::VALUE_BYTES_MAX + 1];
    let account = resource("account/1");
    let failed = fenced
        .apply(&account, &long, &sequencer(1))
        .await
        .unwrap_err();
    assert!(failed.to_string().contains("67108865 bytes"), "{failed}");
    assert_eq!(fenced.token(&account).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_dead_writer_left_is_cleared_away_and_a_live_ones_is_not() {
    let directory = tempfile::tempdir().unwrap();
    drop(FileStore::open(directory.path()).unwrap());
    let inner = directory.path().join(".fencepost");
    let left = [inner.join("03.new"), inner.join("60.new")];
    for path in &left {
        fs::write(path, "half a va").unwrap();
    }
    // The second one is just being written.
    let lock = fs::File::create(inner.join("60.lock")).unwrap();
    lock.lock().unwrap();
    drop(FileStore::open(directory.path()).unwrap());
    assert_eq!(left.each_ref().map(|path| path.exists()), [false, true]);
    drop(lock);
    drop(FileStore::open(directory.path()).unwrap());
    assert!(!left[1].exists());
}

#[tokio::test]
async fn whoever_is_stopped_under_the_lock_makes_others_fail_and_not_wait_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path()).unwrap();
    let store = store.patience(Duration::from_millis(30));
    assert_eq!(put(&store, b"five", 5).await, Applied::Accepted);
    let locks: Vec<_> = (0..64)
        .map(|number| {
            let path = directory
                .path()
                .join(format!(".fencepost/{number:02}.lock"));
            let lock = fs::File::create(path).unwrap();
            lock.lock().unwrap();
            lock
        })
        .collect();
    let fenced = FencedResource::new(store.clone(), rules());
    let account = resource("account/1");
    let failed = fenced
        .apply(&account, b"six", &sequencer(6))
        .await
        .unwrap_err();
    let ApplyError::Store(failed) = failed else {
        panic!("{failed}")
    };
    assert!(
        matches!(failed, FileError::Busy { .. }) && failed.may_retry(),
        "{failed}"
    );
    // Reading needs no lock.
    let (value, _) = store.read(&account).await.unwrap().unwrap();
    assert_eq!(value, b"five");
    drop(locks);
    assert_eq!(put(&store, b"six", 6).await, Applied::Accepted);
}

/// Not a test of its own: the body of the processes that the tests below start, and nothing without
/// their variable. It says on standard output what it was accepted with.
#[tokio::test]
async fn a_writer_in_a_process_of_its_own() {
    let Some(directory) = std::env::var_os(WRITER) else {
        return;
    };
    let store = FileStore::open(PathBuf::from(directory)).unwrap();
    let once = rules().equal_tokens(EqualTokens::Once);
    let fenced = FencedResource::new(store, once);
    for token in 1..=TOKENS {
        // Large enough that a write has a middle to be killed in.
        let value = token.to_string().repeat(20_000);
        let (account, sequencer) = (resource("account/1"), sequencer(token));
        let applied = fenced.apply(&account, value.as_bytes(), &sequencer);
        if applied.await.unwrap() == Applied::Accepted {
            println!("\naccepted {token}");
        }
    }
}

fn start_writer(directory: &Path) -> (Child, impl Iterator<Item = u64> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::a_writer_in_a_process_of_its_own"])
        .arg("--nocapture")
        .env(WRITER, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout: ChildStdout = child.stdout.take().unwrap();
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let accepted = lines.filter_map(|line| line.strip_prefix("accepted ")?.parse().ok());
    (child, accepted)
}

#[test]
fn racing_processes_never_write_under_one_token() {
    let directory = tempfile::tempdir().unwrap();
    let (children, outputs): (Vec<_>, Vec<_>) =
        (0..3).map(|_| start_writer(directory.path())).unzip();
    let readers: Vec<_> = outputs
        .into_iter()
        .map(|output| std::thread::spawn(move || output.collect::<Vec<_>>()))
        .collect();
    let mut all = Vec::new();
    for reader in readers {
        let accepted = reader.join().unwrap();
        assert!(accepted.is_sorted());
        all.extend(accepted);
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "two processes wrote under one token");
    assert_eq!(all.last(), Some(&TOKENS));
}

#[tokio::test]
async fn a_killed_writer_leaves_a_whole_value_and_all_that_was_accepted() {
    for lives in [1, 2, 5, 9, 14, 20] {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, accepted) = start_writer(directory.path());
        let told: Vec<u64> = accepted.take(lives).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = FileStore::open(directory.path()).unwrap();
        let (value, mark) = store.read(&resource("account/1")).await.unwrap().unwrap();
        let token = mark.token.get();
        assert!(Some(&token) >= told.last(), "{token} < {told:?}");
        assert_eq!(value, token.to_string().repeat(20_000).into_bytes());
        // The dead process' lock is free, and its half-written file is gone.
        let inner = fs::read_dir(directory.path().join(".fencepost")).unwrap();
        let left = inner.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(left.filter(|name| name.ends_with(".new")).count(), 0);
        assert_eq!(put(&store, b"next", token + 1).await, Applied::Accepted);
    }
}
