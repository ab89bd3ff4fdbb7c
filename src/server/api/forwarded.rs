//! Calls that other nodes passed on.

use std::{
    future::Future,
    pin::Pin,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use tonic::Status;

use super::{
    Api,
    cluster::{AddNode, Promote, RaiseFloor, RemoveNode, Revoke, TransferLeader},
    guard::{Admit, HighWater, Report},
    issuer::{Acquire, Inspect, List, Release, Renew, Withdraw},
    method::{Method, forward_status},
    watch::Position,
};
use crate::server::raft::{ForwardHandler, Forwarded};

/// Takes in what other nodes pass on. Raft is started with it before there can be an [`Api`], which
/// stands on Raft; so it is put in later, and taken out before Raft is stopped.
#[derive(Default)]
pub struct Inward(RwLock<Option<Api>>);

impl Inward {
    /// From here on calls are answered.
    pub fn open(&self, api: Api) {
        self.set(Some(api));
    }

    /// From here on they are not.
    pub fn close(&self) {
        self.set(None);
    }

    fn set(&self, api: Option<Api>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    fn api(&self) -> Option<Api> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ForwardHandler for Inward {
    fn handle<'a>(
        &'a self,
        method: String,
        body: Bytes,
        left: Duration,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send + 'a>> {
        Box::pin(async move {
            match self.api() {
                Some(api) => api.forwarded(&method, body, left).await,
                None => Forwarded::NotLeader { leader: None },
            }
        })
    }
}

impl Api {
    async fn forwarded(&self, method: &str, body: Bytes, left: Duration) -> Forwarded {
        match method {
            Acquire::PATH => self.passed::<Acquire>(body, left).await,
            Withdraw::PATH => self.passed::<Withdraw>(body, left).await,
            Renew::PATH => self.passed::<Renew>(body, left).await,
            Release::PATH => self.passed::<Release>(body, left).await,
            Inspect::PATH => self.passed::<Inspect>(body, left).await,
            List::PATH => self.passed::<List>(body, left).await,
            Position::PATH => self.passed::<Position>(body, left).await,
            Admit::PATH => self.passed::<Admit>(body, left).await,
            HighWater::PATH => self.passed::<HighWater>(body, left).await,
            Report::PATH => self.passed::<Report>(body, left).await,
            Revoke::PATH => self.passed::<Revoke>(body, left).await,
            RaiseFloor::PATH => self.passed::<RaiseFloor>(body, left).await,
            AddNode::PATH => self.passed::<AddNode>(body, left).await,
            Promote::PATH => self.passed::<Promote>(body, left).await,
            RemoveNode::PATH => self.passed::<RemoveNode>(body, left).await,
            TransferLeader::PATH => self.passed::<TransferLeader>(body, left).await,
            _ => {
                let status = Status::unimplemented(format!("this node has no method {method}"));
                Forwarded::Status(forward_status(&status))
            }
        }
    }
}
