//! The verb `coracle ui`.

use crate::error::Result;
use crate::page::{Scope, Server};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::connect::ConnectArgs;
use crate::virt::upload::ProxySettings;
use crate::virt::wait;
use std::process::{Command, Stdio};

/// Show the VMs of a cluster on a page in the browser
///
/// Prints an address on this computer, and opens it in the browser: the
/// VMs as they change, why one does not run, its serial console, its screen.
/// The address is valid once, for the browser that opens it first; Ctrl-C
/// ends the page. A disk image that is dropped on the page is uploaded.
/// Requests go to the API server and the upload proxy alone, with the user and
/// the rights of the kubeconfig.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show the VMs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// Port to listen on [default: a free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address without opening a browser
    #[arg(long)]
    no_open: bool,

    /// Address of the upload proxy [default: that of the CDIConfig]
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    uploadproxy_url: String,

    /// Accept any certificate of the upload proxy; others can then read along
    #[arg(long)]
    insecure: bool,

    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    wait(async {
        let cluster = Cluster::from_args(&args.connect).await?;
        let scope = match args.all_namespaces {
            true => Scope::All,
            false => Scope::Namespace(cluster.namespace().to_owned()),
        };
        cluster.check_server().await.map_err(|e| e.into_error(&format!("cannot show the VMs of {scope}")))?;
        let said = format!("coracle: the VMs of {scope}; Ctrl-C ends the page");
        let at = ProxySettings { url: args.uploadproxy_url.clone(), accepts_any_certificate: args.insecure };
        let server = Server::listen(cluster, scope, args.port, at).await?;
        let address = server.address();
        ui::out(&format!("{address}\n"))?;
        ui::say(&said);
        if !args.no_open {
            open(&address);
        }
        server.serve().await
    })
}

/// Opens an address in the browser of a graphical session. Without one the user opens it by hand.
pub(crate) fn open(address: &str) {
    let has_screen = ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen {
        let mut command = Command::new("xdg-open");
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            // xdg-open may turn into the browser itself, and keep running.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(e) => tracing::info!("xdg-open does not start: {e}"),
        }
    }
}
