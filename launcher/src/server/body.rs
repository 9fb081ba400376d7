//! Bodies of requests: read completely, and bounded.

use crate::error::{Error, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;

/// The largest body that is read: a manifest with its seeds is far smaller.
const LARGEST: usize = 4 << 20;

/// Reads a body as JSON.
pub(super) async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T> {
    parse(&read_body(body).await?)
}

/// Reads a body as JSON; a missing body gives the default.
pub(super) async fn read_or_default<T: DeserializeOwned + Default>(body: Incoming) -> Result<T> {
    let bytes = read_body(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

async fn read_body(body: Incoming) -> Result<Bytes> {
    match Limited::new(body, LARGEST).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => {
            Err(Error::refused("the body of the request is larger than 4 MiB"))
        }
        Err(e) => Err(Error::refused("the body of the request broke off").because(e)),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::refused(format!("the body of the request is not understood: {e}")))
}
