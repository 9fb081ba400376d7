//! Hostile and broken input, and targets that cannot be written: the right exit code, one sentence with the
//! fault and its place, no files left, and time and memory within limits.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod image;
mod place;
mod references;
mod targets;

use place::{As, BOTH, PROGRAM, Place, TIME};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use tests::disk::{Noise, qemu_convert, same};
use tests::measure::measure;

#[test]
fn truncated_at_any_byte() {
    let place = Place::new(51);
    place.qcow2("disk.qcow2", "-o cluster_size=4k");
    place.qcow2("packed.qcow2", "-c");
    for name in ["disk.raw", "disk.qcow2"] {
        place.shell(&format!(
            "split -b 1M --filter='gzip -1' {name} > {name}.gz; split -b 1M --filter='zstd -q -1' {name} > {name}.zst; \
             xz -0 -T2 --block-size=1MiB -k {name}; tar -cf {name}.tar {name}"
        ));
    }
    let names = [
        "disk.qcow2",
        "packed.qcow2",
        "disk.raw.gz",
        "disk.raw.xz",
        "disk.raw.zst",
        "disk.raw.tar",
        "disk.qcow2.gz",
        "disk.qcow2.xz",
        "disk.qcow2.zst",
        "disk.qcow2.tar",
    ];
    let mut noise = Noise::new(51);
    let mut refused = 0;
    for name in names {
        let bytes = std::fs::read(place.path(name)).unwrap();
        let len = bytes.len() as u64;
        // A shorter file cannot be told from a raw disk.
        let least = if name.ends_with("tar") { 512 } else { 12 };
        let mut cuts =
            vec![least, least + 1, 40, 71, 72, 103, 104, 512, 513, 4096, 65536, len / 2, len - 13, len - 1];
        cuts.extend((0..8).map(|_| least + noise.below(len - least)));
        cuts.retain(|&cut| cut >= least && cut < len);
        for (i, cut) in cuts.into_iter().enumerate() {
            std::fs::write(place.path("cut"), &bytes[..cut as usize]).unwrap();
            for given in BOTH {
                refused += u32::from(place.refused_or_right(&format!("{name} cut at {cut}"), "cut", given));
            }
            if i == 11 {
                let said = place.convert("cut", As::File, &[]).err;
                assert!(
                    ["truncated", "end", "outside", "offset", "past"].iter().any(|w| said.contains(w)),
                    "{said}"
                );
            }
        }
    }
    println!("{refused} truncated sources were refused");
    assert!(refused > 300, "{refused}");
}

#[test]
fn header_fields_at_their_extremes() {
    let place = Place::new(52);
    let image = place.image("disk.qcow2", "-o cluster_size=4k");
    let fields = [
        ("version", 4, 4),
        ("backing_file_offset", 8, 8),
        ("backing_file_size", 16, 4),
        ("cluster_bits", 20, 4),
        ("size", 24, 8),
        ("crypt_method", 32, 4),
        ("l1_size", 36, 4),
        ("l1_table_offset", 40, 8),
        ("refcount_table_offset", 48, 8),
        ("refcount_table_clusters", 56, 4),
        ("nb_snapshots", 60, 4),
        ("snapshots_offset", 64, 8),
        ("incompatible_features", 72, 8),
        ("compatible_features", 80, 8),
        ("autoclear_features", 88, 8),
        ("refcount_order", 96, 4),
        ("header_length", 100, 4),
        ("compression_type", 104, 1),
        ("first extension's type", 112, 4),
        ("first extension's length", 116, 4),
    ];
    for (field, at, len) in fields {
        let now = image.get(at, len);
        let most = u64::MAX >> (64 - 8 * len);
        for value in [
            0,
            1,
            now.wrapping_add(1) & most,
            now.wrapping_sub(1) & most,
            512,
            4096,
            most / 2,
            most / 2 + 1,
            most.wrapping_sub(4095) & most,
            most,
        ] {
            image.put(at, len, value).write(&place, "bad.qcow2");
            for given in BOTH {
                let what = format!("{field} = {value:#x} as {given:?}");
                let ran = place.convert("bad.qcow2", given, &[]);
                assert!([0, 3].contains(&ran.code), "{what}: {} {}", ran.code, ran.err);
                if ran.code == 3 {
                    assert!(
                        ran.err.contains(|c: char| c.is_ascii_digit()),
                        "{what} names no place: {}",
                        ran.err
                    );
                } else if field != "size" {
                    // Accepted: then it must not matter.
                    assert!(same(&place.path("disk.raw"), &place.path("out.img")), "{what}: another disk");
                }
            }
        }
    }
}

