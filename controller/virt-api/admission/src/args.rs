//! Command line of `virt-api`, and its composition.

use super::live::Live;
use super::measures;
use super::routes::Routes;
use clap::Parser;
use cluster_client::error::Result;
use cluster_model::servers::{self, PORT};
use cluster_model::uploads::PRIVATE_KEY;
use serve::health::Health;
use serve::mounted;
use serve::program::{asked_to_end, client, ends_after};
use serve::transport::tls::{self, CurrentCertificate};
use serve::transport::{Limits, Transport, everywhere, listen};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Admission webhooks of VMs and VMIs, and the aggregated API by which people drive them.
#[derive(Debug, Parser)]
#[command(name = "virt-api", version)]
pub struct Api {
    /// The namespace it runs in
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubevirt")]
    namespace: String,
    /// Address of webhooks, subresources, /healthz, /readyz and /metrics, by HTTPS
    #[arg(long, default_value_t = everywhere(PORT))]
    listen: SocketAddr,
    /// Folder of the mounted Secret with the key that signs upload tokens; without it no token is given
    #[arg(long, value_name = "FOLDER", default_value = "/etc/virt-api/signing-key")]
    signing_key: PathBuf,
}

impl Api {
    /// Runs until a signal to end.
    pub async fn run(self) -> Result<()> {
        let live =
            Arc::new(Live::new(&self.namespace, Arc::new(CurrentCertificate::own(servers::API.program)?)));
        let (api, webhooks) = (client(&live.dials.pace).await?, client(&live.dials.webhooks).await?);
        let health = Health::default();
        health.tells(&live.dials.version);
        let asked = asked_to_end()?;
        let listener = listen(self.listen).await?;
        let transport = Arc::new(Transport::new(Limits::of_server()));
        tokio::spawn(measures::tell(Arc::clone(&live), Arc::clone(&transport), health.measures()));
        tokio::spawn(Arc::clone(&live).keep(api.clone()));
        let signer = Arc::clone(&live.signer);
        let key = self.signing_key.join(PRIVATE_KEY);
        tokio::spawn(mounted::follow([key], move |[pem]| signer.take(pem)));
        let followed = Arc::clone(&live);
        tokio::spawn(health.clone().set_ready_when(move || followed.is_ready()));
        let routes = Routes::new(Arc::clone(&live), health.clone(), api, webhooks);
        let ended = ends_after(asked, health);
        let authorities = Arc::clone(&live.aggregation.authorities);
        let config = tls::config(Arc::clone(&live.shown), Some(authorities), Arc::clone(&live.dials.terms))?;
        tracing::info!("answering on {}", self.listen);
        transport.serve(listener, config, Arc::new(routes), ended).await;
        Ok(())
    }
}
