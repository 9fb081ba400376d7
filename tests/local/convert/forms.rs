//! Forms of a disk: formats, and the layers around them.

use super::{PROGRAM, SIZE, place};

const QCOW2: [(&str, &str); 6] = [
    ("plain.qcow2", ""),
    ("zlib.qcow2", "-c"),
    ("zstd.qcow2", "-c -o compression_type=zstd"),
    ("small.qcow2", "-c -o cluster_size=512"),
    ("large.qcow2", "-o cluster_size=2M,extended_l2=on"),
    ("v2.qcow2", "-o compat=0.10"),
];

#[test]
fn every_format_becomes_the_same_raw_disk() {
    let place = place(1);
    place.run(&["convert", "disk.raw", "copy.img"]).ok();
    place.is_the_disk("copy.img");
    for (name, words) in QCOW2 {
        place.qcow2(name, words);
        let out = format!("{name}.img");
        place.run(&["convert", "--verify", name, &out]).ok();
        place.is_the_disk(&out);
    }
}

#[test]
fn every_layer_is_undone() {
    let place = place(2);
    place.qcow2("disk.qcow2", "");
    for disk in ["disk.raw", "disk.qcow2"] {
        for (end, line) in [
            ("gz", "gzip -1"),
            ("xz", "xz -T2 -0 --block-size=1MiB"),
            ("one.xz", "xz -T1 -0"),
            ("zst", "zstd -q -1"),
            ("tar", "tar -cO"),
            ("tar.gz", "tar -czO"),
            ("tar.xz", "tar -cJO"),
        ] {
            let packed = format!("{disk}.{end}");
            match line.starts_with("tar") {
                true => place.shell(&format!("{line} {disk} > {packed}")),
                false => place.shell(&format!("{line} < {disk} > {packed}")),
            };
            let out = format!("{packed}.img");
            place.run(&["convert", "--verify", &packed, &out]).ok();
            place.is_the_disk(&out);
        }
    }
}

/// A guest may write to its disk what looks like a layer: the disk was cut to what is inside.
#[test]
fn a_disk_that_is_said_to_be_raw_is_not_looked_into_however_it_is_read() {
    let place = place(22);
    place.shell("head -c 1M /dev/urandom >some; printf 'P*M\\x18\\x00\\x00\\x70\\x00' >skip");
    for (name, head) in [
        ("gz", "gzip -c some"),
        ("xz", "xz -0 -c some"),
        ("zst", "zstd -q -c some; cat skip"),
        ("tar", "tar -c some"),
        ("bz2", "printf 'BZh91AY&SY'"),
        ("zip", "printf 'PK\\x03\\x04'"),
        ("qcow2", "printf 'QFI\\xfb'"),
    ] {
        let (disk, out) = (format!("{name}.img"), format!("{name}.out"));
        place.shell(&format!("({head}; cat disk.raw) >{disk}; truncate -s 8M {disk}"));
        let sum = String::from_utf8(place.shell(&format!("sha256sum <{disk}"))).unwrap();
        let digest = format!("sha256:{}", sum.split_whitespace().next().unwrap());
        let same = || place.shell(&format!("cmp {disk} {out}; rm {out}"));
        place.run(&["convert", "-f", "raw", &disk, &out]).ok();
        same();
        place.run(&["convert", "-f", "raw", "--checksum", &digest, &disk, &out]).ok();
        same();
        place.shell(&format!("cat {disk} | {PROGRAM} convert -f raw - {out}"));
        same();
        place.shell(&format!("cat {disk} | {PROGRAM} convert -f raw - - | cat >{out}"));
        same();
        // The layers around a disk that is named in an archive are none of its own.
        place.shell(&format!("tar -czf around.tar.gz {disk}"));
        place.run(&["convert", "-f", "raw", "--path", &disk, "around.tar.gz", &out]).ok();
        same();
        // Nothing in an image would say that it is raw.
        let refused = "is raw and begins like";
        place.run(&["build", "-f", "raw", "--format", "raw", "-t", "os", &disk]).refused(3, refused);
        place.run(&["build", "-f", "raw", "--format", "qcow2", "-t", "os", &disk]).ok();
        place.run(&["convert", "os", &out]).ok();
        same();
    }
}

