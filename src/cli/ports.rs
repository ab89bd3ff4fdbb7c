//! Free loopback ports.
//!
//! They are taken from below the range that the kernel gives to outgoing connections. A port from that
//! range could be handed to somebody's connection while its node is down, and a client that keeps
//! calling a dead node's port there can, once in a while, even connect to itself.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Where the search begins and ends; the outgoing range starts at 32768 on Linux.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

/// `count` addresses on loopback that nobody listens on. `salt` spreads several searches at once.
pub(crate) fn free(count: usize, salt: u32) -> Option<Vec<SocketAddr>> {
    let span = u32::from(LAST - FIRST);
    let start = salt.wrapping_mul(97) % span;
    let candidates = (0..span).map(|step| {
        let port = u32::from(FIRST) + (start + step) % span;
        u16::try_from(port).expect("LAST is a port")
    });
    // All are held until all are found, so that no address comes twice.
    let held: Vec<TcpListener> = candidates
        .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .take(count)
        .collect();
    let addresses: Option<Vec<_>> = held.iter().map(|held| held.local_addr().ok()).collect();
    addresses.filter(|addresses| addresses.len() == count)
}

/// Whether nobody listens on this address now.
pub(crate) fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_a_listener_is_noticed() {
        let ports = free(9, std::process::id()).unwrap();
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), 9);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap()));
    }
}
