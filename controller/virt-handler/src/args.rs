//! Wiring of `virt-handler`: all parts are created here and passed on.

use super::asked::ForVirtApi;
use super::blocking::Blocking;
use super::devices;
use super::disk_pressure::DiskPressure;
use super::error::{Error, Result};
use super::labels::Labeller;
use super::launchers::Launchers;
use super::measures;
use super::pod::Pods;
use super::vmi::keeper::Node;
use super::vmi::watch;
use clap::Parser;
use cluster_client::Writer;
use cluster_model::objects::{Home, Program};
use cluster_model::servers::{self, PORT};
use serve::health::Health;
use serve::pace::paced;
use serve::program::asked_to_end;
use serve::settings::Dials;
use serve::transport::everywhere;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time limit of the last request to the API server.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Prepares the node for VMIs, and writes their status
#[derive(Debug, Parser)]
#[command(name = "virt-handler", version)]
pub struct Args {
    /// Name of the node
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    pub node_name: String,
    /// The namespace of this program and of the KubeVirt object
    #[arg(long, env = "POD_NAMESPACE", default_value = "kubevirt", value_name = "NAME")]
    pub namespace: String,
    /// The kubelet's folder of pods
    #[arg(long, default_value = "/var/lib/kubelet/pods", value_name = "DIR")]
    pub pods: PathBuf,
    /// The folder with the results of `virt-launcher node-info`
    #[arg(long, default_value = "/var/lib/kubevirt-node-labeller", value_name = "DIR")]
    pub findings: PathBuf,
    /// The kubelet's folder of device plug-in sockets
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins", value_name = "DIR")]
    pub device_plugins: PathBuf,
    /// The node's /sys: a pod's own /sys does not show the node's network interfaces
    #[arg(long, default_value = "/proc/1/root/sys", value_name = "DIR")]
    pub sysfs: PathBuf,
    /// HTTPS address for /healthz, /readyz, /metrics and the requests of virt-api
    #[arg(long, default_value_t = everywhere(PORT))]
    pub listen: SocketAddr,
    /// Address of this pod, to which the virt-handler of another node connects for a live migration
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pub pod_ip_address: Option<IpAddr>,
    /// A kubeconfig; by default the pod's service account, or the user's kubeconfig
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// Runs until a signal ends the program. VMIs continue without it.
pub async fn run(args: Args) -> Result<()> {
    let home = Home { node: args.node_name.clone(), namespace: args.namespace.clone() };
    let dials = Dials::new(Program::Handler, home.clone());
    let client = paced(client(&args).await?, Arc::clone(&dials.pace));
    let (tell, settings) = tokio::sync::watch::channel(None);
    let cluster = Writer::on_node(client.clone(), "virt-handler", &args.node_name);
    let (labels, labels_seen) = tokio::sync::watch::channel(serde_json::Value::Null);
    let labeller = Labeller {
        writer: cluster.clone(),
        node: args.node_name.clone(),
        findings: args.findings.clone(),
        kubelet: args.pods.parent().map(Path::to_owned).unwrap_or_default(),
        blocking: Blocking::new("the node", 1),
        settings: settings.clone(),
        labels,
    };
    let findings = args.findings.clone();
    let roots = devices::host::Roots { sysfs: args.sysfs.clone(), proc: PathBuf::from("/proc") };
    let launchers = Launchers::default();
    let health = Health::default();
    health.tells(&dials.version);
    let mut asked = health.measures();
    let virt_api = Arc::new(ForVirtApi::new(launchers.clone(), &args.namespace));
    let (server, terms) = (servers::HANDLER, Arc::clone(&dials.terms));
    let serve = health.clone().serve(args.listen, client.clone(), &args.namespace, server, terms, virt_api);
    serve.await.map_err(|e| Error::failed(format!("cannot serve on {}", args.listen)).because(e))?;
    let disk_pressure = DiskPressure {
        node: args.node_name.clone(),
        launchers: launchers.clone(),
        pods: args.pods.clone(),
        proc: PathBuf::from("/proc"),
        settings: settings.clone(),
    };
    let node = Arc::new(Node {
        cluster,
        pods: Pods::of_kubelet(args.pods).keeping(&args.findings),
        findings: args.findings,
        launchers: launchers.clone(),
        address: args.pod_ip_address,
    });
    let host = measures::Host::new(args.device_plugins.clone());
    let itself = watch::SettingsSenders { dials, nodes: tell };
    let measure = async {
        while let Some(tell) = asked.recv().await {
            // The requester may have gone meanwhile.
            let _ = tell.send(measures::page(&args.node_name, &launchers, &host).await);
        }
    };
    let asked_to_end = asked_to_end().map_err(|e| Error::failed("cannot handle SIGTERM").because(e))?;
    tracing::info!("managing the VMIs of node {}", args.node_name);
    tokio::select! {
        () = watch::run(client, home, node, health, itself) => {}
        () = measure => {}
        () = labeller.run() => {}
        () = disk_pressure.run() => {}
        () = devices::run(&args.device_plugins, &findings, roots, &settings, labels_seen) => {}
        () = asked_to_end => {}
    }
    // The node is labelled as not schedulable, so that no VMI comes before the next virt-handler runs.
    match tokio::time::timeout(LAST_WORDS, labeller.write(false)).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::warn!("{}", e.chain()),
        Err(_) => tracing::warn!(
            "cannot mark the node as not schedulable: no answer of the API server within {LAST_WORDS:?}"
        ),
    }
    Ok(())
}

async fn client(args: &Args) -> Result<kube::Client> {
    let cannot = || Error::failed("cannot find the configuration of the API server");
    let config = match &args.kubeconfig {
        Some(path) => {
            let file = kube::config::Kubeconfig::read_from(path).map_err(|e| cannot().because(e))?;
            kube::Config::from_custom_kubeconfig(file, &Default::default())
                .await
                .map_err(|e| cannot().because(e))?
        }
        None => kube::Config::infer().await.map_err(|e| cannot().because(e))?,
    };
    kube::Client::try_from(config)
        .map_err(|e| Error::failed("cannot make a client of the API server").because(e))
}
