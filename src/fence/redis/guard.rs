//! Marks alone, in Redis.

use redis::aio::ConnectionLike;

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{
    RedisError, RedisStore,
    reply::{RefusedBy, Reply},
};
use crate::fence::{Guard, Mark, Rules, Verdict, fenced::ConditionalStore as _};

/// A guard whose marks are in Redis.
///
/// Right in front of data that is in the same Redis and is written by scripts of one's own, or as an
/// early check before a store that checks again. For data elsewhere, checking here and writing there
/// leaves a gap. Values that the same store holds are left as they are.
#[derive(Debug, Clone)]
pub struct RedisGuard<C> {
    store: RedisStore<C>,
    rules: Rules,
}

impl<C: ConnectionLike + Clone + Send + Sync> RedisGuard<C> {
    /// A guard by these rules over the marks of a store.
    #[must_use]
    pub fn new(store: RedisStore<C>, rules: Rules) -> Self {
        Self { store, rules }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> Guard for RedisGuard<C> {
    type Error = RedisError;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, RedisError> {
        if let Some(foreign) = self.rules.foreign(sequencer) {
            return Ok(Verdict::Foreign(foreign));
        }
        let by = match self.store.run(sequencer, self.rules.equal(), None).await? {
            Reply::Admitted => return Ok(Verdict::Admitted),
            Reply::Refused(by) => by,
        };
        // Put into words by the same rules as everywhere.
        let mark = match by {
            RefusedBy::Token(token) => Mark {
                issuer: sequencer.issuer.clone(),
                token,
            },
            RefusedBy::Issuer(issuer) => Mark {
                issuer,
                token: sequencer.token,
            },
        };
        match self.rules.judge(sequencer, Some(&mark)) {
            Verdict::Admitted => Err(RedisError::Answer(format!("refused by {mark:?}"))),
            refused => Ok(refused),
        }
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, RedisError> {
        self.store.read_token(resource).await
    }
}
