//! The rest of a body that nothing reads. A client that is answered early goes on sending, and would see its
//! connection break before it reads the answer.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::timeout;

/// Time for which bytes are read and thrown away.
const DRAIN: Duration = Duration::from_secs(5);

/// Reads the rest of a body for some seconds, and throws it away.
pub async fn drain(mut rest: Incoming) {
    let all = async { while rest.frame().await.is_some_and(|frame| frame.is_ok()) {} };
    // Later bytes are not waited for.
    let _ = timeout(DRAIN, all).await;
}
