//! The audit log: one JSON object a line for each entry that this node applied, for operators.
//!
//! It tells who got what, when, and how it ended. It is written before the answers of a batch leave,
//! with one `write` and no fsync: a killed process loses nothing, a power cut may lose the tail. The
//! Raft log is the truth, so a failing audit log is counted and warned about and stops nothing.
//!
//! The state is rebuilt from snapshot and log at each start, so a `start` line is followed by entries
//! that earlier lives of the process wrote before. The format is described in `docs/operations.md`.

mod lines;

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    grant::ClusterId,
    issuer::{LogId, Machine, Replica},
    resource::IssuerName,
    server::{
        clock,
        raft::{AppliedSink, Record},
        store::SharedStore,
        telemetry::Metrics,
    },
};
use lines::Head;

/// Appends what is applied to a file.
pub struct AuditLog {
    issuer: IssuerName,
    store: SharedStore,
    metrics: Arc<Metrics>,
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    file: File,
    /// The `start` line is written.
    started: bool,
    /// The last write failed, and somebody was told.
    failing: bool,
    buffer: Vec<u8>,
}

impl AuditLog {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    ///
    /// When it cannot be opened for appending.
    pub fn open(
        path: &Path,
        issuer: IssuerName,
        store: SharedStore,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        end_torn_line(&mut file)?;
        let out = Out {
            file,
            started: false,
            failing: false,
            buffer: Vec::new(),
        };
        Ok(AuditLog {
            issuer,
            store,
            metrics,
            out: Mutex::new(out),
        })
    }

    fn cluster(&self) -> Option<ClusterId> {
        let identity = self.store.identity();
        Some(identity.ready()?.cluster)
    }

    /// The first line of a process: the state that the entries after it build on.
    fn start(&self, out: &mut Out, at: LogId, hash: [u8; 32]) {
        out.started = true;
        let life = lines::Life {
            cluster: self.cluster(),
            node_id: self.store.identity().node_id,
            boot: self.store.boots(),
        };
        let head = Head::new(at, hash, clock::wall_ms());
        lines::start(&mut out.buffer, &head, &life);
    }

    /// One write for everything that is in the buffer.
    fn flush(&self, out: &mut Out) {
        let written = out.file.write_all(&out.buffer);
        out.buffer.clear();
        match written {
            Ok(()) => out.failing = false,
            Err(error) => {
                self.metrics.audit_failures.inc();
                if !out.failing {
                    tracing::warn!(%error, "the audit log cannot be written; its lines are lost");
                }
                out.failing = true;
            }
        }
    }
}

/// A process that was killed within a write leaves half a line: it stands alone then.
fn end_torn_line(file: &mut File) -> io::Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(());
    }
    file.write_all(b"\n")
}

impl AppliedSink for AuditLog {
    fn applied(&self, records: &[Arc<Record>]) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if !out.started
            && let Some(cluster) = self.cluster()
        {
            let empty = Machine::new(self.issuer.clone(), cluster);
            self.start(&mut out, LogId::default(), empty.chain());
        }
        let now_ms = clock::wall_ms();
        // Entry 0 is the founding membership, before the core begins to count.
        for record in records.iter().filter(|record| record.at.index > 0) {
            let head = Head::new(record.at, record.hash, now_ms);
            lines::entry(&mut out.buffer, &head, &record.kind);
        }
        self.flush(&mut out);
    }

    fn replaced(&self, at: LogId, replica: &Replica) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = replica.machine().chain();
        if out.started {
            let head = Head::new(at, hash, clock::wall_ms());
            lines::snapshot(&mut out.buffer, &head, replica.machine());
        } else {
            self.start(&mut out, at, hash);
        }
        self.flush(&mut out);
    }
}
