//! Golden scripts: stories in `scripts/`, each with what the core answers. A prefix names the holder.

use std::collections::BTreeMap;
use std::error::Error;

use fencepost::grant::{AskedAt, ClusterId, LeftHow, Ttl};
use fencepost::issuer::{
    Acquire, Admit, Applied, Bounds, Command, DueLease, Expire, InstanceId, Leaving, Promote,
    RaiseFloor, Release, Renew, Renewal, RequestKey, Revoke, Withdraw,
};
use fencepost::resource::Reason;
use fencepost::token::TokenValue;
use goldenscript::ArgumentConsumer;

use crate::scene::{STAMP_MS, Scene, acquire, cluster, holder, key, machine_within, resource};
use crate::telling::{described, due, happened, lines, names, said, stands, waiter};

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
            keys: BTreeMap::new(),
        };
        goldenscript::run(&mut stage, &path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    }
}

struct Stage {
    scene: Scene,
    /// Request ids that were made up, because the script names none.
    ids: u64,
    /// What the script calls its requests. Two of one name: the later one.
    keys: BTreeMap<String, RequestKey>,
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
            "withdraw" => self.withdraw(&mut args)?,
            "waited-out" => self.waited_out(),
            "promote" => {
                let resource = resource(&args.next_pos().ok_or("which resource?")?.value);
                self.entry(&Command::Promote(Promote {
                    resource,
                    stamped_at_ms: STAMP_MS,
                }))
            }
            "admit" => self.admit(&mut args)?,
            "members" => self.members(&mut args)?,
            "new-leader" => {
                self.scene.new_term();
                format!("{} blank", self.scene.at)
            }
            // What happens to the node.
            "bounds" => {
                self.scene = Scene::of(machine_within(bounds(&mut args)?));
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
            "queue" => self.queue(&mut args)?,
            "promotable" => lines(names(&self.scene.machine().promotable(10))),
            "standing" => self.standing(&mut args)?,
            "high-water" => self.high_water(&mut args)?,
            "report" => match self.scene.machine().accounts_for(position(&mut args)?) {
                true => "fine".to_owned(),
                false => "ahead".to_owned(),
            },
            "how-ended" => format!("{:?}", self.scene.how_ended(position(&mut args)?)),
            "known-ids" => self.scene.machine().known_request_ids().to_string(),
            other => return Err(format!("no such command: {other}").into()),
        };
        args.reject_rest()?;
        Ok(said)
    }
}

fn bounds(args: &mut ArgumentConsumer<'_>) -> Result<Bounds, Box<dyn Error>> {
    let usual = Bounds::default();
    Ok(Bounds {
        settled_ids_max: args.lookup_parse("ids")?.unwrap_or(usual.settled_ids_max),
        live_grants_max: args
            .lookup_parse("grants")?
            .unwrap_or(usual.live_grants_max),
        grants_per_holder_max: args
            .lookup_parse("holder")?
            .unwrap_or(usual.grants_per_holder_max),
        waiters_max: args.lookup_parse("waiters")?.unwrap_or(usual.waiters_max),
        waiters_per_resource_max: args
            .lookup_parse("queue")?
            .unwrap_or(usual.waiters_per_resource_max),
        marks_max: args.lookup_parse("marks")?.unwrap_or(usual.marks_max),
    })
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
        let outcome = said(&self.scene, &outcome);
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
        self.keys.insert(id, asked.request);
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

    fn admit(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let resource = resource(&args.next_pos().ok_or("which resource?")?.value);
        Ok(self.entry(&Command::Admit(Admit {
            resource,
            token: position(args)?,
            once: args.lookup_parse("once")?.unwrap_or(false),
            stamped_at_ms: STAMP_MS,
        })))
    }

    fn high_water(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let name = resource(&args.next_pos().ok_or("which resource?")?.value);
        Ok(match self.scene.machine().high_water(&name) {
            None => "no mark".to_owned(),
            Some(mark) => mark.to_string(),
        })
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

    /// `id=?` names the request; `how=` is `withdrawn` if nobody says otherwise.
    fn withdraw(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let how = match args.lookup("how").map(|how| how.value.as_str()) {
            None | Some("withdrawn") => LeftHow::Withdrawn,
            Some("detached") => LeftHow::Detached,
            Some("waited_out") => LeftHow::WaitedOut,
            Some("superseded") => LeftHow::Superseded,
            Some(other) => return Err(format!("no such end of a place: {other}").into()),
        };
        let attempt = args.lookup_parse("attempt")?.unwrap_or(1);
        let of = args.lookup("of").map(|of| of.value.clone());
        let mut places = Vec::new();
        for argument in args.rest_pos() {
            let request = match (self.keys.get(&argument.value), &of) {
                (_, Some(of)) => {
                    let (who, what) = of.split_once('/').ok_or("of=holder/resource")?;
                    key(&argument.value, &resource(what), &holder(who))
                }
                (Some(key), None) => *key,
                (None, None) => return Err("whose? say of=holder/resource".into()),
            };
            places.push(Leaving { request, attempt });
        }
        Ok(self.entry(&Command::Withdraw(Withdraw {
            places,
            how,
            stamped_at_ms: STAMP_MS,
        })))
    }

    /// All waits that have run out, as the leader does it.
    fn waited_out(&mut self) -> String {
        let due = self.scene.replica.due_waits(self.scene.now, 10);
        let places = due.into_iter().map(|request| Leaving {
            request,
            attempt: 0,
        });
        self.entry(&Command::Withdraw(Withdraw {
            places: places.collect(),
            how: LeftHow::WaitedOut,
            stamped_at_ms: STAMP_MS,
        }))
    }

    fn queue(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let name = resource(&args.next_pos().ok_or("which resource?")?.value);
        let machine = self.scene.machine();
        let waiters: Vec<_> = machine.waiters(&name).map(waiter).collect();
        assert_eq!(waiters.len(), machine.queue_len(&name) as usize);
        Ok(if waiters.is_empty() {
            "nobody waits".to_owned()
        } else {
            lines(waiters.into_iter())
        })
    }

    fn standing(&mut self, args: &mut ArgumentConsumer<'_>) -> Said {
        let id = &args.next_pos().ok_or("which request?")?.value;
        let key = self.keys.get(id).ok_or("no such request")?;
        Ok(stands(&self.scene.machine().standing(key)))
    }
}