#[test]
fn table_entries_that_lead_astray() {
    let place = Place::new(53);
    let image = place.image("disk.qcow2", "-o cluster_size=4k");
    let (l1, l2) = (image.l1(), image.l2());
    let (first, second) = (image.get(l1, 8), image.get(l1 + 8, 8));
    let data = image.get(l2, 8);
    const COPIED: u64 = 1 << 63;
    let cases = [
        ("L1 outside", image.put(l1, 8, COPIED | 1 << 50)),
        ("L1 at the end", image.put(l1, 8, COPIED | (image.0.len() as u64).next_multiple_of(4096))),
        ("L1 misaligned", image.put(l1, 8, first + 512)),
        ("L1 reserved bits", image.put(l1, 8, first | 1)),
        ("L1 high reserved bits", image.put(l1, 8, first | 1 << 58)),
        ("L1 on the L1 table", image.put(l1, 8, COPIED | l1 as u64)),
        ("L1 twice the same", image.put(l1, 8, second)),
        ("L1 on the refcount table", image.put(l1, 8, COPIED | image.get(48, 8))),
        ("L2 outside", image.put(l2, 8, COPIED | 1 << 50)),
        ("L2 misaligned", image.put(l2, 8, data + 512)),
        ("L2 on the L1 table", image.put(l2, 8, COPIED | l1 as u64)),
        ("L2 on an L2 table", image.put(l2, 8, first)),
        ("L2 on the refcount table", image.put(l2, 8, COPIED | image.get(48, 8))),
        ("L2 reserved bits", image.put(l2, 8, data | 2)),
        ("L2 packed outside", image.put(l2, 8, 1 << 62 | 1 << 45)),
        ("L2 packed over the end", image.put(l2, 8, 1 << 62 | (image.0.len() as u64 - 1))),
        ("L2 packed on the L1 table", image.put(l2, 8, 1 << 62 | l1 as u64)),
    ];
    for (what, image) in cases {
        image.write(&place, "bad.qcow2");
        for given in BOTH {
            let ran = place.convert("bad.qcow2", given, &[]);
            assert_eq!(ran.code, 3, "{what} as {given:?}: {}", ran.err);
            assert!(ran.err.contains("0x"), "{what} names no place: {}", ran.err);
        }
    }
}

#[test]
fn clusters_that_are_used_twice_are_read_as_qemu_reads_them() {
    let place = Place::new(54);
    place.shell("head -c 6M /dev/urandom > disk.raw");
    let image = place.image("disk.qcow2", "-o cluster_size=4k");
    let l1 = image.l1();
    let table = |i: usize| (image.get(l1 + 8 * i, 8) & 0x00ff_ffff_ffff_fe00) as usize;
    // One cluster is used twice: in the middle of a long run, and far from it.
    let twice = image.put(table(2) + 8 * 100, 8, image.get(table(0) + 8 * 17, 8));
    let twice = twice.put(table(2) + 8 * 200, 8, image.get(table(1) + 8 * 300, 8));
    twice.write(&place, "twice.qcow2");
    place.shell("qemu-img convert -O raw twice.qcow2 disk.raw");
    assert!(!place.refused_or_right("twice", "twice.qcow2", As::File), "it was refused");
    // A stream has passed the bytes when their second use appears.
    place.refused_or_right("twice", "twice.qcow2", As::Pipe);
    place.shell(&format!("{PROGRAM} convert -q twice.qcow2 - | cmp - disk.raw"));
}

#[test]
fn compressed_clusters_that_inflate_past_their_size() {
    let place = Place::new(55);
    for (words, python) in [
        ("-c", "import zlib; c = zlib.compressobj(9, 8, -12); d = c.compress(bytes(1 << 24)) + c.flush()"),
        (
            "-c -o compression_type=zstd",
            "import subprocess; d = subprocess.run(['zstd', '-q', '-19'], input=bytes(1 << 24), capture_output=True).stdout",
        ),
    ] {
        let image = place.image("disk.qcow2", words);
        let at = place.shell("qemu-img map --output=json disk.qcow2 >/dev/null; echo").len();
        assert_eq!(at, 1);
        let entry = image.get(image.l2(), 8);
        assert!(entry >> 62 == 1, "the first cluster is compressed");
        let offset = entry & ((1 << 54) - 1);
        let bomb = place.shell(&format!("python3 -c \"{python}; import sys; sys.stdout.buffer.write(d)\""));
        assert!(bomb.len() > 100 && bomb.len() < 40_000, "{}", bomb.len());
        std::fs::copy(place.path("disk.qcow2"), place.path("bad.qcow2")).unwrap();
        let file = std::fs::File::options().write(true).open(place.path("bad.qcow2")).unwrap();
        file.write_all_at(&bomb, offset).unwrap();
        // The number of sectors that the bomb needs.
        let sectors = (bomb.len() as u64 + offset % 512) / 512;
        let entry = 1 << 62 | sectors << 54 | offset;
        file.write_all_at(&entry.to_be_bytes(), image.l2() as u64).unwrap();
        for given in BOTH {
            let ran = place.convert("bad.qcow2", given, &[]).refused(3, "does not unpack to 65536 bytes");
            assert!(ran.err.contains(&format!("{offset:#x}")), "{}", ran.err);
        }
    }
}

