//! Folders, sockets and locks of the VMs that one user runs on this computer.
//!
//! ```text
//!  $XDG_STATE_HOME/coracle/vms/NAME/     vm.json  lock  launcher.log  root/ (all that the launcher keeps)  secrets/
//!  $XDG_RUNTIME_DIR/coracle/NAME-HASH.sock    the launcher's socket; a socket's path must be short
//!  $XDG_DATA_HOME/coracle/pool/PVC/      disk.img  disk.json  lock       disks that outlive VMs
//!  $XDG_DATA_HOME/coracle/disks/DIGEST/  disks and kernels out of images, read-only
//!  $XDG_CACHE_HOME/coracle/launcher/     libvirt's cache of QEMU's capabilities
//! ```
//!
//! `CORACLE_HOME` (or `--root`) puts all of these below one folder, with a socket `run/NAME.sock`; `CORACLE_HOME` puts the
//! store of images there, too. That folder has an absolute path: a relative one would be another folder at the next
//! call from elsewhere, without the VMs that run. The runtime folder of a user may serve several state folders (another `HOME` or
//! `XDG_STATE_HOME`), so the hash of a socket there is that of the VM's folder. Earlier versions had `NAME.sock` in both.
//!
//! Every folder is the user's own (0700). A folder that belongs to another user, or lies below such a folder, is refused
//! ([`guard::folder`]): its owner could answer in the launcher's place. A folder that others may write to is refused as well,
//! from the folder `coracle` (or the one that was named) down, because its content could be replaced. The default runtime
//! folder is also refused if others can write to a folder above it.

use crate::Notify;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::{ATTEMPTS, LOCK};
use container_disk::Digest;
use container_disk::store::relative_home;
use guard::folder::Parents;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use crate::lock::Lock;

/// Name of the record of a VM in its folder.
pub(crate) const RECORD: &str = "vm.json";

/// The longest path a unix socket can have, without the zero at its end.
const SOCKET_MAX: usize = 107;

/// Number of letters of a hash in the name of a socket.
const HASH: usize = 12;

/// Timeout for a sweep of removed VMs, which may hold a lock for a moment.
const SWEPT_WITHIN: Duration = Duration::from_secs(2);

/// Timeout for a process that looks whether a VM is locked.
const LOOKED_AT_WITHIN: Duration = Duration::from_millis(100);

/// Name of the folder of a home with the disks that outlive VMs.
pub(crate) const POOL: &str = "pool";

/// Name of the list of disks in the data folder.
pub(crate) const RAW_DISKS: &str = "raw-disks.json";

/// Base folders of all state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    state: PathBuf,
    runtime: PathBuf,
    data: PathBuf,
    cache: PathBuf,
    /// The one folder above all of these, if set by the user.
    root: Option<PathBuf>,
    /// Rules for the folders above the runtime folder.
    above: Parents,
    /// The home that the environment names, where this is another one (`--root`).
    environment: Option<Box<Home>>,
}

impl Home {
    /// The folders by the flag and the environment, after a check of their permissions. Creates nothing.
    pub fn open(root: Option<PathBuf>) -> Result<Home> {
        let home = Home::from_env(root, |name| std::env::var_os(name))?;
        home.check()?;
        Ok(home)
    }

