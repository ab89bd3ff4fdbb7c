//! The story, chapter by chapter. Each claim is checked when it is made.

use fencepost::{
    client::{Acquired, BootInstant},
    fence::{sql::WriteOutcome, sqlite::Document},
    grant::Ttl,
    resource::Holder,
    token::TokenValue,
};

use super::{
    super::exit::{Failure, Outcome, UNEXPECTED},
    nodes,
    puppet::Answer,
    screen::Screen,
    stage::Stage,
};

/// What A and B both want to write.
const REPORT: &str = "daily-report";
const A_FIRST: &str = "first draft, by A";
const A_LATE: &str = "second draft, by A, too late";
const B_WRITES: &str = "final version, by B";

/// How long A's lease is, in milliseconds: short, since the story waits for its end.
const A_TTL_MS: u64 = 3_000;
/// How long B's lease is: it outlives the story.
const B_TTL_MS: u64 = 120_000;

/// Tells it all.
pub(super) async fn tell(screen: &mut Screen, stage: &mut Stage) -> Outcome {
    form(screen, stage).await?;
    screen.pause().await;
    let a = grant(screen, stage).await?;
    screen.pause().await;
    let b = pause_and_pass_on(screen, stage, a).await?;
    screen.pause().await;
    wake(screen, stage, a, &b).await?;
    screen.pause().await;
    let c = kill_the_leader(screen, stage, &b).await?;
    screen.pause().await;
    kill_everything(screen, stage, &b, &c).await
}

async fn form(screen: &mut Screen, stage: &mut Stage) -> Outcome {
    screen.chapter("Three nodes form a cluster")?;
    screen.tell(
        "Each node is a process with a disk directory of its own. Whatever they grant, at least two of \
         the three have on disk before anybody hears of it.",
    )?;
    stage.nodes.start_all()?;
    show_nodes(screen, stage)?;
    let leader = stage.leader(None).await?;
    screen.event(format_args!("they agree: node {} leads", leader.node_id))?;
    screen.claim(
        true,
        "the cluster has formed by itself, and all nodes name one leader",
    )
}

async fn grant(screen: &mut Screen, stage: &mut Stage) -> Result<TokenValue, Failure> {
    screen.chapter("A is granted the report")?;
    screen.tell(&format!(
        "A is a process too. It asks for \"{REPORT}\" for {} seconds at a time, and renews while it is \
         awake. With the grant comes a fencing token: a number greater than any granted before. A sends \
         it along with each write, and the SQLite file keeps the highest number it has seen.",
        A_TTL_MS / 1_000
    ))?;
    stage.begin_holder("A", REPORT, ttl(A_TTL_MS)?)?;
    let puppet = stage.puppet()?;
    let Answer::Granted(a) = puppet.answer().await? else {
        return Err(Failure::new(UNEXPECTED, "A was not granted the report"));
    };
    screen.event(format_args!(
        "A (process {}) holds it, with token {a}",
        puppet.pid()
    ))?;
    puppet.order(A_FIRST).await?;
    let answer = puppet.answer().await?;
    screen.event(format_args!("A writes \"{A_FIRST}\" with token {a}"))?;
    screen.claim(
        answer == Answer::Written && says(stage, A_FIRST, a).await?,
        format_args!("the file took it, and remembers token {a}"),
    )?;
    Ok(a)
}

async fn pause_and_pass_on(
    screen: &mut Screen,
    stage: &mut Stage,
    a: TokenValue,
) -> Result<Acquired, Failure> {
    screen.chapter("A is paused, and its lease runs out")?;
    screen.tell(
        "It could be a long garbage collection, a suspended machine, a full disk. Here it is SIGSTOP. A \
         cannot renew any more, and it does not know that time goes by.",
    )?;
    stage.puppet()?.stop().await?;
    screen.event("A stands still, in the middle of its work")?;
    let asked = stage.ask("B", REPORT, ttl(B_TTL_MS)?).await?;
    let Err(held) = asked else {
        let (claim, b) = ("B is refused while A's lease lives", asked.is_ok());
        screen.claim(!b, claim)?;
        return Err(Failure::new(UNEXPECTED, claim));
    };
    let by = held.holder.as_ref().map_or("nobody", Holder::as_str);
    screen.event(format_args!(
        "B asks: refused, {by} holds it for about {:.1} s more",
        held.remaining.as_secs_f64()
    ))?;
    screen.claim(
        by == "A" && held.token.map(|token| token.value()) == Some(a),
        "while A's lease lives, nobody else is granted the report",
    )?;
    screen.event("B asks again and again ...")?;
    let b = stage.insist("B", REPORT, ttl(B_TTL_MS)?).await?;
    let granted: BootInstant = stage.client.now();
    let deadline = stage.puppet()?.safe_until();
    let token = b.token.value();
    screen.event(format_args!("B holds it, with token {token}"))?;
    screen.claim(granted > deadline, "not before A's own deadline had passed")?;
    screen.claim(
        token > a,
        format_args!("B's token is greater: {token} > {a}"),
    )?;
    let written = stage.write(&b, B_WRITES).await?;
    screen.event(format_args!("B writes \"{B_WRITES}\" with token {token}"))?;
    screen.claim(
        written == WriteOutcome::Written && says(stage, B_WRITES, token).await?,
        format_args!("the file took it, and remembers token {token}"),
    )?;
    Ok(b)
}