#[test]
fn images_that_need_more_than_themselves() {
    let place = Place::new(56);
    // On some hosts qemu-img often cannot measure the speed that it needs to set up LUKS.
    place.shell(
        "qemu-img create -q -f qcow2 -b disk.raw -F raw backing.qcow2
         qemu-img create -q -f qcow2 -o data_file=data.raw data.qcow2 4M
         qemu-img create -q -f qcow2 -o data_file=data2.raw,data_file_raw=on raw.qcow2 4M
         S='--object secret,id=s,data=abc'
         LUKS=encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10
         for n in {1..50}; do qemu-img create -q -f qcow2 $S -o $LUKS luks.qcow2 4M && break || ((n < 50)); done
         qemu-img create -q -f qcow2 $S -o encrypt.format=aes,encrypt.key-secret=s aes.qcow2 4M",
    );
    let cases = [
        ("backing", "backing"),
        ("data", "another file"),
        ("raw", "another file"),
        ("luks", "encrypt"),
        ("aes", "encrypt"),
    ];
    for (name, said) in cases {
        for given in BOTH {
            place.convert(&format!("{name}.qcow2"), given, &[]).refused(3, said);
        }
        place.shell(&format!("xz -0 -k {name}.qcow2"));
        place.convert(&format!("{name}.qcow2.xz"), As::File, &[]).refused(3, said);
    }
    let image = place.image("disk.qcow2", "");
    for bit in [5, 6, 17, 31, 32, 63] {
        image.put(72, 8, 1 << bit).write(&place, "bad.qcow2");
        for given in BOTH {
            let ran = place.convert("bad.qcow2", given, &[]).refused(3, "feature");
            assert!(ran.err.contains(&format!("{bit}")), "{}", ran.err);
        }
    }
}

#[test]
fn formats_that_are_known_and_not_read() {
    let place = Place::new(57);
    for (format, said) in [("vmdk", "vmdk"), ("vdi", "vdi"), ("vpc", "vhd"), ("vhdx", "vhdx")] {
        qemu_convert(
            &format!("-f raw -O {format}"),
            &place.path("disk.raw"),
            &place.path(&format!("x.{format}")),
        );
        place.shell(&format!("gzip -1 -k x.{format}"));
        for (name, given) in [
            (format!("x.{format}"), As::File),
            (format!("x.{format}"), As::Pipe),
            (format!("x.{format}.gz"), As::File),
        ] {
            let ran = place.convert(&name, given, &[]);
            assert_eq!(ran.code, 3, "{name} as {given:?}: {}", ran.err);
            assert!(ran.err.to_lowercase().contains(said), "{name} as {given:?}: {}", ran.err);
        }
    }
}

#[test]
fn disks_larger_than_allowed() {
    let place = Place::new(58);
    place.qcow2("disk.qcow2", "-c");
    place.shell("gzip -1 -k disk.raw; xz -0 -k disk.qcow2; qemu-img create -q -f qcow2 huge.qcow2 17T");
    for name in ["disk.raw", "disk.qcow2", "disk.raw.gz", "disk.qcow2.xz"] {
        for given in BOTH {
            let ran = place.convert(name, given, &["--max-size", "2M"]);
            assert_eq!(ran.code, 3, "{name} as {given:?}: {}", ran.err);
            assert!(ran.err.contains("--max-size"), "{name} as {given:?}: {}", ran.err);
        }
    }
    for given in BOTH {
        place.convert("huge.qcow2", given, &[]).refused(3, "--max-size");
    }
}

