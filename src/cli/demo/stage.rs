//! What the story plays on: a temporary directory, the nodes, a client, and the guarded file.

use std::{path::PathBuf, time::Duration};

use fencepost::{
    client::{AcquireOutcome, Acquired, Client, HeldBy, Leader, LiveGrant, Options},
    fence::{
        sql::{SqlError, WriteOutcome},
        sqlite::{Document, Documents},
    },
    grant::Ttl,
    resource::{Holder, IssuerName, NameError, ResourceName},
};

use super::{
    super::exit::{Failure, UNEXPECTED},
    holder,
    nodes::Nodes,
    puppet::Puppet,
};

/// Who issues; the guard is told so.
const ISSUER: &str = "demo";

/// How long a call may take, a cluster that is just starting included.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often something that must come is looked for.
const LOOK: Duration = Duration::from_millis(25);

/// How often somebody who is refused asks again.
const INSIST: Duration = Duration::from_millis(100);

/// Everything that must be taken down at the end.
pub(super) struct Stage {
    pub(super) nodes: Nodes,
    pub(super) client: Client,
    pub(super) documents: Documents,
    /// The holder's process, while there is one.
    pub(super) puppet: Option<Puppet>,
    pub(super) file: PathBuf,
    issuer: IssuerName,
    directory: tempfile::TempDir,
}

impl Stage {
    /// Makes the directory and the file; starts no process yet.
    pub(super) async fn set() -> Result<Self, Failure> {
        let directory = tempfile::Builder::new()
            .prefix("fencepost-demo-")
            .tempdir()?;
        let issuer = IssuerName::new(ISSUER).map_err(unnamed)?;
        let nodes = Nodes::plan(directory.path(), ISSUER)?;
        let client = Client::connect(nodes.endpoints(), Options::default().timeout(PATIENCE))
            .map_err(|error| Failure::new(UNEXPECTED, error))?;
        let file = directory.path().join("reports.db");
        let documents = Documents::open(&file, issuer.clone()).await.map_err(sql)?;
        Ok(Self {
            nodes,
            client,
            documents,
            puppet: None,
            file,
            issuer,
            directory,
        })
    }

    /// Waits until every node that runs names the same leader, and a new one if `not` is given.
    pub(super) async fn leader(&mut self, not: Option<u64>) -> Result<Leader, Failure> {
        let found = async {
            loop {
                self.nodes.all_run()?;
                if let Some(leader) = self.agreed().await.filter(|it| Some(it.node_id) != not) {
                    return Ok(leader);
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| {
                let waited = PATIENCE.as_secs();
                let message = format!("the nodes agreed on no leader within {waited} s");
                Err(Failure::new(UNEXPECTED, message))
            })
    }

    /// The leader that all running nodes name, if they do.
    async fn agreed(&self) -> Option<Leader> {
        let mut agreed: Option<Leader> = None;
        for id in self.nodes.ids().filter(|id| self.nodes.pid(*id).is_some()) {
            let address = self.nodes.endpoint(id)?.to_string().parse().ok()?;
            let named = self.client.status_of(&address).await.ok()?.leader?;
            let other = agreed.get_or_insert_with(|| named.clone());
            if (other.node_id, other.term) != (named.node_id, named.term) {
                return None;
            }
        }
        agreed
    }

    /// Lets the holder's process begin.
    pub(super) fn begin_holder(
        &mut self,
        name: &str,
        resource: &str,
        ttl: Ttl,
    ) -> Result<(), Failure> {
        let args = holder::Args {
            name: Holder::new(name).map_err(unnamed)?,
            resource: self::resource(resource)?,
            ttl_ms: ttl.as_ms(),
            file: self.file.clone(),
            issuer: self.issuer.clone(),
            nodes: self.nodes.endpoints(),
        };
        self.puppet = Some(Puppet::start(&args, self.directory.path())?);
        Ok(())
    }

    /// The holder's process, which the story has begun.
    pub(super) fn puppet(&mut self) -> Result<&mut Puppet, Failure> {
        self.puppet
            .as_mut()
            .ok_or_else(|| Failure::new(UNEXPECTED, "the holder has not begun"))
    }

    /// Asks once.
    pub(super) async fn ask(
        &mut self,
        holder: &str,
        resource: &str,
        ttl: Ttl,
    ) -> Result<Result<Acquired, HeldBy>, Failure> {
        let holder = Holder::new(holder).map_err(unnamed)?;
        let resource = self::resource(resource)?;
        let outcome = self.client.acquire(&resource, &holder, ttl).await;
        // A node that broke says more than a call that failed.
        self.nodes.all_run()?;
        match outcome.map_err(|error| Failure::new(UNEXPECTED, error))? {
            AcquireOutcome::Granted(acquired) => Ok(Ok(acquired)),
            AcquireOutcome::Held(held) => Ok(Err(held)),
            AcquireOutcome::Ended(ended) => {
                let message = format!("the grant had already ended: {}", ended.how);
                Err(Failure::new(UNEXPECTED, message))
            }
            AcquireOutcome::Left(how) => {
                let message = format!("left a line that it did not stand in: {how}");
                Err(Failure::new(UNEXPECTED, message))
            }
        }
    }

    /// Asks again and again, until it is granted.
    pub(super) async fn insist(
        &mut self,
        holder: &str,
        resource: &str,
        ttl: Ttl,
    ) -> Result<Acquired, Failure> {
        let granted = async {
            loop {
                if let Ok(acquired) = self.ask(holder, resource, ttl).await? {
                    return Ok(acquired);
                }
                tokio::time::sleep(INSIST).await;
            }
        };
        tokio::time::timeout(PATIENCE, granted)
            .await
            .unwrap_or_else(|_| {
                let waited = PATIENCE.as_secs();
                let message = format!("{holder} was not granted {resource} within {waited} s");
                Err(Failure::new(UNEXPECTED, message))
            })
    }

    /// Who holds a resource.
    pub(super) async fn holder_of(&mut self, resource: &str) -> Result<Option<LiveGrant>, Failure> {
        let found = self.client.inspect(&self::resource(resource)?).await;
        self.nodes.all_run()?;
        found
            .map(|found| found.grant)
            .map_err(|error| Failure::new(UNEXPECTED, error))
    }

    /// Writes to the file under a grant.
    pub(super) async fn write(
        &self,
        acquired: &Acquired,
        text: &str,
    ) -> Result<WriteOutcome, Failure> {
        self.documents
            .write(&acquired.sequencer, text)
            .await
            .map_err(sql)
    }

    /// What the file says.
    pub(super) async fn read(&self, resource: &str) -> Result<Option<Document>, Failure> {
        self.documents
            .read(&self::resource(resource)?)
            .await
            .map_err(sql)
    }

    /// Takes everything down. The directory goes too, unless it is to be kept.
    pub(super) async fn strike(mut self, keep: bool) -> Result<Option<PathBuf>, Failure> {
        if let Some(puppet) = self.puppet.take() {
            puppet.end().await?;
        }
        self.nodes.sigkill_all().await?;
        self.documents.close().await;
        if keep {
            return Ok(Some(self.directory.keep()));
        }
        self.directory.close()?;
        Ok(None)
    }
}

fn resource(name: &str) -> Result<ResourceName, Failure> {
    ResourceName::new(name).map_err(unnamed)
}

fn unnamed(error: NameError) -> Failure {
    Failure::new(UNEXPECTED, error)
}

fn sql(error: SqlError) -> Failure {
    Failure::new(UNEXPECTED, error)
}
