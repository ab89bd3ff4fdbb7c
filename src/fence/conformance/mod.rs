//! The conformance kit: holds anybody's guard to the promise of this crate's own.
//!
//! *Once a guard has admitted token t for a resource, nothing with a lower token has any effect
//! there.* The sentence is short, and guards that break it look right: they compare and then write,
//! keep the token in a float, have one mark for everything, or forget it in a restart. The kit plays
//! what goes wrong in practice, one [`Case`] at a time, and tells what happened in words that need
//! no other page.
//!
//! An author says how to make an empty place, how to open it as one more process would, and how to
//! write and read there ([`Subject`], [`Place`], [`Handle`]), and declares the rules in a
//! [`Profile`]. A plain [`Guard`](super::Guard) needs no more than [`Guards`].
//!
//! A value for each resource, in a map, behind a mark of its own:
//!
//! ```
//! use std::{collections::HashMap, sync::{Arc, Mutex}};
//! use fencepost::{
//!     fence::{Mark, Rules, Verdict, conformance::{self, *}},
//!     resource::ResourceName,
//! };
//!
//! struct MyStore;
//!
//! /// The place is the map; whoever opens it shares it.
//! #[derive(Clone, Default)]
//! struct MyMap(Arc<Mutex<HashMap<ResourceName, (u32, Mark)>>>);
//!
//! impl Subject for MyStore {
//!     type Place = MyMap;
//!
//!     fn profile(&self) -> Profile {
//!         Profile::new("my map").issued_by("prod".parse().unwrap())
//!     }
//!
//!     async fn place(&self) -> Result<MyMap, Fault> {
//!         Ok(MyMap::default())
//!     }
//! }
//!
//! impl Place for MyMap {
//!     type Handle = MyMap;
//!
//!     async fn open(&self) -> Result<MyMap, Fault> {
//!         Ok(self.clone())
//!     }
//! }
//!
//! impl Handle for MyMap {
//!     async fn write(&mut self, write: &Write, _: &mut Steps) -> Result<Answer, Fault> {
//!         let Some(sequencer) = write.sequencer() else { return Ok(Answer::Invalid) };
//!         // Compared and written under one lock: that is the whole art.
//!         let mut map = self.0.lock().unwrap();
//!         let mark = map.get(&write.resource).map(|(_, mark)| mark);
//!         let verdict = Rules::issued_by("prod".parse()?).judge(&sequencer, mark);
//!         if verdict == Verdict::Admitted {
//!             let mark = Mark { issuer: sequencer.issuer, token: sequencer.token };
//!             map.insert(write.resource.clone(), (write.value, mark));
//!         }
//!         Ok(verdict.into())
//!     }
//!
//!     async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
//!         let map = self.0.lock().unwrap();
//!         let found = map.get(resource);
//!         Ok(Contents {
//!             value: found.map(|(value, _)| *value),
//!             mark: found.map(|(_, mark)| mark.token),
//!         })
//!     }
//! }
//!
//! // In a test of one's own: #[tokio::test(flavor = "multi_thread")], so that writers race.
//! # #[tokio::main(worker_threads = 2)]
//! # async fn main() {
//! conformance::assert_conforms(&MyStore).await;
//! # }
//! ```
//!
//! What the kit cannot show: that a guard is right. It shows that none of the listed mistakes was
//! met, with these seeds, on this machine. What a subject cannot do is listed as not tried.

mod case;
mod cases;
mod guarded;
mod profile;
mod report;
mod scene;
mod settings;
mod steps;
mod subject;

pub use case::Case;
pub use guarded::{GuardHandle, GuardPlace, Guards};
pub use profile::Profile;
pub use report::{CaseReport, Finding, Outcome, Report};
pub use settings::Settings;
pub use steps::{Crashed, Steps};
pub use subject::{Answer, Contents, Fault, Handle, Place, Subject, Write};

use scene::{Scene, Stop};

/// What a case that came to no end is mostly found to wait for.
const USUALLY_WAITS_FOR: &str = "a usual cause is a lock that an earlier step still holds, such as a \
    transaction that was left open after a refusal: roll back at once";

/// Plays every case, each in a fresh place, in the order of [`Case::ALL`].
///
/// Call it on a tokio runtime with several threads, so that writers race. A subject that blocks its
/// thread for ever cannot be bounded; one that waits is, by [`Settings::case_bound`].
pub async fn check<S: Subject>(subject: &S, settings: &Settings) -> Report {
    check_only(subject, settings, &Case::ALL).await
}

/// Plays some of the cases.
pub async fn check_only<S: Subject>(subject: &S, settings: &Settings, cases: &[Case]) -> Report {
    let mut report = Report {
        subject: subject.profile().name,
        seed: settings.seed,
        cases: Vec::new(),
    };
    for case in cases {
        report
            .cases
            .push(check_case(subject, settings, *case).await);
    }
    report
}

/// Plays every case with the default settings, and panics with the report if one was broken or
/// failed: for a test of one's own. To see what was not tried, print the report of [`check`].
///
/// # Panics
///
/// With the report, if the subject does not conform.
pub async fn assert_conforms<S: Subject>(subject: &S) {
    let report = check(subject, &Settings::default()).await;
    assert!(report.conforms(), "\n{report}");
}

async fn check_case<S: Subject>(subject: &S, settings: &Settings, case: Case) -> CaseReport {
    let bound = settings.case_bound;
    let late = || format!("it took longer than the bound of {bound:?}");
    let failed = |error| CaseReport {
        case,
        outcome: Outcome::Failed {
            error,
            steps: Vec::new(),
        },
        notes: Vec::new(),
    };
    let place = match tokio::time::timeout(bound, subject.place()).await {
        Ok(Ok(place)) => place,
        Ok(Err(fault)) => return failed(format!("making a place failed: {fault}")),
        Err(_) => return failed(format!("making a place: {}", late())),
    };
    let mut scene = Scene::new(subject.profile(), settings.clone(), place);
    let played = tokio::time::timeout(bound, cases::play(case, &mut scene)).await;
    let outcome = match played {
        Ok(Ok(())) => Outcome::Held,
        Ok(Err(Stop::Broken(finding))) => Outcome::Broken(finding),
        Ok(Err(Stop::NotTried(reason))) => Outcome::NotTried { reason },
        Ok(Err(Stop::Failed(error))) => Outcome::Failed {
            error,
            steps: scene.steps(),
        },
        Err(_) => Outcome::Failed {
            error: format!("{}; {USUALLY_WAITS_FOR}", late()),
            steps: scene.waiting(),
        },
    };
    CaseReport {
        case,
        outcome,
        notes: scene.notes,
    }
}
