//! libvirt's QEMU driver inside this process (`qemu:///embed?root=DIR`): files and environment that it needs
//! before it is opened.
//!
//! ```text
//!  ready()  etc/qemu.conf, HOME and XDG_* (the caller sets them), libvirt's default account; swtpm's own settings
//!  seed()   CACHE/<key>/*.xml ──► ROOT/cache/qemu/capabilities      before it is opened: no probe of QEMU
//!  save()                     ◄──                                    after it: no probe at the next start either
//! ```
//!
//! libvirt trusts a cached file only while the ctimes of the programs are unchanged, and creates it again
//! otherwise. So a wrong cache costs time, but has no other effect.

use super::passt;
use crate::root::Root;
use api::architecture::{Arch, ArchFacts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The command for a host without libvirt's default account.
pub const ACCOUNT: &str = "libvirt looks up its default account before it reads any setting; as root: \
                           useradd --system --no-create-home --shell /usr/sbin/nologin --user-group libvirt-qemu";

/// Program that certifies the keys of a new TPM.
const CERTIFIER: &str = "/usr/bin/swtpm_localca";

/// Folder of programs that come before those of the host in `PATH`, below the root.
const PROGRAMS: &str = "programs";

/// Folder of a pod's PVCs and hostDisks, beside the root.
const CLAIMS: &str = "vmi-disks";

/// Folder on whose files virt-handler mounts the disks of PVCs and hostDisks, below the root.
const SHOWN: &str = "shown";

/// Programs and libraries whose change makes a cache outdated.
fn key() -> [String; 6] {
    let ArchFacts { qemu, kernel_name, .. } = Arch::of_host().facts();
    [
        format!("/usr/bin/{qemu}"),
        format!("/usr/lib/{kernel_name}-linux-gnu/libvirt.so.0"),
        format!("/usr/lib/{kernel_name}-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"),
        "/usr/lib64/libvirt.so.0".to_owned(),
        "/usr/lib64/libvirt/connection-driver/libvirt_driver_qemu.so".to_owned(),
        "/dev/kvm".to_owned(),
    ]
}

/// Characters that are not escaped in a URI: its unreserved characters, and the slash.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// URI of a driver in this process.
pub fn uri(root: &Root) -> String {
    format!("qemu:///embed?root={}", escaped(root.short()))
}

/// A path as one value of a URI. The user chooses the folder's name, so characters with a meaning in a URI are
/// escaped.
pub fn escaped(path: &Path) -> String {
    percent_encode(path.as_os_str().as_bytes(), PLAIN).to_string()
}

/// Environment variables that this process must have: libvirt and QEMU look for their user's folders there.
pub fn environment(root: &Root) -> BTreeMap<&'static str, PathBuf> {
    let home = root.short().join("home");
    // libvirt starts passt by its name alone.
    let mut path = root.short().join(PROGRAMS).into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin".into()));
    BTreeMap::from([
        ("PATH", path.into()),
        ("XDG_RUNTIME_DIR", home.join("run")),
        ("XDG_CACHE_HOME", home.join("cache")),
        ("XDG_CONFIG_HOME", home.join("config")),
        ("HOME", home),
    ])
}

/// Writes the driver's settings.
pub fn ready(root: &Root) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    // A driver that runs as root starts swtpm under its own account; any other driver runs it under its own
    // user.
    let swtpm_account = match user {
        0 => format!("swtpm_user = \"+{user}\"\nswtpm_group = \"+{group}\"\n"),
        _ => String::new(),
    };
    let mounts: Vec<String> = hugetlbfs().iter().map(|mount| format!("\"{mount}\"")).collect();
    let hugepages = match mounts.is_empty() {
        true => String::new(),
        false => format!("hugetlbfs_mount = [{}]\n", mounts.join(", ")),
    };
    let shared: Vec<String> =
        shared_folders(root)?.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let shared = format!("shared_filesystems = [ {} ]\n", shared.join(", "));
    let text = format!(
        "# Written by virt-launcher. QEMU runs as whoever runs the launcher, and nothing is changed around it.\n\
         user = \"+{user}\"\n\
         group = \"+{group}\"\n\
         {swtpm_account}\
         dynamic_ownership = 0\n\
         remember_owner = 0\n\
         security_driver = \"none\"\n\
         security_default_confined = 0\n\
         namespaces = []\n\
         cgroup_controllers = []\n\
         stdio_handler = \"file\"\n\
         max_core = 0\n\
         {shared}{hugepages}"
    );
    write_whole(&root.folder().join("etc/qemu.conf"), text.as_bytes())?;
    stand_before(root, passt::NAME)?;
    for (name, text) in swtpm(root) {
        write_whole(&root.folder().join("home/config").join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Folders of the disks that a migration does not copy: both ends have them. There are none without PVCs and hostDisks. libvirt
/// passes over a folder that is missing when it starts, and all that stand behind it.
fn shared_folders(root: &Root) -> io::Result<Vec<PathBuf>> {
    let claims = root.folder().parent().map(|beside| beside.join(CLAIMS)).filter(|claims| claims.is_dir());
    let Some(claims) = claims else { return Ok(Vec::new()) };
    let shown = root.folder().join(SHOWN);
    fs::create_dir_all(&shown)?;
    Ok([claims, shown].into_iter().filter(|path| is_plain(path)).collect())
}

/// True for a path that can stand between the quotes of libvirt's settings.
fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|text| !text.contains(['"', '\\', '\n']))
}

