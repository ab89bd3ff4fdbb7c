//! Planted bugs: an oracle that lets one of these pass proves nothing, so each must be caught.

use std::collections::BTreeMap;

use fencepost::grant::LeftHow;
use fencepost::issuer::{
    Acquire, AcquireOutcome, Admit, AdmitOutcome, Applied, Command, DueLease, Event, LogId,
    Machine, Outcome, Release, RequestKey, Revoke, Standing, Withdraw, WithdrawOutcome,
};
use fencepost::resource::ResourceName;
use fencepost::token::{Token, TokenValue};

use crate::doctored::{with_queues_reversed, without_marks};
use crate::play::{Seen, Subject, play, through_snapshot};

/// A core around which something is done wrong.
struct Planted<B> {
    machine: Machine,
    cuts: u8,
    resources: BTreeMap<TokenValue, ResourceName>,
    bug: std::marker::PhantomData<B>,
}

/// What is done wrong: to a command before it is applied, or to what came of it.
trait Bug {
    fn before(_planted: &Planted<Self>, command: Command) -> Command
    where
        Self: Sized,
    {
        command
    }

    fn after(_planted: &mut Planted<Self>, _applied: &mut Applied)
    where
        Self: Sized,
    {
    }

    /// The state goes through a snapshot.
    fn cut(planted: &mut Planted<Self>)
    where
        Self: Sized,
    {
        planted.machine = through_snapshot(&planted.machine);
    }

    /// A leader of a new term takes over.
    fn new_term(_planted: &mut Planted<Self>)
    where
        Self: Sized,
    {
    }
}

impl<B: Bug> Subject for Planted<B> {
    fn new(machine: Machine) -> Self {
        Self {
            machine,
            cuts: 0,
            resources: BTreeMap::new(),
            bug: std::marker::PhantomData,
        }
    }

    fn apply(&mut self, at: LogId, command: &Command) -> Applied {
        if at.term > self.machine.applied().term {
            B::new_term(self);
        }
        let command = B::before(self, command.clone());
        let mut applied = self.machine.apply(at, &command).unwrap();
        for event in &applied.events {
            if let Event::Granted {
                resource, token, ..
            } = event
            {
                self.resources.insert(token.value(), resource.clone());
            }
        }
        B::after(self, &mut applied);
        applied
    }

    fn cut(&mut self) {
        B::cut(self);
        self.cuts = self.cuts.wrapping_add(1);
    }

    fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

impl<B> Planted<B> {
    /// The token of whoever has the resource that this token was for.
    fn whoever_has_it_now(&self, token: TokenValue) -> TokenValue {
        let resource = self.resources.get(&token);
        let grant = resource.and_then(|resource| self.machine.inspect(resource));
        grant.map_or(token, |grant| grant.token.value())
    }
}

/// How many of 40 short plays the oracle objects to.
fn caught<B: Bug>() -> usize {
    caught_in::<B>(400)
}

/// The same for longer plays: some bugs take a rare meeting to show.
fn caught_in<B: Bug>(steps: u64) -> usize {
    let objects = |seed: &u64| play::<Planted<B>>(*seed, steps, &mut Seen::default()).is_err();
    let caught = (0..40).filter(objects).count();
    println!("caught in {caught} of 40 plays of {steps} entries");
    caught
}

struct Nothing;
impl Bug for Nothing {}

#[test]
fn without_a_bug_the_oracle_objects_to_nothing() {
    assert_eq!(caught::<Nothing>(), 0);
}

struct CounterResetBySnapshot;
impl Bug for CounterResetBySnapshot {
    fn after(planted: &mut Planted<Self>, applied: &mut Applied) {
        let granted = &mut applied.outcome;
        if let Outcome::Acquire(AcquireOutcome::Granted { token, .. }) = granted {
            let value = token.value().get() - u64::from(planted.cuts);
            *token = Token::new(TokenValue::new(value).unwrap(), token.term(), token.index());
        }
    }
}

#[test]
fn a_token_counter_that_a_snapshot_resets_is_caught() {
    assert_eq!(caught::<CounterResetBySnapshot>(), 40);
}

struct ReleaseByResource;
impl Bug for ReleaseByResource {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        match command {
            Command::Release(release) => Command::Release(Release {
                token: planted.whoever_has_it_now(release.token),
                ..release
            }),
            other => other,
        }
    }
}

#[test]
fn a_release_that_checks_the_resource_only_is_caught() {
    assert_eq!(caught::<ReleaseByResource>(), 40);
}

