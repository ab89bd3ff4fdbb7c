//! Values and marks in Redis: keys of other kinds, times to live, and what a server forgets.

use fencepost::fence::{
    fenced::{Applied, ApplyError, FencedResource},
    redis::{RedisError, RedisStore},
};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};

use crate::{
    databases,
    redis_servers::{Server, free_port},
    scene::{resource, rules, sequencer, sequencer_for, token},
    stores::connect,
};

type Fenced = FencedResource<RedisStore<MultiplexedConnection>>;

const VALUE: &str = "account%2F1";
const MARK: &str = "{account%2F1}:fencing";

async fn fenced(connection: MultiplexedConnection) -> Fenced {
    let store = RedisStore::open(connection, "").await.unwrap();
    FencedResource::new(store, rules())
}

async fn put(fenced: &Fenced, value: &str, token: u64) -> Applied {
    let (account, sequencer) = (resource("account/1"), sequencer(token));
    let applied = fenced.apply(&account, value.as_bytes(), &sequencer).await;
    applied.unwrap()
}

fn stale(presented: u64, required: u64) -> Applied {
    Applied::Stale {
        presented: token(presented),
        required: token(required),
    }
}

/// A guard and a bare connection to an empty database; nothing where there is no Redis.
async fn scene() -> Option<(Fenced, MultiplexedConnection)> {
    let url = databases::redis()?.fresh("redis").await;
    let fenced = fenced(connect(&url).await).await;
    Some((fenced, connect(&url).await))
}

#[tokio::test]
async fn the_values_time_to_live_stays_and_a_marks_is_taken_away() {
    let Some((fenced, mut redis)) = scene().await else {
        return;
    };
    assert_eq!(put(&fenced, "five", 5).await, Applied::Accepted);
    let () = redis.expire(VALUE, 1_000).await.unwrap();
    let () = redis.expire(MARK, 1_000).await.unwrap();
    assert_eq!(put(&fenced, "six", 6).await, Applied::Accepted);
    let left: i64 = redis.ttl(VALUE).await.unwrap();
    assert!((900..=1_000).contains(&left), "{left}");
    assert_eq!(redis.ttl::<_, i64>(MARK).await.unwrap(), -1);
    // Also when only the mark is asked about, and it is there already.
    let () = redis.expire(MARK, 1_000).await.unwrap();
    let account = resource("account/1");
    let raised = fenced.raise(&account, &sequencer(6)).await.unwrap();
    assert_eq!(raised, Applied::Accepted);
    assert_eq!(redis.ttl::<_, i64>(MARK).await.unwrap(), -1);
    // A value that is gone has not taken its mark along.
    let () = redis.del(VALUE).await.unwrap();
    let (value, mark) = fenced.store().read(&account).await.unwrap().unwrap();
    assert_eq!((value, mark.token), (None, token(6)));
    assert_eq!(put(&fenced, "late", 5).await, stale(5, 6));
}

#[tokio::test]
async fn keys_of_another_kind_are_errors_and_nothing_is_changed() {
    let Some((fenced, mut redis)) = scene().await else {
        return;
    };
    let account = resource("account/1");
    let spoil = [
        ("LPUSH", vec![VALUE, "x"]),
        ("SET", vec![MARK, "x"]),
        ("HSET", vec![MARK, "token", "5"]),
        ("HSET", vec![MARK, "issuer", "bank"]),
        ("HSET", vec![MARK, "issuer", "bank", "token", "five"]),
        ("HSET", vec![MARK, "issuer", "bank", "token", "05"]),
        ("HSET", vec![MARK, "issuer", "bank", "token", "5e0"]),
        (
            "HSET",
            vec![MARK, "issuer", "bank", "token", "99999999999999999999"],
        ),
        (
            "HSET",
            vec![MARK, "issuer", "bank", "token", "9223372036854775808"],
        ),
    ];
    for (command, words) in spoil {
        let () = redis::cmd("FLUSHDB").query_async(&mut redis).await.unwrap();
        let () = redis::cmd(command)
            .arg(&words)
            .query_async(&mut redis)
            .await
            .unwrap();
        let before = dump(&mut redis).await;
        let failed = fenced
            .apply(&account, b"new", &sequencer(9))
            .await
            .unwrap_err();
        let damaged = matches!(failed, ApplyError::Store(RedisError::Damaged(_)));
        assert!(damaged, "{command} {words:?}: {failed}");
        assert!(failed.to_string().contains("account%2F1"), "{failed}");
        assert_eq!(dump(&mut redis).await, before, "{command} {words:?}");
        assert!(fenced.store().read(&account).await.is_err(), "{words:?}");
    }
}

