//! Names that promise a format, as `disk.qcow2` and `disk.raw.xz` do, of sources whose bytes are of none: a page with an error, a
//! damaged file. An import of such a file as a raw disk would succeed, and the guest would find no system on it.

use super::Layer;

/// Ends of names, with the format that each promises.
const FORMATS: [(&str, &str); 8] = [
    ("qcow2", "a qcow2 image"),
    ("qcow", "a qcow image"),
    ("vmdk", "a VMDK image"),
    ("vdi", "a VDI image"),
    ("vhdx", "a VHDX image"),
    ("ova", "an OVA archive"),
    ("tar", "a tar archive"),
    ("zip", "a zip archive"),
];
/// Ends of names, with the compression that each promises.
const COMPRESSIONS: [(&str, &str); 6] =
    [("gz", "gzip"), ("xz", "xz"), ("zst", "zstd"), ("zstd", "zstd"), ("bz2", "bzip2"), ("lz4", "lz4")];
/// Ends of names of compressed archives.
const ARCHIVES: [(&str, &str); 5] =
    [("tgz", "gzip"), ("txz", "xz"), ("tzst", "zstd"), ("tbz", "bzip2"), ("tbz2", "bzip2")];

/// Ends of the names of VMDK images whose bytes are a raw disk by their definition.
const RAW_VMDKS: [&str; 3] = ["-flat.vmdk", "-delta.vmdk", "-rdm.vmdk"];

/// The refusal of a source that would be taken for a raw disk: its name promises another format, which was not found in it.
/// `layers`: those that were found around it. `undone`: number of compressions that its source has undone. `member`: its name in an archive.
pub fn refuse_raw(name: &str, layers: &[Layer], undone: usize, member: Option<&str>) -> Option<String> {
    let archive = layers.iter().position(|&layer| layer == Layer::Tar);
    let (shown, undone, removed) = match (archive, member) {
        (Some(at), Some(member)) => (member, 0, layers.len() - at - 1),
        (Some(_), None) => return None,
        (None, _) => (name, undone, layers.len()),
    };
    let promised = promise(shown, undone, removed)?;
    Some(format!(
        "{} is named as {promised}, and its bytes are of no format that is known here: it may be damaged, or a page with an error; \
         if it is a raw disk, say so (-f raw), or give it another name",
        printable::line(shown)
    ))
}

/// The format that a name promises once its source has undone some compressions and others are removed. The name of a compressed file
/// without an end for the compression promises nothing: servers do not compress the pages of their errors that way.
fn promise(name: &str, undone: usize, removed: usize) -> Option<&'static str> {
    // An address ends before its query.
    let path = if name.contains("://") { name.split(['?', '#']).next().unwrap_or(name) } else { name };
    let file = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let find = |known: &[(&str, &'static str)], end: &str| {
        known.iter().find(|(known, _)| *known == end).map(|(_, what)| *what)
    };
    let mut stem = file.as_str();
    for at in 0..undone + removed {
        match stem.rsplit_once('.') {
            Some((rest, end)) if find(&COMPRESSIONS, end).is_some() => stem = rest,
            // A server compresses any file on its way.
            _ if at < undone => {}
            _ => return None,
        }
    }
    let (rest, end) = stem.rsplit_once('.')?;
    if rest.is_empty() || RAW_VMDKS.iter().any(|end| stem.ends_with(end)) {
        return None;
    }
    find(&FORMATS, end)
        .or_else(|| find(&COMPRESSIONS, end))
        .or_else(|| find(&ARCHIVES, end).filter(|_| undone + removed == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_promises_a_format_is_held_to_it() {
        let refused = |name: &str, layers: &[Layer]| refuse_raw(name, layers, 0, None).is_some();
        for name in [
            "junk.qcow2",
            "http://h/e.qcow2?token=x.raw",
            "d.raw.xz",
            "a/D.VMDK",
            "b.tar.gz",
            "c.ova",
            "e.img.zst",
            "t.tgz",
        ] {
            assert!(refused(name, &[]), "{name}");
        }
        for name in [
            "disk.img",
            "disk",
            ".qcow2",
            "http://h/get?file=a.qcow2",
            "a.qcow2/disk.raw",
            "x.iso",
            "v.vhd",
            "A-flat.VMDK",
            "a-rdm.vmdk",
            "qcow2",
        ] {
            assert!(!refused(name, &[]), "{name}");
        }
        assert!(!refused("disk.qcow2", &[Layer::Gzip]), "a raw disk, compressed");
        assert!(!refused("d.raw.xz", &[Layer::Xz]) && !refused("d.gz", &[Layer::Gzip]));
        assert!(refused("q.qcow2.gz", &[Layer::Gzip]) && refused("d.raw.gz.xz", &[Layer::Xz]));
        assert!(!refused("all.tar", &[Layer::Tar]) && !refused("t.tgz", &[Layer::Gzip, Layer::Tar]));
        let undone = |name| refuse_raw(name, &[], 1, None).is_some();
        assert!(
            !undone("http://h/d.img.gz")
                && !undone("d.raw")
                && undone("q.qcow2.gz")
                && undone("q.qcow2")
                && undone("d.xz.gz")
        );
        let member = |path| refuse_raw("all.tar", &[Layer::Tar], 0, Some(path));
        assert!(
            member("disk.raw").is_none() && member("deep/q.qcow2").unwrap().contains("deep/q.qcow2 is named")
        );
    }
}
