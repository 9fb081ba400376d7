//! The verb `coracle manifests`.

mod chart;
mod folder;
mod kustomize;

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use api::instancetype::common;
use container_disk::Name;
use install::monitoring::{self, Monitor};
use install::{InstallOptions, objects};
use local_vm::manifest;
use std::path::PathBuf;

/// Print the manifests of the control plane, for kubectl apply -f -
///
/// The KubeVirt object with the configuration is not included: the control plane creates one if it is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle manifests --registry registry.example/coracle | kubectl apply -f -\n  \
    kubectl wait -n kubevirt kubevirt/kubevirt --for condition=Available\n  \
    coracle manifests --registry registry.example/coracle --helm chart\n  \
     coracle manifests --registry registry.example/coracle --kustomize base\n  \
     coracle manifests --instancetypes | kubectl apply -f -\n  \
     coracle manifests --monitoring=monitoring | kubectl apply -f -")]
pub(crate) struct Args {
    /// Registry of the images, with an optional path
    #[arg(long, value_name = "REGISTRY", required_unless_present_any = ["instancetypes", "monitoring"])]
    registry: Option<String>,

    /// Namespace of the control plane
    #[arg(short, long, default_value = "kubevirt", value_name = "NAME", conflicts_with = "helm")]
    namespace: String,

    /// Tag of the images
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"), value_name = "TAG")]
    version: String,

    /// Image pull policy: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,

    /// Image pull Secret in the namespace of the control plane
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Option<String>,

    /// Common instance types and preferences (u1.medium, fedora, windows.11 and
    /// others) in place of the control plane, for a cluster that has it
    #[arg(long, conflicts_with = "registry")]
    instancetypes: bool,

    /// Objects for the Prometheus operator and Grafana in this namespace, in
    /// place of the control plane: a ServiceMonitor, a PrometheusRule, rights
    /// to read the metrics, and dashboards
    #[arg(long, value_name = "NAMESPACE", num_args = 0..=1, require_equals = true,
        default_missing_value = "monitoring", conflicts_with_all = ["registry", "instancetypes"])]
    monitoring: Option<String>,

    /// Service account of Prometheus, for --monitoring
    #[arg(long, value_name = "NAME", default_value = "prometheus-k8s", requires = "monitoring")]
    monitoring_account: String,

    /// Folder for a Helm chart of the manifests, in place of standard output
    ///
    /// The other flags become default values of the chart; the namespace is that of the Helm release.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["instancetypes", "monitoring"])]
    helm: Option<PathBuf>,

    /// Folder for a kustomize base of the manifests, in place of standard output
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["instancetypes", "helm", "monitoring"])]
    kustomize: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    named("--namespace", &args.namespace)?;
    if let Some(namespace) = &args.monitoring {
        named("--monitoring", namespace)?;
        named("--monitoring-account", &args.monitoring_account)?;
        let monitor = Monitor { namespace: namespace.clone(), account: args.monitoring_account.clone() };
        return ui::out(&manifest::text(&monitoring::objects(&wishes(args, ""), &monitor)));
    }
    let Some(registry) = args.registry.as_ref().filter(|_| !args.instancetypes) else {
        return ui::out(&manifest::text(&common::objects()));
    };
    let image = format!("{}/virt-launcher:{}", registry.trim_end_matches('/'), args.version);
    Name::of_image(&format!("docker://{image}")).map_err(|e| {
        Error::new(
            ErrorKind::Usage,
            format!("--registry {registry} --version {} name no image", args.version),
        )
        .because(e)
    })?;
    let wishes = wishes(args, registry);
    if let Some(path) = &args.helm {
        return folder::write(path, chart::TEMPLATES, &chart::files(&wishes));
    }
    if let Some(path) = &args.kustomize {
        return folder::write(path, kustomize::OBJECTS, &kustomize::files(&wishes));
    }
    ui::out(&manifest::text(&objects(&wishes)))
}

/// Checks a name by the rules of Kubernetes.
fn named(flag: &str, name: &str) -> Result<()> {
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let plain = !name.starts_with('-') && !name.ends_with('-');
    if name.is_empty() || name.len() > 63 || !plain || !name.chars().all(label) {
        let what = format!("{flag} {name} is not a valid name: use lower-case letters, digits and dashes");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(())
}

fn wishes(args: &Args, registry: &str) -> InstallOptions {
    InstallOptions {
        namespace: args.namespace.clone(),
        registry: registry.to_owned(),
        version: args.version.clone(),
        pull_policy: args.image_pull_policy.clone(),
        pull_secret: args.image_pull_secret.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn wishes() -> InstallOptions {
        InstallOptions {
            namespace: "kubevirt".into(),
            registry: "registry.example/coracle".into(),
            version: "1.2.3".into(),
            pull_policy: None,
            pull_secret: None,
        }
    }

    fn check_committed(name: &str, all: &[serde_json::Value]) {
        let wanted = manifest::text(all);
        let file = format!("{}/controller/manifests/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{file} is another; UPDATE_GOLDEN=1 writes it anew");
    }

    /// The definitions are beside, a file each.
    #[test]
    fn what_is_committed_is_what_is_made() {
        let mut all = objects(&wishes());
        all.retain(|object| object["kind"] != "CustomResourceDefinition");
        check_committed("install.yaml", &all);
    }

    /// The dashboards are beside, a file each.
    #[test]
    fn what_is_committed_for_monitors_is_what_is_made() {
        let monitor = Monitor { namespace: "monitoring".into(), account: "prometheus-k8s".into() };
        let mut all = monitoring::objects(&wishes(), &monitor);
        all.retain(|object| object["kind"] != "ConfigMap");
        check_committed("monitoring.yaml", &all);
    }
}
