//! Who holds a resource, and each change of it: who leads, when the resource stands for leadership.

use crate::client::error::{Error, ErrorKind};
use crate::client::method::Inspect;
use crate::client::words;
use crate::client::{Change, Client, Cursor, Moment, Watch, Watching};
use crate::resource::{Holder, ResourceName};
use crate::token::Token;
use crate::wire::v1;
use std::time::Duration;

/// How long to wait before looking again at a cluster that cannot be asked.
const PAUSE: Duration = Duration::from_millis(250);

/// Who holds a resource, under which token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Who.
    pub holder: Holder,
    /// The token of the grant.
    pub token: Token,
}

/// The holders of one resource, one after the other; see [`Client::holders`].
pub struct Holders {
    client: Client,
    resource: ResourceName,
    /// Open from the moment of the look on that `current` comes from.
    watch: Option<Watch>,
    current: Option<Holding>,
    /// What was told last; `None` before the first time.
    told: Option<Option<Holding>>,
}

impl Client {
    /// Who holds `resource`, now and after each change. It never goes back in time, and of changes that
    /// follow each other closely it may tell the last alone. For every single event there is
    /// [`watch`](Self::watch).
    #[must_use]
    pub fn holders(&self, resource: &ResourceName) -> Holders {
        Holders {
            client: self.clone(),
            resource: resource.clone(),
            watch: None,
            current: None,
            told: None,
        }
    }
}

impl Holders {
    /// Who has it now, at first, and then after the next change; `None` when nobody does. Dropping the
    /// future loses nothing.
    ///
    /// Once the cluster has answered, this waits through any outage. By the time it returns the holder may
    /// have lost the resource: whoever acts on this sends the token along.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be asked in the first place, or its answers cannot be used.
    pub async fn next(&mut self) -> Result<Option<Holding>, Error> {
        loop {
            let Some(watch) = &mut self.watch else {
                match self.look().await {
                    Ok(()) => {}
                    Err(error) if self.told.is_some() && error.may_retry() => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => return Err(error),
                }
                continue;
            };
            if self.told.as_ref() != Some(&self.current) {
                self.told = Some(self.current.clone());
                return Ok(self.current.clone());
            }
            match watch.next().await {
                Some(Ok(moment)) => follow(&mut self.current, moment),
                Some(Err(error)) if error.may_retry() => {}
                // The history does not reach back that far: look anew, and go on from there.
                Some(Err(error)) if matches!(error.kind(), ErrorKind::HistoryLost { .. }) => {
                    self.watch = None;
                }
                Some(Err(error)) => return Err(error),
                None => self.watch = None,
            }
        }
    }

    /// Looks who has it, and watches from the very moment of that look on.
    async fn look(&mut self) -> Result<(), Error> {
        let client = &self.client;
        let mut trial = client.shared.trial::<Inspect>();
        let request = |_| v1::InspectRequest {
            resource: self.resource.to_string(),
            ..v1::InspectRequest::default()
        };
        let answer = client.shared.call::<Inspect>(&mut trial, request).await?;
        let response = answer.response;
        let read = || -> Result<_, words::Unreadable> {
            let header = words::required(response.header, "header")?;
            let cursor = Cursor {
                cluster: header.cluster_id.parse()?,
                index: header.applied_index,
            };
            Ok((cursor, response.grant.map(words::grant).transpose()?))
        };
        let (cursor, grant) = read().map_err(|unreadable| client.bad_answer(&trial, unreadable))?;
        self.current = grant.map(|grant| Holding {
            holder: grant.holder,
            token: grant.token,
        });
        self.watch = Some(client.watch(Watching::resource(&self.resource).after(cursor)));
        Ok(())
    }
}

/// What all of one moment comes to.
fn follow(current: &mut Option<Holding>, moment: Moment) {
    for event in moment.events {
        match event.change {
            Change::Granted { token, .. } => {
                let holder = event.holder;
                *current = Some(Holding { holder, token });
            }
            Change::Ended { token, .. }
                if current.as_ref().is_some_and(|held| held.token == token) =>
            {
                *current = None;
            }
            _ => {}
        }
    }
}
