//! Memory: a map behind a mutex, and the same with a guard.

use std::{collections::HashMap, sync::Arc, sync::Mutex};

use fencepost::{
    fence::{
        fenced::{Applied, FencedResource},
        memory::{MemoryGuard, MemoryStore},
    },
    resource::ResourceName,
};

use crate::{
    at,
    rounds::{self, Variant, Writes},
    rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    if writers > 1 {
        // Nothing here waits, so that on one thread more writers are only longer in line.
        return;
    }
    let map: Arc<Mutex<HashMap<ResourceName, u64>>> = Arc::default();
    let guard = Arc::new((Mutex::new(HashMap::new()), MemoryGuard::new(rules())));
    let fenced = Arc::new(FencedResource::new(MemoryStore::new(), rules()));
    let variants = vec![
        Variant::new(
            "unguarded",
            0,
            (0..writers).map(|w| plain(w, Arc::clone(&map))).collect(),
        ),
        Variant::new(
            "MemoryGuard, then the write",
            0,
            (0..writers)
                .map(|w| admitted(w, Arc::clone(&guard)))
                .collect(),
        ),
        Variant::new(
            "FencedResource<MemoryStore>",
            0,
            (0..writers)
                .map(|w| applied(w, Arc::clone(&fenced)))
                .collect(),
        ),
    ];
    rounds::measure("memory", 10_000, variants).await;
}

fn plain(writer: u64, map: Arc<Mutex<HashMap<ResourceName, u64>>>) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let mut map = map.lock().unwrap();
        // As a store does it that is asked by reference: the name is copied only when it is new.
        let resource = &sequencers[at(n)].resource;
        match map.get_mut(resource) {
            Some(value) => *value = n,
            None => {
                map.insert(resource.clone(), n);
            }
        }
    })
}

fn admitted(
    writer: u64,
    guarded: Arc<(Mutex<HashMap<ResourceName, u64>>, MemoryGuard)>,
) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let (map, guard) = &*guarded;
        let sequencer = &sequencers[at(n)];
        // Under the lock of the data, so that nothing comes between the check and the write.
        let mut map = map.lock().unwrap();
        guard.admit_now(sequencer).unwrap().admitted().unwrap();
        match map.get_mut(&sequencer.resource) {
            Some(value) => *value = n,
            None => {
                map.insert(sequencer.resource.clone(), n);
            }
        }
    })
}

fn applied(writer: u64, fenced: Arc<FencedResource<MemoryStore<u64>>>) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let sequencer = &sequencers[at(n)];
        let applied = fenced
            .apply(&sequencer.resource, &n, sequencer)
            .await
            .unwrap();
        assert!(matches!(applied, Applied::Accepted));
    })
}
