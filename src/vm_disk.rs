//! Raw disks of this computer's VMs. Their first bytes say nothing of their format: a guest may have written them.

use cdi::source::SourceSpec;
use disk_format::Format;
use local_vm::host_disks;
use local_vm::place::Home;
use local_vm::resolve::image;
use std::path::{Path, PathBuf};

/// The file or device that standard input is, if it is one.
const STDIN: &str = "/proc/self/fd/0";

/// The folders of the user's VMs by the environment, unchecked, for verbs that only look into them.
pub(crate) fn home_of_environment() -> local_vm::Result<Home> {
    Home::from_env(std::env::var_os("CORACLE_HOME").map(PathBuf::from), |name| std::env::var_os(name))
}

/// Format of a source that a VM had as a raw disk which its guest could write to; `None` for other sources. An error if it may be
/// one. To be called before the process is confined.
pub(crate) fn format_of(source: &SourceSpec) -> local_vm::Result<Option<Format>> {
    let path = match source {
        SourceSpec::Path(path) => path.as_path(),
        SourceSpec::Stdin => Path::new(STDIN),
        _ => return Ok(None),
    };
    match home_of_environment() {
        Ok(home) => format_in(&home, path),
        // Without folders of VMs there were none.
        Err(_) => Ok(None),
    }
}

fn format_in(home: &Home, path: &Path) -> local_vm::Result<Option<Format>> {
    if host_disks::is_written_raw(home, path)? {
        return Ok(Some(Format::Raw));
    }
    host_disks::check_replaced(home, path, image::disguise_of).map(|()| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device is a raw disk, and so is the file that a loop device shows.
    #[test]
    fn bytes_of_a_device_that_a_guest_writes_to_are_raw() {
        use api::launcher::{Resolved, Source, Sync};
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(Some(place.path().join("home"))).unwrap();
        let (file, beside) = (place.path().join("back.img"), place.path().join("other.img"));
        for file in [&file, &beside] {
            std::fs::write(file, [&b"\x1f\x8b\x08\0"[..], &[0; 1 << 20]].concat()).unwrap();
        }
        let Some(device) = ::tests::loop_device::Loop::over(&file, &[]) else { return };
        assert_eq!(format_in(&home, &device.0).unwrap(), None);
        let source = Source::Block { path: device.0.clone() };
        let resolved = Resolved { volumes: [("root".to_owned(), source)].into(), ..Resolved::default() };
        let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved };
        std::fs::create_dir_all(home.vm("vm")).unwrap();
        local_vm::record::Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
        for path in [&device.0, &file] {
            assert_eq!(format_in(&home, path).unwrap(), Some(Format::Raw), "{}", path.display());
        }
        assert_eq!(format_in(&home, &beside).unwrap(), None);
    }

    /// Standard input may be the file of a disk.
    #[test]
    fn a_file_on_standard_input_is_told_as_by_its_path() {
        use std::os::fd::AsRawFd as _;
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(Some(place.path().join("home"))).unwrap();
        let disk = place.path().join("disk.img");
        std::fs::write(&disk, b"\x1f\x8b\x08\0").unwrap();
        host_disks::note_raw(&home, &disk).unwrap();
        let open = std::fs::File::open(&disk).unwrap();
        let by_number = format!("/proc/self/fd/{}", open.as_raw_fd());
        assert_eq!(format_in(&home, Path::new(&by_number)).unwrap(), Some(Format::Raw));
        let (pipe, _writer) = std::io::pipe().unwrap();
        let by_number = format!("/proc/self/fd/{}", pipe.as_raw_fd());
        assert_eq!(format_in(&home, Path::new(&by_number)).unwrap(), None);
    }

    /// A file system in user space numbers its files anew with each mount.
    #[test]
    fn a_file_in_the_place_of_a_raw_disk_is_told_by_its_user() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(Some(place.path().join("home"))).unwrap();
        let disk = place.path().join("disk.img");
        std::fs::write(&disk, "of a guest").unwrap();
        host_disks::note_raw(&home, &disk).unwrap();
        std::fs::rename(&disk, place.path().join("away.img")).unwrap();
        std::fs::write(&disk, "plain").unwrap();
        assert_eq!(format_in(&home, &disk).unwrap(), None);
        for (begin, what) in [(&b"QFI\xfb\0\0\0\x03"[..], "qcow2"), (b"\x1f\x8b\x08\0", "gzip")] {
            std::fs::write(&disk, [begin, &[0; 504]].concat()).unwrap();
            let e = format_in(&home, &disk).unwrap_err().to_string();
            let expected = format!("lies where a VM had another file as a raw disk, and begins like {what}");
            assert!(e.contains(&expected), "{e}");
        }
    }

    /// A copy of a disk was cut to what its guest had written in front.
    #[test]
    fn a_disk_that_a_guest_could_write_to_is_raw_whatever_it_begins_with() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::open(Some(place.path().join("home"))).unwrap();
        let disk = place.path().join("disk.img");
        std::fs::write(&disk, b"\x1f\x8b\x08\0").unwrap();
        assert_eq!(format_in(&home, &disk).unwrap(), None);
        host_disks::note_raw(&home, &disk).unwrap();
        assert_eq!(format_in(&home, &disk).unwrap(), Some(Format::Raw));
        assert_eq!(format_in(&home, &place.path().join("none")).unwrap(), None);
    }
}
