//! `coracle manifests`.

use crate::ui;
use crate::vm::manifest;
use cdi::{Error, Kind, Result};
use container_disk::Name;
use controller::install::{Wishes, objects};

/// Print everything that makes a cluster run machines, for kubectl apply -f -
///
/// The settings, an object KubeVirt, are not among it: the control plane makes them where there are none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle manifests --registry registry.example/coracle | kubectl apply -f -\n  \
    kubectl wait -n kubevirt kubevirt/kubevirt --for condition=Available")]
pub(crate) struct Args {
    /// Where the images are: a registry, and a path in it
    #[arg(long, value_name = "REGISTRY")]
    registry: String,

    /// The namespace of the control plane
    #[arg(short, long, default_value = "kubevirt", value_name = "NAME")]
    namespace: String,

    /// The tag of the images
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"), value_name = "TAG")]
    version: String,

    /// When images are pulled: Always, IfNotPresent or Never
    #[arg(long, value_name = "POLICY", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: Option<String>,

    /// A secret in the namespace, with which images are pulled
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let image = format!("{}/virt-launcher:{}", args.registry.trim_end_matches('/'), args.version);
    Name::of_image(&format!("docker://{image}")).map_err(|e| {
        Error::new(
            Kind::Usage,
            format!("--registry {} --version {} name no image", args.registry, args.version),
        )
        .because(e)
    })?;
    let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let plain = !args.namespace.starts_with('-') && !args.namespace.ends_with('-');
    if args.namespace.is_empty() || args.namespace.len() > 63 || !plain || !args.namespace.chars().all(label)
    {
        let what =
            format!("--namespace {} is no name: lower-case letters, digits and dashes", args.namespace);
        return Err(Error::new(Kind::Usage, what));
    }
    let wishes = Wishes {
        namespace: args.namespace.clone(),
        registry: args.registry.clone(),
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
