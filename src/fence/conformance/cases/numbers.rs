//! Tokens are 63-bit integers, whatever a language or a column makes of numbers.

use crate::{
    fence::{
        EqualTokens,
        conformance::{
            Place,
            scene::{Scene, Stop},
        },
    },
    limits::TOKEN_VALUE_MAX,
};

use super::named;

const MAX: u64 = TOKEN_VALUE_MAX;

/// Admits the tokens in turn, and refuses all that went before after each.
async fn climb<P: Place>(scene: &mut Scene<P>, name: &str, tokens: &[u64]) -> Result<(), Stop> {
    let resource = named(name);
    for (n, token) in tokens.iter().enumerate() {
        scene.admitted(0, &resource, *token).await?;
        for late in &tokens[..n] {
            scene.stale(0, &resource, *late, *token).await?;
        }
    }
    Ok(())
}

pub(super) async fn longer_token<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    climb(scene, "longer/1", &[9, 10, 99, 100, 1_000, 99_999, 100_000]).await?;
    let resource = named("longer/2");
    scene.admitted(0, &resource, 10).await?;
    scene.stale(0, &resource, 9, 10).await?;
    scene.stale(0, &resource, 2, 10).await
}

pub(super) async fn wide_tokens<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    for (name, edge) in [("wide/31", 1 << 31), ("wide/32", 1_u64 << 32)] {
        climb(scene, name, &[1, edge - 1, edge, edge + 1, edge + edge / 2]).await?;
    }
    // Cut to 32 bits, the first would be 5.
    let resource = named("wide/cut");
    scene.admitted(0, &resource, (1 << 32) + 5).await?;
    scene.stale(0, &resource, 6, (1 << 32) + 5).await
}

pub(super) async fn exact_tokens<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let edge = 1 << 53;
    climb(scene, "exact/53", &[edge - 1, edge, edge + 1, edge + 2]).await?;
    climb(scene, "exact/62", &[(1 << 62) - 1, 1 << 62, (1 << 62) + 1]).await
}

pub(super) async fn largest_token<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resource = named("largest/1");
    scene.admitted(0, &resource, MAX - 1).await?;
    scene.admitted(0, &resource, MAX).await?;
    scene.stale(0, &resource, MAX - 1, MAX).await?;
    scene.stale(0, &resource, 1, MAX).await?;
    match scene.profile.equal {
        EqualTokens::MayWriteAgain => scene.admitted(0, &resource, MAX).await.map(drop),
        EqualTokens::Once => scene.stale(0, &resource, MAX, MAX).await,
    }
}
