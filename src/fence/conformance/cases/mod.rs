//! What each case does. They speak to the subject through the scene alone.

mod answers;
mod concurrent;
mod crash;
mod durable;
mod history;
mod interleaved;
mod numbers;
mod scope;

use crate::resource::ResourceName;

use super::{
    Case, Place,
    scene::{Scene, Stop},
};

/// Plays one case.
pub(super) async fn play<P: Place>(case: Case, scene: &mut Scene<P>) -> Result<(), Stop> {
    match case {
        Case::FirstToken => answers::first_token(scene).await,
        Case::StaleToken => answers::stale_token(scene).await,
        Case::EqualToken => answers::equal_token(scene).await,
        Case::ReorderedDelivery => answers::reordered_delivery(scene).await,
        Case::LongerToken => numbers::longer_token(scene).await,
        Case::WideTokens => numbers::wide_tokens(scene).await,
        Case::ExactTokens => numbers::exact_tokens(scene).await,
        Case::LargestToken => numbers::largest_token(scene).await,
        Case::ResourcesApart => scope::resources_apart(scene).await,
        Case::ForeignResource => scope::foreign_resource(scene).await,
        Case::ForeignIssuer => scope::foreign_issuer(scene).await,
        Case::MissingIssuer => scope::missing_issuer(scene).await,
        Case::ResourceNames => scope::resource_names(scene).await,
        Case::RefusedChangesNothing => answers::refused_changes_nothing(scene).await,
        Case::SharedMarks => answers::shared_marks(scene).await,
        Case::ManyResources => scope::many_resources(scene).await,
        Case::ConcurrentWriters => concurrent::concurrent_writers(scene).await,
        Case::InterleavedWrites => interleaved::interleaved_writes(scene).await,
        Case::CrashBetweenCheckAndWrite => crash::crash_between_check_and_write(scene).await,
        Case::Restart => durable::restart(scene).await,
        Case::RestoredBackup => durable::restored_backup(scene).await,
    }
}

/// The names of the cases are written down here; all are valid.
fn named(name: impl AsRef<str>) -> ResourceName {
    ResourceName::new(name.as_ref()).expect("the cases use valid names")
}

fn not_tried(reason: &str) -> Result<(), Stop> {
    Err(Stop::NotTried(reason.to_owned()))
}
