//! An upload from beginning to end, for the verb and for the page.

use super::observer::Phase;
use super::{Bytes, UploadContext, address, data_source, done, place, proxy::Proxy, ready, send};
use crate::error::Result;

/// Upload proxy to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxySettings {
    /// Address; empty for the one in the CDIConfig.
    pub(crate) url: String,
    /// True if any certificate is accepted.
    pub(crate) accepts_any_certificate: bool,
}

/// Uploads the bytes, and waits until the disk is complete.
pub(crate) async fn run(context: UploadContext<'_>, at: &ProxySettings, bytes: &Bytes) -> Result<()> {
    let UploadContext { cluster, params, observer } = context;
    observer.begins(Phase::Preparing);
    place::prepare(context, bytes).await?;
    observer.begins(Phase::Waiting);
    ready::wait_for_pod(context).await?;
    if params.attempts > 0 {
        let url = match at.url.as_str() {
            "" => address::discover(cluster).await?,
            url => url.to_owned(),
        };
        let url = address::with_scheme(&url);
        let proxy = Proxy::new(&url, at.accepts_any_certificate)?;
        observer.out(&format!("Uploading data to {url}\n"))?;
        observer.begins(Phase::Sending);
        send::send_bytes(context, &proxy, bytes).await?;
        observer.begins(Phase::Processing);
        observer.out(
            "Uploading data completed successfully, waiting for processing to complete, \
             you can hit ctrl-c without interrupting the progress\n",
        )?;
    } else {
        observer.begins(Phase::Processing);
        observer.say("--retry=0 sends nothing, and waits for the disk that another client uploads");
    }
    if params.data_source {
        data_source::apply(context).await?;
    }
    done::wait_for_disk(context).await
}
