//! `coracle convert` as a user runs it: any disk in, any disk out, equal to what `qemu-img` makes of it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod forms;

use std::path::Path;
use std::process::Stdio;
use tests::disk::same;
use tests::place::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Size of the disk: not a multiple of a cluster, nor of the pieces that are copied.
const SIZE: u64 = (11 << 20) + 512 * 7;

fn place(seed: u64) -> Place {
    Place::with_disk(PROGRAM, SIZE, seed)
}

#[test]
fn standard_input_and_output_are_disks() {
    let place = place(3);
    for (name, words) in [("plain.qcow2", "-W -m 8"), ("zlib.qcow2", "-c")] {
        place.qcow2(name, words);
        place.shell(&format!("cat {name} | {PROGRAM} convert - in.img"));
        place.is_the_disk("in.img");
        place.shell(&format!("{PROGRAM} convert {name} - | cat > out.img"));
        place.is_the_disk("out.img");
        place.shell(&format!("xz -0 < {name} | {PROGRAM} convert - - | cat > both.img"));
        place.is_the_disk("both.img");
    }
    place.shell(&format!("gzip -1 < disk.raw | {PROGRAM} convert - - --format qcow2 | cat > out.qcow2"));
    place.shell("qemu-img check -q out.qcow2 && qemu-img compare -q disk.raw out.qcow2");
}

#[test]
fn qcow2_is_written_as_qemu_likes_it_and_the_same_every_time() {
    let place = place(4);
    place.qcow2("in.qcow2", "-c");
    place.shell("xz -0 -k in.qcow2 && gzip -1 -k disk.raw");
    for (i, words) in
        ["", "-c zlib", "-c zstd:9", "-c zstd --cluster-size 4KiB", "--cluster-size 2MiB"].iter().enumerate()
    {
        for source in ["disk.raw", "in.qcow2", "in.qcow2.xz", "disk.raw.gz"] {
            let mut made = Vec::new();
            for threads in ["1", "3"] {
                let out = format!("out-{i}-{threads}.qcow2");
                let mut args = vec!["convert", source, &out, "--verify", "--threads", threads];
                args.extend(words.split_whitespace());
                place.run(&args).ok();
                place.nothing_beside(&out);
                place.shell(&format!("qemu-img check -q {out} && qemu-img compare -q disk.raw {out}"));
                made.push(place.path(&out));
            }
            assert!(same(&made[0], &made[1]), "{source} {words}: the threads show in the bytes");
        }
    }
}

#[test]
fn a_disk_can_grow_and_not_shrink() {
    let place = place(5);
    place.qcow2("in.qcow2", "-c");
    for source in ["in.qcow2", "disk.raw"] {
        place.run(&["convert", source, "big.img", "--resize", "64M"]).ok();
        place.shell("cp --sparse=always disk.raw grown && truncate -s 64M grown && cmp grown big.img");
        place.run(&["convert", source, "big.qcow2", "--resize", "64M"]).ok();
        place.shell("qemu-img check -q big.qcow2 && qemu-img compare -q grown big.qcow2");
        place.run(&["convert", source, "small.img", "--resize", "1M"]).refused(2, "--resize");
        assert!(!place.path("small.img").exists());
    }
}

#[test]
fn preallocated_blocks_are_there() {
    let place = place(6);
    place.run(&["convert", "--preallocate", "disk.raw", "all.img"]).ok();
    place.is_the_disk("all.img");
    let blocks: u64 = String::from_utf8(place.shell("stat -c %b all.img")).unwrap().trim().parse().unwrap();
    assert!(blocks * 512 >= SIZE, "{blocks} blocks");
    place.run(&["convert", "disk.raw", "few.img"]).ok();
    let sparse: u64 = String::from_utf8(place.shell("stat -c %b few.img")).unwrap().trim().parse().unwrap();
    assert!(sparse < blocks, "{sparse} blocks are not fewer than {blocks}");
}

#[test]
fn the_checksum_is_of_the_source_as_it_is() {
    let place = place(7);
    place.qcow2("in.qcow2", "-c");
    place.shell("xz -0 -k in.qcow2");
    for name in ["disk.raw", "in.qcow2", "in.qcow2.xz"] {
        for hash in ["sha256", "sha512"] {
            let line = String::from_utf8(place.shell(&format!("{hash}sum {name}"))).unwrap();
            let digest = format!("{hash}:{}", line.split_whitespace().next().unwrap());
            place.run(&["convert", "--checksum", &digest, name, "good.img"]).ok();
            place.is_the_disk("good.img");
            place.shell("rm good.img");
        }
        let wrong = format!("sha256:{}", "0".repeat(64));
        place.run(&["convert", "--checksum", &wrong, name, "bad.img"]).refused(3, "checksum");
        assert!(!place.path("bad.img").exists());
        place.nothing_beside("bad.img");
    }
}

