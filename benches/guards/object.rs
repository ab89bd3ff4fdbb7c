//! An object store in memory: one put, and what a guard makes of it.
//!
//! The guard reads the object's mark and then puts on the condition that nothing came in between. In memory that is
//! all there is to see of it; with a store on the network it is two requests instead of one.

use std::sync::Arc;

use fencepost::fence::{
    fenced::{Applied, FencedResource},
    object::GuardedObjects,
};
use object_store::{ObjectStore, ObjectStoreExt as _, memory::InMemory, path::Path};

use crate::{
    at, body,
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    if writers > 1 {
        // Nothing here waits, so that on one thread more writers are only longer in line.
        return;
    }
    let plain: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = GuardedObjects::open(Arc::new(InMemory::new()), "").await;
    let fenced = FencedResource::new(store.unwrap(), rules());
    let variants = vec![
        Variant::new(
            "unguarded put",
            0,
            (0..writers)
                .map(|writer| put(writer, Arc::clone(&plain)))
                .collect(),
        ),
        Variant::new(
            "FencedResource<GuardedObjects>",
            0,
            (0..writers)
                .map(|writer| applied(writer, fenced.clone()))
                .collect(),
        ),
    ];
    rounds::measure("object", 1_000, variants).await;
}

fn put(writer: u64, store: Arc<dyn ObjectStore>) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let location = Path::from(format!("accounts/{}", row(writer, n)));
        store.put(&location, body(n).into()).await.unwrap();
    })
}

fn applied(writer: u64, fenced: FencedResource<GuardedObjects>) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let sequencer = &sequencers[at(n)];
        let value = body(n);
        let applied = fenced.apply(&sequencer.resource, value.as_bytes(), sequencer);
        assert!(matches!(applied.await.unwrap(), Applied::Accepted));
    })
}