struct IdsLostBySnapshot;
impl Bug for IdsLostBySnapshot {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        match command {
            // Under another name after each snapshot, an id is as good as forgotten.
            Command::Acquire(acquire) => {
                let request = renamed(acquire.request, planted.cuts);
                Command::Acquire(Acquire { request, ..acquire })
            }
            other => other,
        }
    }

    fn after(planted: &mut Planted<Self>, applied: &mut Applied) {
        for event in &mut applied.events {
            if let Event::Granted { request, .. } = event {
                *request = renamed(*request, planted.cuts);
            }
        }
    }
}

fn renamed(key: RequestKey, cuts: u8) -> RequestKey {
    RequestKey::from_bytes(key.as_bytes().map(|byte| byte ^ cuts))
}

#[test]
fn request_ids_that_a_snapshot_loses_are_caught() {
    assert_eq!(caught::<IdsLostBySnapshot>(), 40);
}

struct ExpireWithoutComparing;
impl Bug for ExpireWithoutComparing {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        let Command::Expire(mut expire) = command else {
            return command;
        };
        for DueLease { token, renewals } in &mut expire.leases {
            *renewals = planted
                .machine
                .grant(*token)
                .map_or(*renewals, |grant| grant.renewals);
        }
        Command::Expire(expire)
    }
}

#[test]
fn an_expiry_that_does_not_compare_renewals_is_caught() {
    // It takes a renewal, and an expiry of before it, on one grant: some plays have none.
    assert!(caught_in::<ExpireWithoutComparing>(1_200) >= 30);
}

struct LateCopyActsAgain;
impl Bug for LateCopyActsAgain {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        let Command::Acquire(acquire) = command else {
            return command;
        };
        let mut ahead = through_snapshot(&planted.machine);
        let applied = ahead.applied();
        let next = LogId::new(applied.term.max(1), applied.index + 1);
        let outcome = ahead
            .apply(next, &Command::Acquire(acquire.clone()))
            .unwrap()
            .outcome;
        if !matches!(outcome, Outcome::Acquire(AcquireOutcome::Ended { .. })) {
            return Command::Acquire(acquire);
        }
        let request = renamed(acquire.request, 0xff);
        Command::Acquire(Acquire {
            request,
            asked_at: None,
            ..acquire
        })
    }
}

#[test]
fn a_late_copy_of_an_acquire_that_acts_again_after_the_release_is_caught() {
    assert_eq!(caught::<LateCopyActsAgain>(), 40);
}

struct RevokeByResource;
impl Bug for RevokeByResource {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        match command {
            Command::Revoke(revoke) => Command::Revoke(Revoke {
                token: planted.whoever_has_it_now(revoke.token),
                ..revoke
            }),
            other => other,
        }
    }
}

#[test]
fn a_retried_revocation_that_ends_the_successor_is_caught() {
    assert_eq!(caught::<RevokeByResource>(), 40);
}

struct EventsInHashOrder;
impl Bug for EventsInHashOrder {
    fn after(_planted: &mut Planted<Self>, applied: &mut Applied) {
        applied.events.reverse();
    }
}

#[test]
fn events_in_an_order_that_a_hash_map_chose_are_caught() {
    assert_eq!(caught::<EventsInHashOrder>(), 40);
}

struct GoneIsGranted;
impl Bug for GoneIsGranted {
    fn before(_planted: &Planted<Self>, command: Command) -> Command {
        match command {
            // Such a withdrawal acts on nothing, whoever is gone.
            Command::Withdraw(withdraw) => Command::Withdraw(Withdraw {
                how: LeftHow::Superseded,
                ..withdraw
            }),
            other => other,
        }
    }

    fn after(_planted: &mut Planted<Self>, applied: &mut Applied) {
        // And claims that it did.
        if let Outcome::Withdraw(each) = &mut applied.outcome {
            for outcome in each
                .iter_mut()
                .filter(|one| **one == WithdrawOutcome::Stale)
            {
                let how = LeftHow::Withdrawn;
                *outcome = WithdrawOutcome::Left { how };
            }
        }
    }
}

#[test]
fn a_waiter_that_is_granted_although_it_is_gone_is_caught() {
    assert_eq!(caught::<GoneIsGranted>(), 40);
}

struct LeaderReversesQueues;
impl Bug for LeaderReversesQueues {
    fn new_term(planted: &mut Planted<Self>) {
        let bytes = with_queues_reversed(&planted.machine);
        planted.machine = Machine::read_snapshot(&bytes[..]).unwrap();
    }
}

#[test]
fn a_queue_that_a_leader_change_reverses_is_caught() {
    // It takes two who wait for one resource when the term changes: some plays have none.
    assert!(caught_in::<LeaderReversesQueues>(1_200) >= 30);
}

struct StaleWithdrawActs;
impl Bug for StaleWithdrawActs {
    fn before(_planted: &Planted<Self>, command: Command) -> Command {
        let Command::Withdraw(mut withdraw) = command else {
            return command;
        };
        for leaving in &mut withdraw.places {
            leaving.attempt = u32::MAX;
        }
        Command::Withdraw(withdraw)
    }
}