#[test]
fn the_plan_is_told_and_nothing_is_touched() {
    let place = place(8);
    place.qcow2("in.qcow2", "-c");
    let plan = place.run(&["convert", "--plan", "in.qcow2", "out.img"]).ok();
    let text = String::from_utf8(plan.out).unwrap();
    assert!(text.contains("tables first") && text.contains("memory"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
    let plan = place.run(&["convert", "--plan", "--json", "in.qcow2", "out.img"]).ok().json();
    assert_eq!(plan["schema"], "coracle.plan/v1");
    assert_eq!(plan["flow"], "tables");
    assert!(!place.path("out.img").exists());
    place.nothing_beside("out.img");
}

#[test]
fn the_report_is_told() {
    let place = place(9);
    place.qcow2("in.qcow2", "-c");
    place.shell("zstd -q in.qcow2");
    let report = place.run(&["convert", "--json", "in.qcow2.zst", "out.img"]).ok().json();
    assert_eq!(report["schema"], "coracle.convert/v1");
    assert_eq!(report["virtual_size"], SIZE.next_multiple_of(512));
    assert_eq!(report["layers"], serde_json::json!(["zstd"]));
    assert_eq!(report["source_format"], "qcow2");
}

#[test]
fn a_block_device_holds_exactly_the_disk() {
    let place = place(10);
    place.qcow2("in.qcow2", "-c");
    place.shell("head -c 16M /dev/zero | tr '\\0' '\\252' > back");
    let Some(device) = Loop::over(&place.path("back")) else { return };
    for source in ["in.qcow2", "disk.raw"] {
        place.run(&["convert", "--verify", source, &device.0]).ok();
        place.shell(&format!("cmp -n {SIZE} disk.raw {}", device.0));
    }
    place.shell("truncate -s 40M big.raw");
    place.run(&["convert", "big.raw", &device.0]).refused(3, "too small");
}

/// A loop device, removed on drop; `None` with a printed reason if the host has none.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let output = std::process::Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
            }
            why => {
                println!("skipped: no loop device can be had here: {why:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ =
            std::process::Command::new("losetup").args(["--detach", &self.0]).stderr(Stdio::null()).status();
    }
}

#[test]
fn an_empty_tebibyte_takes_no_time_and_no_space() {
    let place = place(11);
    place.shell("qemu-img create -q -f qcow2 huge.qcow2 1T");
    place.run(&["convert", "huge.qcow2", "huge.img"]).ok();
    assert_eq!(place.path("huge.img").metadata().unwrap().len(), 1 << 40);
    place.run(&["convert", "huge.img", "again.qcow2"]).ok();
    place.shell("qemu-img check -q again.qcow2 && test $(stat -c %b again.qcow2) -lt 4096");
}

#[test]
fn exit_codes_are_those_of_the_book() {
    let place = place(12);
    place.run(&["convert", "nothing.raw", "x.img"]).refused(4, "nothing.raw");
    place.run(&["convert", "disk.raw", "no/such/folder/x.img"]).refused(4, "no/such/folder");
    place.run(&["convert", "--compress", "zlib", "disk.raw", "x.img"]).refused(2, "--compress");
    place.run(&["convert", "disk.raw"]).refused(2, "DST");
    place.run(&["convert", "--max-size", "1M", "disk.raw", "x.img"]).refused(3, "--max-size");
    place.shell("printf KDMV > x.vmdk; truncate -s 1M x.vmdk; ln -s disk.raw link.img");
    place.run(&["convert", "x.vmdk", "x.img"]).refused(3, "vmdk");
    place.run(&["convert", "disk.raw", "link.img"]).refused(3, "link");
    place.shell("qemu-img create -q -f qcow2 -b disk.raw -F raw over.qcow2");
    place.run(&["convert", "over.qcow2", "x.img"]).refused(3, "backing");
    place.shell("gzip -1 -k disk.raw; head -c 100000 disk.raw.gz > cut.gz");
    place.run(&["convert", "cut.gz", "x.img"]).refused(3, "truncated");
    assert!(!place.path("x.img").exists());
    place.nothing_beside("x.img");
}

#[test]
fn every_thread_of_a_running_conversion_is_confined() {
    use std::io::Write as _;
    let place = place(31);
    let mut child = place
        .command(&["convert", "-v", "-", "out.img"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let disk = place.bytes("disk.raw");
    let mut input = child.stdin.take().unwrap();
    input.write_all(&disk[..disk.len() / 2]).unwrap();
    // The engine's threads have started once the target exists and has bytes.
    begun(&place, &mut child);
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let threads: Vec<_> = threads
        .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default())
        .filter(|status| !status.is_empty())
        .collect();
    input.write_all(&disk[disk.len() / 2..]).unwrap();
    drop(input);
    let done = tests::coracle::Ran::of(child.wait_with_output().unwrap()).ok();
    place.is_the_disk("out.img");
    if !done.err.contains("seccomp (system calls): in force") {
        println!("skipped: {}", done.err);
        return;
    }
    assert!(threads.len() > 2, "{threads:?}");
    for status in threads {
        assert!(status.contains("\nSeccomp:\t2\n") && status.contains("\nNoNewPrivs:\t1\n"), "{status}");
    }
}

#[test]
fn what_confines_it_is_one_line_and_can_be_switched_off() {
    let place = place(32);
    let said = |command: &mut std::process::Command| {
        let ran = tests::coracle::Ran::of(command.output().unwrap()).ok();
        let lines: Vec<_> =
            ran.err.lines().filter(|line| line.contains("confined:")).map(str::to_owned).collect();
        assert_eq!(lines.len(), 1, "{}", ran.err);
        lines.concat()
    };
    let line = said(&mut place.command(&["convert", "-v", "disk.raw", "a.img"]));
    assert!(line.contains("Landlock (files): ") && line.contains("seccomp (system calls): "), "{line}");
    let mut off = place.command(&["convert", "-v", "disk.raw", "b.img"]);
    let line = said(off.env("CORACLE_CONFINE", "off"));
    assert!(line.contains("not in force: CORACLE_CONFINE=off"), "{line}");
    place.is_the_disk("b.img");
    let quiet = place.run(&["convert", "disk.raw", "c.img"]).ok();
    assert!(!quiet.err.contains("confined"), "{}", quiet.err);
}

/// QEMU reads a raw file in sectors of 512 bytes, with zeros up to the end of the last one.
#[test]
fn a_raw_disk_ends_with_a_whole_sector_and_that_is_said() {
    let place = Place::empty(PROGRAM);
    for (n, size) in [3usize, 512, (4 << 20) + 511].into_iter().enumerate() {
        let odd = tests::disk::Noise::new(n as u64 + 90).bytes(size);
        std::fs::write(place.path("odd.raw"), &odd).unwrap();
        tests::disk::qemu_convert("-f raw -O raw", &place.path("odd.raw"), &place.path("qemu.raw"));
        let mut whole = odd.clone();
        whole.resize(size.next_multiple_of(512), 0);
        assert!(place.bytes("qemu.raw") == whole, "QEMU reads {size} bytes otherwise");
        let padded = whole.len() - size;
        let server = tests::http::Server::start(odd.clone(), tests::http::Behaviour::default());
        let stream = tests::http::Behaviour { ranges: false, ..tests::http::Behaviour::default() };
        let stream = tests::http::Server::start(odd, stream);
        place.shell("gzip -kf odd.raw; xz -kf -0 odd.raw; tar -cf odd.tar odd.raw");
        let mut sources = vec![
            "odd.raw".to_owned(),
            "odd.raw.gz".into(),
            "odd.raw.xz".into(),
            server.url("/odd.raw"),
            stream.url("/odd.raw"),
        ];
        // In an archive, a file shorter than a sector counts as a note, not as a disk.
        sources.extend((size >= 512).then(|| "odd.tar".to_owned()));
        for source in &sources {
            for words in ["", "--verify", "--preallocate", "--no-resume"] {
                let args = [
                    &["convert", "--json", source, "out.img"][..],
                    &words.split_whitespace().collect::<Vec<_>>(),
                ];
                let ran = place.run(&args.concat()).ok();
                assert!(place.bytes("out.img") == whole, "{source} {words}, {size} bytes");
                assert_eq!(ran.json()["virtual_size"], whole.len(), "{source}");
                assert_eq!(ran.json()["bytes_padded"], padded, "{source}");
                std::fs::remove_file(place.path("out.img")).unwrap();
            }
            place.run(&["convert", "-q", source, "out.qcow2"]).ok();
            place.shell("qemu-img check -q out.qcow2");
            place.shell("qemu-img compare -q -f raw -F qcow2 qemu.raw out.qcow2");
            let info = place.shell("qemu-img info --output=json out.qcow2");
            let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
            assert_eq!(info["virtual-size"], whole.len(), "{source}");
            place.shell(&format!("{PROGRAM} convert -q {source} - | cmp - qemu.raw"));
            let ran = place.run(&["convert", source, "out.img"]).ok();
            assert_eq!(ran.err.contains(&format!("{padded} zero")), padded > 0, "{source}: {}", ran.err);
        }
        place.shell(&format!("cat odd.raw | {PROGRAM} convert -q - piped.img; cmp piped.img qemu.raw"));
        for words in [&[][..], &["--format", "raw"]] {
            let ran = place.run(&[&["build", "-t", "oci:image", "odd.raw"], words].concat()).ok();
            let said = match padded {
                0 => String::new(),
                1 => ", 1 zero byte added to the last sector".to_owned(),
                n => format!(", {n} zero bytes added to the last sector"),
            };
            assert!(ran.err.trim_end().ends_with(&said), "{words:?}: {}", ran.err);
            assert_eq!(ran.err.contains("zero byte"), padded > 0, "{words:?}: {}", ran.err);
        }
        // A disk that is made larger is of whole sectors, too.
        place.run(&["convert", "-q", "--resize", "5000001", "odd.raw", "larger.img"]).ok();
        assert_eq!(place.bytes("larger.img").len(), 5_000_001usize.next_multiple_of(512));
    }
}

#[test]
fn an_empty_source_is_no_disk() {
    let place = Place::empty(PROGRAM);
    place.shell(": > empty.raw; gzip -k empty.raw; xz -k empty.raw");
    let server = tests::http::Server::start(vec![], tests::http::Behaviour::default());
    for source in ["empty.raw", "empty.raw.gz", "empty.raw.xz", &server.url("/empty.raw")] {
        for target in ["out.img", "out.qcow2"] {
            place.run(&["convert", source, target]).refused(3, "is empty");
            assert!(!place.path(target).exists());
            place.nothing_beside(target);
        }
        let name = source.rsplit('/').next().unwrap();
        place.run(&["inspect", source]).refused(3, &format!("{name} is empty: there is no disk in it"));
    }
    let ran = place.shell(&format!("{PROGRAM} inspect - < empty.raw 2>&1 || echo code $?"));
    let ran = String::from_utf8(ran).unwrap();
    assert!(ran.contains("is empty: there is no disk in it") && ran.ends_with("code 3\n"), "{ran}");
    // End of a pipe whose writer has failed.
    place.shell(&format!("if false | {PROGRAM} convert - out.img; then exit 1; fi; test ! -e out.img"));
    place.run(&["build", "-q", "-t", "oci:image", "empty.raw"]).refused(3, "is empty");
}

/// Waits until a running conversion has begun to write its target.
fn begun(place: &Place, child: &mut std::process::Child) {
    let begun = || std::fs::metadata(place.path("out.img.partial")).is_ok_and(|file| file.len() > 0);
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Puts a file of another program under the target's name.
fn taken(place: &Place) {
    std::fs::write(place.path("theirs"), "theirs").unwrap();
    std::fs::rename(place.path("theirs"), place.path("out.img")).unwrap();
}

#[test]
fn a_target_that_another_program_made_meanwhile_is_left_as_it_is() {
    use std::io::Write as _;
    let place = place(33);
    let disk = place.bytes("disk.raw");
    for old in [None, Some("old")] {
        let _ = std::fs::remove_file(place.path("out.img"));
        if let Some(old) = old {
            std::fs::write(place.path("out.img"), old).unwrap();
        }
        let mut command = place.command(&["convert", "-q", "-", "out.img"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(&disk[..disk.len() / 2]).unwrap();
        begun(&place, &mut child);
        taken(&place);
        input.write_all(&disk[disk.len() / 2..]).unwrap();
        drop(input);
        let ran = tests::coracle::Ran::of(child.wait_with_output().unwrap());
        let ran = ran.refused(1, "by another program while this run was going on, and is left as it is");
        assert!(ran.err.contains("the disk is whole in out.img.partial: rename that"), "{}", ran.err);
        assert_eq!(place.bytes("out.img"), b"theirs");
        assert!(place.same("out.img.partial"), "the disk, whole, though nothing could be gone on with");
        std::fs::remove_file(place.path("out.img.partial")).unwrap();
    }
}

/// A VM that was started from it, has written to it and has ended leaves nothing but its bytes.
#[test]
fn a_target_that_was_written_meanwhile_is_left_as_it_is() {
    use std::io::Write as _;
    let place = place(35);
    let disk = place.bytes("disk.raw");
    std::fs::write(place.path("out.img"), "old").unwrap();
    let mut command = place.command(&["convert", "-q", "-", "out.img"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&disk[..disk.len() / 2]).unwrap();
    begun(&place, &mut child);
    std::fs::File::options().write(true).open(place.path("out.img")).unwrap().write_all(b"vm!").unwrap();
    input.write_all(&disk[disk.len() / 2..]).unwrap();
    drop(input);
    let ran = tests::coracle::Ran::of(child.wait_with_output().unwrap());
    ran.refused(1, "out.img was changed or replaced by another program while this run was going on");
    assert_eq!(place.bytes("out.img"), b"vm!");
    assert!(place.same("out.img.partial"));
    place.run(&["convert", "-q", "disk.raw", "out.img"]).ok();
    place.is_the_disk("out.img");
}

#[test]
fn a_disk_is_enlarged_once_however_it_is_read_and_written() {
    let place = place(36);
    place.qcow2("in.qcow2", "");
    place.shell(
        "gzip -1 -k disk.raw; gzip -1 -k in.qcow2; cp disk.raw larger.raw; truncate -s +1M larger.raw",
    );
    for source in ["disk.raw", "disk.raw.gz", "in.qcow2", "in.qcow2.gz"] {
        for format in ["raw", "qcow2"] {
            let words = format!("convert -q --resize +1MiB -O {format}");
            let checked = format!("qemu-img compare -q -f raw -F {format} larger.raw out");
            let checks = format!(
                "[ $(qemu-img info --output json -f {format} out | jq '.[\"virtual-size\"]') = {} ]",
                SIZE + (1 << 20)
            );
            for way in [
                format!("{PROGRAM} {words} {source} out"),
                format!("cat {source} | {PROGRAM} {words} - - >out"),
            ] {
                place.shell(&format!("rm -f out; {way}; {checked} && {checks}"));
            }
        }
    }
}

/// Nothing is written for its last clusters, and the file had not its length when it was read back.
#[test]
fn a_disk_of_zeros_is_verified_as_a_qcow2() {
    let place = place(37);
    place.shell("truncate -s 8M zeros.raw");
    for words in [&[][..], &["-c", "zstd"], &["--cluster-size", "2MiB"]] {
        place.run(&[&["convert", "--verify", "-O", "qcow2", "zeros.raw", "out.img"], words].concat()).ok();
        place.shell("qemu-img check -q out.img && qemu-img compare -q -f raw -F qcow2 zeros.raw out.img");
    }
}

#[test]
fn what_was_written_for_a_name_that_was_taken_is_gone_on_with() {
    let place = place(34);
    let slow = tests::http::Behaviour { rate: Some(2 << 20), ..tests::http::Behaviour::default() };
    let server = tests::http::Server::start(place.bytes("disk.raw"), slow);
    let url = server.url("/disk.raw");
    let args = ["convert", "-q", "--connections", "1", "--journal-every", "1", &url, "out.img"];
    let mut child = place.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    begun(&place, &mut child);
    taken(&place);
    let ran = tests::coracle::Ran::of(child.wait_with_output().unwrap());
    ran.refused(1, "made by another program");
    assert_eq!(place.bytes("out.img"), b"theirs");
    assert!(place.same("out.img.partial"));
    // The same command replaces the file that exists now, and copies little more.
    let ran = place.run(&[&args[..], &["--json", "--resume"]].concat()).ok();
    assert!(ran.json()["resumed_at"].as_u64().is_some_and(|at| at > 0), "{}", ran.json());
    place.is_the_disk("out.img");
}

#[test]
fn what_resume_refuses_is_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place(35);
    let others = |name: &str, text: &str| {
        std::fs::write(place.path(name), text).unwrap();
        let mode = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(place.path(name), mode).unwrap();
    };
    others("out.img.partial", "theirs");
    others("out.img.partial.journal", "a journal");
    let ran = place.run(&["convert", "--resume", "disk.raw", "out.img"]);
    let ran = ran.refused(2, "cannot go on with out.img.partial, which is not one of ours");
    assert!(ran.err.contains("other users may write to it (mode 0666)"), "{}", ran.err);
    assert!(ran.err.contains("remove it, or leave out --resume"), "{}", ran.err);
    assert_eq!(place.bytes("out.img.partial"), b"theirs");
    assert_eq!(place.bytes("out.img.partial.journal"), b"a journal");
    // A file is not touched either if no run of this kind could be resumed.
    let ran = place.run(&["convert", "--resume", "-O", "qcow2", "disk.raw", "out.img"]);
    ran.refused(2, "cannot go on with an earlier run");
    assert_eq!(place.bytes("out.img.partial"), b"theirs");
    place.run(&["convert", "-q", "disk.raw", "out.img"]).ok();
    place.is_the_disk("out.img");
}

/// The helper process that sets modes and owners works for a program that cannot change owners.
#[test]
fn the_disk_that_root_replaces_stays_its_owners() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let place = place(17);
    let disk = place.path("old.img");
    std::fs::write(&disk, "of a guest").unwrap();
    std::fs::set_permissions(&disk, std::fs::Permissions::from_mode(0o640)).unwrap();
    chown(&disk, Some(65533), Some(65534)).unwrap();
    let ran = place.run(&["convert", "disk.raw", "old.img"]).ok();
    place.is_the_disk("old.img");
    let facts = disk.metadata().unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o777), (65533, 65534, 0o640), "{}", ran.err);
}

#[test]
fn a_target_that_is_the_source_or_is_called_something_else_is_refused() {
    let place = place(36);
    place.shell("ln disk.raw second.img; ln -s disk.raw link.img; cp disk.raw copy");
    for (source, target) in [("disk.raw", "./disk.raw"), ("disk.raw", "second.img"), ("link.img", "disk.raw")]
    {
        let ran = place.run(&["convert", source, target]).refused(2, "is the source itself");
        assert!(ran.err.contains("write it to another name"), "{}", ran.err);
    }
    // Standard input has no path.
    let mut command = place.command(&["convert", "-", "second.img"]);
    command.stdin(std::fs::File::open(place.path("disk.raw")).unwrap());
    tests::coracle::Ran::of(command.output().unwrap()).refused(2, "is the source itself");
    place.shell("cmp copy disk.raw && test $(stat -c %h disk.raw) = 2");
    for (target, said) in [
        ("x.vmdk", "raw and qcow2 are what can be written"),
        ("new/X.VHDX", "though its name ends in .vhdx"),
        ("x.img.xz", "pipe that on"),
        ("x.vhd", "qemu-img convert -O vpc x.qcow2 x.vhd"),
    ] {
        place.run(&["convert", "disk.raw", target]).refused(2, said);
    }
    place.run(&["convert", "-q", "-O", "raw", "disk.raw", "x.vmdk"]).ok();
    place.is_the_disk("x.vmdk");
}

/// They became raw disks of nothing, with exit code 0.
#[test]
fn a_file_that_is_not_what_its_name_says_is_refused() {
    let place = place(40);
    place.qcow2("q.qcow2", "");
    place.shell("xz -k disk.raw; printf x | dd of=disk.raw.xz bs=1 conv=notrunc status=none");
    place.shell(
        "printf x | dd of=q.qcow2 bs=1 conv=notrunc status=none; echo not found >junk.qcow2; gzip -k q.qcow2",
    );
    for (name, shown) in [
        ("junk.qcow2", "junk.qcow2 is named as a qcow2 image"),
        ("q.qcow2", "q.qcow2 is named as a qcow2 image"),
        ("q.qcow2.gz", "q.qcow2.gz is named as a qcow2 image"),
        ("disk.raw.xz", "disk.raw.xz is named as xz"),
    ] {
        place.run(&["convert", name, "out.img"]).refused(3, shown);
        assert!(!place.path("out.img").exists());
    }
    place.run(&["convert", "-f", "raw", "junk.qcow2", "out.img"]).ok();
    assert!(place.path("out.img").exists());
}
