//! The verb `port-forward`.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::forward::Forward;
use crate::virt::target::{Port, Target, address};
use std::net::IpAddr;
use std::sync::Arc;

/// Forward ports of this computer to a VM or VMI
///
/// Each connection goes through the API server; for much traffic, use a
/// Service.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt port-forward vm/web 8080:80\n  \
    coracle virt port-forward vmi/web/blue 2222:22 udp/5353:53")]
pub(super) struct Args {
    /// VM or VMI to reach: vm/NAME or vmi/NAME, with /NAMESPACE if it is in
    /// another one
    #[arg(value_name = "TARGET")]
    target: Target,

    #[arg(
        value_name = "PORT",
        required = true,
        help = "Ports to forward: [tcp/|udp/]LOCAL[:TARGET]; 0 is any free local port"
    )]
    ports: Vec<Port>,

    /// Join standard input and output to the one port, and listen on none
    #[arg(long)]
    stdio: bool,

    /// Address of this computer to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    address: IpAddr,
}

pub(super) async fn run(args: &Args, cluster: Cluster) -> Result<()> {
    let forward = Arc::new(Forward { cluster, target: args.target.clone() });
    if args.stdio {
        return match args.ports.as_slice() {
            [port] => forward.stdio(*port).await,
            _ => Err(Error::new(ErrorKind::Usage, "--stdio joins one port: name one")),
        };
    }
    let what = format!("cannot forward ports to {} in namespace {}", args.target, forward.namespace());
    forward.cluster.check_server().await.map_err(|e| e.into_error(&what))?;
    for port in &args.ports {
        let at = forward.listen(args.address, *port).await?;
        ui::say(&format!(
            "Forwarding {} {at} to port {} of {} in namespace {}",
            port.protocol,
            port.remote,
            args.target,
            forward.namespace()
        ));
    }
    tokio::signal::ctrl_c().await.map_err(|e| Error::io("cannot listen for Ctrl-C", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virt::wait;
    use clap::{Args as _, FromArgMatches as _};
    use std::time::Duration;

    #[test]
    fn no_port_is_forwarded_where_no_api_server_answers() {
        let command = Args::augment_args(clap::Command::new("port-forward").no_binary_name(true));
        let args = Args::from_arg_matches(&command.get_matches_from(["vm/web", "0:22"])).unwrap();
        let done = wait(async {
            let (cluster, _socket) = Cluster::dead().await;
            let ends = tokio::time::timeout(Duration::from_secs(60), run(&args, cluster));
            Ok(ends.await.expect("an end, without Ctrl-C"))
        });
        let said = done.unwrap().unwrap_err().to_string();
        assert!(said.starts_with("cannot forward ports to VM web in namespace default: "), "{said}");
        assert!(said.contains("cannot be reached"), "{said}");
    }
}
