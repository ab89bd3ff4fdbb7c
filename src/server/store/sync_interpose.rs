//! Makes sled's flush reach the disk. **The one file of this package with `unsafe` code.**
//!
//! sled 0.34.7 ends a flush on Linux with `sync_file_range(2)`. That call starts write-back and
//! waits for it, but it neither writes the metadata needed to find the data again nor empties the
//! cache of the drive: its manual page warns against using it for durability, and power-cut images
//! lose acknowledged data. Syncing the file through a descriptor of our own after the flush comes
//! too late, because sled reuses old segments as soon as its flush has returned.
//!
//! So this file defines the C symbol `sync_file_range`. The linker binds sled's call to it before
//! it looks into libc, and it calls `fdatasync(2)` on the same descriptor instead. It counts its
//! calls, so that the store can test at every start that a flush really came through here
//! (`self_test`), and refuse to run if it did not. Nothing else in this package, nor in what it
//! depends on, calls `sync_file_range`.
#![allow(
    unsafe_code,
    reason = "defining a C symbol and calling a C function is what this file is for"
)]

use std::sync::atomic::{AtomicU64, Ordering};

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the symbol has the name and the C signature of the libc function that it stands in for
// (see sync_file_range(2)), and it keeps that function's contract: 0, or -1 with errno set. It is
// stricter than the original: the whole file is durable when it returns.
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(
    descriptor: libc::c_int,
    _offset: libc::off64_t,
    _bytes: libc::off64_t,
    _flags: libc::c_uint,
) -> libc::c_int {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: fdatasync takes any integer; one that is no open descriptor gives EBADF. It touches
    // no memory of ours but errno.
    unsafe { libc::fdatasync(descriptor) }
}

/// How many times a flush came through here in this process.
pub(super) fn calls() -> u64 {
    // Naming the function keeps the object that defines the symbol in every binary that uses the
    // store, whatever the linker would drop.
    std::hint::black_box(sync_file_range as *const ());
    CALLS.load(Ordering::Relaxed)
}
