//! The verb `coracle man`: manual pages of the program and of all of its verbs.

use crate::error::{Error, Result};
use std::path::PathBuf;

/// Write the manual pages of the program and of its verbs
///
/// `make install` and the Debian package install them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder for the files, one NAME.1 for each verb; it is created where it
    /// is missing
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Writes the pages of `program`.
pub(crate) fn run(args: &Args, program: clap::Command) -> Result<()> {
    let folder = &args.folder;
    let cannot = |e| Error::io(format!("cannot write manual pages into {}", folder.display()), e);
    std::fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(program, folder).map_err(cannot)
}
