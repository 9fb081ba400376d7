//! The verb `coracle vnc`.

use super::vms::VmArgs;
use crate::error::{Error, Result};
use crate::output_file;
use crate::relay::Relay;
use crate::ui;
use std::path::PathBuf;
use std::process::Command;

/// Viewers, with the prefix of the port in their argument.
const VIEWERS: [(&str, &str); 4] = [
    ("remote-viewer", "vnc://127.0.0.1:"),
    ("vncviewer", "127.0.0.1::"),
    ("gvncviewer", "127.0.0.1::"),
    ("vinagre", "127.0.0.1::"),
];

/// Show the screen of a VM
///
/// Prints an address on this computer, and opens a viewer if one is
/// installed. The address is valid until the viewer is closed, or until
/// Ctrl-C; only programs of the same user can connect. The viewer that
/// connects last has keyboard and pointer; the others see the screen.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    vm: VmArgs,

    /// File to write the screen to (PNG) instead of opening a viewer; - is
    /// standard output
    #[arg(long, value_name = "FILE")]
    screenshot: Option<PathBuf>,

    /// Port to listen on [default: a free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Print the address without opening a viewer
    #[arg(long)]
    no_viewer: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let vm = args.vm.open()?;
    let client = vm.up()?;
    if let Some(path) = &args.screenshot {
        return output_file::write(path, &client.screenshot()?);
    }
    let relay = Relay::listen(client, args.port)?;
    let port = relay.address()?.port();
    ui::out(&format!("vnc://127.0.0.1:{port}\n"))?;
    let viewer = if args.no_viewer { None } else { viewer(port) };
    let Some((mut command, name)) = viewer else {
        ui::say("coracle: any VNC viewer can show it; Ctrl-C ends this");
        return relay.serve();
    };
    std::thread::spawn(move || relay.serve());
    let status = command.status().map_err(|e| Error::io(format!("cannot start {name}"), e))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::failed(format!("{name} ended with {status}"))),
    }
}

/// An installed viewer; `None` without a graphical session.
fn viewer(port: u16) -> Option<(Command, &'static str)> {
    let has_screen = ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let path = std::env::var_os("PATH").filter(|_| has_screen)?;
    let is_there = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let (name, address) = VIEWERS.into_iter().find(|(name, _)| is_there(name))?;
    let mut command = Command::new(name);
    command.arg(format!("{address}{port}"));
    Some((command, name))
}
