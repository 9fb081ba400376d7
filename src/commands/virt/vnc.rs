//! The verbs `vnc`, `vnc screenshot`, and `vnc --web`, which shows the page of `coracle ui` about one VMI.

use super::args::{VmiArg, doing};
use crate::commands::ui::open;
use crate::error::{Error, ErrorKind, Result};
use crate::output_file;
use crate::page::{Scope, Server};
use crate::relay::is_ours;
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::forward::join;
use crate::virt::target::{address, name};
use crate::virt::upload::ProxySettings;
use crate::virt::websocket::{End, Stream};
use cluster_model::objects::Kind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// Show the screen of a VMI in a VNC viewer
///
/// The viewer reaches the screen by a port of this computer, which takes one
/// connection, and ends with it.
#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub(super) struct Args {
    /// Name of the VMI, which is that of its VM
    #[arg(value_name = "VMI", required = true, value_parser = name)]
    vmi: Option<String>,

    /// Print the port for a viewer as JSON, and start no viewer
    #[arg(long)]
    proxy_only: bool,

    /// Port to listen on [default: a free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Address to listen on; other than 127.0.0.1 only with --proxy-only. On a
    /// loopback address only programs of the same user can connect, on others
    /// everybody
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    address: IpAddr,

    /// Fail if another client has the screen, instead of taking keyboard and
    /// pointer from it and leaving it the picture
    #[arg(long)]
    preserve_session: bool,

    /// Viewer to start: remote-viewer or tiger [default: the one installed]
    #[arg(long, value_name = "TYPE", value_parser = ["remote-viewer", "tiger"])]
    vnc_type: Option<String>,

    /// Path of the viewer, in place of a search in PATH; only with --vnc-type
    #[arg(long, value_name = "FILE", requires = "vnc_type")]
    vnc_path: Option<PathBuf>,

    /// Show the screen on a page in the browser, whose address is valid once;
    /// with --proxy-only the address is printed, and not opened
    #[arg(long, conflicts_with_all = ["address", "preserve_session", "vnc_type", "vnc_path"])]
    web: bool,

    /// Write the screen to a file (PNG), and start no viewer; - is standard
    /// output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["web", "proxy_only"])]
    screenshot: Option<PathBuf>,

    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    Screenshot(ScreenshotArgs),
}

/// Write the screen of a VMI to a file (PNG)
#[derive(Debug, clap::Args)]
struct ScreenshotArgs {
    #[command(flatten)]
    vmi: VmiArg,

    /// File to write the screen to; - is standard output
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,

    /// Move the pointer first, which wakes a screen up
    #[arg(short, long)]
    move_cursor: bool,
}

const VMI: Kind = Kind::VirtualMachineInstance;

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    match (&args.part, &args.vmi) {
        (Some(Part::Screenshot(args)), _) => {
            screenshot(&args.vmi.name, &args.file, args.move_cursor, cluster).await
        }
        (None, Some(name)) => match &args.screenshot {
            Some(file) => screenshot(name, file, false, cluster).await,
            None if args.web => web(args, name, cluster).await,
            None => show(args, name, cluster).await,
        },
        (None, None) => Err(Error::new(ErrorKind::Usage, "no VMI is named")),
    }
}

async fn screenshot(name: &str, file: &Path, move_cursor: bool, cluster: &Cluster) -> Result<()> {
    let part = format!("vnc/screenshot?moveCursor={move_cursor}");
    let png = cluster.bytes(&VMI.part(cluster.namespace(), name, &part)).await;
    let png = png.map_err(|e| e.into_error(&doing("take a screenshot of", VMI, name, cluster)))?;
    output_file::write(file, &png)
}

/// Serves the page until Ctrl-C. A missing VMI is reported here, before the page is opened.
async fn web(args: &Args, name: &str, cluster: &Cluster) -> Result<()> {
    let what = doing("show the screen of", VMI, name, cluster);
    cluster.object(VMI, name, &what).await?;
    let scope = Scope::One { namespace: cluster.namespace().to_owned(), name: name.to_owned() };
    let server = Server::listen(cluster.clone(), scope, args.port, ProxySettings::default()).await?;
    let address = server.address();
    ui::out(&format!("{address}\n"))?;
    ui::say("coracle: the address is valid once; Ctrl-C ends the page");
    if !args.proxy_only {
        open(&address);
    }
    server.serve().await
}

