//! Images that name a file of their reader, as the published attacks did. The kernel watches that file while
//! each verb works on each image: a refusal after the file was opened comes too late.

use crate::place::{As, BOTH, Place};
use rustix::fs::inotify;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Content of the named file, which no output may contain.
const SECRET: &str = "the host's own secret ";

/// Name of that file, beside the images.
const VICTIM: &str = "victim";

/// A file that must not be opened, with a watch of the kernel.
struct Victim(OwnedFd);

impl Victim {
    fn watched(place: &Place) -> Victim {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        let all = inotify::WatchFlags::OPEN | inotify::WatchFlags::MODIFY | inotify::WatchFlags::ATTRIB;
        inotify::add_watch(&watch, place.path(VICTIM), all).unwrap();
        Victim(watch)
    }

    fn was_touched(&self) -> bool {
        match rustix::io::read(&self.0, &mut [0; 4096]) {
            Err(Errno::AGAIN) => false,
            Ok(_) => true,
            Err(e) => panic!("the kernel does not tell: {e}"),
        }
    }
}

/// A folder with the named file, and images that refer to it.
fn place() -> (Place, Vec<&'static str>) {
    let place = Place::new(70);
    std::fs::write(place.path(VICTIM), SECRET.repeat(1 << 10)).unwrap();
    let path = place.path(VICTIM).display().to_string();
    let json = format!(r#"json:{{"driver":"raw","file":{{"driver":"file","filename":"{path}"}}}}"#);
    place.shell(&format!(
        "qemu-img create -q -u -f qcow2 -b '{path}' -F raw backing.qcow2 1M
         qemu-img create -q -u -f qcow2 -b '{json}' -F raw backing-json.qcow2 1M
         qemu-img create -q -u -f qcow2 -b 'nbd:unix:{path}' -F raw backing-nbd.qcow2 1M
         qemu-img create -q -u -f qed -b '{path}' -F raw backing.qed 1M
         qemu-img create -q -u -f qcow -b '{path}' -F raw backing.qcow1 1M
         printf '# Disk DescriptorFile\\nversion=1\\nCID=12345678\\nparentCID=ffffffff\\ncreateType=\"monolithicFlat\"\\n\
         # Extent description\\nRW 40 FLAT \"{path}\" 0\\n' > flat.vmdk"
    ));
    // qemu-img creates the data file of an image, so the name is written into the image afterwards.
    for (name, data, options) in [
        ("data.qcow2", &path, ""),
        ("data-raw.qcow2", &path, ",data_file_raw=on"),
        ("data-json.qcow2", &json, ""),
    ] {
        let other = "d".repeat(data.len());
        place.shell(&format!(
            "qemu-img create -q -f qcow2 -o data_file={other}{options} {name} 1M; rm {other}"
        ));
        let mut bytes = place.bytes(name);
        let at = bytes.windows(other.len()).position(|here| here == other.as_bytes()).unwrap();
        bytes[at..at + data.len()].copy_from_slice(data.as_bytes());
        std::fs::write(place.path(name), bytes).unwrap();
    }
    place.shell("gzip -1 -k backing-json.qcow2; xz -0 -k data-json.qcow2; tar -cf flat.tar flat.vmdk");
    let names = vec![
        "backing.qcow2",
        "backing-json.qcow2",
        "backing-nbd.qcow2",
        "backing.qed",
        "backing.qcow1",
        "flat.vmdk",
        "data.qcow2",
        "data-raw.qcow2",
        "data-json.qcow2",
        "backing-json.qcow2.gz",
        "data-json.qcow2.xz",
        "flat.tar",
    ];
    (place, names)
}

#[test]
fn a_file_that_an_image_names_is_never_opened() {
    let (place, names) = place();
    let victim = Victim::watched(&place);
    for name in names {
        for given in BOTH {
            let ran = place.convert(name, given, &[]);
            assert_eq!(ran.code, 3, "{name} as {given:?}: {}", ran.err);
            assert!(!ran.err.contains(SECRET), "{name}: {}", ran.err);
        }
        let ran = place.run(&["build", "-q", "-t", "os:1", name]);
        assert_eq!(ran.code, 3, "{name}: {}", ran.err);
        assert!(place.run(&["images", "-q"]).ok().out.is_empty(), "{name}: an image");
        // The reference itself is reported, which needs no access to the file.
        let ran = place.run(&["inspect", "--json", name]);
        let said = String::from_utf8_lossy(&ran.out).into_owned() + &ran.err;
        assert!(!said.contains(SECRET), "{name}: {said}");
        assert!(!victim.was_touched(), "{name}: the file that it names was opened");
    }
    assert_eq!(place.bytes(VICTIM), SECRET.repeat(1 << 10).as_bytes());
    assert!(victim.was_touched(), "the kernel tells of an open");
}

#[test]
fn a_device_without_end_is_no_disk() {
    let place = Place::new(71);
    for device in ["/dev/zero", "/dev/urandom", "/dev/null"] {
        let ran = place.run(&["convert", "-q", device, "out.img"]).refused(3, "character device");
        assert!(ran.err.contains(device), "{}", ran.err);
        place.run(&["inspect", device]).refused(3, "character device");
    }
    std::os::unix::fs::symlink("/dev/zero", place.path("disk.link")).unwrap();
    place.convert("disk.link", As::File, &[]).refused(3, "character device");
}
