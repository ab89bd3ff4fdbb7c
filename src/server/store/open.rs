//! Opening a data directory: identity, watermark, database, in this order, and every check.
//!
//! The order is what makes any crash in between harmless. `IDENTITY` comes first and says
//! *forming*; until it says *ready* the node has promised nothing, and whatever is half made is
//! made again. From then on everything must be there, and anything missing is damage. A directory
//! is never taken for a new one because it looks empty.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::contract::{SnapshotManifest, StoreObserver, Unobserved};
use super::entry::{LogId, LogState, StoredVote};
use super::error::{Damage, OpenError};
use super::identity::{self, ClusterId, Identity, InstanceId, Membership};
use super::run::RECORD_BYTES_MAX;
use super::scan::{self, Found, ScanError};
use super::shared::Database;
use super::trees::{self, Owner, Record, Trees};
use super::watermark::{self, Mark, Unfit, Watermark};
use super::{files, quiet, sync_interpose};

/// How a data directory is opened.
#[derive(Clone)]
pub struct Options {
    /// Raft node id, which must be the one in the directory if there is one.
    pub node_id: u64,
    /// The cluster it must belong to, if it belongs to one and the caller knows.
    pub cluster: Option<ClusterId>,
    /// Random; becomes the instance id if the directory is new, and is not used otherwise.
    pub new_instance: InstanceId,
    /// Page cache of the database, in bytes. The newest entries are read from memory and older ones
    /// rarely, so a larger one costs memory and gains nothing that could be measured.
    pub cache_bytes: u64,
    /// Newest entries kept in memory for readers, in bytes.
    pub window_bytes: usize,
    /// Free space below which new grants should be refused, in bytes. Enough for a snapshot
    /// beside the one it replaces, and for the log between two snapshots.
    pub space_floor_bytes: u64,
    /// Whether the watermark is synced beside each group commit, which closes its gap of a second
    /// and costs a second fdatasync.
    pub sync_watermark_always: bool,
    /// Entries are packed into records up to this many bytes; 0 packs nothing. For measurements.
    pub record_bytes_max: usize,
    /// Told what the storage thread does.
    pub observer: Arc<dyn StoreObserver>,
}

impl Options {
    /// Everything as it should be in production.
    #[must_use]
    pub fn new(node_id: u64, new_instance: InstanceId) -> Self {
        Self {
            node_id,
            cluster: None,
            new_instance,
            cache_bytes: 8 << 20,
            window_bytes: 2 << 20,
            space_floor_bytes: 256 << 20,
            sync_watermark_always: false,
            record_bytes_max: RECORD_BYTES_MAX,
            observer: Arc::new(Unobserved),
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("node_id", &self.node_id)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// What a store found when it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Who this node is.
    pub identity: Identity,
    /// Starts of this directory, this one included.
    pub boots: u64,
    /// The vote.
    pub vote: Option<StoredVote>,
    /// Where the log begins and ends.
    pub log: LogState,
    /// How far the log is known to be committed.
    pub committed: Option<LogId>,
    /// The snapshot.
    pub snapshot: Option<SnapshotManifest>,
    /// What was cleaned up, one sentence each. Nothing that was acknowledged is among it.
    pub repairs: Vec<String>,
}

/// An opened and checked directory.
pub(super) struct Opened {
    pub(super) dir: PathBuf,
    pub(super) database: Database,
    pub(super) identity: Identity,
    pub(super) watermark: Watermark,
    pub(super) found: Found,
    pub(super) repairs: Vec<String>,
}

pub(super) fn open(dir: &Path, options: &Options) -> Result<Opened, OpenError> {
    files::create_dir(dir)?;
    let lock = files::lock(dir)?;
    let identity = read_or_create_identity(dir, options)?;
    let ready = identity.ready().is_some();
    let damage = |what: String| OpenError::from(Damage::new(dir, identity.node_id, what));
    let mut watermark = open_watermark(dir, &identity)?;
    let mut repairs = Vec::new();
    let opened = open_database(dir, options, &identity, watermark.mark(), &mut repairs);
    let (db, trees, found) = match opened {
        Err(OpenError::Damaged(found)) if !ready => {
            // It never held anything: most likely the process was killed while it was made.
            repairs.push(format!(
                "made the database of a forming node again ({})",
                found.what
            ));
            let database = dir.join(files::DATABASE);
            fs::remove_dir_all(&database).map_err(|e| OpenError::io("delete", &database, e))?;
            open_database(dir, options, &identity, watermark.mark(), &mut repairs)?
        }
        opened => opened?,
    };
    found.check(&identity, watermark.mark()).map_err(damage)?;
    let database = Database::new(db, trees, lock);
    count_boot(dir, &mut watermark)?;
    self_test(&database, &identity, watermark.mark().boots)?;
    files::sync_database(&dir.join(files::DATABASE))?;
    Ok(Opened {
        dir: dir.to_owned(),
        database,
        identity,
        watermark,
        found,
        repairs,
    })
}

fn read_or_create_identity(dir: &Path, options: &Options) -> Result<Identity, OpenError> {
    let path = dir.join(identity::NAME);
    let damage = |what: &str| OpenError::from(Damage::new(dir, options.node_id, what));
    let identity = match fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let identity = Identity::decode(&text);
            identity.ok_or_else(|| damage("IDENTITY does not match its checksum"))?
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let others = [watermark::NAME, files::DATABASE];
            if others.iter().any(|name| dir.join(name).exists()) {
                return Err(damage(
                    "IDENTITY is missing, while other files of a node are there",
                ));
            }
            let identity = Identity {
                node_id: options.node_id,
                instance: options.new_instance,
                membership: Membership::Forming,
            };
            files::replace(dir, identity::NAME, identity.encode().as_bytes())
                .map_err(|e| OpenError::io("write", path, e))?;
            identity
        }
        Err(e) => return Err(OpenError::io("read", path, e)),
    };
    check_expected(dir, options, &identity)?;
    Ok(identity)
}

