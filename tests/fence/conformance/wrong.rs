//! The kit itself: what is right passes every case, and each mistake is caught by the case that
//! names it.

use fencepost::fence::{
    EqualTokens,
    conformance::{Case, Outcome, Report, Settings, check, check_only},
};

use super::shelf::{Flaw, Shelf};

/// Enough to catch everything here, and quick.
fn settings() -> Settings {
    Settings::default().case_bound(std::time::Duration::from_secs(20))
}

async fn judged(flaw: Flaw, case: Case) -> Report {
    let shelf = Shelf {
        flaw,
        equal: EqualTokens::MayWriteAgain,
    };
    let report = check_only(&shelf, &settings(), &[case]).await;
    println!("{report}");
    report
}

/// The mistakes, each with the case that names it.
const CAUGHT: [(Flaw, Case); 26] = [
    (Flaw::NeverCompared, Case::StaleToken),
    (Flaw::Strict, Case::EqualToken),
    (Flaw::AsText, Case::LongerToken),
    (Flaw::CutTo32Bits, Case::WideTokens),
    (Flaw::AsFloat, Case::ExactTokens),
    (Flaw::BelowTheMaximum, Case::LargestToken),
    (Flaw::LoweredByUpsert, Case::ReorderedDelivery),
    (Flaw::OneMarkForAll, Case::ResourcesApart),
    (Flaw::TargetIgnored, Case::ForeignResource),
    (Flaw::IssuerIgnored, Case::ForeignIssuer),
    (Flaw::MissingIssuerAccepted, Case::MissingIssuer),
    (Flaw::NamesFolded, Case::ResourceNames),
    (Flaw::NamesCut, Case::ResourceNames),
    (Flaw::RaisedBeforeJudged, Case::RefusedChangesNothing),
    (Flaw::LoweredByUpsert, Case::RefusedChangesNothing),
    (Flaw::OnlyWhatIsThere, Case::FirstToken),
    (Flaw::CopyForEachHandle, Case::SharedMarks),
    (Flaw::CheckThenWrite, Case::InterleavedWrites),
    (Flaw::CheckThenWrite, Case::ConcurrentWriters),
    (Flaw::CheckThenWriteInOneBreath, Case::ConcurrentWriters),
    (Flaw::WriteThenRaise, Case::InterleavedWrites),
    (Flaw::RaiseThenWrite, Case::InterleavedWrites),
    (Flaw::RaiseThenWrite, Case::CrashBetweenCheckAndWrite),
    (
        Flaw::KeepsOthersOutWhenDead,
        Case::CrashBetweenCheckAndWrite,
    ),
    (Flaw::MarksInMemory, Case::Restart),
    (Flaw::MarksNotBackedUp, Case::RestoredBackup),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mistake_is_caught_by_the_case_that_names_it() {
    for (flaw, case) in CAUGHT {
        let report = judged(flaw, case).await;
        assert_eq!(
            report.broken(),
            [case],
            "{flaw:?} got past {case}:\n{report}"
        );
        assert!(!report.conforms());
    }
}

/// A mistake is not blamed on everything: the cases before the one that names it hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mistake_in_one_thing_leaves_the_others_right() {
    for (flaw, broken) in [
        (Flaw::AsFloat, Case::ExactTokens),
        (Flaw::NamesFolded, Case::ResourceNames),
        (Flaw::IssuerIgnored, Case::ForeignIssuer),
        (Flaw::MarksInMemory, Case::Restart),
    ] {
        for case in Case::ALL.into_iter().filter(|case| *case < broken) {
            let report = judged(flaw, case).await;
            assert_eq!(report.outcome(case), Some(&Outcome::Held), "{report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_right_passes_every_case() {
    for equal in [EqualTokens::MayWriteAgain, EqualTokens::Once] {
        let shelf = Shelf {
            flaw: Flaw::None,
            equal,
        };
        let report = check(&shelf, &settings()).await;
        assert!(report.conforms(), "{report}");
        assert_eq!(report.not_tried(), [], "{report}");
        assert_eq!(report.cases.len(), Case::ALL.len());
    }
}

/// A refusal need not say which token is required (an HTTP service may keep it to itself).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_may_leave_out_what_is_required() {
    let shelf = Shelf {
        flaw: Flaw::RequiredIsMissing,
        equal: EqualTokens::MayWriteAgain,
    };
    let report = check(&shelf, &settings()).await;
    assert!(report.conforms(), "{report}");
}
