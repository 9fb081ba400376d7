//! Layers are the same for any number of threads, and readable by any tool.

use super::*;
use crate::layout::Layout;
use crate::place::{Place, Sink};
use crate::{Digest, ErrorKind};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Zeros, text and noise, as disks have them, a little more than 5 pieces.
fn disk() -> Vec<u8> {
    let mut seed = 7u32;
    let mut noise = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        seed as u8
    };
    let mut disk = vec![0; 2 << 20];
    disk.extend((0..1_000_000).map(|_| noise()));
    disk.extend((0..2_500_000u32).map(|i| b"all work and no play "[i as usize % 21]));
    disk
}

fn sink() -> (TempDir, Layout) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    (folder, layout)
}

fn pack(sink: &dyn Sink, compression: Compression, threads: usize, step: usize) -> Layer {
    let options = Options { compression, threads, created: 1_700_000_000, ..Options::default() };
    let disk = disk();
    let mut layer = LayerWriter::disk(sink, &options, disk.len() as u64).unwrap();
    disk.chunks(step).for_each(|piece| layer.write_all(piece).unwrap());
    layer.finish().unwrap()
}

fn bytes(place: &dyn Place, layer: &Layer) -> Vec<u8> {
    let promised = crate::manifest::Descriptor {
        digest: layer.digest.to_string(),
        size: layer.size as i64,
        ..Default::default()
    };
    let mut all = vec![];
    place.blob(&promised).unwrap().stream(0).unwrap().read_to_end(&mut all).unwrap();
    all
}

fn filter(program: &str, input: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new(program).arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feed = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let out = child.wait_with_output().unwrap();
    feed.join().unwrap();
    assert!(out.status.success(), "{program}");
    out.stdout
}

#[test]
fn the_same_disk_gives_the_same_layer_with_any_number_of_threads() {
    let (_folder, sink) = sink();
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let one = pack(&sink, compression, 1, 1 << 20);
        for (threads, step) in [(1, 4097), (2, 65_536), (3, 1 << 20), (16, 999_983)] {
            assert_eq!(pack(&sink, compression, threads, step), one, "{compression:?} {threads} {step}");
        }
        assert_eq!(one.diff_id, pack(&sink, Compression::None, 1, 1 << 16).digest, "the tar is the same");
    }
}

/// The digests are part of the contract: a change here changes the digest of every image that is built again.
#[test]
fn layers_have_the_digests_they_always_had() {
    let (_folder, sink) = sink();
    for (compression, digest) in [
        (Compression::None, "sha256:1c624d70bda71665a46c1f3ac7580262d8bf47f1de1235ec743b58ea253f776d"),
        (Compression::Gzip, "sha256:2b44b4560b952192eacfe51a7c683fb5b9a0454680cc46c220affb541bc664f7"),
        (Compression::Zstd, "sha256:5cbed47ec824a1901885925d8714c7f6f3db29ee6a7da26978d79c58e8713405"),
    ] {
        assert_eq!(pack(&sink, compression, 2, 1 << 16).digest.to_string(), digest, "{compression:?}");
    }
}

