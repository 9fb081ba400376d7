//! Files that a verb writes for its user: a screenshot, a report, generated manifests, a file out of a guest.
//!
//! | target of [`write()`] | written |
//! |---|---|
//! | a regular file, or no file | as a conversion does: `NAME.partial`, locked and synced, gets the name when it is whole |
//! | a symbolic link | the file that it leads to, which is told |
//! | `-`, and the file that is standard output by another name | to standard output |
//! | a named pipe, a character device | directly, as there is nothing to replace |
//! | a block device, a folder, a socket | refused |
//!
//! A `NAME.partial` that is a link or belongs to another user is never written to. That of a writer that was killed is begun
//! anew. That of a conversion is left alone, since the conversion can go on with it.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::target::{FileOptions, FileTarget, Target as _, discard};
use container_disk::inputs::beside;
use rustix::fs::OFlags;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The kind of a target.
#[derive(Debug, PartialEq, Eq)]
enum TargetKind {
    /// A file that is replaced, or made.
    File(PathBuf),
    /// Standard output.
    Output,
    /// A named pipe or a character device.
    Stream,
}

/// Writes a small file. A regular one is written whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    match target_kind(path, io::stdout())? {
        TargetKind::Output => ui::raw(bytes),
        TargetKind::Stream => write_stream(path, bytes),
        TargetKind::File(file) => {
            if file != path {
                ui::say(&format!("coracle: {} is a link: {} is written", path.display(), file.display()));
            }
            write_with(&file, bytes.len() as u64, |to| Ok(to.write(0, bytes)?))
        }
    }
}

/// Refuses what [`write()`] would refuse, before the work whose result is written there. Nothing is written.
pub(crate) fn check(path: &Path) -> Result<()> {
    let TargetKind::File(file) = target_kind(path, io::stdout())? else { return Ok(()) };
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match fs::metadata(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let what = format!("the folder {} does not exist; make it first", folder.display());
            Err(Error::new(ErrorKind::NotFound, what))
        }
        Err(e) => Err(Error::io(format!("cannot write {}", path.display()), e)),
        Ok(facts) if !facts.is_dir() => Err(Error::refused(format!("{} is not a folder", folder.display()))),
        Ok(_) => Ok(()),
    }
}

/// Writes a regular file of this size, whole or not at all. A link and a device are refused, and so is the disk of a VM that
/// runs.
pub(crate) fn write_with(file: &Path, size: u64, fill: impl FnOnce(&FileTarget) -> Result<()>) -> Result<()> {
    let journal = beside(file, ".partial.journal");
    match fs::symlink_metadata(&journal) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io(format!("cannot look at {}", journal.display()), e)),
        Ok(_) => {
            let partial = beside(file, ".partial");
            let what = format!("{} is the unfinished disk of a conversion", partial.display());
            let hint = "go on with that one, or remove it with its .partial.journal";
            return Err(Error::new(ErrorKind::Refused, what).with_hint(hint));
        }
    }
    let target =
        FileTarget::create(file, FileOptions { size: Some(size), needed: size, preallocate: false })?;
    if let Err(e) = fill(&target) {
        let own = target.identity();
        drop(target);
        // The error of the writer is told; the next one begins a file anew that stays.
        let _ = own.and_then(|own| discard(file, Some(&own)));
        return Err(e);
    }
    Box::new(target).finish()?;
    Ok(())
}

fn target_kind(path: &Path, output: impl AsFd) -> Result<TargetKind> {
    if path.as_os_str() == "-" {
        return Ok(TargetKind::Output);
    }
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    let facts = match fs::metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            let what = format!("{} is a link that leads nowhere", path.display());
            return Err(
                Error::new(ErrorKind::NotFound, what).with_hint("name the file itself, or remove the link")
            );
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(TargetKind::File(path.to_owned())),
        facts => facts.map_err(cannot)?,
    };
    let kind = facts.file_type();
    let refused = |what| Err(Error::refused(format!("{} is {what}", path.display())));
    if kind.is_block_device() {
        return refused("a block device, whose data would be lost; name a file");
    }
    if is_same(&facts, output) {
        return Ok(TargetKind::Output);
    }
    if kind.is_file() && path.is_symlink() {
        let file = fs::canonicalize(path).map_err(cannot)?;
        let found = fs::metadata(&file).map_err(cannot)?;
        return match (found.dev(), found.ino()) == (facts.dev(), facts.ino()) {
            true => Ok(TargetKind::File(file)),
            false => Err(replaced(path)),
        };
    }
    if kind.is_file() {
        return Ok(TargetKind::File(path.to_owned()));
    }
    if is_stream(&facts) {
        return Ok(TargetKind::Stream);
    }
    refused(if kind.is_dir() { "a folder; name a file in it" } else { "a socket; name a file" })
}

