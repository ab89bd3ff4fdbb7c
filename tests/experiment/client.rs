//! A client process: the test binary again, with a role in its environment.
//!
//! It loops: hold, read both registers, look at the lease, write both registers, release. It is an honest
//! program of the usual kind: it looks at its lease before it writes, and cannot know what happens between
//! the look and the write.

use std::{
    io::{self, Write as _},
    thread,
    time::Duration,
};

use fencepost::{
    client::{Client, Held, Options},
    grant::Ttl,
    resource::{Holder, ResourceName},
};
use tokio::sync::mpsc;

use crate::{
    members::Members,
    registers::{GuardedRead, LEDGER, Registers},
    script::{Order, Role, Said, Update},
};

/// Where a process finds its role.
pub(crate) const ROLE: &str = "FENCEPOST_EXPERIMENT_ROLE";
/// What a line for the harness begins with; the test binary prints lines of its own.
pub(crate) const MARK: &str = "experiment-client ";

/// How long a client stands in line for one turn: through a stop of the holder before it, and more.
const WAIT: Duration = Duration::from_secs(60);

/// The role of this process, if it is a client.
pub(crate) fn role() -> Option<Role> {
    let role = std::env::var(ROLE).ok()?;
    Some(serde_json::from_str(&role).unwrap())
}

/// Plays the role to its end.
pub(crate) fn play(role: &Role) {
    take_the_leash(role.harness);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut player = Player::new(role).await;
        while player.turn().await {}
    });
}

/// Dies with the harness, even if that is killed while we are stopped.
fn take_the_leash(harness: i32) {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get());
    assert_eq!(parent, Some(harness), "the harness has ended already");
}

struct Player<'r> {
    role: &'r Role,
    client: Client,
    resource: ResourceName,
    holder: Holder,
    ttl: Ttl,
    registers: Registers,
    orders: mpsc::UnboundedReceiver<Order>,
    /// Whether to stand still in the next critical section.
    stand_still: bool,
    /// The next number to add.
    number: u64,
}

impl<'r> Player<'r> {
    async fn new(role: &'r Role) -> Self {
        let client = Client::connect(&role.endpoints, Options::default()).unwrap();
        Self {
            role,
            client,
            resource: ResourceName::new(LEDGER).unwrap(),
            holder: Holder::new(format!("client-{}", role.number)).unwrap(),
            ttl: Ttl::from_ms(role.ttl_ms).unwrap(),
            registers: Registers::open(&role.database).await,
            orders: orders(),
            stand_still: false,
            number: role.number,
        }
    }

    /// One turn; false when there is to be no other.
    async fn turn(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::StandStill) => self.stand_still = true,
                Ok(Order::GoOn) | Err(mpsc::error::TryRecvError::Empty) => break,
                Ok(Order::End) | Err(mpsc::error::TryRecvError::Disconnected) => return false,
            }
        }
        let hold = self.client.hold(&self.resource, &self.holder);
        match hold.ttl(self.ttl).wait(WAIT).await {
            Ok(outcome) => match outcome.held() {
                Ok(held) => self.critical_section(held).await,
                Err(not) => give_up(&not.to_string()),
            },
            Err(error) => give_up(&error.to_string()),
        }
        true
    }

    async fn critical_section(&mut self, held: Held) {
        let sequencer = held.sequencer().clone();
        let number = self.number;
        self.number += self.role.clients;

        let fenced = self
            .registers
            .read_fenced(&sequencer, self.holder.as_str())
            .await;
        let unfenced = self.registers.read_unfenced().await;
        if let Err(lost) = held.check() {
            give_up(&lost.to_string());
            return;
        }
        let token = sequencer.token.get();
        if std::mem::take(&mut self.stand_still) {
            say(&Said::Inside { token });
            self.wait_for_go_on().await;
        }
        let fenced = match fenced {
            GuardedRead::Not(outcome) => outcome,
            GuardedRead::Read(members) => {
                let members = members.with(number);
                self.registers.write_fenced(&sequencer, &members).await
            }
        };
        let unfenced = match unfenced.map(|members: Members| members.with(number)) {
            Err(outcome) => outcome,
            Ok(members) => self.registers.write_unfenced(&sequencer, &members).await,
        };
        say(&Said::Update(Update {
            number,
            token,
            fenced,
            unfenced,
        }));
        // A lease that ended meanwhile cannot be given back, and one whose release is lost ends by itself.
        let _ = held.release().await;
    }

    async fn wait_for_go_on(&mut self) {
        // The end of the orders is the harness's end, and ours.
        while !matches!(self.orders.recv().await, Some(Order::GoOn) | None) {}
    }
}

/// The lines of the standard input. A thread reads them, for it may wait for ever.
fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (sender, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let order = serde_json::from_str(&line).unwrap();
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    orders
}

fn give_up(why: &str) {
    say(&Said::GaveUp { why: why.into() });
}

fn say(said: &Said) {
    let said = serde_json::to_string(said).unwrap();
    let mut out = io::stdout().lock();
    // On a line of its own, whatever the test binary has printed before.
    writeln!(out, "\n{MARK}{said}").unwrap();
    out.flush().unwrap();
}
