//! The command lines, and what they put together.

use crate::api_server::Writer;
use crate::cluster::certificates;
use crate::error::{Error, Result, chain};
use crate::health::Health;
use crate::lease::Lease;
use crate::objects::{Facts, Key, Kind, LEASE};
use crate::serve::transport::{self, PORT, everywhere};
use clap::Parser;
use serde_json::json;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The machines of a cluster: from their objects to pods.
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
    /// Where /healthz, /readyz and /metrics answer, by HTTPS
    #[arg(long, default_value_t = everywhere(PORT))]
    listen: SocketAddr,
}

/// All that a program here is around what it does, whose fault is one sentence.
pub fn main(does: impl Future<Output = std::result::Result<(), String>>) -> ExitCode {
    let done = begin()
        .and_then(|()| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .map_err(|e| Error::setup("cannot start threads", e))
        })
        .map_err(|e| chain(&e))
        .and_then(|runtime| runtime.block_on(does));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// What every program here does first: its words go to the standard error, TLS has its provider, and there may be as many
/// connections as the surroundings allow.
fn begin() -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    // Only the first call sets it; a second would find it set, and nobody else is here.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Error::new(crate::error::Kind::Setup, "TLS has a provider already"))?;
    if let Err(error) = transport::raise() {
        // Fewer will do.
        tracing::warn!("{}", chain(&error));
    }
    Ok(())
}

/// A client by the pod's service account, or by KUBECONFIG.
pub async fn client() -> Result<kube::Client> {
    kube::Client::try_default()
        .await
        .map_err(|e| Error::setup("no API server is configured (service account, KUBECONFIG)", e))
}

impl Controller {
    /// Runs until it is asked to end, or has lost the lease.
    pub async fn run(self) -> Result<()> {
        let client = client().await?;
        let writer = Writer::new(client.clone(), "virt-controller");
        let health = Health::default();
        health.measures_plainly(|| crate::cluster::measures::waiting(env!("CARGO_PKG_VERSION")));
        let server = certificates::CONTROLLER;
        health.clone().serve(self.listen, client.clone(), &self.namespace, server).await?;
        let mut ends =
            signal(SignalKind::terminate()).map_err(|e| Error::setup("cannot wait for SIGTERM", e))?;
        let mut lease = Lease::new(writer.clone(), &self.namespace, LEASE, self.identity.clone());
        // A replica in waiting has nothing to do, and is ready for that.
        health.is_ready();
        tokio::select! {
            () = lease.acquire() => {}
            _ = ends.recv() => return Ok(()),
        }
        tracing::info!("{} acts", self.identity);
        let act = async {
            let facts = self.facts(&writer).await;
            crate::run::run(client, writer, facts, health).await;
        };
        let lost = tokio::select! {
            error = lease.keep() => Some(error),
            () = act => None,
            _ = ends.recv() => None,
        };
        match lost {
            Some(error) => Err(error),
            None => {
                lease.release().await;
                Ok(())
            }
        }
    }

    async fn facts(&self, writer: &Writer) -> Facts {
        Facts {
            namespace: self.namespace.clone(),
            launcher_image: self.launcher_image.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            image_volumes: loop {
                match self.keeps_images(writer).await {
                    Ok(keeps) => break keeps,
                    Err(error) if error.kind() == crate::error::Kind::Unreachable => {
                        tracing::warn!("{}", chain(&error));
                        tokio::time::sleep(Duration::from_secs(2)).await;
                    }
                    Err(error) => {
                        tracing::warn!("images of disks cannot be mounted: {}", chain(&error));
                        break false;
                    }
                }
            },
        }
    }

    /// Whether the server keeps image volumes of pods: one whose gate is shut drops the field, or refuses it.
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
                "securityContext": {"runAsNonRoot": true, "runAsUser": 107, "seccompProfile": {"type": "RuntimeDefault"}},
            },
        });
        let answer = writer.try_out(&key, &pod).await?;
        let volumes = answer["spec"]["volumes"].as_array();
        Ok(volumes
            .is_some_and(|volumes| volumes.iter().any(|volume| volume["image"]["reference"].is_string())))
    }
}