/// All that is in the database, as Redis serializes it.
async fn dump(redis: &mut MultiplexedConnection) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = redis.keys("*").await.unwrap();
    keys.sort();
    let mut all = Vec::new();
    for key in keys {
        let bytes = redis::cmd("DUMP")
            .arg(&key)
            .query_async(redis)
            .await
            .unwrap();
        all.push((key, bytes));
    }
    all
}

#[tokio::test]
async fn a_server_that_lost_the_script_is_sent_it_again() {
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let fenced = fenced(server.connect().await).await;
    assert_eq!(put(&fenced, "five", 5).await, Applied::Accepted);
    let mut redis = server.connect().await;
    let () = redis::cmd("SCRIPT")
        .arg("FLUSH")
        .query_async(&mut redis)
        .await
        .unwrap();
    assert_eq!(put(&fenced, "late", 4).await, stale(4, 5));
}

#[tokio::test]
async fn a_server_that_evicts_marks_is_refused() {
    let settings = ["--port", "0", "--maxmemory-policy", "allkeys-lru"];
    let Some(server) = Server::start(&settings) else {
        return;
    };
    let refused = RedisStore::open(server.connect().await, "")
        .await
        .unwrap_err();
    assert!(matches!(refused, RedisError::Unfit(_)), "{refused}");
    assert!(refused.to_string().contains("allkeys-lru"), "{refused}");
    assert!(RedisStore::unchecked(server.connect().await, "").is_ok());
}

#[tokio::test]
async fn a_server_without_memory_writes_both_or_neither() {
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let fenced = fenced(server.connect().await).await;
    assert_eq!(put(&fenced, "five", 5).await, Applied::Accepted);
    let mut redis = server.connect().await;
    let set = redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).clone();
    let () = set.query_async(&mut redis).await.unwrap();
    let account = resource("account/1");
    let failed = fenced
        .apply(&account, b"six", &sequencer(6))
        .await
        .unwrap_err();
    assert!(failed.to_string().contains("OOM"), "{failed}");
    let (value, mark) = fenced.store().read(&account).await.unwrap().unwrap();
    assert_eq!((value.unwrap(), mark.token), (b"five".to_vec(), token(5)));
}

