//! `coracle manifests`.

use crate::ui;
use crate::vm::manifest;
use api::instancetype::common;
use cdi::{Error, ErrorKind, Result};
use container_disk::Name;
use install::{Wishes, objects};

/// Print the manifests of the control plane, for kubectl apply -f -
///
/// The KubeVirt object with the configuration is not included: the control plane creates one if it is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle manifests --registry registry.example/coracle | kubectl apply -f -\n  \
    kubectl wait -n kubevirt kubevirt/kubevirt --for condition=Available\n  \
    coracle manifests --instancetypes | kubectl apply -f -")]
pub(crate) struct Args {
    /// Registry of the images, with an optional path
    #[arg(long, value_name = "REGISTRY", required_unless_present = "instancetypes")]
    registry: Option<String>,

    /// Namespace of the control plane
    #[arg(short, long, default_value = "kubevirt", value_name = "NAME")]
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
}

pub(crate) fn run(args: &Args) -> Result<()> {
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
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let plain = !args.namespace.starts_with('-') && !args.namespace.ends_with('-');
    if args.namespace.is_empty() || args.namespace.len() > 63 || !plain || !args.namespace.chars().all(label)
    {
        let what = format!(
            "--namespace {} is not a valid name: use lower-case letters, digits and dashes",
            args.namespace
        );
        return Err(Error::new(ErrorKind::Usage, what));
    }
    let wishes = Wishes {
        namespace: args.namespace.clone(),
        registry: registry.clone(),
        version: args.version.clone(),
        pull_policy: args.image_pull_policy.clone(),
        pull_secret: args.image_pull_secret.clone(),
    };
    ui::out(&manifest::text(&objects(&wishes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definitions are beside, a file each.
    #[test]
    fn what_is_committed_is_what_is_made() {
        let wishes = Wishes {
            namespace: "kubevirt".into(),
            registry: "registry.example/coracle".into(),
            version: "1.2.3".into(),
            pull_policy: None,
            pull_secret: None,
        };
        let mut all = objects(&wishes);
        all.retain(|object| object["kind"] != "CustomResourceDefinition");
        let wanted = manifest::text(&all);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/controller/manifests/install.yaml");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(file, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(file).unwrap_or_default();
        assert!(found == wanted, "{file} is another; UPDATE_GOLDEN=1 writes it anew");
    }
}
