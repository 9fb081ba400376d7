//! An upload from beginning to end, for the verb and for the page.

use super::hears::Phase;
use super::{Bytes, Errand, address, data_source, done, place, proxy::Proxy, ready, send};
use cdi::Result;

/// Upload proxy to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// Address; empty for the one in the CDIConfig.
    pub(crate) url: String,
    /// True if any certificate is accepted.
    pub(crate) accepts_any_certificate: bool,
}

/// Uploads the bytes, and waits until the disk is complete.
pub(crate) async fn run(errand: Errand<'_>, at: &At, bytes: &Bytes) -> Result<()> {
    let Errand { cluster, wish, hears } = errand;
    hears.begins(Phase::Preparing);
    place::prepare(errand, bytes).await?;
    hears.begins(Phase::Waiting);
    ready::wait_for_pod(errand).await?;
    if wish.attempts > 0 {
        let url = match at.url.as_str() {
            "" => address::discover(cluster).await?,
            url => url.to_owned(),
        };
        let url = address::whole(&url);
        let proxy = Proxy::new(&url, at.accepts_any_certificate)?;
        hears.out(&format!("Uploading data to {url}\n"))?;
        hears.begins(Phase::Sending);
        send::send_bytes(errand, &proxy, bytes).await?;
        hears.begins(Phase::Processing);
        hears.out(
            "Uploading data completed successfully, waiting for processing to complete, \
             you can hit ctrl-c without interrupting the progress\n",
        )?;
    } else {
        hears.begins(Phase::Processing);
        hears.say("--retry=0 sends nothing: the disk is waited for, which somebody else uploads");
    }
    if wish.data_source {
        data_source::lead(errand).await?;
    }
    done::wait_for_disk(errand).await
}
