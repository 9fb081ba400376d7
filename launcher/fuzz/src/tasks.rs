//! A runtime of one's own for each input; a task that panicked in it is a fault, though a runtime survives it.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Builder;

/// No input takes so long; an input that does waits for ever.
const PATIENCE: Duration = Duration::from_secs(60);

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs it to its end, on one thread.
pub(crate) fn run(future: impl Future<Output = ()>) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(info);
        }));
    });
    let panics = PANICS.load(Ordering::SeqCst);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await });
    // Threads that block end by themselves.
    runtime.shutdown_background();
    assert!(ended.is_ok(), "waited {PATIENCE:?} for an end that does not come");
    assert_eq!(PANICS.load(Ordering::SeqCst), panics, "a task panicked, see above");
}
