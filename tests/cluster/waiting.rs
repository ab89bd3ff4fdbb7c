//! Bounded waiting on a condition: the only way in which these tests wait.

use std::time::{Duration, Instant};

/// How long anything may take that has no bound of its own. Generous: it ends tests that hang, and
/// decides nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer, and panics when there is none in time.
pub(crate) async fn eventually<T>(
    what: &str,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}
