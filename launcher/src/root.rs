//! The folder of one VM: all files of its launcher.
//!
//! ```text
//! ROOT/  vm.json     the VM to run (api::launcher::Sync)            disks/   overlays and empty disks
//!        state.json  the last state                                  seeds/   small ISO images
//!        etc/ lib/ cache/ run/   libvirt's driver (embed); lib/swtpm/UUID/tpm2: the TPM, or a link to where it is kept
//!                                                                    nvram/   the firmware's variables
//!        home/       HOME and XDG_* of this process                  log/     logs of QEMU and of the serial console
//!        thaw.json   when frozen file systems of the guest thaw      s/       sockets: serial, vnc, agent
//! ```
//!
//! A socket's path ends at 107 letters, and libvirt puts one 52 letters deep under its root. A root that is
//! too long for that is reached through a short link in the user's runtime folder. The same holds for a root
//! with a comma in its path, which would end an option of QEMU where libvirt does not escape it. All files
//! are stored in the root itself. A process that can change that link takes over the VM's sockets, so every
//! folder on the way to it is checked ([`guard::folder`]).

use guard::folder::Parents;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Longest path of a socket.
pub const LONGEST_SOCKET: usize = 107;
/// Length of libvirt's path for QEMU's monitor: `/lib/qemu/domain-9999-<20 letters>/monitor.sock`.
const MONITOR: usize = "/lib/qemu/domain-9999-12345678901234567890/monitor.sock".len();

/// The folder of one VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
    short: PathBuf,
}

/// A root that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path is too long for a socket.
    #[error(
        "{} would be a path of {length} letters, and a socket's ends at {LONGEST_SOCKET}; choose a shorter folder",
        path.display()
    )]
    TooLong { path: PathBuf, length: usize },
    /// A path has a comma.
    #[error("{} has a comma, which libvirt hands to QEMU as the end of an option; choose another folder", _0.display())]
    Comma(PathBuf),
    /// A folder belongs to another user.
    #[error("{} belongs to the user {owner}, not to the launcher's; remove it or choose another folder", path.display())]
    NotOurs {
        path: PathBuf,
        /// User ID of the owner.
        owner: u32,
    },
    /// The folder of the short link, which other users could change.
    #[error("the folder for a short link to a VM's sockets cannot be used: {0}")]
    Runtime(guard::folder::FolderError),
    /// A folder or link cannot be created.
    #[error("cannot make {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Root {
    /// Creates the folder. `runtime`: folder of a short link, if one is needed, such as `/run/user/1000`.
    pub fn open(folder: &Path, runtime: &Path) -> Result<Root, Error> {
        make(folder)?;
        let make_error = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Make { path, source }
        };
        let folder = fs::canonicalize(folder).map_err(make_error(folder))?;
        check_owner(&folder)?;
        let short = if length(&folder) + MONITOR <= LONGEST_SOCKET && !has_comma(&folder) {
            folder.clone()
        } else {
            link(&folder, runtime)?
        };
        let root = Root { folder, short };
        for part in
            ["etc", "disks", "seeds", "nvram", "log", "s", "home", "home/run", "home/cache", "home/config"]
        {
            make(&root.folder.join(part))?;
        }
        Ok(root)
    }

    /// Path of the folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Shortest path of the folder, which sockets and libvirt use.
    pub fn short(&self) -> &Path {
        &self.short
    }

    /// File with the VM to run.
    pub fn vm(&self) -> PathBuf {
        self.folder.join("vm.json")
    }

    /// File with the time at which file systems of the guest thaw.
    pub fn thaw(&self) -> PathBuf {
        self.folder.join("thaw.json")
    }

    /// File with the identity of a migration after which the VM may be at another launcher.
    pub fn migration(&self) -> PathBuf {
        self.folder.join("migration")
    }

    /// File with the last state.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// File of an overlay or an empty disk of the VM.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.folder.join("disks").join(format!("{name}.qcow2"))
    }

    /// File of a small ISO image of the VM.
    pub fn seed(&self, name: &str) -> PathBuf {
        self.folder.join("seeds").join(format!("{name}.iso"))
    }

    /// File with the firmware's variables.
    pub fn nvram(&self) -> PathBuf {
        self.folder.join("nvram/vars.fd")
    }

    /// Folder of the TPM of a VM, which libvirt names by the VM's uuid. The state is in its subfolder `tpm2`.
    pub fn tpm(&self, uuid: &str) -> PathBuf {
        self.folder.join("lib/swtpm").join(uuid)
    }

    /// Path of a socket of the VM: `serial`, `vnc`, `agent`.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.short.join("s").join(name)
    }

    /// QEMU's own log of the serial console.
    pub fn serial_log(&self) -> PathBuf {
        self.folder.join("log/serial.log")
    }

    /// libvirt's log with QEMU's errors.
    pub fn qemu_log(&self, domain: &str) -> PathBuf {
        self.folder.join("log/qemu").join(format!("{domain}.log"))
    }

    /// The folder of libvirt's pid files.
    pub fn pids(&self) -> PathBuf {
        self.folder.join("run/qemu")
    }
}

