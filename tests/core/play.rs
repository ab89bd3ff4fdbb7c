//! Plays random commands on a subject and on the oracle, and compares all that can be seen.

use fencepost::issuer::{
    Applied, Bounds, Command, Event, InstanceId, LogId, Machine, NodeId, Outcome, encode_command,
};
use fencepost::resource::ResourceName;

use crate::dice::Dice;
use crate::oracle::{Made, Oracle};
use crate::scene::{cluster, machine_within, resource, token};
use crate::traffic::{RESOURCES, Traffic};

/// Small enough that ids are forgotten and grants refused all the time.
pub(crate) const BOUNDS: Bounds = Bounds {
    settled_ids_max: 12,
    live_grants_max: 4,
    grants_per_holder_max: 3,
    waiters_max: 4,
    waiters_per_resource_max: 2,
    marks_max: 4,
};

/// What is played on: the core, or a core with a planted bug.
pub(crate) trait Subject {
    fn new(machine: Machine) -> Self;
    fn apply(&mut self, at: LogId, command: &Command) -> Applied;
    /// The state goes through a snapshot.
    fn cut(&mut self);
    fn machine(&mut self) -> &mut Machine;
}

/// The core as it is.
pub(crate) struct Core(Machine);

impl Subject for Core {
    fn new(machine: Machine) -> Self {
        Self(machine)
    }

    fn apply(&mut self, at: LogId, command: &Command) -> Applied {
        self.0.apply(at, command).unwrap()
    }

    fn cut(&mut self) {
        self.0 = through_snapshot(&self.0);
    }

    fn machine(&mut self) -> &mut Machine {
        &mut self.0
    }
}

pub(crate) fn through_snapshot(machine: &Machine) -> Machine {
    let bytes = machine.snapshot().concat();
    let restored = Machine::read_snapshot(&bytes[..]).unwrap();
    assert_eq!(
        restored.snapshot().concat(),
        bytes,
        "a snapshot of a snapshot differs"
    );
    restored
}

/// What an entry of a recorded log carried.
#[derive(Debug, Clone)]
pub(crate) enum Carried {
    Blank,
    Members(Vec<(NodeId, InstanceId)>),
    Command(Vec<u8>),
}

/// One entry of a recorded log, and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: LogId,
    pub(crate) carried: Carried,
    pub(crate) applied: Option<Applied>,
    pub(crate) chain: [u8; 32],
}

/// What a play came upon, so that a test can tell that it was no walk in the park.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) commands: u64,
    pub(crate) cuts: u64,
    pub(crate) words: std::collections::BTreeMap<String, u64>,
}

impl Seen {
    fn note(&mut self, outcome: &Outcome, events: &[Event]) {
        let mut count = |word: String| *self.words.entry(word).or_default() += 1;
        let of = match outcome {
            Outcome::Promote(_) => "promotion",
            Outcome::Admit(_) => "admission",
            _ => "outcome",
        };
        count(format!("{of} {}", outcome.name()));
        if let Outcome::Renew(each) = outcome {
            each.iter()
                .for_each(|renewal| count(format!("renewal {}", renewal.name())));
        }
        if let Outcome::Withdraw(each) = outcome {
            each.iter()
                .for_each(|place| count(format!("withdrawal {}", place.name())));
        }
        events
            .iter()
            .for_each(|event| count(format!("event {}", event.name())));
    }
}

/// Plays `steps` entries of `seed`. `Err` says what the oracle saw otherwise.
pub(crate) fn play<S: Subject>(
    seed: u64,
    steps: u64,
    seen: &mut Seen,
) -> Result<Vec<Entry>, String> {
    let mut dice = Dice::new(seed);
    let mut traffic = Traffic::new(Dice::new(!seed));
    let mut subject = S::new(machine_within(BOUNDS));
    let mut oracle = Oracle::new(cluster(), BOUNDS);
    let mut log = Vec::new();
    for _ in 0..steps {
        let at = traffic.step();
        let (carried, applied) = match dice.below(30) {
            0 => {
                subject.machine().apply_blank(at).unwrap();
                (Carried::Blank, None)
            }
            1 => {
                let members = vec![(1 + dice.below(9), InstanceId::new(dice.next().into()))];
                subject.machine().apply_members(at, &members).unwrap();
                (Carried::Members(members), None)
            }
            _ => {
                let command = traffic.command();
                let applied = subject.apply(at, &command);
                let expected = oracle.apply(at, &command);
                if (&applied.outcome, &applied.events) != (&expected.0, &expected.1) {
                    return Err(format!(
                        "seed {seed}, entry {at}\ncommand {command:#?}\ngave {applied:#?}\n\
                         the oracle says {expected:#?}"
                    ));
                }
                traffic.learn(&applied.events);
                seen.commands += 1;
                seen.note(&applied.outcome, &applied.events);
                (
                    Carried::Command(encode_command(&command).unwrap()),
                    Some(applied),
                )
            }
        };
        if dice.one_in(25) {
            subject.cut();
            seen.cuts += 1;
        }
        same_views(subject.machine(), &oracle, &mut dice)
            .map_err(|what| format!("seed {seed}, entry {at}: {what}"))?;
        log.push(Entry {
            at,
            carried,
            applied,
            chain: subject.machine().chain(),
        });
    }
    Ok(log)
}

