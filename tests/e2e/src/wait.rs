//! Waiting for a condition, with a bound.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The machine's clock.
pub fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Look until `condition` gives a value; says `what` was awaited if it does not
/// within `bound`. Returns the value and how long it took.
pub async fn until<T, F>(what: &str, bound: Duration, mut condition: F) -> (T, Duration)
where
    F: AsyncFnMut() -> Option<T>,
{
    let clock = clock();
    let start = clock.boot();
    loop {
        if let Some(value) = condition().await {
            return (value, clock.boot().since(start));
        }
        let waited = clock.boot().since(start);
        assert!(waited < bound, "{what}: not within {bound:?}");
        clock.sleep(LOOK).await;
    }
}
