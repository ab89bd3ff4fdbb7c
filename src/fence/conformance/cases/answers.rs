//! What a guard answers to one write after another.

use rand::seq::SliceRandom as _;

use crate::{
    fence::{
        EqualTokens,
        conformance::{
            Place,
            scene::{Expected, Scene, Stop},
        },
    },
    resource::IssuerName,
};

use super::named;

/// An issuer that is never the subject's own.
const STRANGER: &str = "conformance/stranger";
/// How many orders of delivery are tried.
const ORDERS: usize = 20;

pub(super) fn stranger() -> IssuerName {
    IssuerName::new(STRANGER).expect("two short words are a name")
}

pub(super) async fn first_token<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    for (name, first) in [("first/low", 1), ("first/high", 1 << 40)] {
        let resource = named(name);
        scene.holds(0, &resource, None).await?;
        scene.admitted(0, &resource, first).await?;
    }
    Ok(())
}

pub(super) async fn stale_token<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resource = named("stale/1");
    scene.admitted(0, &resource, 10).await?;
    scene.admitted(0, &resource, 20).await?;
    for late in [19, 10, 1] {
        scene.stale(0, &resource, late, 20).await?;
    }
    // The rightful holder goes on.
    scene.admitted(0, &resource, 21).await.map(drop)
}

pub(super) async fn equal_token<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resource = named("equal/1");
    for token in [10, 20] {
        scene.admitted(0, &resource, token).await?;
        match scene.profile.equal {
            EqualTokens::MayWriteAgain => drop(scene.admitted(0, &resource, token).await?),
            EqualTokens::Once => scene.stale(0, &resource, token, token).await?,
        }
    }
    Ok(())
}

pub(super) async fn reordered_delivery<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    for order in 0..ORDERS {
        scene.new_story();
        let resource = named(format!("reordered/{order}"));
        let mut tokens = [10, 20, 30, 40, 50];
        tokens.shuffle(&mut scene.rng);
        let mut mark = 0;
        for token in tokens {
            if token > mark {
                scene.admitted(0, &resource, token).await?;
                mark = token;
            } else {
                scene.stale(0, &resource, token, mark).await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn refused_changes_nothing<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resource = named("refused/1");
    let value = scene.admitted(0, &resource, 20).await?;
    for late in [19, 1] {
        scene.stale(0, &resource, late, 20).await?;
        scene.holds(0, &resource, Some((value, 20))).await?;
    }
    if scene.profile.compares_issuers {
        let mut write = scene.write_of(&resource, 90);
        write.presented.issuer = Some(stranger());
        scene.expect(0, &write, Expected::Foreign).await?;
        scene.holds(0, &resource, Some((value, 20))).await?;
    }
    if scene.profile.target_apart {
        let mut write = scene.write_of(&resource, 90);
        let elsewhere = named("refused/elsewhere");
        write.presented.resource = elsewhere.clone();
        scene.expect(0, &write, Expected::Foreign).await?;
        scene.holds(0, &resource, Some((value, 20))).await?;
        scene.holds(0, &elsewhere, None).await?;
    }
    // What shows only in answers: the mark is neither below nor above what it was.
    scene.stale(0, &resource, 19, 20).await?;
    scene.admitted(0, &resource, 21).await.map(drop)
}

pub(super) async fn shared_marks<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resource = named("shared/1");
    // Both have seen the resource before either raises it, so that a copy would be an old one.
    scene.admitted(0, &resource, 10).await?;
    scene.has_mark(1, &resource, 10).await?;
    for round in 1..4 {
        let (older, newer) = (round * 10 + 1, round * 10 + 2);
        let (raises, late) = match round % 2 {
            0 => (0, 1),
            _ => (1, 0),
        };
        scene.admitted(raises, &resource, newer).await?;
        scene.stale(late, &resource, older, newer).await?;
    }
    // A handle that was opened later sees it too.
    scene.stale(2, &resource, 20, 32).await
}