/// Makes this program start in place of another.
fn stand_before(root: &Root, name: &str) -> io::Result<()> {
    let folder = root.folder().join(PROGRAMS);
    fs::create_dir_all(&folder)?;
    let (link, own) = (folder.join(name), std::env::current_exe()?);
    if fs::read_link(&link).is_ok_and(|known| known == own) {
        return Ok(());
    }
    drop(fs::remove_file(&link));
    symlink(own, link)
}

/// Settings by which swtpm_setup creates a new TPM. A certificate authority beside it certifies the
/// endorsement key: the system's own (`/var/lib/swtpm-localca`) belongs to root.
fn swtpm(root: &Root) -> [(&'static str, String); 3] {
    let home = root.short().join("home");
    let (config, authority) = (home.join("config"), home.join("swtpm-localca"));
    let (config, authority) = (config.display(), authority.display());
    [
        (
            "swtpm_setup.conf",
            format!(
                "create_certs_tool = {CERTIFIER}\n\
                 create_certs_tool_config = {config}/swtpm-localca.conf\n\
                 create_certs_tool_options = {config}/swtpm-localca.options\n\
                 active_pcr_banks = sha256\n"
            ),
        ),
        (
            "swtpm-localca.conf",
            format!(
                "statedir = {authority}\n\
                 signingkey = {authority}/signkey.pem\n\
                 issuercert = {authority}/issuercert.pem\n\
                 certserial = {authority}/certserial\n"
            ),
        ),
        (
            "swtpm-localca.options",
            "--platform-manufacturer QEMU\n--platform-version 2.1\n--platform-model QEMU\n".to_owned(),
        ),
    ]
}

/// Mounts of hugetlbfs that this user may write to. libvirt searches by itself only if it is root.
pub fn hugetlbfs() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let may_write = |path: &String| {
        rustix::fs::access(path.as_str(), rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
    };
    mounted_hugetlbfs(&mounts).into_iter().filter(may_write).collect()
}

/// Mounts of hugetlbfs. A path with characters that the kernel or libvirt's settings would escape is left
/// out.
fn mounted_hugetlbfs(mounts: &str) -> Vec<String> {
    let path = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        let plain = !path.contains(['\\', '"']) && path.chars().all(|c| !c.is_control());
        (kind == "hugetlbfs" && plain).then(|| path.to_owned())
    };
    mounts.lines().filter_map(path).collect()
}

/// Folder of the cache for the currently installed programs, below `cache`.
pub fn cache_folder(cache: &Path) -> PathBuf {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut feed = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for path in key() {
        // A device's ctime changes with every boot, so only its existence counts.
        if let Ok(found) = fs::metadata(&path) {
            feed(path.as_bytes());
            if found.is_file() {
                feed(&found.ctime().to_le_bytes());
                feed(&found.ctime_nsec().to_le_bytes());
                feed(&found.size().to_le_bytes());
            }
        }
    }
    feed(&rustix::process::geteuid().as_raw().to_le_bytes());
    cache.join(format!("{hash:016x}"))
}

/// Copies the cache of an earlier driver to this one. Returns the number of files.
pub fn seed(root: &Root, cache: &Path) -> io::Result<usize> {
    copy_new(&cache_folder(cache), &capabilities(root))
}

/// Copies the cache of this driver for the next one. Returns the number of files.
pub fn save(root: &Root, cache: &Path) -> io::Result<usize> {
    let into = cache_folder(cache);
    let copied = copy_new(&capabilities(root), &into)?;
    if copied > 0 {
        forget_old(cache, &into);
    }
    Ok(copied)
}

fn capabilities(root: &Root) -> PathBuf {
    root.folder().join("cache/qemu/capabilities")
}

