//! What the storage thread did, as metrics.

use std::sync::Arc;

use crate::server::{
    store::{GroupCommit, Space, StoreObserver},
    telemetry::Metrics,
};

/// Counts for the metrics.
pub(super) struct Observer(pub(super) Arc<Metrics>);

impl StoreObserver for Observer {
    fn committed(&self, group: &GroupCommit) {
        self.0.fsync_seconds.took(group.flush);
        if group.entries > 0 {
            self.0.group_entries.had(group.entries);
        }
    }

    fn space(&self, space: &Space) {
        self.0.storage_bytes.set(space.used_bytes);
        self.0.free_bytes.set(space.free_bytes);
        let was_low = self.0.space_low.set(u64::from(space.low)) != 0;
        if space.low && !was_low {
            tracing::error!(
                free_bytes = space.free_bytes,
                "the disk is nearly full: new grants are refused until there is space"
            );
        }
        if was_low && !space.low {
            tracing::info!(free_bytes = space.free_bytes, "the disk has space again");
        }
    }
}
