//! The verb `create`: manifests from flags. No request is sent to a cluster.
//!
//! ```text
//!  create vm ─► vm ─┬─ volumes, cloud_init, access    the parts of its spec, each from its flags (params parses them)
//!                   └─ served: a VM that clusters of this version would refuse is refused here, by flag and field
//!  create instancetype, preference, clone ─► types, clone     printed; served notes unsupported ones on standard error
//! ```

mod access;
mod clone;
mod cloud_init;
mod params;
mod served;
mod types;
mod vm;
mod volumes;

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::target::name;
use local_vm::manifest;
use serde_json::Value;
use std::io::Read as _;

/// Print the manifest of a VM, an instance type, a preference or a clone
///
/// Nothing is created: give what is printed to kubectl create -f -.
#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    // It replaces the flag of the cluster with the same name; no context is read here.
    /// Namespace of the object [default: none is written]
    #[arg(short, long, global = true, value_name = "NAME", value_parser = name)]
    namespace: Option<String>,

    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    Vm(Box<vm::Args>),
    #[command(name = "instancetype")]
    InstanceType(types::InstanceTypeArgs),
    Preference(types::PreferenceArgs),
    Clone(clone::Args),
}

impl CreateArgs {
    /// Namespace of the flag, wherever it is in the command line.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// Prints the manifest, with the namespace of the flag, if given.
pub(super) fn run(args: &CreateArgs) -> Result<()> {
    let namespace = args.namespace();
    let object = match &args.kind {
        Kind::Vm(args) => vm::manifest(args, namespace)?,
        Kind::InstanceType(args) => types::instance_type(args, namespace)?,
        Kind::Preference(args) => types::preference(args, namespace)?,
        Kind::Clone(args) => clone::manifest(args, namespace)?,
    };
    if let Some(note) = served::note(&object) {
        ui::say(&note);
    }
    ui::out(&manifest::text(&[object]))
}

/// A usage error about flags.
fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}

/// A random name, with upstream's letters: no vowels, so that they form no words, and none that look alike.
pub(in crate::commands) fn unused(start: &str) -> Result<String> {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bytes = [0; 5];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::io("cannot make a name from /dev/urandom", e))?;
    let letters = bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
    Ok(format!("{start}{}", letters.collect::<String>()))
}

/// An object without a spec, with a namespace if given.
fn object(api_version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Value {
    let mut object = serde_json::json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}
