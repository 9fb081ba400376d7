//! The checks of a containerDisk: one disk at the path where VMs expect it, with a format and a mode that
//! QEMU can read.

use super::check::{Checks, Outcome, expect};
use super::format::Verdict;
use super::layer::FileVerdict;
use crate::locate::tree::{Entry, EntryKind, Tree};
use crate::locate::{Boot, Image, is_disk_path, scan};
use crate::pack::OWNER;
use crate::{Result, tar::quoted};

const ONE: &str = "one disk in its place";

pub(super) fn check(
    image: &Image,
    boot: Option<&Boot>,
    formats: &[FileVerdict],
    checks: &mut Checks,
) -> Result<()> {
    if image.layers.iter().any(Option::is_none) {
        let why = "not all layers can be read";
        checks.add(ONE, Outcome::NotChecked(why.to_owned()));
        return Ok(());
    }
    if let Some(boot) = boot {
        let Some(tree) = checks.record_part("kernel", image.tree())? else { return Ok(()) };
        checks.record("kernel", check_file(&tree, &boot.kernel))?;
        if let Some(initrd) = &boot.initrd {
            checks.record("initrd", check_file(&tree, initrd))?;
        }
        // A kernel-boot image may lack a disk.
        if image.interest.path().is_none() && tree.below("disk").next().is_none() {
            return Ok(());
        }
    }
    let Some((path, entry)) = checks.record(ONE, placed(image))? else { return Ok(()) };
    checks.record("owner", owner(&entry))?;
    checks.record("mode", mode(image, &path, &entry))?;
    match formats.iter().find(|found| found.layer == entry.layer && found.path == path) {
        Some(found) => format(&found.verdict, checks),
        None => checks.add("format", Outcome::NotChecked("the disk was not read".to_owned())),
    }
    Ok(())
}

fn placed(image: &Image) -> Result<(String, Entry)> {
    let (path, entry) = image.judge()?;
    expect(image.interest.path().is_some() || is_disk_path(&path), || {
        format!("{} lies at the root; older readers only look in /disk", quoted(&path))
    })?;
    Ok((path, entry))
}

fn check_file(tree: &Tree, path: &str) -> Result<()> {
    let clean = scan::clean(path);
    let kind = clean.and_then(|path| tree.kind(&path));
    expect(kind == Some(&EntryKind::File), || format!("{} is not a file of the image", quoted(path)))
}

fn owner(entry: &Entry) -> Result<()> {
    let qemu = u64::from(OWNER);
    expect((entry.uid, entry.gid) == (qemu, qemu), || {
        format!("it belongs to {}:{}, not to {qemu}:{qemu}, the user of QEMU", entry.uid, entry.gid)
    })
}

fn mode(image: &Image, path: &str, entry: &Entry) -> Result<()> {
    expect(allows(entry, 0o4), || {
        format!("mode {:04o} does not let user {OWNER} read it", entry.mode & 0o7777)
    })?;
    let tree = image.tree()?;
    for folder in crate::locate::tree::parents(path) {
        if let Some(entry) = tree.entries.get(folder) {
            expect(allows(entry, 0o1), || {
                let mode = entry.mode & 0o7777;
                format!("mode {mode:04o} of the folder {} does not let user {OWNER} enter it", quoted(folder))
            })?;
        }
    }
    Ok(())
}

/// True if QEMU's user has these rights.
fn allows(entry: &Entry, rights: u64) -> bool {
    let qemu = u64::from(OWNER);
    let shift = match () {
        () if entry.uid == qemu => 6,
        () if entry.gid == qemu => 3,
        () => 0,
    };
    entry.mode >> shift & rights == rights
}

fn format(verdict: &Verdict, checks: &mut Checks) {
    const FORMAT: &str = "format";
    const OUTSIDE: &str = "no outside references";
    match verdict {
        Verdict::Sound(_) => {
            checks.add(FORMAT, Outcome::Passed);
            checks.add(OUTSIDE, Outcome::Passed);
        }
        Verdict::Unknown(format) => {
            let why = format!(
                "this {format} has its tables far behind its data; convert the disk to a file and check that file"
            );
            checks.add(FORMAT, Outcome::NotChecked(why));
            checks.add(OUTSIDE, Outcome::Passed);
        }
        Verdict::Bad(why) => checks.failed(FORMAT, why.clone()),
        Verdict::Outside(why) => {
            checks.add(FORMAT, Outcome::Passed);
            checks.failed(OUTSIDE, why.clone());
        }
    }
}