#[test]
fn decompression_bombs() {
    let place = Place::new(59);
    // Each is 100 GiB of zeros; reading ends at the limit.
    for (name, pack) in [("gz", "gzip -9"), ("xz", "xz -1 -T2"), ("zst", "zstd -q -T2")] {
        place.shell(&format!("head -c 256M /dev/zero | {pack} > piece.{name}"));
        let line = format!("(for i in $(seq 400); do cat piece.{name}; done) 2>/dev/null");
        let mut bomb = Command::new("bash");
        let mut bomb =
            bomb.args(["-c", &line]).current_dir(place.folder()).stdout(Stdio::piped()).spawn().unwrap();
        let args = ["convert", "-q", "-", "out.img", "--max-size", "600M"];
        let mut command = place.command(&args);
        command.stdin(bomb.stdout.take().unwrap());
        let measured = measure(&mut command, TIME);
        drop(command);
        println!("{name}: {} bytes of memory, {:?}", measured.peak, measured.time);
        // Blocks and frames that are decoded in parallel wait for each other; the plan states the memory for
        // that.
        let memory = |file: &str| match name {
            "gz" => place::MEMORY,
            _ => {
                let plan = place.run(&["convert", "--plan", "--json", file, "x"]).ok().json();
                plan["memory_bytes"].as_u64().unwrap()
            }
        };
        let stated = memory(&format!("piece.{name}"));
        place.ended_well_within(stated, measured).refused(3, "--max-size");
        bomb.wait().unwrap();
        // A small file that contains a bomb inside a bomb.
        place.shell(&format!("(for i in 1 2 3; do cat piece.{name}; done) | {pack} > nested"));
        let mut command = place.command(&["convert", "-q", "nested", "out.img", "--max-size", "600M"]);
        place.ended_well_within(memory("nested"), measure(&mut command, TIME)).refused(3, "--max-size");
    }
    place.shell("cp disk.raw x; for i in 1 2 3 4 5; do gzip -1 < x > y; mv y x; done");
    for given in BOTH {
        place.convert("x", given, &[]).refused(3, "more than 4 layers");
    }
}

#[test]
fn archives_that_are_no_single_disk() {
    let place = Place::new(60);
    place.qcow2("disk.qcow2", "");
    place.shell(
        "cp disk.raw other.img
         tar -cf two.tar disk.raw other.img
         tar -cf mixed.tar disk.qcow2 disk.raw
         mkdir d; echo text > d/readme; tar -cf none.tar d
         ln -s /etc/passwd link.raw; tar -cf link.tar link.raw
         ln disk.raw hard.raw; tar -cf hard.tar disk.raw hard.raw
         tar -cf cut.tar disk.raw; truncate -s -200K cut.tar
         mknod dev.raw c 1 3 2>/dev/null || mkfifo dev.raw; tar -cf dev.tar dev.raw",
    );
    for (name, said) in [
        ("two", "disk"),
        ("mixed", "disk"),
        ("none", "disk"),
        ("link", "link"),
        ("dev", "disk"),
        ("cut", "truncated"),
    ] {
        for given in BOTH {
            let ran = place.convert(&format!("{name}.tar"), given, &[]);
            assert_eq!(ran.code, 3, "{name} as {given:?}: {}", ran.err);
            assert!(ran.err.contains(said), "{name} as {given:?}: {}", ran.err);
        }
    }
    // The names in an image do not affect a disk that is written elsewhere; its content must be right, or
    // refused.
    place.shell(
        "tar --transform 's,^,/abs/,' -P -cf abs.tar disk.raw
         tar --transform 's,^,../../up/,' -P -cf up.tar disk.raw
         cp --sparse=always disk.raw sparse.raw
         for v in 0.0 0.1 1.0; do tar -S --format=pax --sparse-version=$v -cf pax-$v.tar sparse.raw; done
         tar -S --format=gnu -cf gnu.tar sparse.raw",
    );
    for name in ["abs", "up", "pax-0.0", "pax-0.1", "pax-1.0", "gnu", "hard"] {
        for given in BOTH {
            place.refused_or_right(name, &format!("{name}.tar"), given);
        }
    }
    assert!(!place.path("abs").exists() && !place.path("../up").exists());
}

#[test]
fn bytes_that_were_changed_on_the_way() {
    let place = Place::new(61);
    place.shell("gzip -1 -k disk.raw; xz -0 -k disk.raw; zstd -q -1 --check disk.raw");
    let mut noise = Noise::new(61);
    for name in ["disk.raw.gz", "disk.raw.xz", "disk.raw.zst"] {
        let bytes = std::fs::read(place.path(name)).unwrap();
        for _ in 0..12 {
            let mut bad = bytes.clone();
            let at = 12 + noise.below(bytes.len() as u64 - 12) as usize;
            bad[at] ^= 1 << noise.below(8);
            std::fs::write(place.path("bad"), bad).unwrap();
            place.refused_or_right(&format!("{name}, a bit at {at}"), "bad", As::File);
        }
    }
}
