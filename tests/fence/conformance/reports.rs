//! What the kit tells: in text, in JSON, about what it could not try, and about what never ends.

use std::time::Duration;

use fencepost::{
    fence::{
        EqualTokens,
        conformance::{
            Answer, Case, Contents, Fault, Handle, Outcome, Place, Profile, Report, Settings,
            Steps, Subject, Write, check, check_only,
        },
    },
    resource::ResourceName,
};

use super::shelf::{Flaw, Shelf};

async fn of_float_tokens() -> Report {
    let shelf = Shelf {
        flaw: Flaw::AsFloat,
        equal: EqualTokens::MayWriteAgain,
    };
    let cases = [Case::FirstToken, Case::ExactTokens];
    check_only(&shelf, &Settings::default().seed(7), &cases).await
}

/// Somebody who has read nothing else learns what was promised, what happened and what to look for.
#[tokio::test]
async fn a_report_tells_the_whole_story() {
    let told = of_float_tokens().await.to_string();
    for part in [
        "shelf, AsFloat: does it fence?",
        "held       first-token",
        "BROKEN     exact-tokens",
        "the promise:   Neighbouring tokens above 2^53 stay different.",
        "should have been refused as stale, and was admitted",
        "usual cause:   Tokens pass through a floating-point number",
        "handle 1 writes 2 to \"exact/53\" with token 9007199254740992: admitted",
        "with token 9007199254740991: refused as stale, 9007199254740992 required",
        "1 held, 1 broken, 0 failed, 0 not tried (seed 7)",
    ] {
        assert!(told.contains(part), "no {part:?} in:\n{told}");
    }
}

#[tokio::test]
async fn a_report_goes_through_json() {
    let report = of_float_tokens().await;
    let json = serde_json::to_string(&report).unwrap();
    for part in [
        r#""seed":7"#,
        r#"{"case":"first-token","outcome":"held"}"#,
        r#"{"case":"exact-tokens","outcome":"broken","what":"#,
    ] {
        assert!(json.contains(part), "no {part} in {json}");
    }
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn a_case_has_one_name_everywhere() {
    for case in Case::ALL {
        assert_eq!(serde_json::to_value(case).unwrap(), case.id());
        assert_eq!(Case::named(case.id()), Some(case));
        assert!(case.promise().ends_with('.'), "{case}");
        assert!(case.usual_cause().ends_with('.'), "{case}");
    }
    assert_eq!(Case::named("no-such-case"), None);
    assert!(Case::ALL.is_sorted(), "they are tried in their order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_seed_makes_the_same_choices() {
    let shelf = Shelf {
        flaw: Flaw::NeverCompared,
        equal: EqualTokens::MayWriteAgain,
    };
    let cases = [Case::ReorderedDelivery, Case::ManyResources];
    let mut told = Vec::new();
    for seed in [11, 11, 12] {
        let settings = Settings::default().seed(seed);
        told.push(check_only(&shelf, &settings, &cases).await.cases);
    }
    assert_eq!(told[0], told[1]);
    assert_ne!(told[0], told[2]);
}

/// The page for authors lists the cases as they are.
#[test]
fn the_page_for_authors_lists_every_case() {
    let page = include_str!("../../../docs/conformance.md");
    for case in Case::ALL {
        let row = format!("| `{case}` | {} |", case.promise());
        assert!(page.contains(&row), "no {row}");
    }
}

/// A subject that answers nothing: it admits everything and keeps nothing, or waits for ever.
#[derive(Clone)]
struct Nothing {
    waits: bool,
}

impl Subject for Nothing {
    type Place = Self;

    fn profile(&self) -> Profile {
        let profile = Profile::new("nothing").without_values().without_marks();
        profile.ignores_issuers()
    }

    async fn place(&self) -> Result<Self, Fault> {
        Ok(self.clone())
    }
}

impl Place for Nothing {
    type Handle = Self;

    async fn open(&self) -> Result<Self, Fault> {
        Ok(self.clone())
    }
}

impl Handle for Nothing {
    async fn write(&mut self, _: &Write, _: &mut Steps) -> Result<Answer, Fault> {
        if self.waits {
            std::future::pending::<()>().await;
        }
        Ok(Answer::Admitted)
    }

    async fn read(&mut self, _: &ResourceName) -> Result<Contents, Fault> {
        Ok(Contents::default())
    }
}

/// Where neither values nor marks can be read, the answers alone must give a guard away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_admits_everything_is_caught_by_its_answers_alone() {
    let report = check(&Nothing { waits: false }, &Settings::default()).await;
    for case in [
        Case::StaleToken,
        Case::ReorderedDelivery,
        Case::WideTokens,
        Case::SharedMarks,
        Case::ManyResources,
    ] {
        assert!(report.broken().contains(&case), "{report}");
    }
    assert_eq!(
        report.not_tried(),
        [
            Case::ForeignResource,
            Case::ForeignIssuer,
            Case::MissingIssuer,
            Case::Restart,
            Case::InterleavedWrites,
            Case::CrashBetweenCheckAndWrite,
            Case::RestoredBackup
        ]
    );
}

/// What never answers decides nothing, within the bound: that is no pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_answers_fails_within_the_bound() {
    let settings = Settings::default().case_bound(Duration::from_millis(50));
    let report = check(&Nothing { waits: true }, &settings).await;
    assert!(!report.conforms());
    for case in [Case::FirstToken, Case::ConcurrentWriters] {
        let outcome = report.outcome(case).unwrap();
        let Outcome::Failed { error, .. } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.contains("longer than the bound of 50ms"), "{error}");
        let cause = "a transaction that was left open after a refusal";
        assert!(error.contains(cause), "{error}");
    }
    let told = report.to_string();
    let last = "with token 1 (nothing after this: it was still waiting)\n";
    assert!(told.contains(last), "{told}");
}

/// Nothing held, nothing promised: a report of cases that were not tried is no pass.
#[tokio::test]
async fn what_was_not_tried_at_all_does_not_conform() {
    let cases = [Case::Restart, Case::RestoredBackup];
    let report = check_only(&Nothing { waits: false }, &Settings::default(), &cases).await;
    assert_eq!(report.not_tried(), cases);
    assert!(!report.conforms());
}
