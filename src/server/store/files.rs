//! The data directory: its files, and how each is made durable.
//!
//! ```text
//! <data dir>/LOCK        held (flock) while a process has the directory open; holds its pid
//!            IDENTITY    who this node is (`identity`)
//!            WATERMARK   the least that the database must still hold (`watermark`)
//!            log.sled/   the database: db, conf, snap.<lsn>, blobs/
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::error::OpenError;

pub(super) const LOCK: &str = "LOCK";
pub(super) const DATABASE: &str = "log.sled";

/// Creates the directory if need be, durably.
pub(super) fn create_dir(dir: &Path) -> Result<(), OpenError> {
    fs::create_dir_all(dir).map_err(|e| OpenError::io("create", dir, e))?;
    let absolute = fs::canonicalize(dir).map_err(|e| OpenError::io("find", dir, e))?;
    match absolute.parent() {
        Some(parent) => sync_dir(parent).map_err(|e| OpenError::io("sync", parent, e)),
        None => Ok(()),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Takes the directory for this process until the returned file is closed, which the system does
/// even for a killed process: no stale lock can be in the way.
pub(super) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|e| OpenError::io("open", &path, e))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            return Err(OpenError::Busy {
                dir: dir.to_owned(),
                pid,
            });
        }
        Err(TryLockError::Error(e)) => return Err(OpenError::io("lock", path, e)),
    }
    let noted = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    noted.map_err(|e| OpenError::io("write", path, e))?;
    Ok(file)
}

/// Replaces a file as a whole: after a crash it has either the old content or the new.
pub(super) fn replace(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let beside = dir.join(format!("{name}.new"));
    let mut file = File::create(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, dir.join(name))?;
    sync_dir(dir)
}

/// Deletes what a kill during an earlier open left behind, and returns the names.
///
/// sled writes `snap.<16 hex digits>.generating` and renames it; if it finds one it cannot parse
/// the name and fails every later open. A half-written one is never needed: it is made from the
/// database file, which is still there. Exactly these names are deleted and nothing else.
pub(super) fn delete_generating(database: &Path) -> Result<Vec<String>, OpenError> {
    let mut deleted = Vec::new();
    for name in names(database)? {
        if !is_generating(&name) {
            continue;
        }
        let path = database.join(&name);
        fs::remove_file(&path).map_err(|e| OpenError::io("delete", &path, e))?;
        deleted.push(name);
    }
    if !deleted.is_empty() {
        sync_dir(database).map_err(|e| OpenError::io("sync", database, e))?;
    }
    Ok(deleted)
}

fn is_generating(name: &str) -> bool {
    let middle = name
        .strip_prefix("snap.")
        .and_then(|rest| rest.strip_suffix(".generating"));
    middle.is_some_and(|lsn| lsn.len() == 16 && lsn.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Names of the blob files, which must not exist: sled never syncs them.
pub(super) fn blobs(database: &Path) -> Result<Vec<String>, OpenError> {
    names(&database.join("blobs"))
}

fn names(dir: &Path) -> Result<Vec<String>, OpenError> {
    let listing = match fs::read_dir(dir) {
        Ok(listing) => listing,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(OpenError::io("list", dir, e)),
    };
    let mut found = Vec::new();
    for item in listing {
        let item = item.map_err(|e| OpenError::io("list", dir, e))?;
        found.push(item.file_name().to_string_lossy().into_owned());
    }
    found.sort();
    Ok(found)
}

/// Makes everything that opening the database created or renamed durable.
pub(super) fn sync_database(database: &Path) -> Result<(), OpenError> {
    for path in [database.join("conf"), database.join("db")] {
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|e| OpenError::io("sync", path, e))?;
    }
    sync_dir(database).map_err(|e| OpenError::io("sync", database, e))?;
    match database.parent() {
        Some(dir) => sync_dir(dir).map_err(|e| OpenError::io("sync", dir, e)),
        None => Ok(()),
    }
}

/// The database file itself.
pub(super) fn database_file(database: &Path) -> PathBuf {
    database.join("db")
}

/// Bytes that an unprivileged process may still write on the file system of `dir`.
pub(super) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(dir)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::is_generating;

    #[test]
    fn only_half_written_snapshots_are_taken_for_such() {
        assert!(is_generating("snap.00000000000A1F00.generating"));
        for other in [
            "snap.00000000000A1F00",
            "snap..generating",
            "snap.00000000000A1F0.generating",
            "snap.00000000000A1F0G.generating",
            "snap.00000000000A1F00.generating.old",
            "x.snap.00000000000A1F00.generating",
            "db",
        ] {
            assert!(!is_generating(other), "{other}");
        }
    }
}
