//! The verbs `expand` and `objectgraph`, which print the API server's view of a VM.

use super::args::doing;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::target::name;
use cluster_model::objects::Kind;
use cluster_model::objects::subresources;
use http::Method;
use local_vm::manifest;
use serde_json::{Map, Value, json};

/// Print a VM with what its instance type and preference add
#[derive(Debug, clap::Args)]
pub(super) struct ExpandArgs {
    /// Name of the VM
    #[arg(long, value_name = "VM", value_parser = name, required_unless_present = "file", conflicts_with = "file")]
    vm: Option<String>,

    /// File with the manifest of a VM; - is standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<String>,

    /// Format of the output: yaml or json
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml", value_parser = ["yaml", "json"])]
    output: String,
}

/// Print the objects that a VM depends on
///
/// Clusters of this version refuse this.
#[derive(Debug, clap::Args)]
pub(super) struct ObjectGraphArgs {
    /// Name of the VM
    #[arg(value_name = "VM", value_parser = name)]
    name: String,

    /// Objects of the VMI, in place of those of the VM
    #[arg(long)]
    vmi: bool,

    /// Leave objects out that the VM runs without
    #[arg(long)]
    exclude_optional: bool,

    /// Labels of the objects to print: KEY=VALUE, separated by commas
    #[arg(long, value_name = "LABELS", value_delimiter = ',')]
    selector: Vec<String>,

    /// Format of the output: json or yaml
    #[arg(short, long, value_name = "FORMAT", default_value = "json", value_parser = ["json", "yaml"])]
    output: String,
}

pub(super) async fn expand(args: &ExpandArgs, cluster: &Cluster) -> Result<()> {
    let expanded = match (&args.vm, &args.file) {
        (Some(name), _) => {
            let path = Kind::VirtualMachine.part(cluster.namespace(), name, "expand-spec");
            let what = doing("expand", Kind::VirtualMachine, name, cluster);
            cluster.get(&path).await.map_err(|e| e.into_error(&what))?
        }
        (None, Some(file)) => {
            let vm = vm_of(file)?;
            let path = subresources(cluster.namespace(), "expand-vm-spec");
            let what = format!("cannot expand the VM of {file} in namespace {}", cluster.namespace());
            cluster.answer(Method::PUT, &path, &vm).await.map_err(|e| e.into_error(&what))?
        }
        (None, None) => {
            return Err(Error::new(ErrorKind::Usage, "VirtualMachine name or file must be provided"));
        }
    };
    print(&expanded, &args.output)
}

/// The only document of a file.
fn vm_of(file: &str) -> Result<Value> {
    let mut documents = manifest::values(file)?;
    match (documents.pop(), documents.is_empty()) {
        (Some(vm), true) => Ok(vm),
        (one, _) => {
            let count = documents.len() + usize::from(one.is_some());
            let what = format!("{file} has {count} documents, and not one VM alone");
            Err(Error::new(ErrorKind::Usage, what))
        }
    }
}

pub(super) async fn object_graph(args: &ObjectGraphArgs, cluster: &Cluster) -> Result<()> {
    let kind = if args.vmi { Kind::VirtualMachineInstance } else { Kind::VirtualMachine };
    let mut options = json!({"includeOptionalNodes": !args.exclude_optional});
    if !args.selector.is_empty() {
        let labels: Result<Map<String, Value>> = args.selector.iter().map(|text| label(text)).collect();
        options["labelSelector"] = json!({"matchLabels": labels?});
    }
    let path = kind.part(cluster.namespace(), &args.name, "objectgraph");
    let what = doing("list the objects of", kind, &args.name, cluster);
    let graph = cluster.answer(Method::GET, &path, &options).await.map_err(|e| e.into_error(&what))?;
    print(&graph, &args.output)
}

fn label(text: &str) -> Result<(String, Value)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), json!(value))),
        _ => Err(Error::new(ErrorKind::Usage, format!("--selector {text}: a label is KEY=VALUE"))),
    }
}

fn print(object: &Value, format: &str) -> Result<()> {
    match format {
        "json" => ui::json(object),
        _ => ui::out(&manifest::text(std::slice::from_ref(object))),
    }
}