/// Checks that a path is short enough for a socket.
pub fn socket_path(path: &Path) -> Result<&Path, Error> {
    match length(path) {
        length if length > LONGEST_SOCKET => Err(Error::TooLong { path: path.to_owned(), length }),
        _ => Ok(path),
    }
}

fn has_comma(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&b',')
}

fn length(path: &Path) -> usize {
    path.as_os_str().as_bytes().len()
}

/// Creates a folder that only the launcher's user can access (mode 0700).
fn make(folder: &Path) -> Result<(), Error> {
    make_private(folder).map_err(|source| Error::Make { path: folder.to_owned(), source })
}

/// Creates a folder, and those above it, with the mode 0700.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn check_owner(folder: &Path) -> Result<(), Error> {
    let found =
        fs::symlink_metadata(folder).map_err(|source| Error::Make { path: folder.to_owned(), source })?;
    match found.uid() == rustix::process::geteuid().as_raw() {
        true => Ok(()),
        false => Err(Error::NotOurs { path: folder.to_owned(), owner: found.uid() }),
    }
}

/// Creates a short link to a long folder. The same folder always has the same link, so that a new launcher
/// finds the VM.
fn link(folder: &Path, runtime: &Path) -> Result<PathBuf, Error> {
    let home = runtime.join("coracle");
    guard::folder::ensure_private(&home, Parents::Safe).map_err(Error::Runtime)?;
    let short = home.join(format!("r{:016x}", fnv(folder.as_os_str().as_bytes())));
    if length(&short) + MONITOR > LONGEST_SOCKET {
        let path = folder.join("lib/qemu/domain-N-NAME/monitor.sock");
        return Err(Error::TooLong { path, length: length(folder) + MONITOR });
    }
    if has_comma(&short) {
        return Err(Error::Comma(short));
    }
    match fs::read_link(&short) {
        Ok(target) if target == folder => return Ok(short),
        Ok(_) => drop(fs::remove_file(&short)),
        Err(_) => {}
    }
    symlink(folder, &short).map_err(|source| Error::Make { path: short.clone(), source })?;
    Ok(short)
}

/// FNV-1a hash: a short name for a long one, the same on every run.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_root_is_used_and_a_long_one_has_a_stable_link() {
        let place = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        let short = Root::open(&place.path().join("a"), place.path()).unwrap();
        assert_eq!(short.short(), short.folder());

        let long = place.path().join("x".repeat(80));
        let first = Root::open(&long, place.path()).unwrap();
        let second = Root::open(&long, place.path()).unwrap();
        assert_eq!(first, second);
        assert!(length(first.short()) + MONITOR <= LONGEST_SOCKET, "{first:?}");
        fs::write(first.socket("serial"), "x").unwrap();
        assert!(long.join("s/serial").exists());
    }

    #[test]
    fn a_path_with_a_comma_has_a_link() {
        let place = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        let root = Root::open(&place.path().join("a,b"), place.path()).unwrap();
        assert!(!has_comma(root.short()) && has_comma(root.folder()), "{root:?}");
        let error = Root::open(&place.path().join("a,b"), &place.path().join("c,d")).unwrap_err();
        assert!(error.to_string().contains("has a comma"), "{error}");
    }

    #[test]
    fn a_link_is_made_only_where_other_users_cannot_change_it() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let place = tempfile::Builder::new().prefix("r").tempdir_in("/tmp").unwrap();
        let long = place.path().join("x".repeat(80));
        // A folder in /tmp that another user made, and one that another user can write to.
        let planted = place.path().join(".coracle-0");
        fs::create_dir_all(planted.join("coracle")).unwrap();
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o777)).unwrap();
        let error = Root::open(&long, &planted).unwrap_err().to_string();
        assert!(error.contains(".coracle-0 can be written to by others"), "{error}");
        fs::set_permissions(&planted, fs::Permissions::from_mode(0o700)).unwrap();
        Root::open(&long, &planted).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&planted, Some(65534), None).unwrap();
            let error = Root::open(&long, &planted).unwrap_err().to_string();
            assert!(error.contains(".coracle-0 belongs to the user 65534"), "{error}");
        }
    }

    #[test]
    fn a_root_that_is_too_long_for_a_link_is_refused_with_its_length() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("y".repeat(90));
        let error = Root::open(&deep, &deep).unwrap_err().to_string();
        assert!(error.contains("monitor.sock") && error.contains("107"), "{error}");
    }

    #[test]
    fn a_socket_path_is_checked_by_its_length() {
        assert!(socket_path(Path::new(&"a".repeat(107))).is_ok());
        assert!(socket_path(Path::new(&"a".repeat(108))).is_err());
    }
}
