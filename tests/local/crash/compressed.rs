//! Compressed disks: what goes on in the middle, and what says that it cannot.

use super::{Place, ended, interrupt, slow, wait_for};
use tests::http::Behaviour;

/// One block or frame of a whole file can be entered nowhere. The next run says so, and so does one that is interrupted.
#[test]
fn a_disk_in_one_block_is_begun_anew_and_the_message_says_why() {
    let place = Place::new(34);
    for (end, line, at) in [
        ("xz", "xz -0 -T1 -c disk.raw", "an xz is entered again at the start of a block"),
        ("zst", "zstd -q -1 -c disk.raw", "a zstd is entered again at the start of a frame"),
    ] {
        let server = slow(place.shell(line));
        let (url, target) = (server.url(&format!("/disk.raw.{end}")), format!("{end}.img"));
        let args = ["convert", "--json", "--journal-every", "2", &url, &target];
        let plan = place.run(&["convert", "--plan", "--json", &url, &target]).ok().json();
        assert!(plan["resumes_at"].as_str().is_some_and(|says| says.contains(at)), "{plan}");
        let partial = place.path(&format!("{target}.partial"));
        let begun = || {
            let child = place.start(&args);
            wait_for("data", || {
                let held = std::fs::metadata(&partial).map(|m| std::os::unix::fs::MetadataExt::blocks(&m));
                held.is_ok_and(|held| held > 2048)
            });
            child
        };
        let mut child = begun();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!place.has_mark(&target));
        // So that data is that of the next run.
        std::fs::File::options().write(true).open(&partial).and_then(|file| file.set_len(0)).unwrap();
        let child = begun();
        interrupt(&child);
        let ran = ended(child, 40).refused(130, "interrupted");
        let anew = format!("{target} is begun anew: the earlier run ended before its first mark; {at}");
        assert!(ran.err.contains(&anew), "{}", ran.err);
        assert!(ran.err.contains(&format!("nothing is kept: {at}")), "{}", ran.err);
        place.nothing_beside(&target);
        server.set(Behaviour::default());
        place.run(&args).ok();
        place.is_the_disk(&target);
    }
}

/// A checksum is of all bytes, also of those that an earlier run has read. Tables at the front are read once more.
#[test]
fn a_qcow2_with_a_checksum_goes_on() {
    let place = Place::new(35);
    place.image("plain.qcow2", "");
    place.packed_file("plain.qcow2", "xz");
    place.shell("gzip -1 -k plain.qcow2");
    for name in ["plain.qcow2", "plain.qcow2.xz", "plain.qcow2.gz"] {
        let bytes = place.bytes(name);
        let server = slow(bytes.clone());
        let sum = String::from_utf8(place.shell(&format!("sha256sum {name} | cut -d' ' -f1"))).unwrap();
        let (url, sum) = (server.url(&format!("/{name}")), format!("sha256:{}", sum.trim()));
        let args = ["convert", "--json", "--checksum", &sum, &url, "out.img"];
        place.killed_behind_a_mark(&args, "out.img");
        server.set(Behaviour::default());
        let ran = place.run(&args).ok();
        assert!(ran.json()["resumed_at"].is_u64(), "{name}: {}", ran.json());
        place.is_the_disk("out.img");
        std::fs::remove_file(place.path("out.img")).unwrap();
        // Other bytes under the same strong ETag, behind the mark: the checksum finds them, and nothing stays.
        server.set(Behaviour { rate: Some(3 << 20), ..Behaviour::default() });
        place.killed_behind_a_mark(&args, "out.img");
        let mut other = bytes;
        let last = other.len() - 1;
        other[last] ^= 1;
        server.set(Behaviour { files: vec![(format!("/{name}"), other)], ..Behaviour::default() });
        let ran = place.run(&args);
        assert_ne!(ran.code, 0, "{name}: {}", ran.err);
        place.nothing_beside("out.img");
        assert!(!place.path("out.img").exists());
    }
}
