//! Which cluster this client talks to, and how far it has seen that cluster go.
//!
//! A client belongs to one cluster for its life. Two ids among its endpoints mean that it is misconfigured
//! (or that the cluster was restored from a backup, which founds a new one), and a token of one cluster
//! must never be mistaken for a token of the other.

use super::address::Address;
use crate::grant::{AskedAt, ClusterId};
use crate::sequencer::IssuerName;
use crate::wire::v1::ResponseHeader;

/// What the answers so far have shown.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) cluster: ClusterId,
    pub(crate) issuer: IssuerName,
    /// Who showed it first.
    pub(crate) endpoint: Address,
    /// The highest log index that the cluster is known to have applied.
    pub(crate) applied: u64,
}

impl Seen {
    /// The moment to send along with a request: whatever is asked from now on is applied after it.
    pub(crate) fn asked_at(&self) -> AskedAt {
        AskedAt {
            cluster: self.cluster,
            applied: self.applied,
        }
    }
}

/// Endpoints of one client that belong to different clusters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the endpoints belong to different clusters: {first_endpoint} is in {first}, {second_endpoint} in {second}"
)]
pub struct Mismatch {
    /// The cluster that this client belongs to, because it answered first.
    pub first: ClusterId,
    /// The endpoint that answered first.
    pub first_endpoint: Address,
    /// The other cluster.
    pub second: ClusterId,
    /// The endpoint that answered for it; the same as the first when a cluster was replaced.
    pub second_endpoint: Address,
}

/// What is wrong with a header.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The node is part of no cluster yet.
    Forming,
    /// It belongs to another cluster than the answers before.
    Other(Box<Mismatch>),
    /// It is not what the contract says.
    Malformed(&'static str),
}

/// Checks the header of an answer from `endpoint` against what was seen, and takes note of it.
pub(crate) fn check(
    seen: &mut Option<Seen>,
    header: Option<&ResponseHeader>,
    endpoint: &Address,
) -> Result<(), Unfit> {
    let header = header.ok_or(Unfit::Malformed("the answer has no header"))?;
    if header.cluster_id.is_empty() {
        return Err(Unfit::Forming);
    }
    let cluster = header
        .cluster_id
        .parse::<ClusterId>()
        .map_err(|_| Unfit::Malformed("the header's cluster_id is not 32 hexadecimal digits"))?;
    match seen {
        Some(seen) if seen.cluster == cluster => {
            seen.applied = seen.applied.max(header.applied_index);
            if seen.issuer.as_str() == header.issuer {
                return Ok(());
            }
            Err(Unfit::Malformed(
                "two nodes of one cluster name different issuers",
            ))
        }
        Some(seen) => Err(Unfit::Other(Box::new(Mismatch {
            first: seen.cluster,
            first_endpoint: seen.endpoint.clone(),
            second: cluster,
            second_endpoint: endpoint.clone(),
        }))),
        None => {
            let issuer = IssuerName::new(header.issuer.as_str())
                .map_err(|_| Unfit::Malformed("the header's issuer is not a name"))?;
            *seen = Some(Seen {
                cluster,
                issuer,
                endpoint: endpoint.clone(),
                applied: header.applied_index,
            });
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster: u128, applied_index: u64) -> ResponseHeader {
        ResponseHeader {
            cluster_id: ClusterId::new(cluster).to_string(),
            issuer: "here".to_owned(),
            applied_index,
            ..ResponseHeader::default()
        }
    }

    #[test]
    fn the_applied_index_only_rises() {
        let (mut seen, node) = (None, "a:1".parse().unwrap());
        for (applied, expected) in [(5, 5), (3, 5), (9, 9)] {
            check(&mut seen, Some(&header(1, applied)), &node).unwrap();
            assert_eq!(seen.as_ref().unwrap().asked_at().applied, expected);
        }
    }

    #[test]
    fn a_second_cluster_is_named_with_both_ids_and_endpoints() {
        let mut seen = None;
        check(&mut seen, Some(&header(1, 1)), &"a:1".parse().unwrap()).unwrap();
        let unfit = check(&mut seen, Some(&header(2, 1)), &"b:1".parse().unwrap()).unwrap_err();
        let Unfit::Other(mismatch) = unfit else {
            panic!("expected a mismatch, got {unfit:?}")
        };
        let text = mismatch.to_string();
        for part in [
            "a:1",
            "b:1",
            &mismatch.first.to_string(),
            &mismatch.second.to_string(),
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_header_that_breaks_the_contract_is_not_taken() {
        let (mut seen, node) = (None, "a:1".parse().unwrap());
        assert!(matches!(
            check(&mut seen, None, &node),
            Err(Unfit::Malformed(_))
        ));
        let forming = ResponseHeader::default();
        assert!(matches!(
            check(&mut seen, Some(&forming), &node),
            Err(Unfit::Forming)
        ));
        let mut odd = header(1, 1);
        odd.cluster_id = "xyz".to_owned();
        assert!(matches!(
            check(&mut seen, Some(&odd), &node),
            Err(Unfit::Malformed(_))
        ));
        assert!(seen.is_none());
    }
}