async fn wake(screen: &mut Screen, stage: &mut Stage, a: TokenValue, b: &Acquired) -> Outcome {
    screen.chapter("A wakes up, and writes")?;
    screen.tell(
        "For A no time has passed: it goes on with the write that it was about to do. No timeout and no \
         clock can stop it now. The file can, because A must show its token.",
    )?;
    let token = b.token.value();
    let puppet = stage.puppet()?;
    puppet.order(A_LATE).await?;
    puppet.wake()?;
    screen.event(format_args!(
        "A goes on, and writes \"{A_LATE}\" with token {a}"
    ))?;
    let answer = puppet.answer().await?;
    if let Answer::Stale {
        presented,
        required,
    } = &answer
    {
        screen.event(format_args!(
            "the file: stale token, presented {presented}, required {required}"
        ))?;
    }
    let refused = Answer::Stale {
        presented: a,
        required: token,
    };
    screen.claim(
        answer == refused,
        "the late write was refused, in the same step that would have written it",
    )?;
    let unharmed = says(stage, B_WRITES, token).await?;
    screen.claim(unharmed, format_args!("the file still says \"{B_WRITES}\""))
}

async fn kill_the_leader(
    screen: &mut Screen,
    stage: &mut Stage,
    b: &Acquired,
) -> Result<Acquired, Failure> {
    screen.chapter("The leader is killed")?;
    screen.tell(
        "kill -9: it cannot say goodbye or save anything. The two others still are a majority. They \
         elect a leader that has everything that was ever granted.",
    )?;
    let old = stage.leader(None).await?.node_id;
    let pid = stage.nodes.pid(old).unwrap_or_default();
    stage.nodes.sigkill(old).await?;
    screen.event(format_args!(
        "node {old}, the leader (process {pid}), is killed"
    ))?;
    let before = screen.elapsed();
    let c = stage.insist("C", "invoices", ttl(B_TTL_MS)?).await?;
    let without = screen.elapsed().saturating_sub(before);
    let (token, earlier) = (c.token.value(), b.token.value());
    screen.event(format_args!(
        "C is granted \"invoices\" with token {token}, {} ms later",
        without.as_millis()
    ))?;
    let new = stage.leader(Some(old)).await?.node_id;
    screen.event(format_args!("node {new} leads now"))?;
    screen.claim(
        token > earlier,
        format_args!("the new leader's token is greater still: {token} > {earlier}"),
    )?;
    Ok(c)
}

async fn kill_everything(
    screen: &mut Screen,
    stage: &mut Stage,
    b: &Acquired,
    c: &Acquired,
) -> Outcome {
    screen.chapter("Everything is killed, and started again from disk")?;
    screen.tell(
        "All at once, as when the power fails. What the nodes know now is what they had on disk.",
    )?;
    stage.nodes.sigkill_all().await?;
    screen.event(format_args!("all {} nodes are down", nodes::COUNT))?;
    stage.nodes.start_all()?;
    show_nodes(screen, stage)?;
    let leader = stage.leader(None).await?;
    screen.event(format_args!("they agree: node {} leads", leader.node_id))?;
    let holder = stage.holder_of(REPORT).await?;
    let still = holder
        .is_some_and(|grant| grant.holder == b.holder && grant.token.value() == b.token.value());
    screen.claim(
        still,
        format_args!("B still holds the report, with token {}", b.token.value()),
    )?;
    let d = stage.insist("D", "backups", ttl(B_TTL_MS)?).await?;
    let (token, earlier) = (d.token.value(), c.token.value());
    screen.event(format_args!("D is granted \"backups\" with token {token}"))?;
    screen.claim(
        token > earlier,
        format_args!("and the next token is greater still: {token} > {earlier}"),
    )
}

fn show_nodes(screen: &mut Screen, stage: &Stage) -> Outcome {
    for id in stage.nodes.ids() {
        let (pid, endpoint) = (stage.nodes.pid(id), stage.nodes.endpoint(id));
        if let (Some(pid), Some(endpoint)) = (pid, endpoint) {
            screen.event(format_args!("node {id} is process {pid}, on {endpoint}"))?;
        }
    }
    Ok(())
}

/// Whether the file holds this text, under this token.
async fn says(stage: &Stage, text: &str, token: TokenValue) -> Result<bool, Failure> {
    let document = Document {
        body: text.to_owned(),
        token,
    };
    Ok(stage.read(REPORT).await? == Some(document))
}

fn ttl(ms: u64) -> Result<Ttl, Failure> {
    Ttl::from_ms(ms).map_err(|error| Failure::new(UNEXPECTED, error))
}
