//! What a token may be compared within: one issuer and one resource, both by their exact names.

use std::collections::BTreeMap;

use rand::RngExt as _;

use crate::{
    fence::conformance::{
        Answer, Place,
        scene::{Expected, Scene, Stop, quoted},
    },
    sequencer::MissingIssuer,
};

use super::{answers::stranger, named, not_tried};

/// Writes for each resource while many are kept apart.
const WRITES_EACH: usize = 5;

pub(super) async fn resources_apart<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let (high, low) = (named("apart/high"), named("apart/low"));
    let kept = scene.admitted(0, &high, 1_000).await?;
    scene.admitted(0, &low, 5).await?;
    scene.admitted(0, &low, 6).await?;
    scene.holds(0, &high, Some((kept, 1_000))).await?;
    scene.stale(0, &high, 7, 1_000).await?;
    scene.stale(0, &low, 5, 6).await
}

pub(super) async fn foreign_resource<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    if !scene.profile.target_apart {
        return not_tried(
            "what a write is for is what its sequencer names, so that the two cannot differ",
        );
    }
    let (resource, other) = (named("foreign/here"), named("foreign/there"));
    let value = scene.admitted(0, &resource, 20).await?;
    // One far above the mark, one equal, one below: none of them is compared.
    for token in [1_000, 20, 1] {
        let mut write = scene.write_of(&resource, token);
        write.presented.resource = other.clone();
        scene.expect(0, &write, Expected::Foreign).await?;
        scene.holds(0, &resource, Some((value, 20))).await?;
    }
    scene.holds(0, &other, None).await?;
    scene.admitted(0, &other, 5).await.map(drop)
}

pub(super) async fn foreign_issuer<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    if !scene.profile.compares_issuers {
        return not_tried("it was declared to ignore issuers");
    }
    let resource = named("issuer/1");
    if scene.profile.told.is_some() {
        let mut write = scene.write_of(&resource, 5);
        write.presented.issuer = Some(stranger());
        scene.expect(0, &write, Expected::Foreign).await?;
        scene.holds(0, &resource, None).await?;
    }
    let value = scene.admitted(0, &resource, 20).await?;
    for token in [1_000, 20, 1] {
        let mut write = scene.write_of(&resource, token);
        write.presented.issuer = Some(stranger());
        scene.expect(0, &write, Expected::Foreign).await?;
        scene.holds(0, &resource, Some((value, 20))).await?;
    }
    scene.admitted(0, &resource, 21).await.map(drop)
}

pub(super) async fn missing_issuer<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let Some(missing) = scene.profile.missing_issuer else {
        return not_tried("nothing can be presented to it without an issuer");
    };
    let resource = named("missing/1");
    let value = scene.admitted(0, &resource, 10).await?;
    let mut write = scene.write_of(&resource, 20);
    write.presented.issuer = None;
    match missing {
        MissingIssuer::Refuse => {
            scene.expect(0, &write, Expected::Invalid).await?;
            scene.holds(0, &resource, Some((value, 10))).await
        }
        MissingIssuer::Accept => {
            scene.expect(0, &write, Expected::Admitted).await?;
            scene.holds(0, &resource, Some((write.value, 20))).await?;
            scene.stale(0, &resource, 19, 20).await
        }
    }
}

