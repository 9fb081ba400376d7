//! The verb `coracle forward`: port forwards of a VM after its start.

use super::vms::VmArgs;
use crate::error::Result;
use crate::ui;
use api::launcher::{Forward, Link};
use local_vm::forwarding::{self, shown};
use local_vm::resolve::network;

/// Add, remove or list port forwards of a VM, also while it runs
///
/// A forward of a stopped VM is there at its next start.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle forward add web 8080:80\n  \
    coracle forward rm web 8080\n  \
    coracle forward ls web")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Forward ports of this computer to the guest
    Add(AddArgs),
    /// Remove forwards
    Rm(RmArgs),
    /// List the forwards
    #[command(visible_alias = "list")]
    Ls(LsArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Port to forward: HOST:GUEST or ADDRESS:HOST:GUEST, and /udp
    #[arg(value_name = "PORTS", required = true, value_parser = network::new_forward)]
    ports: Vec<Forward>,
}

#[derive(Debug, clap::Args)]
struct RmArgs {
    #[command(flatten)]
    vm: VmArgs,

    /// Port of this computer, with its address if several have it: HOST,
    /// HOST:GUEST, ADDRESS:HOST:GUEST, and /udp
    #[arg(value_name = "PORTS", required = true)]
    ports: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    vm: VmArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Verb::Add(args) => {
            let vm = args.vm.open()?;
            args.ports.iter().try_for_each(|forward| {
                forwarding::add(&vm, forward)?;
                let Forward { protocol, address, port, guest_port } = forward;
                ui::say(&format!(
                    "coracle: {address}:{port}/{protocol} is forwarded to port {guest_port} of {}",
                    vm.name()
                ));
                Ok(())
            })
        }
        Verb::Rm(args) => {
            let vm = args.vm.open()?;
            args.ports.iter().try_for_each(|text| {
                let wanted = network::forward(text)?;
                let removed = forwarding::remove(&vm, |forward| is_meant(text, &wanted, forward))?;
                removed.iter().try_for_each(|forward| ui::out(&format!("{} removed\n", shown(forward))))
            })
        }
        Verb::Ls(args) => {
            let vm = args.vm.open()?;
            let forwards = vm.record.sync.resolved.interfaces.values().flat_map(Link::forwards);
            ui::out(&forwards.map(|forward| format!("{}\n", shown(forward))).collect::<String>())
        }
    }
}

/// True for a forward that a text names: parts that it leaves out fit any.
fn is_meant(text: &str, wanted: &Forward, forward: &Forward) -> bool {
    let parts = text.split('/').next().unwrap_or(text).matches(':').count();
    forward.port == wanted.port
        && forward.protocol == wanted.protocol
        && (parts < 1 || forward.guest_port == wanted.guest_port)
        && (parts < 2 || forward.address == wanted.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_names_any_forward_of_it() {
        let own = network::forward("0.0.0.0:8080:80").unwrap();
        for (text, wanted) in [
            ("8080", true),
            ("8080:80", true),
            ("0.0.0.0:8080:80", true),
            ("127.0.0.1:8080:80", false),
            ("8080:81", false),
            ("8080/udp", false),
            ("80", false),
        ] {
            assert_eq!(is_meant(text, &network::forward(text).unwrap(), &own), wanted, "{text}");
        }
    }
}
