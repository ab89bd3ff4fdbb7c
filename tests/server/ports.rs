//! Ports that nobody else gets while a test restarts a node on them: below the range that the kernel
//! gives to outgoing connections, each tried once in a process.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU32, Ordering},
};

const FIRST: u32 = 20_000;
const SPAN: u32 = 12_000;

/// A port that is free now.
pub(crate) fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < SPAN, "some port is free");
        let port = u16::try_from(FIRST + start.wrapping_add(step) % SPAN).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
