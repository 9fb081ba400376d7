//! The verb `coracle logs`.

use super::vms::VmArgs;
use crate::error::{Error, Result};
use crate::ui;
use local_vm::launch;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// Print the serial console output of a VM
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    vm: VmArgs,

    /// Follow the output until the VM stops
    #[arg(short, long)]
    follow: bool,

    /// Print the launcher's log instead
    #[arg(long)]
    of_launcher: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let vm = args.vm.open()?;
    let path = match args.of_launcher {
        true => launch::log(&vm.home, vm.name()),
        false => vm.serial_log(),
    };
    let mut at = 0;
    loop {
        // The state is read before the log, so that output up to the VM's end is printed.
        let up = args.follow && vm.standing()?.is_up();
        at = print(&path, at)?;
        if !up {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Prints the log from offset `at` on, and returns the new offset. A log that has become shorter is printed
/// from its start.
fn print(path: &Path, at: u64) -> Result<u64> {
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let mut file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        other => other.map_err(cannot)?,
    };
    let size = file.metadata().map_err(cannot)?.len();
    let mut at = if size < at { 0 } else { at };
    file.seek(SeekFrom::Start(at)).map_err(cannot)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer).map_err(cannot)?;
        if read == 0 {
            return Ok(at);
        }
        ui::raw(&buffer[..read])?;
        at += read as u64;
    }
}
