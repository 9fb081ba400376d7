//! Arguments that verbs on VMs of this computer share.

use crate::error::Result;
use local_vm::launch;
use local_vm::place::Home;
use std::path::PathBuf;

/// Arguments of all verbs on VMs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HomeArgs {
    /// Keep VMs, their disks and their sockets below this folder
    /// [default: the user's state, data and runtime folders]. The variable
    /// moves the store of images, too; this flag does not
    #[arg(long, value_name = "DIR", env = "CORACLE_HOME", hide_env_values = true)]
    root: Option<PathBuf>,
}

impl HomeArgs {
    /// The folders, after a check of their permissions.
    pub(crate) fn home(&self) -> Result<Home> {
        Ok(Home::open(self.root.clone())?)
    }
}

/// Arguments of the verbs that may start a launcher.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct LauncherArgs {
    /// The program virt-launcher [default: beside coracle, or in PATH]
    #[arg(long, value_name = "FILE", env = "CORACLE_LAUNCHER", hide_env_values = true)]
    launcher: Option<PathBuf>,
}

impl LauncherArgs {
    /// Path of the program.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        Ok(launch::find(self.launcher.as_deref())?)
    }
}
