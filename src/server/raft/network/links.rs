//! Connections to peers: made when first used, kept, and made again when they break.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tonic::transport::{Channel, Endpoint};

use super::MESSAGE_BYTES_MAX;
use crate::wire::peer_v1::peer_client::PeerClient;

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// How often a connection is asked whether it still leads anywhere, and how long it may take to
/// answer: what a partition swallowed is noticed, and replaced once it heals, without waiting for
/// TCP's own patience, which grows to minutes.
const PING_EVERY: Duration = Duration::from_secs(1);
const PING_ANSWER_MAX: Duration = Duration::from_secs(2);

/// Flow control windows for what carries bulk: several of the largest messages.
const BULK_WINDOW_BYTES: u32 = 8 << 20;

/// What a connection carries. Each kind has its own, so that none waits behind another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server::raft) enum Traffic {
    /// Heartbeats, votes, hellos: small, and urgent.
    Control,
    /// The log.
    Append,
    /// Snapshots.
    Bulk,
    /// Clients' calls on their way to the leader.
    Forward,
    /// Who waits in line and is still there: up to megabytes of it.
    Vouch,
}

/// All connections of this node, by address and kind.
#[derive(Default)]
pub(in crate::server::raft) struct Switchboard {
    channels: Mutex<BTreeMap<(String, Traffic), Channel>>,
}

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address of the form host:port")]
pub(in crate::server::raft) struct BadAddress(String);

impl Switchboard {
    /// A client for one peer. Connects when it is first used.
    pub(in crate::server::raft) fn client(
        &self,
        address: &str,
        traffic: Traffic,
    ) -> Result<PeerClient<Channel>, BadAddress> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.to_owned(), traffic);
        let channel = match channels.get(&key) {
            Some(channel) => channel.clone(),
            None => {
                let channel = endpoint(address, traffic)?.connect_lazy();
                channels.insert(key, channel.clone());
                channel
            }
        };
        Ok(PeerClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX))
    }
}

/// Shared by everything in a node that calls peers.
pub(in crate::server::raft) type SharedSwitchboard = Arc<Switchboard>;

fn endpoint(address: &str, traffic: Traffic) -> Result<Endpoint, BadAddress> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| BadAddress(address.to_owned()))?
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER_MAX)
        .keep_alive_while_idle(true);
    Ok(match traffic {
        Traffic::Control => endpoint,
        Traffic::Append | Traffic::Bulk | Traffic::Forward | Traffic::Vouch => endpoint
            .initial_stream_window_size(BULK_WINDOW_BYTES)
            .initial_connection_window_size(BULK_WINDOW_BYTES),
    })
}