/// Copies the files that do not exist yet. Each appears complete or not at all, even if two launchers copy at
/// once.
fn copy_new(from: &Path, to: &Path) -> io::Result<usize> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(0) };
    fs::create_dir_all(to)?;
    let mut copied = 0;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let new = to.join(name);
        if path.extension() != Some(OsStr::new("xml")) || newer(&new, &path) {
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => write_whole(&new, &bytes)?,
            // Another launcher may clean up at the same time.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        }
        copied += 1;
    }
    Ok(copied)
}

fn newer(this: &Path, that: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    time(this).is_some_and(|this| Some(this) >= time(that))
}

/// Removes caches of programs that are gone. A failure does no harm.
fn forget_old(cache: &Path, current: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_cache = entry.file_name().len() == 16;
        let day_old = fs::metadata(&path)
            .and_then(|found| found.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age.as_secs() > 86_400));
        if is_cache && day_old && path != current {
            drop(fs::remove_dir_all(&path));
        }
    }
}

/// Writes a file that appears complete or not at all. After a power cut it may be empty, if the file system
/// keeps no order.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |file| file.write_all(bytes))
}

/// Writes a file that is the old or the new one, complete, even after a power cut.
pub fn write_durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |file| file.write_all(bytes).and_then(|()| file.sync_all()))?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create(&partial).and_then(|mut file| write(&mut file));
    let written = written.and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        drop(fs::remove_file(&partial));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_one_driver_are_kept_for_the_next() {
        let place = tempfile::tempdir().unwrap();
        let cache = place.path().join("cache");
        let first = Root::open(&place.path().join("a"), place.path()).unwrap();
        assert_eq!(seed(&first, &cache).unwrap(), 0);
        let found = capabilities(&first);
        fs::create_dir_all(&found).unwrap();
        fs::write(found.join("0f.xml"), "<qemuCaps/>").unwrap();
        fs::write(found.join("other.tmp"), "x").unwrap();
        assert_eq!(save(&first, &cache).unwrap(), 1);
        assert_eq!(save(&first, &cache).unwrap(), 0, "it is there already");

        let second = Root::open(&place.path().join("b"), place.path()).unwrap();
        assert_eq!(seed(&second, &cache).unwrap(), 1);
        assert_eq!(fs::read_to_string(capabilities(&second).join("0f.xml")).unwrap(), "<qemuCaps/>");
    }

    #[test]
    fn a_folder_with_any_name_is_one_value_of_the_uri() {
        let place = tempfile::Builder::new().prefix("u").tempdir_in("/tmp").unwrap();
        let root = Root::open(&place.path().join("a?b#c&d%e f=g;h+i\u{e4}"), place.path()).unwrap();
        let uri = uri(&root);
        assert!(uri.ends_with("/a%3Fb%23c%26d%25e%20f%3Dg%3Bh%2Bi%C3%A4"), "{uri}");
        assert!(uri.starts_with(&format!("qemu:///embed?root={}/", place.path().display())), "{uri}");
    }

    #[test]
    fn huge_pages_are_found_where_they_are_mounted() {
        let mounts = "hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n\
                      tmpfs /tmp tmpfs rw 0 0\n\
                      none /mnt/a\\040b hugetlbfs rw 0 0\n\
                      nodev /mnt/1g hugetlbfs rw,pagesize=1024M 0 0\n\
                      broken\n";
        assert_eq!(mounted_hugetlbfs(mounts), ["/dev/hugepages", "/mnt/1g"]);
    }

    #[test]
    fn qemu_runs_as_our_own_user() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(&place.path().join("a"), place.path()).unwrap();
        ready(&root).unwrap();
        let text = fs::read_to_string(root.folder().join("etc/qemu.conf")).unwrap();
        ready(&root).unwrap();
        let first = environment(&root)["PATH"].to_str().unwrap().split(':').next().unwrap().to_owned();
        let passt = Path::new(&first).join("passt");
        assert_eq!(fs::read_link(passt).unwrap(), std::env::current_exe().unwrap());
        assert!(text.contains(&format!("user = \"+{}\"", rustix::process::geteuid().as_raw())), "{text}");
        assert!(text.contains("shared_filesystems = [  ]\n"), "{text}");
    }

    /// libvirt ends its list at a folder that is missing.
    #[test]
    fn disks_of_pvcs_are_on_shared_file_systems_which_are_there() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(&place.path().join("a"), place.path()).unwrap();
        fs::create_dir(place.path().join("vmi-disks")).unwrap();
        ready(&root).unwrap();
        let text = fs::read_to_string(root.folder().join("etc/qemu.conf")).unwrap();
        let beside = place.path().display();
        let shared = format!("shared_filesystems = [ \"{beside}/vmi-disks\", \"{beside}/a/shown\" ]");
        assert!(text.contains(&shared), "{text}");
        assert!(root.folder().join("shown").is_dir());
    }
}
