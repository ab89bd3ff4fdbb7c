//! Raft: forming, membership, failover, snapshots.
