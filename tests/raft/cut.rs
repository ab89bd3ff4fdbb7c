//! A cable that can be cut: it stands before a node's peer port, and decides what arrives there.

use std::sync::Arc;

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Carries connections to a node until it is cut. A cut drops what is there and lets nothing in, though
/// connecting still works, as it does to a stopped process.
pub(crate) struct Cable {
    pub(crate) address: String,
    whole: Arc<watch::Sender<bool>>,
    carrying: JoinHandle<()>,
}

impl Cable {
    /// Stands before `target`.
    pub(crate) async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let whole = Arc::new(watch::Sender::new(true));
        let state = Arc::clone(&whole);
        let carrying = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target.clone(), state.subscribe()));
            }
        });
        Self {
            address,
            whole,
            carrying,
        }
    }

    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

async fn carry(mut near: TcpStream, target: String, mut whole: watch::Receiver<bool>) {
    if whole.wait_for(|whole| *whole).await.is_err() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = whole.wait_for(|whole| !*whole) => {}
    }
}
