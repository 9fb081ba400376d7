//! Inspection of a disk file in the browser by its first bytes: the form gets the size of the volume, and an
//! unsupported disk is reported before its bytes are sent.

use super::super::answer::Refusal;
use crate::error::Error;
use crate::virt::upload::params::size_for;
use cdi::inspect::inspect_front;
use http::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};

/// Inspects the front of a file of this length.
pub(in crate::page) async fn inspect_file(front: Bytes, length: u64) -> Result<Value, Refusal> {
    if front.is_empty() || length == 0 {
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "the file is empty"));
    }
    let looked = tokio::task::spawn_blocking(move || inspect_front("the file", length, front.to_vec()));
    let report = looked
        .await
        .map_err(|e| Error::failed("cannot look at the file").because(e))?
        .map_err(Error::from)?;
    Ok(json!({
        "format": report.format,
        "layers": report.layers,
        "size": report.virtual_size.filter(|_| report.refused.is_none()).map(size_for),
        "refused": report.refused,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_size_of_a_volume_comes_from_the_first_bytes() {
        let raw = inspect_file(Bytes::from_static(&[0; 512]), 10 << 30).await.unwrap();
        assert_eq!(raw, json!({"format": "raw", "layers": [], "size": "10Gi", "refused": null}));
        let vmdk = inspect_file(Bytes::from_static(b"KDMV and more"), 5 << 20).await.unwrap();
        assert_eq!((&vmdk["format"], &vmdk["size"]), (&json!("vmdk"), &Value::Null));
        assert!(vmdk["refused"].as_str().unwrap().contains("vmdk"), "{vmdk}");
        assert!(inspect_file(Bytes::new(), 0).await.is_err());
    }
}