#[tokio::test]
async fn both_keys_of_a_resource_are_in_one_slot_of_a_cluster() {
    let port = free_port().to_string();
    let settings = ["--port", &port, "--cluster-enabled", "yes"];
    let Some(server) = Server::start(&settings) else {
        return;
    };
    let mut redis = server.connect().await;
    let slots = redis::cmd("CLUSTER")
        .arg(&["ADDSLOTSRANGE", "0", "16383"])
        .clone();
    let () = slots.query_async(&mut redis).await.unwrap();
    let ready = async {
        loop {
            let info: String = redis::cmd("CLUSTER")
                .arg("INFO")
                .query_async(&mut redis)
                .await
                .unwrap();
            if info.contains("cluster_state:ok") {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ready)
        .await
        .unwrap();
    let store = RedisStore::open(server.connect().await, "app:")
        .await
        .unwrap();
    let fenced = FencedResource::new(store, rules());
    // A key in another slot is an error there, whatever a single node holds.
    for name in ["account/1", "a}b{c", "}{", "{}", "{a", "🦀", "x y"] {
        let sequencer = sequencer_for("bank", name, 5);
        let applied = fenced.apply(&sequencer.resource, b"x", &sequencer).await;
        assert_eq!(applied.unwrap(), Applied::Accepted, "{name}");
        let (value, _) = fenced
            .store()
            .read(&sequencer.resource)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(value.unwrap(), b"x", "{name}");
    }
}

/// Presents rising tokens until the server is killed, at some moment, and says which were accepted.
async fn killed_while_writing(server: &mut Server, after: usize) -> Vec<u64> {
    let fenced = fenced(server.connect().await).await;
    let (told, mut accepted) = tokio::sync::mpsc::unbounded_channel();
    let writer = tokio::spawn(async move {
        let account = resource("account/1");
        for value in 1.. {
            let sequencer = sequencer(value);
            let text = value.to_string();
            match fenced.apply(&account, text.as_bytes(), &sequencer).await {
                Ok(applied) => assert_eq!(applied, Applied::Accepted),
                Err(ApplyError::Store(error)) => return assert!(error.may_retry(), "{error}"),
                Err(error) => panic!("{error}"),
            }
            told.send(value).unwrap();
        }
    });
    let mut all = Vec::new();
    while all.len() < after {
        all.push(accepted.recv().await.unwrap());
    }
    server.kill();
    writer.await.unwrap();
    while let Some(value) = accepted.recv().await {
        all.push(value);
    }
    all
}

#[tokio::test]
async fn with_every_write_synced_a_killed_server_keeps_all_that_was_accepted() {
    let settings = [
        "--port",
        "0",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    for after in [1, 10, 40] {
        let Some(mut server) = Server::start(&settings) else {
            return;
        };
        let accepted = killed_while_writing(&mut server, after).await;
        server.start_again();
        let fenced = fenced(server.connect().await).await;
        let read = fenced.store().read(&resource("account/1")).await.unwrap();
        let (value, mark) = read.unwrap();
        assert!(Some(&mark.token.get()) >= accepted.last(), "{mark:?}");
        assert_eq!(value.unwrap(), mark.token.to_string().into_bytes());
        let late = accepted.last().unwrap() - 1;
        if late > 0 {
            assert!(matches!(
                put(&fenced, "late", late).await,
                Applied::Stale { .. }
            ));
        }
    }
}

#[tokio::test]
async fn without_a_log_a_killed_server_forgets_and_admits_the_stale_as_the_page_says() {
    let Some(mut server) = Server::start(&["--port", "0", "--appendonly", "no"]) else {
        return;
    };
    let accepted = killed_while_writing(&mut server, 20).await;
    server.start_again();
    let fenced = fenced(server.connect().await).await;
    assert_eq!(fenced.token(&resource("account/1")).await.unwrap(), None);
    let stale = accepted.last().unwrap() - 1;
    assert_eq!(put(&fenced, "late", stale).await, Applied::Accepted);
}

#[tokio::test]
async fn a_failover_loses_what_the_replica_had_not_received_as_the_page_says() {
    let port = free_port().to_string();
    let always = [
        "--port",
        &port,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];
    let Some(mut primary) = Server::start(&always) else {
        return;
    };
    let replicaof = format!("127.0.0.1 {port}");
    let replica = Server::start(&["--port", "0", "--replicaof", &replicaof]).unwrap();
    let mut bare = primary.connect().await;
    let fenced = fenced(bare.clone()).await;
    assert_eq!(put(&fenced, "five", 5).await, Applied::Accepted);
    // Up to here both have it.
    let received: u32 = redis::cmd("WAIT")
        .arg(&["1", "60000"])
        .query_async(&mut bare)
        .await
        .unwrap();
    assert_eq!(received, 1);
    // The two are cut off from each other and the replica is promoted, as a Sentinel would do it. The old
    // primary does not know, and acknowledges.
    let mut promoted = replica.connect().await;
    let () = redis::cmd("REPLICAOF")
        .arg(&["NO", "ONE"])
        .query_async(&mut promoted)
        .await
        .unwrap();
    assert_eq!(put(&fenced, "six", 6).await, Applied::Accepted);
    let received: u32 = redis::cmd("WAIT")
        .arg(&["1", "50"])
        .query_async(&mut bare)
        .await
        .unwrap();
    assert_eq!(received, 0, "WAIT tells it, and undoes nothing");
    primary.kill();
    let fenced = self::fenced(promoted).await;
    let mark = fenced.token(&resource("account/1")).await.unwrap().unwrap();
    assert_eq!(
        mark.token,
        token(5),
        "the mark is lower than what was acknowledged"
    );
    assert_eq!(put(&fenced, "late", 5).await, Applied::Accepted);
}
