//! A cable between a client and a node that can be cut without either end being told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes bytes on to one node until it is cut; then its connections stay open, and nothing passes.
pub(crate) struct Cable {
    pub(crate) address: String,
    cut: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl Cable {
    pub(crate) async fn to(node: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cut = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, node, Arc::clone(&cut)));
        Self {
            address,
            cut,
            _tasks: tasks,
        }
    }

    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }
}

async fn accept(listener: TcpListener, node: String, cut: Arc<AtomicBool>) {
    let mut open = JoinSet::new();
    loop {
        let (near, _) = listener.accept().await.unwrap();
        let far = TcpStream::connect(&node).await.unwrap();
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        open.spawn(pass(near_read, far_write, Arc::clone(&cut)));
        open.spawn(pass(far_read, near_write, Arc::clone(&cut)));
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    cut: Arc<AtomicBool>,
) {
    let mut buffer = [0; 4_096];
    while let Ok(count) = from.read(&mut buffer).await {
        if cut.load(Ordering::SeqCst) {
            // The other end never learns.
            std::future::pending::<()>().await;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