    /// The folders by the flag and these environment variables, unchecked: to look into. Creates nothing.
    pub fn from_env(root: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Home> {
        let mut home = Home::of(root, &variable)?;
        if home.root.is_some() {
            let own = Home::of(variable("CORACLE_HOME").map(PathBuf::from), &variable).ok();
            home.environment =
                own.filter(|own| (&own.state, &own.data) != (&home.state, &home.data)).map(Box::new);
        }
        Ok(home)
    }

    fn of(root: Option<PathBuf>, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Home> {
        // The XDG specification says that relative paths are to be ignored.
        let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(root) = root.filter(|root| !root.as_os_str().is_empty()) {
            if root.is_relative() {
                return Err(Error::new(ErrorKind::Usage, relative_home(&root)));
            }
            let root = std::path::absolute(&root)
                .map_err(|e| Error::io(format!("cannot find the folder {}", root.display()), e))?;
            let below = |name: &str| root.join(name);
            return Ok(Home {
                state: below("state"),
                runtime: below("run"),
                data: below("data"),
                cache: below("cache"),
                above: Parents::Named,
                root: Some(root),
                environment: None,
            });
        }
        let home = path("HOME");
        let below = |xdg: &str, otherwise: &str| {
            let base = path(xdg).or_else(|| home.as_ref().map(|home| home.join(otherwise)));
            base.map(|base| base.join("coracle")).ok_or_else(|| {
                let what = "HOME is not set; name a folder for VMs by CORACLE_HOME";
                Error::new(ErrorKind::Usage, what)
            })
        };
        let own = rustix::process::geteuid().as_raw();
        // The XDG specification requires that it belongs to the user alone. After a change of the user (su)
        // it is another one's.
        let runtime = path("XDG_RUNTIME_DIR").filter(|folder| guard::folder::is_private(folder));
        Ok(Home {
            state: below("XDG_STATE_HOME", ".local/state")?,
            data: below("XDG_DATA_HOME", ".local/share")?,
            cache: below("XDG_CACHE_HOME", ".cache")?,
            runtime: runtime.map_or_else(
                || PathBuf::from(format!("/tmp/coracle-{own}")),
                |folder| folder.join("coracle"),
            ),
            above: Parents::Safe,
            root: None,
            environment: None,
        })
    }

    /// Folder with one subfolder per VM.
    pub fn vms(&self) -> PathBuf {
        self.state.join("vms")
    }

    /// The home with these VMs. One below one folder (`--root`) has all folders there; of another one only the folder of the VMs is known,
    /// and the others are those of this home.
    pub(crate) fn with_vms(&self, vms: &Path) -> Home {
        match root_of(vms).map(|root| Home::of(Some(root.to_owned()), &|_| None)) {
            Some(Ok(home)) => home,
            _ => Home { state: vms.parent().unwrap_or(vms).to_owned(), ..self.clone() },
        }
    }

    /// The same folders with the data of another home, for its list of disks.
    pub(crate) fn with_data(&self, data: PathBuf) -> Home {
        Home { data, ..self.clone() }
    }

    /// The home that the environment names, where this is another one. It may have VMs with disks of this one, and notes homes that
    /// have. One whose list of disks others can replace is not believed.
    pub(crate) fn environment(&self) -> Option<&Home> {
        self.environment.as_deref().filter(|own| {
            let steps = own.steps(&own.data);
            let shared = steps.into_iter().find_map(|step| guard::folder::refuse_shared(step).err());
            if let Some(e) = &shared {
                tracing::debug!("the list of disks of the environment's home is not read: {e}");
            }
            shared.is_none() && (own.data.symlink_metadata().is_err() || is_own_folder(&own.data))
        })
    }

    /// The same home, to note disks in its list: the verbs that read disks look there. Its folders are checked by the one who writes.
    pub(crate) fn environment_to_note(&self) -> Option<&Home> {
        self.environment.as_deref()
    }

    /// Folder of one VM.
    pub fn vm(&self, name: &str) -> PathBuf {
        self.vms().join(name)
    }

    /// File of a VM's record.
    pub(crate) fn vm_record(&self, name: &str) -> PathBuf {
        self.vm(name).join(RECORD)
    }

    /// Socket path of a VM's launcher.
    pub fn socket(&self, name: &str) -> Result<PathBuf> {
        let (path, remedy) = match self.root {
            Some(_) => {
                let path = self.runtime.join(format!("{name}.sock"));
                (path, "give the VM a shorter --name, or name a shorter folder by CORACLE_HOME")
            }
            None => {
                let folder = real(&self.state)?.join("vms").join(name);
                let hash = Digest::of(folder.as_os_str().as_bytes()).hex()[..HASH].to_owned();
                // The hash is of the whole name, which may be cut here.
                let rest = self.runtime.as_os_str().len() + "/-.sock".len() + HASH;
                let shown: String = name.chars().take(SOCKET_MAX.saturating_sub(rest)).collect();
                let path = self.runtime.join(format!("{shown}-{hash}.sock"));
                (path, "name a shorter folder by XDG_RUNTIME_DIR or CORACLE_HOME")
            }
        };
        let length = path.as_os_str().len();
        if length > SOCKET_MAX {
            let what = format!(
                "the socket {} would have a path of {length} bytes, and no more than {SOCKET_MAX} are possible",
                path.display()
            );
            return Err(Error::new(ErrorKind::Usage, what).with_hint(remedy));
        }
        Ok(path)
    }

    /// Socket path that an earlier version gave to a VM of this name, of this home or of another one.
    pub(crate) fn earlier_socket(&self, name: &str) -> Option<PathBuf> {
        let path = self.runtime.join(format!("{name}.sock"));
        (self.root.is_none() && path.as_os_str().len() <= SOCKET_MAX).then_some(path)
    }

    /// Refuses folders that others may write to. Creates nothing.
    fn check(&self) -> Result<()> {
        let all = [self.vms(), self.runtime.clone(), self.pool(), self.disks(), self.launcher_cache()];
        let steps = all.iter().flat_map(|folder| self.steps(folder));
        steps
            .into_iter()
            .try_for_each(|step| guard::folder::refuse_shared(step).map_err(|e| unusable(step, &e)))
    }

    /// Creates one of these folders for the user alone, and checks each of our own folders above it.
    pub fn make(&self, folder: &Path) -> Result<()> {
        self.steps(folder).into_iter().try_for_each(make)
    }

    /// The folder, preceded by its parents below and including the base folder.
    fn steps<'a>(&self, folder: &'a Path) -> Vec<&'a Path> {
        let tops = match &self.root {
            Some(root) => vec![root],
            None => vec![&self.state, &self.runtime, &self.data, &self.cache],
        };
        let is_own = |path: &&Path| *path == folder || tops.iter().any(|top| path.starts_with(top));
        let mut steps: Vec<_> = folder.ancestors().take_while(is_own).collect();
        steps.reverse();
        steps
    }

