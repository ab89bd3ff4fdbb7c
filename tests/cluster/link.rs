//! A wire that a test has its hand on: a TCP proxy in front of one node, whose bytes can be held back
//! and let go later, or whose connections can be cut.
//!
//! A held link is what a half-open connection is to both ends: nothing arrives, and nobody is told. What
//! was sent on it is not lost: it sits in the proxy, and reaches the node when the link is let go, even
//! if the node was restarted meanwhile. So a request can be delayed for as long as a test likes, by the
//! same bytes that its caller wrote.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::waiting::{PATIENCE, eventually};

/// Dropping it cuts every connection.
pub(crate) struct Link {
    address: SocketAddr,
    gate: watch::Sender<Gate>,
    /// What callers have written, whether it was passed on or not.
    written: Arc<Mutex<Vec<u8>>>,
    accepting: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gate {
    held: bool,
    /// Only what the node says is held.
    answers_held: bool,
    /// Counts the cuts: a connection ends when it rises.
    cuts: u32,
}

impl Link {
    /// A link to `node`, open or held from the beginning.
    pub(crate) async fn to(node: SocketAddr, held: bool) -> Self {
        // A port of the system's choice, on an address of its own beside the node's.
        let listener = TcpListener::bind((node.ip(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (gate, seen) = watch::channel(Gate {
            held,
            answers_held: false,
            cuts: 0,
        });
        let written = Arc::default();
        let accepting = tokio::spawn(accept(listener, node, seen, Arc::clone(&written)));
        Self {
            address,
            gate,
            written,
            accepting,
        }
    }

    /// Where callers connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing passes from now on, in either direction.
    pub(crate) fn hold(&self) {
        self.gate.send_modify(|gate| gate.held = true);
    }

    /// What the node says from now on does not arrive; what it is told still does.
    pub(crate) fn hold_answers(&self) {
        self.gate.send_modify(|gate| gate.answers_held = true);
    }

    /// What was held passes now, and everything after it.
    pub(crate) fn let_go(&self) {
        self.gate.send_modify(|gate| {
            gate.held = false;
            gate.answers_held = false;
        });
    }

    /// Ends all connections. New ones are taken as before.
    pub(crate) fn cut(&self) {
        self.gate.send_modify(|gate| gate.cuts += 1);
    }

    /// Waits until a caller has written these bytes: its request is on the wire.
    pub(crate) async fn carries(&self, bytes: &[u8]) {
        eventually("the request is on the wire", PATIENCE, async || {
            let written = self.written.lock().unwrap();
            let found = written.windows(bytes.len()).any(|part| part == bytes);
            found.then_some(())
        })
        .await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    node: SocketAddr,
    gate: watch::Receiver<Gate>,
    written: Arc<Mutex<Vec<u8>>>,
) {
    // Aborting this task drops the set, and with it every connection.
    let mut connections = JoinSet::new();
    while let Ok((caller, _)) = listener.accept().await {
        connections.spawn(connection(caller, node, gate.clone(), Arc::clone(&written)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(
    caller: TcpStream,
    node: SocketAddr,
    mut gate: watch::Receiver<Gate>,
    written: Arc<Mutex<Vec<u8>>>,
) {
    let cuts = gate.borrow().cuts;
    let mut end = gate.clone();
    let (from_caller, to_caller) = caller.into_split();
    let passing = async {
        // The node hears of a held connection when it is let go. Its caller speaks first.
        let mut early = Vec::new();
        let mut from_caller = from_caller;
        while gate.borrow_and_update().held {
            tokio::select! {
                changed = gate.changed() => if changed.is_err() { return },
                read = from_caller.read_buf(&mut early) => match read {
                    Ok(some) if some > 0 => note(&written, &early[early.len() - some..]),
                    _ => return,
                },
            }
        }
        let Ok(stream) = TcpStream::connect(node).await else {
            return;
        };
        let (from_node, mut to_node) = stream.into_split();
        if to_node.write_all(&early).await.is_err() {
            return;
        }
        tokio::select! {
            () = pass(from_caller, to_node, gate.clone(), Some(&written)) => {}
            () = pass(from_node, to_caller, gate, None) => {}
        }
    };
    tokio::select! {
        () = passing => {}
        _ = end.wait_for(|gate| gate.cuts > cuts) => {}
    }
}

fn note(written: &Mutex<Vec<u8>>, bytes: &[u8]) {
    written.lock().unwrap().extend_from_slice(bytes);
}

/// Passes on what arrives while the gate is open; ends with either side.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut gate: watch::Receiver<Gate>,
    written: Option<&Mutex<Vec<u8>>>,
) {
    let mut bytes = Vec::with_capacity(64 * 1_024);
    while let Ok(some) = from.read_buf(&mut bytes).await {
        if some == 0 {
            return;
        }
        if let Some(written) = written {
            note(written, &bytes);
        }
        let answers = written.is_none();
        let opened = gate.wait_for(|gate| !(gate.held || answers && gate.answers_held));
        if opened.await.is_err() || to.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_held_arrives_later_and_a_cut_ends_it() {
        let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Link::to(node.local_addr().unwrap(), true).await;
        let mut caller = TcpStream::connect(link.address()).await.unwrap();
        caller.write_all(b"late").await.unwrap();
        link.carries(b"late").await;
        link.let_go();
        let (mut served, _) = node.accept().await.unwrap();
        let mut read = [0; 4];
        served.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"late");

        link.hold();
        served.write_all(b"answer").await.unwrap();
        link.cut();
        assert_eq!(caller.read(&mut read).await.unwrap(), 0);
    }
}
