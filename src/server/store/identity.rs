//! `IDENTITY`: who this node is, and whether it belongs to a cluster yet.
//!
//! A small text file, so that an operator can read it: one `key value` pair a line, closed by a
//! checksum over all lines before. It is replaced as a whole: written beside, fsynced, renamed,
//! directory fsynced. It knows two states. A *forming* node has an instance id and nothing else;
//! it has never voted and may start over. A *ready* node belongs to one cluster for ever.

use std::fmt;

use thiserror::Error;

pub use crate::id::{ClusterId, InstanceId};
use crate::resource::IssuerName;

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Raft node id, at least 1, never used again once removed.
    pub node_id: u64,
    /// This data directory.
    pub instance: InstanceId,
    /// Whether it belongs to a cluster.
    pub membership: Membership,
}

/// Whether a node belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Not yet: it has never voted nor stored an entry, and may start over.
    Forming,
    /// For good.
    Ready(Ready),
}

impl Identity {
    /// What binds this node to its cluster, once it is bound.
    #[must_use]
    pub fn ready(&self) -> Option<&Ready> {
        match &self.membership {
            Membership::Forming => None,
            Membership::Ready(ready) => Some(ready),
        }
    }
}

/// The cluster that a node belongs to, and how it came to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The cluster.
    pub cluster: ClusterId,
    /// Who issues there. Part of every token's scope, so a node keeps to it for good, whatever its
    /// configuration says later.
    pub issuer: IssuerName,
    /// On the node that founded the cluster: the nodes it founded it with, itself included. It
    /// is durable before the log is initialized, so that a founder that crashed in between does
    /// the same again. Empty on every other node.
    pub founders: Vec<Founder>,
}

/// One node of the founding list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founder {
    /// Raft node id.
    pub node_id: u64,
    /// Data directory it answered with when it was asked.
    pub instance: InstanceId,
    /// Where its peers reach it.
    pub address: String,
}

/// Why a node could not be bound to a cluster.
#[derive(Debug, Error)]
pub enum ReadyError {
    /// It belongs to another one.
    #[error(
        "this node belongs to cluster {ours} and cannot become part of cluster {theirs}; join \
         that cluster with an empty data directory and a new node id"
    )]
    OtherCluster {
        /// The cluster it belongs to.
        ours: ClusterId,
        /// The cluster that was asked for.
        theirs: ClusterId,
    },
    /// It issues under another name there.
    #[error("this node issues as {ours:?} and cannot issue as {theirs:?}")]
    OtherIssuer {
        /// The name that it was bound with.
        ours: IssuerName,
        /// The name that was asked for.
        theirs: IssuerName,
    },
    /// It was bound to this cluster with another founding list.
    #[error("this node was bound to cluster {cluster} before, with another founding list")]
    OtherFounders {
        /// The cluster.
        cluster: ClusterId,
    },
    /// An address holds a line break.
    #[error("the address of node {node_id} in the founding list holds a control character")]
    BadAddress {
        /// Whose address.
        node_id: u64,
    },
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] super::StoreError),
}

const HEAD: &str = "fencepost identity 1";

/// Name of the file.
pub(super) const NAME: &str = "IDENTITY";

impl Identity {
    /// The file's content.
    pub(super) fn encode(&self) -> String {
        use fmt::Write;
        let mut text = format!(
            "{HEAD}\nnode {}\ninstance {}\n",
            self.node_id, self.instance
        );
        let written = match &self.membership {
            Membership::Forming => writeln!(text, "state forming"),
            Membership::Ready(ready) => ready.encode(&mut text),
        };
        written.expect("writing to a string cannot fail");
        let checksum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "checksum {checksum:08x}").expect("writing to a string cannot fail");
        text
    }

    /// Reads the file's content. `None` if it is not exactly what [`Self::encode`] writes.
    pub(super) fn decode(text: &str) -> Option<Self> {
        let body_bytes = text.trim_end_matches('\n').rfind('\n')? + 1;
        let (body, last) = text.split_at_checked(body_bytes)?;
        let checksum = u32::from_str_radix(last.strip_prefix("checksum ")?.trim_end(), 16).ok()?;
        if crc32c::crc32c(body.as_bytes()) != checksum {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != HEAD {
            return None;
        }
        let node_id = lines.next()?.strip_prefix("node ")?.parse().ok()?;
        let instance = lines.next()?.strip_prefix("instance ")?.parse().ok()?;
        let membership = match lines.next()? {
            "state forming" => Membership::Forming,
            "state ready" => Membership::Ready(Ready::decode(lines)?),
            _ => return None,
        };
        Some(Self {
            node_id,
            instance,
            membership,
        })
    }
}

impl Ready {
    fn encode(&self, text: &mut String) -> fmt::Result {
        use fmt::Write;
        writeln!(text, "state ready\ncluster {}", self.cluster)?;
        writeln!(text, "issuer {}", self.issuer)?;
        for Founder {
            node_id,
            instance,
            address,
        } in &self.founders
        {
            writeln!(text, "founder {node_id} {instance} {address}")?;
        }
        Ok(())
    }