#[test]
fn gnu_tools_unpack_what_we_pack() {
    let (_folder, sink) = sink();
    let plain = bytes(&sink, &pack(&sink, Compression::None, 1, 1 << 16));
    for (compression, tool) in
        [(Compression::Gzip, "gzip"), (Compression::Gzip, "pigz"), (Compression::Zstd, "zstd")]
    {
        let layer = pack(&sink, compression, 2, 1 << 16);
        let tar = filter(tool, &bytes(&sink, &layer));
        assert!(tar == plain, "{tool}");
        assert_eq!((Digest::of(&tar), tar.len() as u64), (layer.diff_id, layer.tar_size));
    }
    let list =
        Command::new("tar").args(["-tvf", "-", "--utc"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut list = list.unwrap();
    list.stdin.take().unwrap().write_all(&plain).unwrap();
    let shown = String::from_utf8(list.wait_with_output().unwrap().stdout).unwrap();
    let size = disk().len();
    assert_eq!(
        shown,
        format!(
            "dr-xr-xr-x qemu/qemu         0 2023-11-14 22:13 disk/\n\
             -r--r--r-- qemu/qemu   {size} 2023-11-14 22:13 disk/disk.img\n"
        )
    );
}

#[test]
fn a_disk_of_another_size_than_told_is_no_layer() {
    let (folder, sink) = sink();
    let mut layer = LayerWriter::disk(&sink, &Options::default(), 10).unwrap();
    layer.write_all(&[1; 9]).unwrap();
    assert!(layer.write_all(&[1; 2]).unwrap_err().to_string().contains("longer than the 10 bytes"));
    let e = layer.finish().unwrap_err();
    assert_eq!(
        (e.kind(), e.to_string().as_str()),
        (ErrorKind::Failed, "disk/disk.img ends after 9 of its 10 bytes")
    );
    assert_eq!(std::fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 0);
}

#[test]
fn a_kernel_and_its_initrd_share_a_layer() {
    let (_folder, sink) = sink();
    let options = Options { compression: Compression::None, ..Options::default() };
    let mut layer = LayerWriter::boot(&sink, &options).unwrap();
    assert_eq!(layer.boot_file("vmlinuz", 600).unwrap(), "/boot/vmlinuz");
    layer.write_all(&[1; 600]).unwrap();
    assert_eq!(layer.boot_file("initrd.img", 0).unwrap(), "/boot/initrd.img");
    for name in ["", "a/b", "..", ".wh.x"] {
        assert_eq!(layer.boot_file(name, 1).unwrap_err().kind(), ErrorKind::Usage, "{name}");
    }
    let layer = layer.finish().unwrap();
    let mut members = crate::members::Members::new(
        "x",
        crate::tar::Streamed::new(std::io::Cursor::new(bytes(&sink, &layer))),
    );
    let mut names = vec![];
    while let Some(member) = members.next().unwrap() {
        names.push((member.name, member.size));
    }
    assert_eq!(names, [("boot".into(), 0), ("boot/vmlinuz".into(), 600), ("boot/initrd.img".to_owned(), 0)]);
}

#[test]
fn a_sink_that_fails_is_the_error_that_is_told() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl crate::place::BlobWriter for Full {
        fn digest(&mut self) -> crate::Result<Digest> {
            unreachable!("nothing was written")
        }
        fn finish(self: Box<Self>) -> crate::Result<(Digest, u64)> {
            unreachable!("nothing was written")
        }
    }
    impl Sink for Full {
        fn has(&self, _: &crate::manifest::Descriptor) -> crate::Result<bool> {
            Ok(false)
        }
        fn begin(
            &self,
            _: Option<&crate::manifest::Descriptor>,
        ) -> crate::Result<Box<dyn crate::place::BlobWriter + '_>> {
            Ok(Box::new(Full))
        }
        fn put(&self, _: &crate::manifest::Document, _: Option<&str>) -> crate::Result<()> {
            Ok(())
        }
    }
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let options = Options { compression, threads: 2, ..Options::default() };
        let result = LayerWriter::disk(&Full, &options, 40 << 20).and_then(|mut layer| {
            layer.write_all(&vec![1; 40 << 20]).map_err(|e| crate::Error::io("writing", e))
        });
        let said = "cannot store the layer: its file system is full; make room there or choose another place";
        assert_eq!(result.unwrap_err().to_string(), said, "{compression:?}");
    }
}

#[test]
fn a_layer_has_no_name_twice() {
    let (_folder, sink) = sink();
    let options = Options::default();
    let mut layer = LayerWriter::boot(&sink, &options).unwrap();
    layer.boot_file("image", 0).unwrap();
    let e = layer.boot_file("image", 0).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("boot/image twice"), "{e}");
    let mut layer = LayerWriter::disk(&sink, &options, 0).unwrap();
    assert!(layer.folder("disk").is_err() && layer.file("disk", 0).is_err());
    layer.file("disk/other", 0).unwrap();
}
