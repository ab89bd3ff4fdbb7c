//! The three ports of a node, bound before anything is started.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

use super::NodeError;
use crate::server::config::Config;

/// Bound ports. Whoever embeds a node may bind them itself, at port 0 for instance.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub client: TcpListener,
    /// For the other nodes.
    pub peer: TcpListener,
    /// For metrics and probes.
    pub http: TcpListener,
}

/// Where a node listens, as bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub client: SocketAddr,
    /// For the other nodes.
    pub peer: SocketAddr,
    /// For metrics and probes.
    pub http: SocketAddr,
}

impl Listeners {
    /// Binds what the configuration says.
    ///
    /// # Errors
    ///
    /// [`NodeError::Bind`] with the setting at fault.
    pub async fn bind(config: &Config) -> Result<Self, NodeError> {
        Ok(Listeners {
            client: bind("listen", config.listen).await?,
            peer: bind("peer-listen", config.peer_listen).await?,
            http: bind("http-listen", config.http_listen).await?,
        })
    }

    /// Where they are.
    ///
    /// # Errors
    ///
    /// When the system does not say.
    pub fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            client: self.client.local_addr()?,
            peer: self.peer.local_addr()?,
            http: self.http.local_addr()?,
        })
    }
}

async fn bind(setting: &'static str, address: SocketAddr) -> Result<TcpListener, NodeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| NodeError::Bind {
            setting,
            address,
            source,
        })
}
