//! Golden scripts: stories in `scripts/`, each with what the core answers. A prefix names the holder.

use std::error::Error;
use std::fmt::Write as _;

use fencepost::grant::{AskedAt, ClusterId, Grant, Ttl};
use fencepost::issuer::{
    Acquire, AcquireOutcome, Applied, Command, DueLease, Event, Expire, HeldBy, InstanceId,
    Outcome, RaiseFloor, RaiseFloorOutcome, Release, ReleaseOutcome, Renew, RenewOutcome, Renewal,
    Revoke, RevokeOutcome,
};
use fencepost::resource::Reason;
use fencepost::token::TokenValue;
use goldenscript::ArgumentConsumer;

use crate::scene::{STAMP_MS, Scene, acquire, cluster, machine_with, resource};

type Said = Result<String, Box<dyn Error>>;

#[test]
fn stories_come_out_as_written() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(scripts)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(
        paths.len() >= 12,
        "the scripts are not where they should be: {scripts}"
    );
    for path in paths {
        println!("{}", path.display());
        let mut stage = Stage {
            scene: Scene::new(),
            ids: 0,
        };
        goldenscript::run(&mut stage, &path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}

struct Stage {
    scene: Scene,
    /// Request ids that were made up, because the script names none.
    ids: u64,
}

impl goldenscript::Runner for Stage {
    fn run(&mut self, command: &goldenscript::Command) -> Said {
        let holder = command.prefix.as_deref().unwrap_or("nobody");
        let mut args = command.consume_args();
        let said = match command.name.as_str() {
            // What the log can carry.
            "acquire" => self.acquire(holder, &mut args)?,
            "renew" => self.renew(&mut args)?,
            "release" => {
                let token = position(&mut args)?;
                self.entry(&Command::Release(Release {
                    token,
                    stamped_at_ms: STAMP_MS,
                }))
            }
            "expire" => self.expire(&mut args)?,
            "revoke" => self.revoke(&mut args)?,
            "raise-floor" => self.raise_floor(&mut args)?,
            "members" => self.members(&mut args)?,
            "new-leader" => {
                self.scene.new_term();
                format!("{} blank", self.scene.at)
            }
            // What happens to the node.
            "bounds" => {
                let ids = args.lookup_parse("ids")?.ok_or("ids=?")?;
                let grants = args.lookup_parse("grants")?.ok_or("grants=?")?;
                self.scene = Scene::of(machine_with(ids, grants));
                String::new()
            }
            "pass" => {
                self.scene.pass(args.lookup_parse("ms")?.ok_or("ms=?")?);
                String::new()
            }
            "restart" => {
                self.scene.restart();
                String::new()
            }
            // What can be read off.
            "due" => lines(self.scene.replica.due(self.scene.now, 10).iter().map(due)),
            "inspect" => self.inspect(&mut args)?,
            "list" => self.list(&mut args)?,
            "how-ended" => format!("{:?}", self.scene.how_ended(position(&mut args)?)),
            "known-ids" => self.scene.machine().known_request_ids().to_string(),
            other => return Err(format!("no such command: {other}").into()),
        };
        args.reject_rest()?;
        Ok(said)
    }
}

fn position<T>(args: &mut ArgumentConsumer<'_>) -> Result<T, Box<dyn Error>>
where
    T: std::str::FromStr,
    T::Err: Error + 'static,
{
    let value = &args.next_pos().ok_or("something is missing")?.value;
    Ok(value.parse::<T>()?)
}

impl Stage {
    fn entry(&mut self, command: &Command) -> String {
        let Applied { outcome, events } = self.scene.apply(command);
        let outcome = self.outcome(&outcome);
        let events = events
            .iter()
            .map(|event| format!("    {}", happened(event)));
        lines(std::iter::once(format!("{} {outcome}", self.scene.at)).chain(events))
    }

    fn acquire(&mut self, holder: &str, args: &mut ArgumentConsumer<'_>) -> Said {
        self.ids += 1;
        let made_up = format!("made up {}", self.ids);
        let name = &args.next_pos().ok_or("which resource?")?.value;
        let id = args.lookup("id").map_or(made_up, |id| id.value.clone());
        let elsewhere = args.lookup("cluster").is_some();
        let asked_in = if elsewhere {
            ClusterId::new(7)
        } else {
            cluster()
        };
        let asked_at = args.lookup_parse("asked")?;
        let mut asked = acquire(name, holder, &id);
        asked.ttl = Ttl::from_ms(args.lookup_parse("ttl")?.unwrap_or(30_000))?;
        asked.attempt = args.lookup_parse("attempt")?.unwrap_or(1);
        asked.wait_ms = args.lookup_parse("wait")?.unwrap_or(0);
        asked.asked_at = asked_at.map(|applied| AskedAt {
            cluster: asked_in,
            applied,
        });
        Ok(self.entry(&Command::Acquire(Acquire { ..asked })))
    }

    fn renew(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let ttl = args.lookup_parse("ttl")?.map(Ttl::from_ms).transpose()?;
        let mut renewals = Vec::new();
        for argument in args.rest_pos() {
            renewals.push(Renewal {
                token: argument.value.parse()?,
                ttl,
            });
        }
        Ok(self.entry(&Command::Renew(Renew {
            renewals,
            stamped_at_ms: STAMP_MS,
        })))
    }

    /// Without a token: all that is due, as the leader does it.
    fn expire(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let renewals = args.lookup_parse("renewals")?.unwrap_or(0);
        let mut leases = Vec::new();
        for argument in args.rest_pos() {
            leases.push(DueLease {
                token: argument.value.parse()?,
                renewals,
            });
        }
        if leases.is_empty() {
            leases = self.scene.replica.due(self.scene.now, 10);
        }
        Ok(self.entry(&Command::Expire(Expire {
            leases,
            stamped_at_ms: STAMP_MS,
        })))
    }

    fn revoke(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let resource = resource(&args.next_pos().ok_or("which resource?")?.value);
        let token: TokenValue = position(args)?;
        let reason = args
            .lookup("reason")
            .map(|reason| Reason::new(reason.value.as_str()));
        let reason = reason.transpose()?;
        let revoke = Revoke {
            resource,
            token,
            reason,
            stamped_at_ms: STAMP_MS,
        };
        Ok(self.entry(&Command::Revoke(revoke)))
    }

    fn raise_floor(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let above = args.lookup_parse("above")?.ok_or("above=?")?;
        let stamped_at_us = args.lookup_parse("clock")?.ok_or("clock=?")?;
        Ok(self.entry(&Command::RaiseFloor(RaiseFloor {
            above,
            stamped_at_us,
        })))
    }

    fn members(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let mut members = Vec::new();
        for member in args.rest_key() {
            let id = member.key.as_deref().unwrap_or_default().parse()?;
            members.push((id, InstanceId::new(member.value.parse()?)));
        }
        self.scene.at.index += 1;
        self.scene.replica.apply_members(self.scene.at, &members)?;
        let known = self.scene.machine().used_node_ids();
        Ok(lines(known.map(|(id, instance)| {
            format!("node {id} is instance {}", instance.get())
        })))
    }

    fn inspect(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let name = resource(&args.next_pos().ok_or("which resource?")?.value);
        Ok(match self.scene.replica.holding(&name, self.scene.now) {
            None => "free".to_owned(),
            Some(holding) => {
                format!(
                    "{}, {} ms left",
                    described(holding.grant),
                    holding.remaining.as_millis()
                )
            }
        })
    }

    fn list(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let prefix = args
            .lookup("prefix")
            .map_or("", |prefix| prefix.value.as_str());
        let after = args.lookup("after").map(|after| after.value.as_str());
        let limit = args.lookup_parse("limit")?.unwrap_or(100);
        let page = self.scene.machine().list(prefix, after, limit);
        let more = page.more.then(|| "and more".to_owned());
        Ok(lines(
            page.grants.iter().map(|grant| described(grant)).chain(more),
        ))
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Acquire(outcome) => self.acquired(outcome),
            Outcome::Renew(each) => {
                let each: Vec<_> = each.iter().map(renewed).collect();
                format!("renewals: {}", each.join("; "))
            }
            Outcome::Release(ReleaseOutcome::Released) => "released".to_owned(),
            Outcome::Release(ReleaseOutcome::Ended { how })
            | Outcome::Revoke(RevokeOutcome::Ended { how }) => format!("had ended: {how}"),
            Outcome::Release(ReleaseOutcome::Unknown) | Outcome::Revoke(RevokeOutcome::Unknown) => {
                "unknown".to_owned()
            }
            Outcome::Expire { ended } => format!("{ended} expired"),
            Outcome::Revoke(RevokeOutcome::Revoked) => "revoked".to_owned(),
            Outcome::Revoke(RevokeOutcome::OtherResource) => {
                "refused: the token is of another resource".to_owned()
            }
            Outcome::RaiseFloor(RaiseFloorOutcome::Raised { floor }) => format!("floor {floor}"),
            Outcome::RaiseFloor(RaiseFloorOutcome::BeyondClock { limit }) => {
                format!("refused: beyond the clock, at most {limit}")
            }
        }
    }

    fn acquired(&self, outcome: &AcquireOutcome) -> String {
        let again = |replayed: &bool| if *replayed { ", replayed" } else { "" };
        match outcome {
            AcquireOutcome::Granted {
                token,
                lease,
                replayed,
            } => {
                let evidence = format!("from {}.{}", token.term(), token.index());
                format!(
                    "granted token {token} ({evidence}), lease {lease}{}",
                    again(replayed)
                )
            }
            AcquireOutcome::Held {
                by: Some(HeldBy { holder, token }),
                replayed,
            } => {
                let left = self
                    .scene
                    .replica
                    .clock()
                    .remaining(token.value(), self.scene.now);
                let left = left.unwrap_or_default().as_millis();
                let again = again(replayed);
                format!("refused: held by {holder} with token {token}, {left} ms left{again}")
            }
            AcquireOutcome::Held { by: None, replayed } => {
                format!("refused: was held, is free now{}", again(replayed))
            }
            AcquireOutcome::Ended { token, how } => format!("had token {token}, which {how}"),
            AcquireOutcome::TooOld => "too old: outcome unknown".to_owned(),
            AcquireOutcome::ParametersDiffer => "refused: parameters differ".to_owned(),
            AcquireOutcome::TooManyGrants { limit, replayed } => {
                format!("refused: {limit} grants live already{}", again(replayed))
            }
        }
    }
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    lines.for_each(|line| writeln!(text, "{line}").unwrap());
    text
}

fn due(lease: &DueLease) -> String {
    format!("token {}, renewed {} times", lease.token, lease.renewals)
}

fn renewed(outcome: &RenewOutcome) -> String {
    match outcome {
        RenewOutcome::Renewed { lease, renewals } => format!("lease {lease}, renewal {renewals}"),
        RenewOutcome::Ended { how } => format!("had ended: {how}"),
        RenewOutcome::Unknown => "unknown".to_owned(),
    }
}

fn described(grant: &Grant) -> String {
    let Grant {
        resource,
        holder,
        token,
        ttl,
        renewals,
        ..
    } = grant;
    format!("{resource} is held by {holder}: token {token}, ttl {ttl}, renewed {renewals} times")
}

fn happened(event: &Event) -> String {
    match event {
        Event::Granted {
            resource,
            holder,
            token,
            ..
        } => {
            format!("granted {resource} to {holder}, token {token}")
        }
        Event::Renewed {
            resource, token, ..
        } => format!("renewed {resource}, token {token}"),
        Event::Ended {
            resource,
            holder,
            token,
            how,
            reason,
            ..
        } => {
            let why = reason
                .as_ref()
                .map(|reason| format!(": {reason}"))
                .unwrap_or_default();
            format!("{how} {resource} of {holder}, token {token}{why}")
        }
        Event::FloorRaised { floor } => format!("floor raised to {floor}"),
    }
}