async fn show(args: &Args, name: &str, cluster: &Cluster) -> Result<()> {
    let what = doing("show the screen of", VMI, name, cluster);
    // A missing viewer is reported before the screen is taken from another client.
    let viewer = if args.proxy_only { None } else { Some(Viewer::find(args)?) };
    // Another virt-api ignores the mode, and gives the screen to the newest client.
    let part = if args.preserve_session { "vnc?preserveSession=true" } else { "vnc?mode=take" };
    let stream = Stream::open(cluster, &VMI.part(cluster.namespace(), name, part)).await;
    let stream = stream.map_err(|e| e.into_error(&what))?;
    let address = if args.proxy_only { args.address } else { IpAddr::from([127, 0, 0, 1]) };
    let cannot = |e| Error::io(format!("cannot listen on {address} port {}", args.port), e);
    let listener = TcpListener::bind((address, args.port)).await.map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    let mut child = match &viewer {
        None => {
            ui::out(&format!("{{\"port\":{port}}}\n"))?;
            None
        }
        Some(viewer) => Some(Running(viewer.start(port)?)),
    };
    let connection = tokio::select! {
        connection = accept(&listener, address.is_loopback()) => connection?,
        ended = ended(&mut child) => return ended,
    };
    let _ = connection.set_nodelay(true);
    let (reads, writes) = connection.into_split();
    let end = tokio::select! {
        end = join(stream, reads, writes) => end,
        ended = ended(&mut child) => return ended,
    };
    match end {
        end if end.is_normal() => Ok(()),
        // The user closed the viewer.
        End::Broken(why) if why.starts_with("the local side closed the connection") => Ok(()),
        end => Err(Error::failed(format!("{what}: {end}"))),
    }
}

/// The first connection. On a loopback address the viewer must belong to the same user.
async fn accept(listener: &TcpListener, ours: bool) -> Result<TcpStream> {
    let cannot = |e| Error::io("cannot accept the connection of a viewer", e);
    loop {
        let (connection, _) = listener.accept().await.map_err(cannot)?;
        if !ours {
            return Ok(connection);
        }
        let connection = connection.into_std().map_err(cannot)?;
        match is_ours(&connection) {
            true => return TcpStream::from_std(connection).map_err(cannot),
            false => ui::say("coracle: the connection was refused: the client belongs to another user"),
        }
    }
}

/// A VNC viewer on this computer.
#[derive(Debug, PartialEq, Eq)]
struct Viewer {
    program: PathBuf,
    /// Text before the port in the viewer's argument, such as `vnc://127.0.0.1:`.
    address: &'static str,
}

/// Viewers by the names that upstream's virtctl has, with their programs.
const VIEWERS: [(&str, &str, &str); 2] = [
    ("remote-viewer", "remote-viewer", "vnc://127.0.0.1:"),
    // Two colons precede a port number, one precedes a display number.
    ("tiger", "vncviewer", "127.0.0.1::"),
];

impl Viewer {
    fn find(args: &Args) -> Result<Viewer> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        Viewer::among(args.vnc_type.as_deref(), args.vnc_path.as_deref(), &folders)
    }

    fn among(wanted: Option<&str>, at: Option<&Path>, folders: &[PathBuf]) -> Result<Viewer> {
        let mut fitting = VIEWERS.iter().filter(|(name, ..)| wanted.is_none_or(|wanted| wanted == *name));
        let place = |program: &str| match at {
            Some(path) => path.is_file().then(|| path.to_owned()),
            None => folders.iter().map(|folder| folder.join(program)).find(|path| path.is_file()),
        };
        let found = fitting.find_map(|(_, program, address)| Some((place(program)?, *address)));
        found.map(|(program, address)| Viewer { program, address }).ok_or_else(|| {
            let what = match at {
                Some(path) => format!("no VNC viewer found at {}", path.display()),
                None => "no VNC viewer found in PATH (remote-viewer, vncviewer)".to_owned(),
            };
            let hint = "install one, as root: apt-get install virt-viewer; or say --proxy-only, and connect any viewer";
            Error::new(ErrorKind::NotFound, what).with_hint(hint)
        })
    }

    fn start(&self, port: u16) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.arg(format!("{}{port}", self.address)).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map_err(|e| Error::io(format!("cannot start {}", self.program.display()), e))
    }
}

/// A running viewer, which ends with this program.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It fails if the viewer has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the viewer has ended; for ever without a viewer.
async fn ended(child: &mut Option<Running>) -> Result<()> {
    let Some(Running(child)) = child else { return std::future::pending().await };
    loop {
        match child.try_wait() {
            Ok(None) => sleep(Duration::from_millis(200)).await,
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(Error::failed(format!("the VNC viewer ended with {status}"))),
            Err(e) => return Err(Error::io("cannot wait for the VNC viewer", e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_that_is_wanted_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let tiger = folder.path().join("vncviewer");
        let folders = [PathBuf::from("/nowhere"), folder.path().to_owned()];
        let none = Viewer::among(None, None, &folders).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
        assert!(none.to_string().contains("--proxy-only"), "{none}");
        std::fs::write(&tiger, "").unwrap();
        let found = Viewer::among(None, None, &folders).unwrap();
        assert_eq!(found, Viewer { program: tiger.clone(), address: "127.0.0.1::" });
        assert!(Viewer::among(Some("remote-viewer"), None, &folders).is_err());
        let given = Viewer::among(Some("remote-viewer"), Some(&tiger), &[]).unwrap();
        assert_eq!(given, Viewer { program: tiger, address: "vnc://127.0.0.1:" });
        assert!(Viewer::among(Some("tiger"), Some(Path::new("/nowhere/v")), &folders).is_err());
    }
}
