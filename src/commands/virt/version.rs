//! The verbs `version` and `permitted-devices`.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::connect::ConnectArgs;
use cluster_model::objects::Kind;
use serde_json::{Value, json};

/// Print the version of this program and of the control plane
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Version of this program only; no server is asked
    #[arg(short, long)]
    client: bool,
}

/// Print the host devices that VMs may have
#[derive(Debug, clap::Args)]
pub(super) struct PermittedDevicesArgs {}

/// Path of the document with the version of the control plane.
const VERSION: &str = "/apis/subresources.kubevirt.io/v1/version";

impl Args {
    /// True if only the version of this program is to be printed.
    pub(super) fn is_of_client(&self) -> bool {
        self.client
    }
}

/// Prints the version of this program.
pub(super) fn client() -> Result<()> {
    let commit = env!("CORACLE_COMMIT");
    let state = if commit.ends_with("-dirty") { "dirty" } else { "clean" };
    let own = json!({
        "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommit": commit.trim_end_matches("-dirty"),
        "gitTreeState": state,
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    ui::out(&format!("Client Version: {}\n", in_go_format(&own)))
}

/// Go's name of the architecture, which scripts expect.
fn architecture() -> &'static str {
    api::architecture::go_name(std::env::consts::ARCH)
}

/// Prints the version of the control plane.
pub(super) async fn server(cluster: &Cluster) -> Result<()> {
    let served =
        cluster.get(VERSION).await.map_err(|e| e.into_error("cannot read the version of KubeVirt"))?;
    ui::out(&format!("Server Version: {}\n", in_go_format(&served)))
}

/// True if the cluster's control plane is Coracle.
pub(super) async fn is_ours(cluster: &Cluster) -> bool {
    cluster.get(VERSION).await.is_ok_and(|served| served["compiler"] == "rustc")
}

/// The version in Go's format, which scripts parse.
fn in_go_format(version: &Value) -> String {
    let fields = [
        ("GitVersion", "gitVersion"),
        ("GitCommit", "gitCommit"),
        ("GitTreeState", "gitTreeState"),
        ("BuildDate", "buildDate"),
        ("GoVersion", "goVersion"),
        ("Compiler", "compiler"),
        ("Platform", "platform"),
    ];
    let shown = fields.map(|(name, field)| {
        format!("{name}:\"{}\"", printable::line(version[field].as_str().unwrap_or_default()))
    });
    format!("version.Info{{{}}}", shown.join(", "))
}

pub(super) async fn permitted_devices(connect: &ConnectArgs, cluster: &Cluster) -> Result<()> {
    // The cluster has one KubeVirt object, whose namespace few users know.
    let (path, place) = match connect.namespace() {
        Some(namespace) => (Kind::KubeVirt.collection(namespace), format!("{namespace:?} namespace")),
        None => (Kind::KubeVirt.collection(""), "the cluster".to_owned()),
    };
    let found =
        cluster.list_whole(&path).await.map_err(|e| e.into_error("cannot list the KubeVirt objects"))?;
    let Some(kubevirt) = found.first() else {
        return Err(Error::new(ErrorKind::NotFound, format!("no KubeVirt resource in {place}")));
    };
    ui::out(&devices(kubevirt))
}

fn devices(kubevirt: &Value) -> String {
    let permitted = &kubevirt["spec"]["configuration"]["permittedHostDevices"];
    let names = |list: &str| {
        let names = permitted[list].as_array().into_iter().flatten();
        let names = names.filter_map(|device| device["resourceName"].as_str()).map(printable::line);
        names.collect::<Vec<_>>().join(", ")
    };
    format!(
        "Permitted Devices: \nHost Devices: \n{} \nGPU Devices: \n{}\n",
        names("pciHostDevices"),
        names("mediatedDevices")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_as_scripts_read_them() {
        let version = json!({"gitVersion": "v1.9.0", "platform": "linux/amd64", "goVersion": "go1.24"});
        assert_eq!(
            in_go_format(&version),
            "version.Info{GitVersion:\"v1.9.0\", GitCommit:\"\", GitTreeState:\"\", BuildDate:\"\", \
             GoVersion:\"go1.24\", Compiler:\"\", Platform:\"linux/amd64\"}"
        );
    }

    #[test]
    fn devices_are_listed_as_upstream_does() {
        let permitted = json!({
            "pciHostDevices": [{"resourceName": "a/b"}, {"resourceName": "c/d"}],
            "mediatedDevices": [{"resourceName": "e/f"}],
        });
        let kubevirt = json!({"spec": {"configuration": {"permittedHostDevices": permitted}}});
        assert_eq!(
            devices(&kubevirt),
            "Permitted Devices: \nHost Devices: \na/b, c/d \nGPU Devices: \ne/f\n"
        );
        assert_eq!(devices(&json!({})), "Permitted Devices: \nHost Devices: \n \nGPU Devices: \n\n");
    }
}
