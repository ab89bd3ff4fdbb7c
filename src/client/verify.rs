//! The first thing a client does: ask all of its endpoints which cluster they belong to.
//!
//! It must be known before the first acquire that they agree, or two holders with differently ordered
//! lists would each be granted "the" resource by another cluster. The same answers name the leader, and
//! give the moment that an acquire has to carry (`asked_at`).

use super::call::Shared;
use super::error::{Cause, Error, ErrorKind};
use super::method::{Method, ShowStatus};
use super::trial::{Fault, Next, Trial};
use crate::wire::v1::{StatusRequest, StatusResponse};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;

/// How long the other endpoints may take once one has answered. One that is down or cut off must not
/// hold up each new client; should it turn out later to belong to another cluster, calls stop then.
const GRACE: Duration = Duration::from_millis(200);

type Probe = Result<StatusResponse, Fault>;

/// What one endpoint's answer says about the cluster.
enum Found {
    Ours,
    /// It is part of none yet.
    Forming(Cause),
    /// It will never be: no client port.
    Never,
    /// Not known.
    Nothing,
}

impl Shared {
    /// Returns once the endpoints that can be reached are known to belong to one cluster.
    pub(crate) async fn verify(self: &Arc<Self>, trial: &mut Trial) -> Result<(), Error> {
        if self.verified.load(Ordering::Acquire) {
            return self.refuse_mismatch(trial);
        }
        let remaining = trial.remaining(self.clock.now());
        let Ok(_turn) = tokio::time::timeout(remaining, self.verifying.lock()).await else {
            return Err(self.out_of_time(trial));
        };
        while !self.verified.load(Ordering::Acquire) {
            self.refuse_mismatch(trial)?;
            if self.ask_all(trial).await? {
                self.verified.store(true, Ordering::Release);
                break;
            }
            self.pause(trial).await?;
        }
        self.refuse_mismatch(trial)
    }

    /// Asks all endpoints at once; true when at least one belongs to a cluster, and none to another.
    async fn ask_all(self: &Arc<Self>, trial: &mut Trial) -> Result<bool, Error> {
        let limit = trial.limit(self.options.attempt_timeout, self.clock.now());
        let mut probes = JoinSet::new();
        let configured = self.known().route.configured().to_vec();
        let (count, mut never, mut forming) = (configured.len(), 0, None);
        for address in configured {
            let shared = Arc::clone(self);
            probes.spawn(async move {
                shared
                    .once::<ShowStatus>(&address, StatusRequest {}, limit)
                    .await
            });
        }
        while let Some(probe) = probes.join_next().await {
            match self.note(trial, probe)? {
                Found::Ours => return self.note_rest(trial, probes).await,
                Found::Forming(cause) => forming = Some(cause),
                Found::Never => never += 1,
                Found::Nothing => {}
            }
        }
        if never == count {
            return Err(self.end(trial, ErrorKind::BadAnswer));
        }
        if let Some(cause) = forming {
            trial.take_read(cause);
            // Who asks how the cluster is has the answer: there is none yet.
            if trial.operation == ShowStatus::NAME {
                return Err(self.end(trial, ErrorKind::Unavailable));
            }
        }
        Ok(false)
    }

    /// One endpoint belongs to a cluster. Notes the rest within the grace; aborted with the set after it.
    async fn note_rest(
        &self,
        trial: &mut Trial,
        mut probes: JoinSet<Probe>,
    ) -> Result<bool, Error> {
        let rest = async {
            while let Some(probe) = probes.join_next().await {
                self.note(trial, probe)?;
            }
            Ok(())
        };
        match tokio::time::timeout(GRACE, rest).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(true),
        }
    }

    /// Takes note of one endpoint's answer.
    fn note(
        &self,
        trial: &mut Trial,
        probe: Result<Probe, tokio::task::JoinError>,
    ) -> Result<Found, Error> {
        let Ok(answer) = probe else {
            return Ok(Found::Nothing);
        };
        match answer {
            Ok(_) => Ok(Found::Ours),
            Err(Fault { cause, next, .. }) => {
                trial.take_read(cause.clone());
                match (next, cause) {
                    (Next::Stop(kind @ ErrorKind::ClusterMismatch(_)), _) => {
                        Err(self.end(trial, kind))
                    }
                    // Another endpoint may do better.
                    (_, Cause::WrongPort { .. }) => Ok(Found::Never),
                    (_, cause @ Cause::Forming { .. }) => Ok(Found::Forming(cause)),
                    _ => Ok(Found::Nothing),
                }
            }
        }
    }
}
