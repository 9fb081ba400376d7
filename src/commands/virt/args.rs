//! Arguments shared by many verbs.

use crate::error::Result;
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::target::{kind, name};
use cluster_model::objects::Kind;
use serde_json::{Value, json};

/// Argument that names a VM.
#[derive(Debug, clap::Args)]
pub(super) struct VmArg {
    /// Name of the VM
    #[arg(value_name = "VM", value_parser = name)]
    pub(super) name: String,
}

/// Argument that names a VMI.
#[derive(Debug, clap::Args)]
pub(super) struct VmiArg {
    /// Name of the VMI, which is that of its VM
    #[arg(value_name = "VMI", value_parser = name)]
    pub(super) name: String,
}

/// Arguments that name a VM or a VMI.
#[derive(Debug, clap::Args)]
pub(super) struct TypedArg {
    /// Type of the object: vm or vmi
    #[arg(value_name = "TYPE", value_parser = kind)]
    pub(super) kind: Kind,

    /// Name of the object
    #[arg(value_name = "NAME", value_parser = name)]
    pub(super) name: String,
}

/// Flag of a dry run.
#[derive(Debug, clap::Args)]
pub(super) struct DryRunArg {
    /// Validate the request without effect
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl DryRunArg {
    /// Options of a request: the fields with a value, and `dryRun`. Prints that a dry run is executed.
    pub(super) fn options(&self, fields: Value) -> Result<Value> {
        let mut options = fields;
        if let Some(fields) = options.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
            if self.dry_run {
                ui::out("Dry Run execution\n")?;
                fields.insert("dryRun".to_owned(), json!(["All"]));
            }
        }
        Ok(options)
    }
}

/// Beginning of an error message: `cannot start VM web in namespace blue`.
pub(super) fn doing(verb: &str, kind: Kind, name: &str, cluster: &Cluster) -> String {
    format!("cannot {verb} {kind} {name} in namespace {}", cluster.namespace())
}

/// Sends a request to a subresource of a VM or a VMI.
pub(super) async fn ask(
    cluster: &Cluster,
    verb: &str,
    (kind, name): (Kind, &str),
    part: &str,
    options: Option<&Value>,
) -> Result<()> {
    let path = kind.part(cluster.namespace(), name, part);
    cluster.put(&path, options).await.map_err(|e| e.into_error(&doing(verb, kind, name, cluster)))
}