/// Everything that can be read off the state is what the oracle says.
fn same_views(machine: &Machine, oracle: &Oracle, dice: &mut Dice) -> Result<(), String> {
    let mut live: Vec<&Made> = oracle.live().collect();
    expect("live grants", machine.live_grants(), live.len())?;
    expect("known ids", machine.known_request_ids(), oracle.known_ids())?;
    expect("floor", u128::from(machine.floor()), oracle.floor)?;
    let last = oracle.made.last().map(|made| made.token.value());
    expect("last token", machine.last_token(), last)?;
    let any = resource(RESOURCES[at_most(dice, RESOURCES.len() - 1)]);
    let inspected = machine.inspect(&any).map(|grant| grant.token);
    let living = live
        .iter()
        .find(|made| made.resource == any)
        .map(|made| made.token);
    expect("inspect", inspected, living)?;
    same_queues(machine, oracle, dice)?;
    same_marks(machine, oracle, dice)?;
    if let Some(made) = oracle.made.get(at_most(dice, oracle.made.len())) {
        let token = made.token.value();
        expect(
            "how ended",
            machine.how_ended(token),
            oracle.how_ended(token),
        )?;
    }
    live.sort_by(|one, other| one.resource.as_str().cmp(other.resource.as_str()));
    let prefix = *dice.pick(&["", "a", "a/", "ä", "z"]);
    let after = *dice.pick(&[None, Some("a"), Some("a/bb"), Some("日本")]);
    let listed = list(machine, prefix, after, 1 + at_most(dice, 3));
    let expected = live.into_iter().filter(|made| {
        let name = made.resource.as_str();
        name.starts_with(prefix) && after.is_none_or(|after| name > after)
    });
    expect("list", listed, expected.map(description).collect())
}

/// Who waits for what, in which order, and how any request stands.
fn same_queues(machine: &Machine, oracle: &Oracle, dice: &mut Dice) -> Result<(), String> {
    expect("waiters", machine.waiters_len(), oracle.waiting().count())?;
    let mut free = Vec::new();
    for name in RESOURCES {
        let name = resource(name);
        let line = oracle.line_of(&name);
        let should: Vec<_> = line.iter().map(|place| oracle.asked[*place].key).collect();
        let is: Vec<_> = machine
            .waiters(&name)
            .map(|waiter| waiter.request)
            .collect();
        expect("queue", is, should)?;
        expect(
            "queue length",
            machine.queue_len(&name) as usize,
            line.len(),
        )?;
        if !line.is_empty() && machine.inspect(&name).is_none() {
            free.push(name.clone());
        }
        for place in line {
            let holder = &oracle.asked[place].holder;
            let position = machine.position(&name, holder);
            expect("position", position, Some(oracle.position(place)))?;
        }
    }
    free.sort();
    expect("promotable", machine.promotable(99), free)?;
    let mut places: Vec<_> = machine.places().collect();
    let mut should: Vec<_> = oracle
        .waiting()
        .map(|asked| (asked.key, asked.attempt))
        .collect();
    places.sort();
    should.sort();
    expect("places", places, should)?;
    if oracle.asked.is_empty() {
        return Ok(());
    }
    let any = dice.pick(&oracle.asked).key;
    expect("standing", machine.standing(&any), oracle.standing(&any))
}

/// The register, and what the issuer accounts for.
fn same_marks(machine: &Machine, oracle: &Oracle, dice: &mut Dice) -> Result<(), String> {
    for name in RESOURCES.map(resource) {
        let (is, should) = (machine.high_water(&name), oracle.high_water(&name));
        expect("high-water mark", is, should)?;
    }
    let (is, should) = (machine.high_water_marks(), oracle.high_water_marks());
    expect("high-water marks", is, should)?;
    let last = machine.last_token().map_or(0, |token| token.get());
    let around = token((last + dice.below(3)).max(2) - 1);
    let is = machine.accounts_for(around);
    expect("accounted for", is, oracle.accounts_for(around))
}

fn at_most(dice: &mut Dice, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64 + 1)).unwrap()
}

/// All pages of a listing.
fn list(machine: &Machine, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    let mut listed = Vec::new();
    let mut after = after.map(str::to_owned);
    loop {
        let page = machine.list(prefix, after.as_deref(), limit);
        assert!(page.grants.len() <= limit);
        for grant in &page.grants {
            listed.push(format!(
                "{} {} {} {} {} {}",
                grant.resource,
                grant.token,
                grant.ttl,
                grant.renewals,
                grant.granted_at_ms,
                grant.expires_at_ms
            ));
        }
        if !page.more {
            return listed;
        }
        after = page
            .grants
            .last()
            .map(|grant| ResourceName::to_string(&grant.resource));
    }
}

fn description(made: &Made) -> String {
    format!(
        "{} {} {} {} {} {}",
        made.resource, made.token, made.ttl, made.renewals, made.granted_at_ms, made.expires_at_ms
    )
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should {
        Ok(())
    } else {
        Err(format!("{what}: {is:?}, and the oracle says {should:?}"))
    }
}