#[test]
fn a_stale_withdrawal_that_ends_a_live_place_is_caught() {
    assert!(caught_in::<StaleWithdrawActs>(1_200) >= 30);
}

struct WithdrawEndsGrants;
impl Bug for WithdrawEndsGrants {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        let Command::Withdraw(withdraw) = &command else {
            return command;
        };
        let standings = withdraw.places.iter();
        let mut standings = standings.map(|leaving| planted.machine.standing(&leaving.request));
        let granted = standings.find_map(|standing| match standing {
            Standing::Granted { token, .. } => Some(token.value()),
            _ => None,
        });
        granted.map_or(command.clone(), |token| {
            Command::Release(Release {
                token,
                stamped_at_ms: withdraw.stamped_at_ms,
            })
        })
    }
}

#[test]
fn a_withdrawal_that_ends_a_grant_is_caught() {
    assert_eq!(caught::<WithdrawEndsGrants>(), 40);
}

struct WaiterGetsTheWholeLease;
impl Bug for WaiterGetsTheWholeLease {
    fn after(_planted: &mut Planted<Self>, applied: &mut Applied) {
        if let Some(Event::Granted { lease, ttl, .. }) = applied.events.last_mut() {
            *lease = *ttl;
        }
    }
}

#[test]
fn a_grant_after_waiting_that_starts_with_its_whole_lease_is_caught() {
    assert!(caught::<WaiterGetsTheWholeLease>() >= 30);
}

struct MarksLostBySnapshot;
impl Bug for MarksLostBySnapshot {
    fn cut(planted: &mut Planted<Self>) {
        let bytes = without_marks(&planted.machine);
        planted.machine = Machine::read_snapshot(&bytes[..]).unwrap();
    }
}

#[test]
fn marks_that_a_snapshot_loses_are_caught() {
    assert_eq!(caught::<MarksLostBySnapshot>(), 40);
}

struct StaleIsAdmitted;
impl Bug for StaleIsAdmitted {
    fn after(_planted: &mut Planted<Self>, applied: &mut Applied) {
        if let Outcome::Admit(outcome @ AdmitOutcome::Stale { .. }) = &mut applied.outcome {
            *outcome = AdmitOutcome::Admitted;
        }
    }
}

#[test]
fn a_lower_token_that_passes_is_caught() {
    assert_eq!(caught::<StaleIsAdmitted>(), 40);
}

/// A mark that an older token lowers: whoever presents one gets through, and so do all above it.
struct MarkIsLowered;
impl Bug for MarkIsLowered {
    fn before(planted: &Planted<Self>, command: Command) -> Command {
        let Command::Admit(admit) = command else {
            return command;
        };
        let mark = planted.machine.high_water(&admit.resource);
        // As if the mark stood at the token: what the state says of a token at the mark.
        let token = match mark {
            Some(mark) if admit.token < mark => mark,
            _ => admit.token,
        };
        Command::Admit(Admit { token, ..admit })
    }
}

#[test]
fn a_mark_that_an_older_token_lowers_is_caught() {
    assert!(caught::<MarkIsLowered>() >= 30);
}

struct OneMarkForAll;
impl Bug for OneMarkForAll {
    fn before(_planted: &Planted<Self>, command: Command) -> Command {
        match command {
            Command::Admit(admit) => Command::Admit(Admit {
                resource: ResourceName::new("b").unwrap(),
                ..admit
            }),
            other => other,
        }
    }
}

#[test]
fn a_mark_that_resources_share_is_caught() {
    assert_eq!(caught::<OneMarkForAll>(), 40);
}

struct MadeUpTokensRaiseMarks;
impl Bug for MadeUpTokensRaiseMarks {
    fn after(_planted: &mut Planted<Self>, applied: &mut Applied) {
        if let Outcome::Admit(outcome @ AdmitOutcome::Ahead { .. }) = &mut applied.outcome {
            *outcome = AdmitOutcome::Admitted;
        }
    }
}

#[test]
fn a_token_that_was_never_issued_and_passes_is_caught() {
    assert!(caught::<MadeUpTokensRaiseMarks>() >= 30);
}

struct OncePassesAgain;
impl Bug for OncePassesAgain {
    fn before(_planted: &Planted<Self>, command: Command) -> Command {
        match command {
            Command::Admit(admit) => Command::Admit(Admit {
                once: false,
                ..admit
            }),
            other => other,
        }
    }
}

#[test]
fn a_token_that_passes_twice_where_it_may_pass_once_is_caught() {
    assert!(caught::<OncePassesAgain>() >= 30);
}