    /// Creates the folder of sockets, or checks that an existing one is ours alone.
    pub(crate) fn make_runtime(&self) -> Result<()> {
        if let Some(root) = &self.root {
            make(root)?;
        }
        own(&self.runtime, self.above)?;
        if !guard::folder::is_private(&self.runtime) {
            let folder = self.runtime.display();
            let what = "is writable for its group, whose members could answer in a launcher's place";
            return Err(Error::failed(format!(
                "the folder {folder} {what}; remove the permission (chmod go-w {folder})"
            )));
        }
        Ok(())
    }

    /// Folder of disks that outlive VMs.
    pub fn pool(&self) -> PathBuf {
        self.data.join(POOL)
    }

    /// Makes the folder of a disk of the pool and locks it, as soon as no other process has it locked. A process that
    /// locks a VM, too, locks the VM first; of several disks it locks the first by name first.
    pub(crate) fn lock_disk(&self, name: &str, notify: Notify) -> Result<Lock> {
        check_name(name)?;
        let folder = self.pool().join(name);
        let mut attempts = 0;
        loop {
            self.make(&folder)?;
            attempts += 1;
            match Lock::wait_for_disk(&folder.join(LOCK), name, notify) {
                // A removal took the folder between the two steps.
                Err(e) if e.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    /// List of the raw disks of VMs that are gone.
    pub(crate) fn raw_disks(&self) -> PathBuf {
        self.data.join(RAW_DISKS)
    }

    /// Folder of disks and kernels that were unpacked of images.
    pub fn disks(&self) -> PathBuf {
        self.data.join("disks")
    }

    /// Cache that launchers share: capabilities of QEMU on this computer.
    pub fn launcher_cache(&self) -> PathBuf {
        self.cache.join("launcher")
    }

    /// The names of all VMs, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let folder = self.vms();
        let cannot = |e| Error::io(format!("cannot read {}", folder.display()), e);
        let entries = match std::fs::read_dir(&folder) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
            other => other.map_err(cannot)?,
        };
        let mut names = vec![];
        for entry in entries {
            let entry = entry.map_err(cannot)?;
            if let Some(name) = entry.file_name().to_str().filter(|name| check_name(name).is_ok())
                && entry.path().is_dir()
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Locks a VM: no other process changes its files until the lock is dropped.
    pub fn lock_vm(&self, name: &str) -> Result<Lock> {
        self.lock_within(name, LOOKED_AT_WITHIN)
    }

    /// Locks a VM that is to be created, and waits if a sweep holds the lock for a moment.
    pub(crate) fn claim_vm(&self, name: &str) -> Result<Lock> {
        self.lock_within(name, SWEPT_WITHIN)
    }

    fn lock_within(&self, name: &str, patience: Duration) -> Result<Lock> {
        let (folder, what) = (self.vm(name), format!("the VM {name}"));
        let path = folder.join(LOCK);
        let since = Instant::now();
        self.make(&self.vms())?;
        loop {
            make(&folder)?;
            let (waits, refusal) = match Lock::take(&path, &what) {
                Ok(lock) => return Ok(lock),
                // A sweep removed the folder between the two steps: try again.
                Err(e) if e.kind() == ErrorKind::NotFound || !folder.exists() => (SWEPT_WITHIN, e),
                Err(e) => (patience, e),
            };
            if since.elapsed() >= waits {
                return Err(refusal);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Root of a home below one folder (`--root`) with these VMs; `None` for another home.
pub(crate) fn root_of(vms: &Path) -> Option<&Path> {
    vms.ancestors().nth(2).filter(|_| vms.ends_with("state/vms"))
}

/// True for a folder of this user that not every user can write to.
pub(crate) fn is_own_folder(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    std::fs::metadata(folder)
        .is_ok_and(|facts| facts.is_dir() && facts.uid() == own && facts.mode() & 0o002 == 0)
}

/// The path of a file or folder without links; its last parts may be missing yet.
pub(crate) fn real(folder: &Path) -> Result<PathBuf> {
    for above in folder.ancestors() {
        match above.canonicalize() {
            Ok(real) => return Ok(folder.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(format!("cannot look at {}", above.display()), e)),
        }
    }
    Ok(folder.to_owned())
}

/// Treats a missing file as removed.
pub fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Checks the name of a VM or a PVC by the rules of Kubernetes, so that no name leads out of its folder.
pub fn check_name(name: &str) -> Result<()> {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let edge = |b: Option<&u8>| b.is_some_and(|&b| word(b));
    let bytes = name.as_bytes();
    let fits = edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|&b| word(b) || b == b'-' || b == b'.')
        && !name.contains("..")
        && name.len() <= 253;
    if fits {
        return Ok(());
    }
    let what =
        format!("{name:?} is not a valid name: use lower-case letters, digits, '-' and '.', at most 253");
    Err(Error::new(ErrorKind::Usage, what))
}

/// Creates a folder and its parents, for the user alone.
pub fn make(folder: &Path) -> Result<()> {
    own(folder, Parents::Named)
}

fn own(folder: &Path, parents: Parents) -> Result<()> {
    guard::folder::ensure_private(folder, parents).map_err(|e| unusable(folder, &e))
}

fn unusable(folder: &Path, e: &guard::folder::FolderError) -> Error {
    let cause = std::error::Error::source(e).map(ToString::to_string);
    let e = Error::failed(format!("the folder {} cannot be used: {e}", folder.display()));
    match cause {
        Some(cause) => e.because(cause),
        None => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(root: Option<&str>, set: &[(&str, &str)]) -> Result<Home> {
        Home::from_env(root.map(PathBuf::from), |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_users_folders_hold_everything() {
        assert!(home(None, &[]).unwrap_err().to_string().contains("CORACLE_HOME"));
        let home = home(None, &[("HOME", "/h"), ("XDG_DATA_HOME", "relative")]).unwrap();
        assert_eq!(home.vm("a"), Path::new("/h/.local/state/coracle/vms/a"));
        assert_eq!(home.pool(), Path::new("/h/.local/share/coracle/pool"));
        let me = rustix::process::geteuid().as_raw();
        let socket = home.socket("a").unwrap();
        assert!(
            socket.to_str().unwrap().starts_with(&format!("/tmp/coracle-{me}/a-")),
            "{}",
            socket.display()
        );
    }

    /// They had one socket once: `rm` in one of them ended the VM of the other.
    #[test]
    fn homes_that_share_a_runtime_folder_share_no_socket() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(at("a")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        let of = |state: &str| home(None, &[("HOME", "/h"), ("XDG_STATE_HOME", &at(state))]).unwrap();
        let socket = |state: &str, name: &str| of(state).socket(name).unwrap();
        assert_ne!(socket("a", "web"), socket("b", "web"));
        assert_eq!(socket("a", "web"), socket("link", "web"));
        std::fs::create_dir_all(of("b").vm("web")).unwrap();
        let (before, long) = (socket("b", "web"), "n".repeat(253));
        assert_eq!(before, socket("b", "web"), "it stays when the folder is made");
        let path = socket("a", &long);
        assert!(path.as_os_str().len() <= SOCKET_MAX, "{}", path.display());
        assert_ne!(path, socket("a", &long[1..]));
        assert_eq!(of("a").earlier_socket(&long), None, "no launcher has it");
        // Folders of CORACLE_HOME have their own sockets.
        let [one, two] = ["a", "b"].map(|root| home(Some(&at(root)), &[]).unwrap().socket("web").unwrap());
        assert_ne!(one, two);
    }

    #[test]
    fn one_folder_can_hold_everything() {
        let home = home(Some("/r"), &[("HOME", "/h")]).unwrap();
        for path in [home.vm("a"), home.pool(), home.disks(), home.launcher_cache()] {
            assert!(path.starts_with("/r"), "{}", path.display());
        }
        assert_eq!(home.socket("a").unwrap(), Path::new("/r/run/a.sock"));
    }

    /// VMs were left behind in the folder of each call.
    #[test]
    fn a_relative_folder_is_refused_with_its_absolute_path() {
        let here = std::env::current_dir().unwrap();
        for name in ["vms", "./vms"] {
            let e = home(Some(name), &[("HOME", "/h")]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Usage);
            assert!(e.to_string().ends_with(&format!("write {}", here.join("vms").display())), "{e}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_told_before_it_is_used() {
        let home = home(Some(&format!("/{}", "d".repeat(90))), &[]).unwrap();
        assert!(home.socket("abc").is_ok());
        let e = home.socket("a-long-name").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage);
        assert!(e.to_string().contains("112 bytes"), "{e}");
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for good in ["a", "vm-1", "a.b", "0"] {
            check_name(good).unwrap();
        }
        for bad in ["", "-a", "a-", "A", "a/b", "..", "a..b", ".a", "a b", "ä", &"a".repeat(254)] {
            assert_eq!(check_name(bad).unwrap_err().kind(), ErrorKind::Usage, "{bad}");
        }
    }

    #[test]
    fn a_vm_is_worked_on_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path().to_str(), &[]).unwrap();
        let first = home.lock_vm("a").unwrap();
        assert!(home.lock_vm("a").unwrap_err().to_string().contains("the VM a"));
        drop(first);
        home.lock_vm("a").unwrap();
        assert_eq!(home.names().unwrap(), ["a"]);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path().to_str(), &[]).unwrap();
        home.make_runtime().unwrap();
        std::fs::set_permissions(&home.runtime, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(home.make_runtime().unwrap_err().to_string().contains("can be written to by others"));
    }

    #[test]
    fn no_folder_of_ours_is_used_that_anybody_may_write_to() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let named = place.path().join("named");
        let xdg = |name: &str| Some(place.path().join(name).into_os_string());
        let homes = [
            Home::from_env(Some(named.clone()), |_| None).unwrap(),
            Home::from_env(None, |name| xdg(name).filter(|_| name != "XDG_RUNTIME_DIR")).unwrap(),
        ];
        for home in homes {
            drop(home.lock_vm("a").unwrap());
            home.make(&home.pool()).unwrap();
            home.check().unwrap();
            let vms = home.vms();
            let top = home.root.clone().unwrap_or_else(|| home.state.clone());
            let mut folders: Vec<&Path> = vms.ancestors().take_while(|at| at.starts_with(&top)).collect();
            let own = home.vm("a");
            folders.push(&own);
            for open in folders {
                std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
                let mut refusals = vec![home.lock_vm("a").map(drop)];
                if open != own {
                    refusals.push(home.check());
                }
                for refusal in refusals {
                    let why = refusal.unwrap_err().to_string();
                    let says = format!("{} can be written to by others (mode 0777)", open.display());
                    assert!(why.contains(&says), "{why}");
                    assert!(why.contains(&format!("chmod go-w {}", open.display())), "{why}");
                }
                std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o700)).unwrap();
            }
            std::fs::set_permissions(home.pool(), std::fs::Permissions::from_mode(0o777)).unwrap();
            home.make(&home.pool().join("claim")).unwrap_err();
            home.check().unwrap_err();
        }
    }

    #[test]
    fn a_runtime_folder_that_others_can_reach_is_not_believed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().to_str().unwrap();
        let of = || home(None, &[("HOME", "/h"), ("XDG_RUNTIME_DIR", runtime)]).unwrap();
        assert!(of().runtime.starts_with(folder.path()));
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(of().runtime.starts_with("/tmp"), "{:?}", of().runtime);
    }

    #[test]
    fn vms_are_not_kept_below_a_folder_of_somebody_else() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let planted = folder.path().join("planted");
        std::fs::create_dir(&planted).unwrap();
        std::os::unix::fs::chown(&planted, Some(65534), None).unwrap();
        let home = home(planted.to_str(), &[]).unwrap();
        for refused in [home.make_runtime().unwrap_err(), home.lock_vm("a").map(drop).unwrap_err()] {
            assert!(refused.to_string().contains("belongs to the user 65534"), "{refused}");
        }
    }
}
