//! Redis over a Unix socket, with an append-only file that is synced before each answer (not Redis's
//! default, which syncs once a second).

use std::sync::OnceLock;

use fencepost::fence::{
    fenced::{Applied, FencedResource},
    redis::RedisStore,
};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};

use crate::{
    at, body,
    databases::{Redis, Sync},
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    static SERVER: OnceLock<Option<Redis>> = OnceLock::new();
    let Some(server) = SERVER.get_or_init(|| Redis::start(Sync::EachCommit)) else {
        println!("redis: not installed on this machine");
        return;
    };
    let client = redis::Client::open(server.fresh("guards").await).unwrap();
    let (mut plain, mut fenced) = (Vec::new(), Vec::new());
    for writer in 0..writers {
        let connect = async || client.get_multiplexed_async_connection().await.unwrap();
        plain.push(set(writer, connect().await));
        let store = RedisStore::open(connect().await, "fenced:").await.unwrap();
        fenced.push(applied(writer, FencedResource::new(store, rules())));
    }
    let variants = vec![
        Variant::new("unguarded SET", 0, plain),
        Variant::new("FencedResource<RedisStore>", 0, fenced),
    ];
    rounds::measure("redis", 1, variants).await;
}

fn set(writer: u64, mut connection: MultiplexedConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let key = format!("plain:{}", row(writer, n));
        let () = connection.set(key, body(n)).await.unwrap();
    })
}

fn applied(
    writer: u64,
    fenced: FencedResource<RedisStore<MultiplexedConnection>>,
) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let sequencer = &sequencers[at(n)];
        let value = body(n);
        let applied = fenced.apply(&sequencer.resource, value.as_bytes(), sequencer);
        assert!(matches!(applied.await.unwrap(), Applied::Accepted));
    })
}
