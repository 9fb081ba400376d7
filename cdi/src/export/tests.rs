//! Decisions before a byte is sent; the rest is tested with a registry in `cdi/tests/worker/export.rs`.

use super::*;
use api::job::export::Disk;
use std::io::Write as _;
use std::path::PathBuf;

fn job(path: PathBuf, format: Option<JobFormat>) -> Export {
    let target =
        api::job::Registry { url: "docker://127.0.0.1:1/os:1".to_owned(), ..api::job::Registry::default() };
    Export { disk: Disk::File(path), target, format, layer: Compression::Zstd, labels: Default::default() }
}

fn planned(head: &[u8], format: Option<JobFormat>) -> Result<Output> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let mut bytes = vec![0; 1 << 20];
    bytes[..head.len()].copy_from_slice(head);
    std::fs::write(&path, bytes).unwrap();
    output(&job(path, format))
}

#[test]
fn a_disk_that_begins_like_an_image_is_never_one() {
    const QCOW2: Output = Output::Qcow2 { cluster_bits: 16, compress: None };
    let hostile = b"QFI\xfb\0\0\0\x03";
    assert_eq!(planned(&[0; 8], None).unwrap(), QCOW2);
    assert_eq!(planned(&[0; 8], Some(JobFormat::Raw)).unwrap(), Output::Raw);
    assert_eq!(planned(hostile, None).unwrap(), QCOW2);
    assert_eq!(planned(hostile, Some(JobFormat::Qcow2)).unwrap(), QCOW2);
    let e = planned(hostile, Some(JobFormat::Raw)).unwrap_err();
    assert_eq!(e.kind(), crate::ErrorKind::Refused);
    assert!(e.to_string().contains("begins like an image of the format qcow2"), "{e}");
}

#[test]
fn a_name_with_a_digest_or_of_another_place_is_refused_before_anything_is_opened() {
    for url in
        ["oci:/tmp/x", "store:os", &format!("docker://h/os@sha256:{}", "0a".repeat(32)), "docker://h/UP:1"]
    {
        let mut job = job("/nowhere/disk.img".into(), None);
        url.clone_into(&mut job.target.url);
        let never = |_: &Permissions| -> Result<()> { panic!("it is refused before that") };
        let (places, convert_options) = (Arc::new(Places::new(None)), ConvertOptions::with_threads(1));
        let e =
            prepare(&job, places, convert_options, &Watch::default(), never).err().expect("it is refused");
        assert!(!e.may_retry(), "{url}: {e}");
    }
}

/// A registry, or a store, tells other bytes than the promised ones in its own words.
#[test]
fn other_bytes_of_the_second_reading_are_a_disk_that_was_changed() {
    const PROMISED: &[u8] = b"the layer of the disk";
    let folder = tempfile::tempdir().unwrap();
    let layout = container_disk::layout::Layout::create(&folder.path().join("layout")).unwrap();
    let (digest, size) = (container_disk::Digest::of(PROMISED), PROMISED.len() as u64);
    let promised = descriptor("application/octet-stream", &digest, size).unwrap();
    let sink = Promised { sink: &layout, promised, digest, size };
    let send = |bytes: &[u8]| -> container_disk::Result<container_disk::Digest> {
        let mut writer = sink.begin(None)?;
        writer.write_all(bytes).map_err(|e| container_disk::Error::io("cannot store the layer", e))?;
        Ok(writer.finish()?.0)
    };
    for bytes in [&b"the layer of the risk"[..], b"the layer of the disks", b"the layer of the dis"] {
        let e = Error::from(send(bytes).unwrap_err());
        assert_eq!((e.kind(), e.sentence()), (crate::ErrorKind::Failed, CHANGED), "{e:?}");
    }
    assert_eq!(send(PROMISED).unwrap(), digest);
}