fn check_expected(dir: &Path, options: &Options, identity: &Identity) -> Result<(), OpenError> {
    let dir = dir.to_owned();
    let (found, expected) = (identity.node_id, options.node_id);
    if found != expected {
        return Err(OpenError::OtherNode {
            dir,
            found,
            expected,
        });
    }
    match (identity.ready().map(|ready| ready.cluster), options.cluster) {
        (Some(found), Some(expected)) if found != expected => Err(OpenError::OtherCluster {
            dir,
            found,
            expected,
        }),
        _ => Ok(()),
    }
}

fn open_watermark(dir: &Path, identity: &Identity) -> Result<Watermark, OpenError> {
    let path = dir.join(watermark::NAME);
    let damage = |what: &str| OpenError::from(Damage::new(dir, identity.node_id, what));
    let ready = identity.ready().is_some();
    let watermark = match Watermark::open(dir, identity.instance) {
        Ok(Some(watermark)) => watermark,
        Ok(None) if ready => return Err(damage("WATERMARK is missing")),
        Ok(None) => Watermark::create(dir, identity.instance, Mark::default())
            .map_err(|e| OpenError::io("write", path, e))?,
        Err(Unfit::Io(e)) => return Err(OpenError::io("read", path, e)),
        Err(unfit) => return Err(damage(&unfit.to_string())),
    };
    if watermark.fell_back() {
        // A torn write after a power cut looks just like damage to what was whole.
        tracing::warn!(
            dir = %dir.display(),
            "one of the two slots of WATERMARK is torn or damaged, and the other one counts: after a power cut \
             that is as it should be; otherwise the disk is damaging files"
        );
    }
    let mark = watermark.mark();
    if !ready && (mark.vote.is_some() || mark.tip.is_some()) {
        return Err(damage(
            "IDENTITY says that this node never joined a cluster, but WATERMARK says that it \
             voted or stored entries: IDENTITY was replaced by an older copy",
        ));
    }
    Ok(watermark)
}