/// Names that some store, language or protocol takes for one another.
fn lookalikes() -> Vec<String> {
    let mut names: Vec<String> = [
        // Case, in ASCII and beyond it.
        "Accounts/1",
        "accounts/1",
        "ACCOUNTS/1",
        "stra\u{df}e",
        "strasse",
        "STRASSE",
        "\u{131}d",
        "id",
        "Id",
        // Slashes, dots and blanks, at the end and doubled.
        "accounts/1/",
        "accounts/1.",
        "accounts//1",
        "accounts/./1",
        "accounts/x/../1",
        "a b",
        "a  b",
        "a+b",
        "a\u{a0}b",
        // Prefixes, and what looks like a number.
        "accounts/10",
        "accounts",
        "1",
        "01",
        "1.0",
        "1e0",
        "+1",
        "0x1",
        // Two spellings of one accent, a wide letter, one without width.
        "caf\u{e9}",
        "cafe\u{301}",
        "cafe",
        "\u{ff41}bc",
        "abc",
        "ab\u{200b}c",
        // Escapes, wildcards, quotes and what a shell or a path would make of them.
        "100%",
        "100%25",
        "a%2Fb",
        "a/b",
        "a_b",
        "axb",
        "a%b",
        "a*b",
        "o'neil",
        "o''neil",
        "oneil",
        "\"abc\"",
        "`abc`",
        "a\\b",
        "a\\\\b",
        "a:b",
        "a;b",
        "a,b",
        "{abc}",
        "$abc",
        "null",
        "NULL",
        "nil",
        "\u{1f980}",
        "\u{1f980}\u{1f980}",
    ]
    .map(str::to_owned)
    .to_vec();
    // As long as a name may be, and different in the last character only.
    names.extend(["a", "b"].map(|last| format!("{}{last}", "n".repeat(159))));
    names.extend(["a", "b"].map(|last| format!("{}{last}", "\u{1f980}".repeat(159))));
    names
}

/// Each name gets a lower token than the one before, so that one that shares another's mark is
/// refused. A store may have no room for a name and say so, by an error; it may not take it for
/// another.
pub(super) async fn resource_names<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let names: Vec<_> = lookalikes().into_iter().map(named).collect();
    let mut written = BTreeMap::new();
    for (name, token) in names.iter().zip((1..=1_000_u64).rev()) {
        let write = scene.write_of(name, token);
        let refused = match scene.attempt(0, &write).await? {
            Ok(Answer::Admitted) => {
                let contents = (write.value, token);
                written.insert(scene.required(token), (name, contents));
                continue;
            }
            Ok(Answer::Stale { required }) => {
                let of = required.and_then(|required| written.get(&required));
                let of = of.map_or_else(|| "another name".to_owned(), |(name, _)| quoted(name));
                let what = format!("{} shares the mark of {of}", quoted(name));
                return Err(scene.broken(what));
            }
            Ok(Answer::Foreign) => {
                let what = format!("{} is refused as foreign", quoted(name));
                return Err(scene.broken(what));
            }
            Ok(Answer::Invalid) => "invalid".to_owned(),
            Err(fault) => fault.to_string(),
        };
        let note = format!("the name {} is refused: {refused}", quoted(name));
        scene.notes.push(note);
    }
    if written.is_empty() {
        return Err(Stop::Failed("no name at all can be written".to_owned()));
    }
    for (name, contents) in written.into_values() {
        scene.holds(0, name, Some(contents)).await?;
    }
    Ok(())
}

/// Random tokens for random resources through random handles, held against plain numbers in a map.
pub(super) async fn many_resources<P: Place>(scene: &mut Scene<P>) -> Result<(), Stop> {
    let resources = scene.settings.resources;
    let mut marks = BTreeMap::new();
    for _ in 0..resources * WRITES_EACH {
        let number = scene.rng.random_range(0..resources);
        let resource = named(format!("many/{number}"));
        let (by, token) = (
            scene.rng.random_range(0..2),
            scene.rng.random_range(1..1_000),
        );
        let mark = marks.get(&number).map_or(0, |(_, mark)| *mark);
        // Equal tokens have a case of their own.
        if token > mark {
            let value = scene.admitted(by, &resource, token).await?;
            marks.insert(number, (value, token));
        } else if token < mark {
            scene.stale(by, &resource, token, mark).await?;
        }
    }
    for (number, contents) in marks {
        let resource = named(format!("many/{number}"));
        scene.holds(0, &resource, Some(contents)).await?;
    }
    Ok(())
}
