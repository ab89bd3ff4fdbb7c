//! The script, and fenced values by it.

use std::sync::LazyLock;

use redis::{Script, aio::ConnectionLike};

use crate::resource::ResourceName;

use super::{
    RedisError,
    keys::Keys,
    reply::{Fields, admitted, mark},
};
use crate::fence::{
    EqualTokens, Mark,
    fenced::{ConditionalStore, MarkStore, Update},
};

/// The most bytes of one value, 16 MiB: Redis does nothing else while it takes one in.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

static FENCED: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("fenced.lua")));

/// Mark, whether it is there, and value, as of one moment.
static READ: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "return {redis.call('HMGET', KEYS[1], 'issuer', 'token'), redis.call('EXISTS', KEYS[1]), \
                 #KEYS > 1 and redis.call('GET', KEYS[2])}",
    )
});

/// Fenced values in Redis: a [`ConditionalStore`] whose mutation is the new value.
///
/// Clone it to share it; the clones use clones of the connection.
#[derive(Debug, Clone)]
pub struct RedisStore<C> {
    connection: C,
    keys: Keys,
}

impl<C: ConnectionLike + Clone + Send + Sync> RedisStore<C> {
    /// Uses the keys that begin with `prefix`, which may be empty, after a look at the server: it must
    /// know `SET ... KEEPTTL` (Redis 6), and must not be one that evicts keys without a time to
    /// live when memory runs out (`maxmemory-policy allkeys-*`), since marks are such keys.
    ///
    /// # Errors
    ///
    /// [`RedisError::Unfit`] for such a server, [`RedisError::Prefix`] for a prefix that is too long or
    /// has braces, [`RedisError::Redis`] when it cannot be asked. Where `INFO` is not allowed, and for a
    /// cluster, see [`RedisStore::unchecked`].
    pub async fn open(connection: C, prefix: &str) -> Result<Self, RedisError> {
        let store = Self::unchecked(connection, prefix)?;
        let mut connection = store.connection.clone();
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        fit(&info)?;
        Ok(store)
    }

    /// The same without a look at the server: who sets it up answers for it.
    ///
    /// # Errors
    ///
    /// [`RedisError::Prefix`].
    pub fn unchecked(connection: C, prefix: &str) -> Result<Self, RedisError> {
        let keys = Keys::new(prefix)?;
        Ok(Self { connection, keys })
    }

    /// The value of a resource and the mark, as of one moment. The value is `None` where it expired or
    /// was deleted, or only marks were set; `None` altogether where nothing was ever admitted.
    ///
    /// # Errors
    ///
    /// [`RedisError::Redis`], and [`RedisError::Damaged`] for keys that this guard did not write so.
    pub async fn read(
        &self,
        resource: &ResourceName,
    ) -> Result<Option<(Option<Vec<u8>>, Mark)>, RedisError> {
        let key = self.keys.mark(resource);
        let mut read = READ.key(&key);
        read.key(self.keys.value(resource));
        let mut connection = self.connection.clone();
        let (fields, is_there, value): (Fields, bool, Option<Vec<u8>>) =
            read.invoke_async(&mut connection).await?;
        let mark = mark(&key, &fields, is_there)?;
        Ok(mark.map(|mark| (value, mark)))
    }

    /// Runs the script; without a value only the mark rises.
    async fn run<M: ?Sized + Sync>(
        &self,
        update: &Update<'_, M>,
        value: Option<&[u8]>,
    ) -> Result<bool, RedisError> {
        let sequencer = update.sequencer;
        let mut call = FENCED.key(self.keys.mark(&sequencer.resource));
        call.key(self.keys.value(&sequencer.resource))
            .arg(sequencer.issuer.as_str())
            .arg(sequencer.token.get())
            .arg(match update.equal {
                EqualTokens::MayWriteAgain => "again",
                EqualTokens::Once => "once",
            });
        if let Some(value) = value {
            call.arg(value);
        }
        let mut connection = self.connection.clone();
        let words: Vec<Vec<u8>> = call.invoke_async(&mut connection).await?;
        admitted(&words)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> ConditionalStore for RedisStore<C> {
    type Mutation = [u8];
    type Error = RedisError;

    async fn conditional_update(&self, update: &Update<'_, [u8]>) -> Result<bool, RedisError> {
        if update.mutation.len() > VALUE_BYTES_MAX {
            return Err(RedisError::TooLong {
                resource: update.resource.clone(),
                found: update.mutation.len(),
            });
        }
        self.run(update, Some(update.mutation)).await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, RedisError> {
        let key = self.keys.mark(resource);
        let mut connection = self.connection.clone();
        let (fields, is_there, _): (Fields, bool, Option<Vec<u8>>) =
            READ.key(&key).invoke_async(&mut connection).await?;
        mark(&key, &fields, is_there)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> MarkStore for RedisStore<C> {
    /// Leaves the value alone, or absent.
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, RedisError> {
        self.run(update, None).await
    }
}

/// Whether a server of which `INFO` says this keeps marks.
fn fit(info: &str) -> Result<(), RedisError> {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    let version = field("redis_version").unwrap_or_default();
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if major.is_some_and(|major: u32| major < 6) {
        return Err(RedisError::Unfit(format!(
            "it is version {version}, and SET ... KEEPTTL needs 6.0"
        )));
    }
    match field("maxmemory_policy") {
        Some(policy) if policy.starts_with("allkeys") => Err(RedisError::Unfit(format!(
            "its maxmemory-policy is {policy}, which evicts marks when memory runs out; use \
             noeviction or one of volatile-*"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_forgets_marks_is_refused() {
        let info = |version: &str, policy: &str| {
            format!(
                "# Server\r\nredis_version:{version}\r\n# Memory\r\nmaxmemory_policy:{policy}\r\n"
            )
        };
        for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
            assert!(fit(&info("7.0.15", policy)).is_ok(), "{policy}");
        }
        for (version, policy, complaint) in [
            ("7.0.15", "allkeys-lru", "allkeys-lru"),
            ("7.0.15", "allkeys-random", "evicts marks"),
            ("5.0.14", "noeviction", "needs 6.0"),
        ] {
            let said = fit(&info(version, policy)).unwrap_err().to_string();
            assert!(said.contains(complaint), "{said}");
        }
    }
}