/// The advice about a format that is not read is carried out, and leads to a disk.
#[test]
fn what_a_refusal_says_of_a_format_works() {
    let place = place(40);
    let advice = |args: &[&str]| {
        let said = place.run(args).refused(3, "; convert it first: ").err;
        let (_, command) = said.lines().next().unwrap().split_once("; convert it first: ").unwrap();
        assert!(!command.contains("coracle"), "{command}");
        command.to_owned()
    };
    for (format, ending) in [("vmdk", "vmdk"), ("vdi", "vdi"), ("vhdx", "vhdx"), ("vpc", "vhd")] {
        place.shell(&format!("rm -rf IN* out; qemu-img convert -f raw -O {format} disk.raw IN.{ending}"));
        let command = advice(&["convert", &format!("IN.{ending}"), "out.img"]);
        for args in [&["build", "-t", "os"][..], &["verify"]] {
            let ran = place.run(&[args, &[&format!("IN.{ending}")]].concat());
            assert!(ran.code == 3 && ran.err.len() + ran.out.len() > 0, "{}", ran.err);
        }
        place.shell(&command);
        place.run(&["convert", "-q", "IN.qcow2", "out"]).ok();
        place.shell("cmp -n $(stat -c %s disk.raw) out disk.raw");
    }
    // An appliance is a tar with a vmdk in it.
    place.shell("qemu-img convert -f raw -O vmdk disk.raw IN.vmdk && echo '<Envelope/>' >a.ovf");
    place.shell("tar -cf 'my a.ova' a.ovf IN.vmdk && gzip -k IN.vmdk && rm IN.vmdk");
    for (name, unpacks) in
        [("my a.ova", "tar -xf 'my a.ova' IN.vmdk && "), ("IN.vmdk.gz", "gzip -dk IN.vmdk.gz && ")]
    {
        let command = advice(&["convert", name, "out.img"]);
        assert!(command.starts_with(unpacks), "{command}");
        let inspected = place.run(&["inspect", "--json", name]).ok().json();
        assert!(inspected["refused"].as_str().unwrap().ends_with(&command), "{inspected}");
        place.shell(&format!("rm -f IN.vmdk IN.qcow2 out; {command}"));
        place.run(&["convert", "-q", "IN.qcow2", "out"]).ok();
        place.shell("cmp -n $(stat -c %s disk.raw) out disk.raw");
    }
}

#[test]
fn a_disk_of_several_in_an_archive_is_chosen_by_its_path() {
    let place = place(41);
    place.shell("mkdir vm; truncate -s 1M vm/other.raw");
    place.qcow2("vm/disk.qcow2", "");
    place.shell("tar -cf all.tar vm; gzip -k all.tar; cp all.tar all.ova");
    for name in ["all.tar", "all.tar.gz", "all.ova"] {
        for verb in [&["convert", name, "no.img"][..], &["build", "-t", "no", name]] {
            let said = place.run(verb).refused(3, "choose one by --path").err;
            assert!(said.contains("\"vm/other.raw\"") && said.contains("\"vm/disk.qcow2\""), "{said}");
        }
        for path in ["vm/disk.qcow2", "./vm/disk.qcow2"] {
            place.run(&["convert", "--path", path, name, "out.img"]).ok();
            place.is_the_disk("out.img");
            place.run(&["build", "-q", "-t", "os", "--path", path, name]).ok();
            place.run(&["convert", "os", "out.img"]).ok();
            place.is_the_disk("out.img");
        }
        for (path, format, size) in [("vm/disk.qcow2", "qcow2", SIZE), ("vm/other.raw", "raw", 1 << 20)] {
            let json = place.run(&["inspect", "--json", "--path", path, name]).ok().json();
            assert_eq!((&json["format"], &json["virtual_size"]), (&format.into(), &size.into()), "{json}");
        }
        let said = "there is no file \"disk.qcow2\" in the archive; it has ";
        place.run(&["convert", "--path", "disk.qcow2", name, "no.img"]).refused(3, said);
        let json = place.run(&["inspect", "--json", "--path", "disk.qcow2", name]).ok().json();
        assert!(json["refused"].as_str().unwrap().contains(said), "{json}");
    }
    place.shell(&format!("{PROGRAM} convert -q --path vm/disk.qcow2 - piped.img <all.tar.gz"));
    place.is_the_disk("piped.img");
    for verb in
        [&["convert", "disk.raw", "no.img"][..], &["inspect", "disk.raw"], &["build", "-t", "no", "disk.raw"]]
    {
        place.run(&[verb, &["--path", "vm/disk.qcow2"]].concat()).refused(2, "leave out --path");
    }
    assert!(!place.path("no.img").exists());
}
