//! The run: clients take turns, and every few seconds the one inside is stopped until others have written.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{
    client, databases,
    nodes::Cluster,
    process::ClientProcess,
    registers::{ISSUER, Registers},
    report::{Report, Side, Verdict},
    script::{Order, Outcome, Role, Said},
    settings::Settings,
    tally::{Tally, Updates},
    waiting::PATIENCE,
};

const TEST: &str = "story::what_a_stopped_holder_writes_late_is_refused_and_nothing_is_lost";

/// How often the harness looks whether its clients are still there.
const LOOK: Duration = Duration::from_millis(250);

/// The test, and what each of its client processes runs, too.
#[test]
fn what_a_stopped_holder_writes_late_is_refused_and_nothing_is_lost() {
    if let Some(role) = client::role() {
        return client::play(&role);
    }
    let Some(postgres) = databases::postgres() else {
        return;
    };
    // One thread: the clients end with the thread that started them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = runtime.block_on(async {
        let database = postgres.fresh("experiment").await;
        run(Settings::from_environment(), database).await
    });
    println!("{report}");
    assert_eq!(report.verdict(), Verdict::Held, "\n{report}");
}

async fn run(settings: Settings, database: String) -> Report {
    let registers = Registers::create(&database).await;
    let mut cluster = Cluster::planned(3).await;
    cluster.set("issuer", ISSUER);
    cluster.start_all();
    cluster.ready().await;

    let mut story = Story::begin(settings, &cluster, &database);
    story.play().await;
    let mut report = story.end().await;
    let (fenced, unfenced) = registers.values().await;
    let side = async |name: &str, updates: &Updates, value| Side {
        acknowledged: updates.acknowledged.len() as u64,
        lost: updates.lost(value),
        refused: updates.refused.len() as u64,
        refused_in_vain: updates.refused_in_vain(value),
        unknown: updates.unknown.len() as u64,
        made_by_nobody: updates.made_by_nobody(value),
        steps_back: registers.steps_back(name).await,
    };
    report.fenced = side("fenced", &story.tally.fenced, &fenced).await;
    report.unfenced = side("unfenced", &story.tally.unfenced, &unfenced).await;
    report
}

struct Story {
    settings: Settings,
    clients: Vec<ClientProcess>,
    heard: UnboundedReceiver<(u64, Said)>,
    tally: Tally,
    began: Instant,
    stops: u64,
    stood_still: Duration,
    stopped_and_refused: u64,
}

impl Story {
    fn begin(settings: Settings, cluster: &Cluster, database: &str) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let harness = std::process::id().cast_signed();
        let endpoints: Vec<String> = cluster.endpoints().split(',').map(str::to_owned).collect();
        let spawn = |number| {
            let role = Role {
                number,
                clients: settings.clients,
                ttl_ms: u64::try_from(settings.ttl.as_millis()).unwrap(),
                endpoints: endpoints.clone(),
                database: database.to_owned(),
                harness,
            };
            ClientProcess::spawn(TEST, &role, sender.clone())
        };
        Self {
            clients: (0..settings.clients).map(spawn).collect(),
            settings,
            heard,
            tally: Tally::default(),
            began: Instant::now(),
            stops: 0,
            stood_still: Duration::ZERO,
            stopped_and_refused: 0,
        }
    }

    async fn play(&mut self) {
        let mut next = self.began + self.settings.stop_every;
        let mut turn = 0;
        while !self.enough() {
            let is_time =
                |_: &Tally, _: Option<&(u64, Said)>| (Instant::now() >= next).then_some(());
            self.listen_until("the next stop", self.settings.at_most, is_time)
                .await;
            self.stop_a_holder(turn % self.settings.clients).await;
            turn += 1;
            next = Instant::now().max(next + self.settings.stop_every);
        }
    }

    /// The run has seen what it is to see, or has taken too long for it.
    fn enough(&self) -> bool {
        let took = self.began.elapsed();
        let counted = self.tally.fenced.acknowledged.len() as u64 >= self.settings.updates
            && self.stops >= self.settings.stops;
        took >= self.settings.at_least && (counted || took >= self.settings.at_most)
    }

    /// Stops a client between its look at the lease and its writes, until others have written.
    async fn stop_a_holder(&mut self, client: u64) {
        let at = usize::try_from(client).unwrap();
        self.clients[at].order(Order::StandStill);
        let inside = |_: &Tally, heard: Option<&(u64, Said)>| match heard {
            Some((who, Said::Inside { token })) if *who == client => Some(*token),
            _ => None,
        };
        let token = self
            .listen_until("the client is inside", PATIENCE, inside)
            .await;
        self.clients[at].stop().await;
        let stopped = Instant::now();
        // It finds this when it goes on, and does what it was about to do.
        self.clients[at].order(Order::GoOn);
        let others = self.settings.others;
        let written = |tally: &Tally, _: Option<&(u64, Said)>| {
            (tally.written_after(client, token) >= others).then_some(())
        };
        let patience = PATIENCE + self.settings.ttl;
        self.listen_until("others write", patience, written).await;
        self.clients[at].resume();
        self.stood_still += stopped.elapsed();
        let late = |_: &Tally, heard: Option<&(u64, Said)>| match heard {
            Some((who, Said::Update(update))) if *who == client => Some(update.fenced.clone()),
            _ => None,
        };
        let outcome = self
            .listen_until("the stopped client writes", PATIENCE, late)
            .await;
        // One whose outcome nobody knows says nothing about the guard, and is no stop.
        self.stops += u64::from(!matches!(outcome, Outcome::Unknown { .. }));
        self.stopped_and_refused += u64::from(matches!(outcome, Outcome::Stale { .. }));
    }

    /// Takes in what clients say until `found` finds something in it, or in what was said just now.
    async fn listen_until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut found: impl FnMut(&Tally, Option<&(u64, Said)>) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + within;
        loop {
            let heard = tokio::time::timeout(LOOK, self.heard.recv()).await;
            let heard = heard
                .ok()
                .map(|heard| heard.expect("the clients are there"));
            match &heard {
                Some((client, said)) => self.tally.take(*client, said),
                None => self
                    .clients
                    .iter_mut()
                    .for_each(ClientProcess::assert_alive),
            }
            if let Some(found) = found(&self.tally, heard.as_ref()) {
                return found;
            }
            assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        }
    }

    /// Lets every client finish its turn, and hears all that they have said.
    async fn end(&mut self) -> Report {
        let took = self.began.elapsed();
        for client in &mut self.clients {
            client.order(Order::End);
        }
        for client in self.clients.drain(..) {
            client.ended(PATIENCE + self.settings.ttl).await;
        }
        // The listening threads end with the pipes, and let go of the senders.
        let rest = async {
            while let Some((client, said)) = self.heard.recv().await {
                self.tally.take(client, &said);
            }
        };
        let heard = tokio::time::timeout(PATIENCE, rest).await;
        heard.expect("what the clients said ends with them");
        for why in &self.tally.gave_up {
            println!("a turn without an update: {why}");
        }
        Report {
            took,
            clients: self.settings.clients,
            ttl: self.settings.ttl,
            stops: self.stops,
            stood_still: self.stood_still,
            stopped_and_refused: self.stopped_and_refused,
            gave_up: self.tally.gave_up.len() as u64,
            updates_wanted: self.settings.updates,
            stops_wanted: self.settings.stops,
            ..Report::default()
        }
    }
}
