//! What a place remembers after its processes, or its disk, were lost.

use crate::fence::conformance::{
    Place,
    scene::{Scene, Stop, show},
};

use super::{named, not_tried};

/// How many resources are looked at after a restart.
const RESOURCES: u64 = 5;

pub(super) async fn restart<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    if !scene.profile.durable {
        return not_tried(
            "it was not declared durable: right only where the data goes with the process",
        );
    }
    let mut written = Vec::new();
    for number in 0..RESOURCES {
        let resource = named(format!("restart/{number}"));
        let mark = 100 + number;
        let value = scene.admitted(0, &resource, mark).await?;
        written.push((resource, value, mark));
    }
    scene.note_step("all processes end and are started again");
    scene.close();
    let restarted = scene.place.restart().await;
    restarted.map_err(|fault| scene.failed("the restart", &fault))?;
    for (resource, value, mark) in written {
        scene.holds(0, &resource, Some((value, mark))).await?;
        scene.stale(0, &resource, mark - 1, mark).await?;
        scene.admitted(0, &resource, mark + 1).await?;
    }
    Ok(())
}

/// A restore takes marks back, and no guard can help that: it is the issuer that must rise above
/// all that it ever issued. What is held against the guard is that it says what it has, that mark
/// and value are of one moment, and that it fences as before once the floor is raised.
pub(super) async fn restored_backup<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    if !scene.profile.backed_up {
        return not_tried("it was not declared how it is backed up and restored");
    }
    const BEFORE: u64 = 100;
    const LOST: u64 = 200;
    const RAISED: u64 = 10_000;
    let (kept, made_after) = (named("restored/kept"), named("restored/made-after"));
    let value = scene.admitted(0, &kept, BEFORE).await?;
    let backed_up = scene.place.back_up().await;
    backed_up.map_err(|fault| scene.failed("the backup", &fault))?;
    scene.note_step("a backup is taken");
    scene.admitted(0, &kept, LOST).await?;
    scene.admitted(0, &made_after, LOST).await?;
    scene.close();
    let restored = scene.place.restore().await;
    restored.map_err(|fault| scene.failed("the restore", &fault))?;
    scene.note_step("the backup is restored");
    scene.holds(0, &kept, Some((value, BEFORE))).await?;
    scene.holds(0, &made_after, None).await?;
    let mark = scene.read(0, &kept).await?.mark;
    let came_back = match scene.profile.marks {
        true => format!("the mark that came back is {}", show(mark)),
        false => "the mark came back with the backup".to_owned(),
    };
    scene.notes.push(format!(
        "{came_back}; {LOST} had been admitted. Until the issuer's floor is raised above all that it issued, tokens in between would pass"
    ));
    scene.note_step(
        "the issuer is told, and raises its floor above every token that it ever issued",
    );
    scene.admitted(0, &kept, RAISED).await?;
    scene.admitted(0, &made_after, RAISED + 1).await?;
    for late in [BEFORE, BEFORE + 50, LOST] {
        scene.stale(0, &kept, late, RAISED).await?;
        scene.stale(0, &made_after, late, RAISED + 1).await?;
    }
    Ok(())
}
