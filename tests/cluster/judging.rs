//! A test's own history, held to the named checks once its cluster has ended.

use crate::{
    checks::{Evidence, Facts, Verdict},
    history::{audit::NodeAudit, recorder::Recorder, watched::Watched},
    nodes::Cluster,
};

/// What every history must show, whatever a test did.
pub(crate) const ALWAYS: [&str; 9] = [
    "TOKEN-RT",
    "TOKEN-UNIQ",
    "LIN",
    "FIFO",
    "MUTEX-LEASE",
    "NO-EARLY",
    "NO-LOST-GRANT",
    "HONEST",
    "HASH",
];

/// Lets the nodes catch up, ends them, and holds all that was recorded to the checks of these names.
pub(crate) async fn must_hold(cluster: &mut Cluster, recorder: &Recorder, names: &[&str]) {
    must_hold_with(cluster, recorder, Vec::new(), names).await;
}

/// The same, with what watchers were told.
pub(crate) async fn must_hold_with(
    cluster: &mut Cluster,
    recorder: &Recorder,
    watched: Vec<Watched>,
    names: &[&str],
) {
    cluster.start_all();
    cluster.ready().await;
    cluster.caught_up().await;
    for node in cluster.founders() {
        assert_eq!(
            cluster.terminate(node).await,
            0,
            "node {node} did not end well"
        );
    }
    let evidence = evidence(cluster, recorder, watched);
    for name in names {
        let verdict = evidence.verdict(name);
        println!("{name:<16} {verdict}");
        assert!(matches!(verdict, Verdict::Holds(_)), "{name}: {verdict}");
    }
}

fn evidence(cluster: &Cluster, recorder: &Recorder, watched: Vec<Watched>) -> Evidence {
    let audits = cluster
        .founders()
        .map(|node| NodeAudit::read(node, &cluster.place.audit(node)).unwrap());
    let mut evidence = Evidence::new(recorder.history(), audits.collect(), Facts::default());
    evidence.watched = watched;
    evidence
}
