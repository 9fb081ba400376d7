//! Update of a tag whose new document is made from the present one, such as an index that gets one more image.
//!
//! ```text
//!   read ─► make ─┬─ nothing to change ─► done
//!     ▲           └─ a document ─► read again ─┬─ changed meanwhile ──────────┐
//!     │                                        └─ unchanged ─► PUT ─► a pause ┤
//!     └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A registry has no compare-and-swap, so every client looks again after its PUT. The pause before is longer
//! than the requests from the last read to the stored PUT took here. A client that read the tag before this
//! PUT, and is as fast, has written by then and is noticed. A client that is slower than the pause may still
//! remove what another one has added.

use super::document;
use super::push;
use super::repository::Repository;
use crate::manifest::Document;
use crate::{Digest, Error, Result};
use fetch::retry::jitter;
use fetch::runtime;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum number of rounds, each after another client has written to the tag.
const ROUNDS: u32 = 16;

/// Bounds of the pause after a PUT.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Ratio of the pause to the time that the PUT and the read before it took.
const MARGIN: u32 = 3;

pub(super) fn update(
    repository: &Arc<Repository>,
    tag: &str,
    mut make: impl FnMut(Option<&Document>) -> Result<Option<Document>>,
) -> Result<Digest> {
    let runtime = runtime()?;
    let read = || runtime.block_on(document::at_origin(repository, tag));
    for round in 0..ROUNDS {
        let before = read()?;
        let Some(wanted) = make(before.as_ref())? else {
            return digest(&before).ok_or_else(|| missing(repository, tag));
        };
        let began = Instant::now();
        // `make` may have sent requests of its own.
        if digest(&read()?) != digest(&before) {
            continue;
        }
        runtime.block_on(push::put(repository, &wanted, Some(tag)))?;
        sleep(pause(began.elapsed(), round));
    }
    let what = "was replaced by other clients each time that it was updated; try again when they have ended";
    Err(Error::failed(format!("{}:{tag} {what}", repository.name)))
}

fn digest(document: &Option<Document>) -> Option<Digest> {
    document.as_ref().map(|document| document.digest)
}

fn missing(repository: &Repository, tag: &str) -> Error {
    Error::failed(format!("{}:{tag} does not exist any more", repository.name))
}

/// The pause after a PUT. It grows and varies, so that clients that write at the same time get out of step.
fn pause(took: Duration, round: u32) -> Duration {
    let least = took.saturating_mul(MARGIN).clamp(SHORTEST, LONGEST);
    jitter(least.saturating_mul(1 + round.min(3)))
}
