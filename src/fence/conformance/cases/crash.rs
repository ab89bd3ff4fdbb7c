//! A process that dies in the middle of a write, at each place where it can.

use crate::{
    fence::conformance::{
        Contents, Handle as _, Place,
        scene::{Scene, Stop, show, token},
        steps::Steps,
    },
    resource::ResourceName,
};

use super::{named, not_tried};

/// Which part of a case's bound the survivors of one crash may take.
const WAIT_SHARE: u32 = 4;

pub(super) async fn crash_between_check_and_write<P: Place>(
    scene: &mut Scene<P>,
) -> Result<(), Stop> {
    let probed = named("crash/probed");
    scene.admitted(0, &probed, 10).await?;
    let pauses = scene.pauses().to_vec();
    if pauses.is_empty() {
        return not_tried(
            "check and write are one step, at least the author names none between them",
        );
    }
    for (at, after) in pauses.iter().enumerate() {
        for written_before in [true, false] {
            scene.new_story();
            let which = if written_before { "old" } else { "new" };
            crash(
                scene,
                at,
                after,
                &format!("crash/{which}/{at}"),
                written_before,
            )
            .await?;
        }
    }
    scene
        .notes
        .push(format!("died after each of: {}", pauses.join(", ")));
    Ok(())
}

async fn crash<P: Place>(
    scene: &mut Scene<P>,
    at: usize,
    after: &str,
    name: &str,
    written_before: bool,
) -> Result<(), Stop> {
    let resource = named(name);
    let before = match written_before {
        true => Contents {
            value: Some(scene.admitted(0, &resource, 10).await?),
            mark: Some(token(10)),
        },
        false => Contents::default(),
    };
    let write = scene.write_of(&resource, 20);
    let told = scene.tell(1, &write);
    scene.note_step(format!(
        "{told}, and its process dies after the step \"{after}\""
    ));
    let mut dying = scene.open().await?;
    let answer = dying.write(&write, &mut Steps::crash(at)).await;
    drop(dying);
    if answer.is_ok() {
        let what = "the author's code went on after `Steps::pause` told it to stop: pass its error on with `?`";
        return Err(Stop::Failed(what.to_owned()));
    }
    if scene.profile.durable {
        scene.note_step("all processes end and are started again");
        scene.close();
        let restarted = scene.place.restart().await;
        restarted.map_err(|fault| scene.failed("the restart", &fault))?;
    }
    // A dead process that still keeps others out would have them wait for ever.
    let bound = scene.settings.case_bound / WAIT_SHARE;
    let outlived = outlived(scene, &resource, before, write.value);
    match tokio::time::timeout(bound, outlived).await {
        Ok(found) => found,
        Err(_) => Err(scene.broken(format!(
            "the process died {bound:?} ago, and still nobody else gets any further"
        ))),
    }
}

/// What others find after the death, and that they can go on.
async fn outlived<P: Place>(
    scene: &mut Scene<P>,
    resource: &ResourceName,
    before: Contents,
    value: u32,
) -> Result<(), Stop> {
    let happened = Contents {
        value: Some(value),
        mark: Some(token(20)),
    };
    let found = scene.read(0, resource).await?;
    let is = |expected: Contents| {
        (!scene.profile.values || found.value == expected.value)
            && (!scene.profile.marks || found.mark == expected.mark)
    };
    if !is(before) && !is(happened) {
        let what = format!(
            "half of the write happened: value {} with mark {}; it should be {} with {}, or {} with {}",
            show(found.value),
            show(found.mark),
            show(before.value),
            show(before.mark),
            show(happened.value),
            show(happened.mark),
        );
        return Err(scene.broken(what));
    }
    if scene.profile.marks && found.mark == happened.mark {
        scene.stale(0, resource, 15, 20).await?;
    }
    // The dead do not keep the next holder out.
    scene.admitted(0, resource, 30).await.map(drop)
}
