//! Arguments that verbs on VMs of this computer share.

use crate::error::Result;
use local_vm::launch;
use local_vm::place::Home;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of all verbs on VMs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HomeArgs {
    /// Keep VMs, their disks and their sockets below this folder
    /// [default: the user's state, data and runtime folders]. The variable
    /// moves the store of images, too; this flag does not
    #[arg(long, value_name = "DIR", env = unless_empty("CORACLE_HOME", std::env::var_os), hide_env_values = true)]
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
    #[arg(long, value_name = "FILE", env = unless_empty("CORACLE_LAUNCHER", std::env::var_os), hide_env_values = true)]
    launcher: Option<PathBuf>,
}

impl LauncherArgs {
    /// Path of the program.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        Ok(launch::find(self.launcher.as_deref())?)
    }
}

/// The variable of a flag; `None` for an empty variable, which clap would refuse as a value of the flag.
fn unless_empty(
    name: &'static str,
    variable: impl Fn(&'static str) -> Option<OsString>,
) -> Option<&'static str> {
    match variable(name) {
        Some(value) if value.is_empty() => None,
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let of = |value: Option<&str>| unless_empty("CORACLE_HOME", |_| value.map(OsString::from));
        assert_eq!(of(Some("")), None);
        assert_eq!(of(Some("/vms")), Some("CORACLE_HOME"));
        assert_eq!(of(None), Some("CORACLE_HOME"), "the help names it");
    }
}
