//! The two ends of a clone: a worker that serves the disk of a PVC to one client, and that client, which
//! imports it.
//!
//! ```text
//!  Serve { disk, client }                                 Source::Clone(Clone { url, tls })
//!  namespace of the source, PVC opened for reading        namespace of the target
//!  cdi-worker serve ──TLS, both ends by certificates──►   cdi-worker import
//! ```

use super::Target;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Disk of another PVC, which a worker serves.
#[derive(std::clone::Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Clone {
    /// Address of the disk: `https://NAME.NAMESPACE.svc:8443/disk`.
    pub url: String,
    /// Folder with the certificate and key of the client, `tls.crt` and `tls.key`, and the authorities of the
    /// server, `ca.crt`. No other authority is trusted.
    pub tls: PathBuf,
}

/// Disk to be served to the client of a clone.
#[derive(std::clone::Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Serve {
    /// File or block device, which is opened for reading.
    pub disk: Target,
    /// Common name in the certificate of the only client that may read the disk.
    pub client: String,
    /// True for a block device that several nodes may write to: its version holds for one process of the
    /// worker alone. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_shared: bool,
}