/// Opens sled and reads all that is in it. Whatever sled makes of a damaged file, a panic
/// included, comes back as an error.
fn open_database(
    dir: &Path,
    options: &Options,
    identity: &Identity,
    mark: &Mark,
    repairs: &mut Vec<String>,
) -> Result<(sled::Db, Trees, Found), OpenError> {
    let damage = |what: String| OpenError::from(Damage::new(dir, identity.node_id, what));
    let database = dir.join(files::DATABASE);
    if identity.ready().is_some() && !files::database_file(&database).exists() {
        return Err(damage(format!(
            "the database file {}/db is missing",
            files::DATABASE
        )));
    }
    let deleted = files::delete_generating(&database)?;
    repairs.extend(
        deleted
            .iter()
            .map(|name| format!("deleted half-written {name}")),
    );
    let blobs = files::blobs(&database)?;
    if !blobs.is_empty() {
        let names = blobs.join(", ");
        return Err(damage(format!(
            "the database has blob files, which it never makes: {names}"
        )));
    }
    let config = sled::Config::new()
        .path(&database)
        .cache_capacity(options.cache_bytes)
        .flush_every_ms(None);
    let opened = quiet::catch(|| {
        let db = config.open()?;
        let trees = Trees::open(&db)?;
        let found = scan::scan(&trees, mark, options.window_bytes)?;
        Ok((db, trees, found))
    });
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(ScanError::Damage(what))) => Err(damage(what)),
        Ok(Err(ScanError::Sled(error))) => Err(explain(dir, &database, identity, error)),
        Err(message) => Err(damage(format!("the database cannot be read: {message}"))),
    }
}

fn explain(dir: &Path, database: &Path, identity: &Identity, error: sled::Error) -> OpenError {
    match error {
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => {
            OpenError::Busy {
                dir: dir.to_owned(),
                pid: None,
            }
        }
        // An error with a number came from the system; one without was made by sled, which met
        // the end of a file or the like where it should not be.
        sled::Error::Io(error)
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::StorageFull =>
        {
            OpenError::io("open", database, error)
        }
        other => {
            // Its own words are for those who know its code.
            tracing::warn!(error = %other, "the database engine cannot open the database");
            let what = "the database cannot be read: its bytes are not what was written";
            Damage::new(dir, identity.node_id, what).into()
        }
    }
}

/// Counts this start in the watermark, durably, before the database hears of it.
///
/// Nothing else is stated yet. What was found may be in the page cache only, written by a process
/// that was killed before its flush; the flush of the self-test makes it durable, and only then
/// does the storage thread state it.
fn count_boot(dir: &Path, watermark: &mut Watermark) -> Result<(), OpenError> {
    let before = *watermark.mark();
    let stated = Mark {
        boots: before.boots + 1,
        ..before
    };
    let written = watermark.state(stated).and_then(|()| watermark.sync());
    written.map_err(|e| OpenError::io("write", dir.join(watermark::NAME), e))
}

/// Notes owner and boot count in the database, and checks that the flush reaches the disk.
fn self_test(database: &Database, identity: &Identity, boots: u64) -> Result<(), OpenError> {
    let owner = Owner {
        node_id: identity.node_id,
        instance: identity.instance,
    };
    flush_reaches_disk(sync_interpose::calls, || {
        let meta = &database.trees().meta;
        meta.insert(trees::OWNER, owner.encode(trees::OWNER))?;
        meta.insert(trees::BOOTS, boots.encode(trees::BOOTS))?;
        database.flush()
    })
}

fn flush_reaches_disk(
    calls: impl Fn() -> u64,
    flush: impl FnOnce() -> sled::Result<()>,
) -> Result<(), OpenError> {
    let before = calls();
    let failed = |detail: String| OpenError::FlushNotDurable { detail };
    match quiet::catch(flush) {
        Ok(Ok(())) => {}
        Ok(Err(sled::Error::Io(error))) => {
            return Err(OpenError::io("flush", files::DATABASE, error));
        }
        Ok(Err(error)) => return Err(failed(format!("the first flush failed: {error}"))),
        Err(message) => return Err(failed(format!("the first flush failed: {message}"))),
    }
    let after = calls();
    if after > before {
        return Ok(());
    }
    Err(failed("the first flush did not call it once".to_owned()))
}

/// Replaces IDENTITY by one that belongs to a cluster.
pub(super) fn write_identity(dir: &Path, identity: &Identity) -> io::Result<()> {
    files::replace(dir, identity::NAME, identity.encode().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_flush_that_goes_elsewhere_is_refused() {
        let calls = Cell::new(7);
        let ours = flush_reaches_disk(
            || calls.get(),
            || {
                calls.set(8);
                Ok(())
            },
        );
        assert!(ours.is_ok());
        let elsewhere = flush_reaches_disk(|| calls.get(), || Ok(()));
        assert!(matches!(elsewhere, Err(OpenError::FlushNotDurable { .. })));
        let panicking = flush_reaches_disk(|| calls.get(), || panic!("no disk"));
        assert!(matches!(panicking, Err(OpenError::FlushNotDurable { .. })));
    }
}