    fn decode<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let cluster = lines.next()?.strip_prefix("cluster ")?.parse().ok()?;
        let issuer = lines.next()?.strip_prefix("issuer ")?;
        let issuer = IssuerName::new(issuer).ok()?;
        let founders = lines.map(|line| {
            let mut words = line.strip_prefix("founder ")?.splitn(3, ' ');
            let node_id = words.next()?.parse().ok()?;
            let instance = words.next()?.parse().ok()?;
            Some(Founder {
                node_id,
                instance,
                address: words.next()?.to_owned(),
            })
        });
        Some(Self {
            cluster,
            issuer,
            founders: founders.collect::<Option<_>>()?,
        })
    }

    /// Whether a node that is `self` already may be told `asked`: `Ok(true)` if nothing changes.
    pub(super) fn check(before: Option<&Self>, asked: &Self) -> Result<bool, ReadyError> {
        let broken = |founder: &&Founder| founder.address.contains(char::is_control);
        if let Some(Founder { node_id, .. }) = asked.founders.iter().find(broken) {
            return Err(ReadyError::BadAddress { node_id: *node_id });
        }
        let Some(before) = before else {
            return Ok(false);
        };
        if before.cluster != asked.cluster {
            return Err(ReadyError::OtherCluster {
                ours: before.cluster,
                theirs: asked.cluster,
            });
        }
        if before.issuer != asked.issuer {
            return Err(ReadyError::OtherIssuer {
                ours: before.issuer.clone(),
                theirs: asked.issuer.clone(),
            });
        }
        // Whoever adopts a cluster has no list to give, also when it founded this very cluster.
        if !asked.founders.is_empty() && asked.founders != before.founders {
            return Err(ReadyError::OtherFounders {
                cluster: before.cluster,
            });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founder() -> Identity {
        let founders = (1..=2_u8).map(|n| Founder {
            node_id: n.into(),
            instance: InstanceId::from_bytes([n; 16]),
            address: format!("http://10.0.0.{n}:7101"),
        });
        let ready = Ready {
            cluster: ClusterId::from_bytes([0xab; 16]),
            issuer: IssuerName::new("orders").unwrap(),
            founders: founders.collect(),
        };
        Identity {
            node_id: 1,
            instance: InstanceId::from_bytes([1; 16]),
            membership: Membership::Ready(ready),
        }
    }

    #[test]
    fn the_file_reads_like_this_for_ever() {
        assert_eq!(
            founder().encode(),
            "fencepost identity 1\n\
             node 1\n\
             instance 01010101010101010101010101010101\n\
             state ready\n\
             cluster abababababababababababababababab\n\
             issuer orders\n\
             founder 1 01010101010101010101010101010101 http://10.0.0.1:7101\n\
             founder 2 02020202020202020202020202020202 http://10.0.0.2:7101\n\
             checksum b8d497f9\n"
        );
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else_is() {
        let forming = Identity {
            membership: Membership::Forming,
            ..founder()
        };
        for identity in [founder(), forming] {
            let text = identity.encode();
            assert_eq!(Identity::decode(&text).as_ref(), Some(&identity));
            for cut in 0..text.len() - 1 {
                assert_eq!(Identity::decode(&text[..cut]), None, "cut at {cut}");
            }
            for bit in 0..text.len() * 8 {
                let mut bytes = text.clone().into_bytes();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let damaged = String::from_utf8_lossy(&bytes);
                // Only the case of a checksum digit and the line break at the end may differ.
                if let Some(read) = Identity::decode(&damaged) {
                    assert_eq!(read, identity, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_node_is_bound_once() {
        let identity = founder();
        let ready = identity.ready().unwrap();
        let adopted = Ready {
            founders: Vec::new(),
            ..ready.clone()
        };
        assert!(!Ready::check(None, ready).unwrap());
        assert!(Ready::check(Some(ready), ready).unwrap());
        assert!(Ready::check(Some(ready), &adopted).unwrap());
        let other = Ready {
            cluster: ClusterId::from_bytes([1; 16]),
            ..ready.clone()
        };
        let refused = Ready::check(Some(ready), &other).unwrap_err().to_string();
        assert!(
            refused.contains("abababab") && refused.contains("01010101"),
            "{refused}"
        );
        let renamed = Ready {
            issuer: IssuerName::new("invoices").unwrap(),
            ..ready.clone()
        };
        let refused = Ready::check(Some(ready), &renamed).unwrap_err();
        assert!(matches!(refused, ReadyError::OtherIssuer { .. }));
        let mut longer = ready.clone();
        longer.founders.pop();
        let refused = Ready::check(Some(ready), &longer).unwrap_err();
        assert!(matches!(refused, ReadyError::OtherFounders { .. }));
        longer.founders[0].address.push('\n');
        let refused = Ready::check(None, &longer).unwrap_err();
        assert!(matches!(refused, ReadyError::BadAddress { node_id: 1 }));
    }
}