fn replaced(path: &Path) -> Error {
    Error::failed(format!("{} became another file while it was opened", path.display()))
}

fn is_same(facts: &Metadata, open: impl AsFd) -> bool {
    rustix::fs::fstat(open).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (facts.dev(), facts.ino()))
}

fn is_stream(facts: &Metadata) -> bool {
    facts.file_type().is_fifo() || facts.file_type().is_char_device()
}

/// Writes into what is there, which is neither made nor emptied. A named pipe waits for its reader.
fn write_stream(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    let no_terminal = OFlags::NOCTTY.bits() as i32;
    let mut stream = File::options().write(true).custom_flags(no_terminal).open(path).map_err(cannot)?;
    if !is_stream(&stream.metadata().map_err(cannot)?) {
        return Err(replaced(path));
    }
    stream.write_all(bytes).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    /// No test writes to the standard output of all tests.
    fn kind_of(path: &Path) -> Result<TargetKind> {
        target_kind(path, File::open("/dev/zero").unwrap())
    }

    fn pipe(path: &Path) {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn a_device_and_a_pipe_are_written_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        pipe(&path);
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        write(&path, b"report").unwrap();
        assert_eq!(reader.join().unwrap(), b"report");
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        write(Path::new("/dev/zero"), b"report").unwrap();
        let e = write(Path::new("/dev/full"), b"report").unwrap_err().to_string();
        assert!(e.contains("cannot write /dev/full"), "{e}");
    }

    #[test]
    fn a_file_that_is_standard_output_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let output = File::create(at("out")).unwrap();
        symlink(at("out"), at("link")).unwrap();
        for path in [Path::new("-"), &at("out"), &at("link")] {
            assert_eq!(target_kind(path, &output).unwrap(), TargetKind::Output, "{}", path.display());
        }
        assert_eq!(target_kind(&at("other"), &output).unwrap(), TargetKind::File(at("other")));
        assert_eq!(kind_of(&at("out")).unwrap(), TargetKind::File(at("out")));
    }

    #[test]
    fn what_holds_other_data_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _listener = UnixListener::bind(at("socket")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let mut cases = vec![
            (folder.path().to_owned(), "is a folder; name a file in it"),
            (at("socket"), "is a socket; name a file"),
            (at("dangling"), "is a link that leads nowhere"),
        ];
        let mut nodes = fs::read_dir("/dev").unwrap().map(|entry| entry.unwrap().path());
        match nodes.find(|path| fs::metadata(path).is_ok_and(|facts| facts.file_type().is_block_device())) {
            Some(device) => cases.push((device, "is a block device")),
            None => eprintln!("skipped: no block device"),
        }
        for (path, kind) in cases {
            let e = kind_of(&path).unwrap_err().to_string();
            assert!(e.contains(&format!("{} {kind}", path.display())), "{e}");
        }
        let e = write(&at("none/report.xml"), b"x").unwrap_err().to_string();
        assert!(e.contains("/none does not exist"), "{e}");
        assert!(!at("nowhere").exists());
    }

    /// The test of a guest was over before its report was refused.
    #[test]
    fn a_target_is_judged_before_the_work_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("old.xml"), "old").unwrap();
        symlink("old.xml", at("link.xml")).unwrap();
        for path in [Path::new("-"), Path::new("new.xml"), &at("new.xml"), &at("old.xml"), &at("link.xml")] {
            check(path).unwrap();
        }
        check(Path::new("/dev/full")).unwrap();
        for (path, kind, why) in [
            (at("none/r.xml"), ErrorKind::NotFound, "/none does not exist; make it first"),
            (folder.path().to_owned(), ErrorKind::Refused, "is a folder; name a file in it"),
        ] {
            let e = check(&path).unwrap_err();
            assert!(e.kind() == kind && e.to_string().contains(why), "{e}");
        }
        assert!(check(&at("old.xml/r.xml")).is_err());
        assert_eq!(fs::read(at("old.xml")).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is made");
    }

    #[test]
    fn the_file_that_a_link_leads_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("results")).unwrap();
        fs::write(at("results/of-today.xml"), "a longer report of the run before").unwrap();
        symlink("results/of-today.xml", at("report.xml")).unwrap();
        write(&at("report.xml"), b"report").unwrap();
        assert!(at("report.xml").is_symlink());
        assert_eq!(fs::read(at("results/of-today.xml")).unwrap(), b"report");
        assert_eq!(fs::read_dir(at("results")).unwrap().count(), 1);
    }

    /// The report was written into the file that the link led to.
    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        for destination in ["precious", "new"] {
            symlink(destination, at("report.xml.partial")).unwrap();
            let e = write(&at("report.xml"), b"report").unwrap_err().to_string();
            assert!(e.contains("report.xml.partial is a symbolic link and is in the way"), "{e}");
            fs::remove_file(at("report.xml.partial")).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
        fs::hard_link(at("precious"), at("report.xml.partial")).unwrap();
        write(&at("report.xml"), b"report").unwrap_err();
        assert_eq!(fs::read(at("precious")).unwrap(), b"precious");
        fs::remove_file(at("report.xml.partial")).unwrap();
        write(&at("report.xml"), b"").unwrap();
        write(&at("report.xml"), b"report").unwrap();
        assert_eq!(fs::read(at("report.xml")).unwrap(), b"report");
    }

    fn whole(file: &Path) -> Result<()> {
        write_with(file, 3, |to| Ok(to.write(0, b"new")?))
    }

    #[test]
    fn a_copy_replaces_a_file_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("syslog");
        for before in [None, Some("old"), Some("longer than the new one")] {
            if let Some(before) = before {
                fs::write(&file, before).unwrap();
            }
            whole(&file).unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"new");
        }
        fs::write(&file, "old").unwrap();
        write_with(&file, 3, |to| {
            to.write(0, b"ne")?;
            Err(Error::failed("the guest was ended"))
        })
        .unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no .partial stays");
    }

    /// It published the file of the other run under its own name.
    #[test]
    fn the_unfinished_file_of_a_run_that_goes_on_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        write_with(&file, 4, |to| {
            to.write(0, b"half")?;
            let e = whole(&file).unwrap_err().to_string();
            assert!(e.contains("disk.img.partial"), "{e}");
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"half");

        let replaced = write_with(&file, 4, |to| {
            to.write(0, b"lost")?;
            fs::write(beside(&file, ".new"), "of another run").unwrap();
            fs::rename(beside(&file, ".new"), beside(&file, ".partial")).unwrap();
            Ok(())
        });
        assert!(replaced.unwrap_err().to_string().contains("replaced by another run"));
        assert_eq!(fs::read(&file).unwrap(), b"half");
        assert_eq!(fs::read(beside(&file, ".partial")).unwrap(), b"of another run");
    }

    #[test]
    fn the_unfinished_file_of_a_copy_is_begun_anew_and_that_of_a_conversion_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        fs::write(beside(&file, ".partial"), "half a disk").unwrap();
        whole(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");

        fs::write(beside(&file, ".partial"), "half a disk").unwrap();
        fs::write(beside(&file, ".partial.journal"), "marks").unwrap();
        let e = whole(&file).unwrap_err().to_string();
        assert!(e.contains("disk.img.partial") && e.contains("go on with that one"), "{e}");
        assert_eq!(fs::read(beside(&file, ".partial")).unwrap(), b"half a disk");
    }

    #[test]
    fn neither_a_link_nor_a_device_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink("file", &link).unwrap();
        for (target, kind) in
            [(link.as_path(), "a symbolic link"), (Path::new("/dev/null"), "a character device")]
        {
            let e = whole(target).unwrap_err().to_string();
            assert!(e.contains(kind), "{e}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }
}
