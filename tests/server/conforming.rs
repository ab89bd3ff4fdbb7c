//! The cluster's own register, held to the promise of all guards by the public kit. Each case gets a
//! cluster of its own, and each handle a client that begins at a node of its own.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use fencepost::{
    client::{Client, Options},
    fence::{
        EqualTokens,
        conformance::{Case, Fault, Guards, Outcome, Profile, Settings, check_only},
    },
    wire::v1,
};

use crate::nodes::{Nodes, acquire, granted};

const NODES: usize = 3;

/// A cluster whose nodes are closed when nobody uses it any more.
struct Place {
    nodes: Mutex<Option<Nodes>>,
    addresses: Vec<String>,
    next: AtomicUsize,
}

impl Place {
    /// The register admits only what was issued. The kit brings numbers of its own, so all of those that
    /// the clock lets an issuer come to are made to have been.
    async fn make() -> Result<Arc<Self>, Fault> {
        let nodes = Nodes::start(NODES).await;
        let leader = nodes.leader().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
        let above = u64::try_from(now)? - 1_000_000;
        nodes
            .cluster(leader)
            .raise_floor(v1::RaiseFloorRequest { above })
            .await?;
        granted(&mut nodes.issuer(leader), acquire("r", "a", 60_000)).await;
        let address = |n| nodes.node(n).addresses().client.to_string();
        Ok(Arc::new(Self {
            addresses: (0..NODES).map(address).collect(),
            nodes: Mutex::new(Some(nodes)),
            next: AtomicUsize::new(0),
        }))
    }

    fn client(&self) -> Result<Client, Fault> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let address = &self.addresses[first % NODES];
        Ok(Client::connect([address], Options::default())?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut nodes) = self.nodes.lock().unwrap().take() {
            tokio::spawn(async move {
                for n in 0..NODES {
                    nodes.crash(n).await;
                }
            });
        }
    }
}

/// What cannot be tried: numbers that no issuer comes to are never admitted here, and that marks outlive
/// the processes is for the tests of the cluster, which kill them.
const NOT_ISSUED: [Case; 2] = [Case::ExactTokens, Case::LargestToken];

async fn conforms(equal: EqualTokens) {
    let profile = Profile::new("the cluster's own register")
        .issued_by("fencepost".parse().unwrap())
        .equal_tokens(equal);
    let open =
        move |place: Arc<Place>| async move { Ok(Arc::new(place.client()?.register(equal))) };
    let subject = Guards::new(profile, Place::make, open);
    let cases: Vec<_> = Case::ALL
        .into_iter()
        .filter(|case| !NOT_ISSUED.contains(case))
        .collect();
    let settings = Settings::default().rounds(4).resources(40);
    let report = check_only(&subject, &settings, &cases).await;
    println!("{report}");
    assert!(report.conforms(), "\n{report}");
    let held = report
        .cases
        .iter()
        .filter(|case| case.outcome == Outcome::Held);
    let held: Vec<_> = held.map(|case| case.case).collect();
    for case in [
        Case::StaleToken,
        Case::EqualToken,
        Case::ReorderedDelivery,
        Case::ResourcesApart,
        Case::ForeignIssuer,
        Case::SharedMarks,
        Case::ConcurrentWriters,
    ] {
        assert!(
            held.contains(&case),
            "{} was not tried:\n{report}",
            case.id()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_register_keeps_the_promise_of_all_guards() {
    conforms(EqualTokens::MayWriteAgain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_register_keeps_it_where_each_token_passes_once() {
    conforms(EqualTokens::Once).await;
}
