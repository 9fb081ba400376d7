//! The command lines, and what they put together.

use crate::{downgrade, order};
use clap::Parser;
use cluster_client::Writer;
use cluster_client::error::{Error, Result};
use cluster_client::lease::{Lease, Pulse};
use cluster_model::objects::{ClusterFacts, Home, Key, Kind, LEASE, Program};
use cluster_model::servers::{self, PORT};
use fetch::Addresses;
use serde_json::json;
use serve::health::{Health, NoRoutes};
use serve::program::client;
use serve::settings::Dials;
use serve::transport::everywhere;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The VMs and VMIs of a cluster: from their objects to pods.
#[derive(Debug, Parser)]
#[command(name = "virt-controller", version)]
pub struct Controller {
    /// The namespace it runs in
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubevirt")]
    namespace: String,
    /// A name for this replica that no other has
    #[arg(long, env = "POD_NAME")]
    identity: String,
    /// The image of virt-launcher
    #[arg(long, env = "LAUNCHER_IMAGE")]
    launcher_image: String,
    /// The image of the workers that move disks
    #[arg(long, env = "WORKER_IMAGE")]
    worker_image: String,
    /// Poll images of DataImportCrons at the addresses of the node and of metadata services, too
    #[arg(long)]
    poll_any_address: bool,
    /// Address of /healthz, /readyz and /metrics, by HTTPS
    #[arg(long, default_value_t = everywhere(PORT))]
    listen: SocketAddr,
}

impl Controller {
    /// Runs until SIGTERM, or until the Lease is lost.
    pub async fn run(self) -> Result<()> {
        let home = Home { namespace: self.namespace.clone(), ..Home::default() };
        let dials = Dials::new(Program::Controller, home);
        let client = client(&dials.pace).await?;
        let writer = Writer::new(client.clone(), "virt-controller");
        let health = Health::default();
        health.tells(&dials.version);
        health.measures_plainly(|| crate::measures::standby_page(VERSION));
        let server = servers::CONTROLLER;
        let (terms, others) = (Arc::clone(&dials.terms), Arc::new(NoRoutes));
        health.clone().serve(self.listen, client.clone(), &self.namespace, server, terms, others).await?;
        // A replica in waiting keeps to them too.
        let (followed, of_waiting) = (client.clone(), Arc::clone(&dials));
        let waits = tokio::spawn(async move { of_waiting.follow(followed).await });
        let mut ends = signal(SignalKind::terminate())
            .map_err(|e| Error::setup("cannot install a handler of SIGTERM", e))?;
        let reports = crate::reports::Reports::new()
            .map_err(|e| Error::setup("cannot set up TLS for the reports of workers", e))?;
        let addresses = if self.poll_any_address { Addresses::Any } else { Addresses::Remote };
        let polls = crate::polls::Polls::new(addresses)
            .map_err(|e| Error::setup("cannot set up TLS for the polls of DataImportCrons", e))?;
        let mut lease = Lease::new(writer.clone(), &self.namespace, LEASE, self.identity.clone());
        tokio::select! {
            older = downgrade::refuse(&client, &self.namespace, VERSION) => older?,
            _ = ends.recv() => return Ok(()),
        }
        tokio::select! {
            () = order::wait_for_turn(&client, &self.namespace) => {}
            _ = ends.recv() => return Ok(()),
        }
        // A replica that does not hold the Lease has no work, and is ready for it.
        health.set_ready();
        tokio::select! {
            () = lease.acquire() => {}
            _ = ends.recv() => return Ok(()),
        }
        let writer = writer.with_tenure(lease.tenure());
        let pulse = Pulse::default();
        let (mut keeper, heard) = (lease.clone(), pulse.clone());
        let mut keeping = tokio::spawn(async move { keeper.renew_until_lost(&heard).await });
        let act = async {
            // A newer one may have acted while this one waited.
            downgrade::refuse(&client, &self.namespace, VERSION).await?;
            tracing::info!("{} acts", self.identity);
            let facts = self.facts(&writer).await;
            // The settings are exported as metrics once the loop has read them.
            waits.abort();
            let around = (health, pulse, dials);
            Err(crate::run::run(client.clone(), writer.clone(), facts, around, reports, polls).await)
        };
        let (ended, is_ours) = tokio::select! {
            lost = &mut keeping => {
                (Err(lost.unwrap_or_else(|e| Error::setup("the task that renews the Lease panicked", e))), false)
            }
            ended = act => (ended, true),
            _ = ends.recv() => (Ok(()), true),
        };
        keeping.abort();
        if is_ours {
            lease.release().await;
        }
        ended
    }

    async fn facts(&self, writer: &Writer) -> ClusterFacts {
        ClusterFacts {
            namespace: self.namespace.clone(),
            launcher_image: self.launcher_image.clone(),
            worker_image: self.worker_image.clone(),
            version: VERSION.to_owned(),
            image_volumes: loop {
                match self.keeps_images(writer).await {
                    Ok(keeps) => break keeps,
                    Err(error) if error.kind() == cluster_client::error::ErrorKind::Unreachable => {
                        tracing::warn!("{}", error.chain());
                        tokio::time::sleep(Duration::from_secs(2)).await;
                    }
                    Err(error) => {
                        tracing::warn!("images of disks cannot be mounted: {}", error.chain());
                        break false;
                    }
                }
            },
        }
    }

    /// True if the API server keeps image volumes of pods. With the feature gate off it drops the field or
    /// refuses the pod.
    async fn keeps_images(&self, writer: &Writer) -> Result<bool> {
        let key = Key::new(Kind::Pod, self.namespace.clone(), "image-volumes");
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "spec": {
                "containers": [{
                    "name": "compute",
                    "image": self.launcher_image,
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "image", "mountPath": "/image"}],
                }],
                "volumes": [{"name": "image", "image": {"reference": self.launcher_image}}],
                "securityContext": {"runAsNonRoot": true, "runAsUser": cluster_model::launcher::USER, "seccompProfile": {"type": "RuntimeDefault"}},
            },
        });
        let answer = writer.try_out(&key, &pod).await?;
        let volumes = answer["spec"]["volumes"].as_array();
        Ok(volumes
            .is_some_and(|volumes| volumes.iter().any(|volume| volume["image"]["reference"].is_string())))
    }
}
