//! Paths and flags as people type them, without a guest.

use super::Laptop;
use api::launcher::{Life, State};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::coracle::Ran;

/// Runs in the folder `sub` of the laptop.
fn below(laptop: &Laptop, args: &[&str]) -> Ran {
    Ran::of(laptop.command(args).current_dir(laptop.place.path("sub")).output().unwrap())
}

/// A laptop with a raw disk `deb.img` above the folder `sub`, and a link to it.
fn laptop() -> Laptop {
    let laptop = Laptop::new();
    laptop.place.shell("mkdir sub && truncate -s 1M deb.img && ln -s ../deb.img sub/link.img");
    laptop
}

#[test]
fn paths_with_dots_and_tildes_and_links_are_disks() {
    let laptop = laptop();
    let top = laptop.place.folder().canonicalize().unwrap().display().to_string();
    let paths = |args: &[&str]| -> Vec<String> {
        let args = [&["run", "--dry-run", "--json"], args].concat();
        let object = below(&laptop, &args).ok().json();
        let volumes = object["spec"]["volumes"].as_array().unwrap().clone();
        volumes.iter().filter_map(|volume| volume["hostDisk"]["path"].as_str().map(str::to_owned)).collect()
    };
    let full = |name: &str| format!("{top}/{name}");
    assert_eq!(paths(&["../deb.img"]), [full("deb.img")]);
    assert_eq!(paths(&["./../deb.img"]), [full("deb.img")]);
    assert!(paths(&["link.img"])[0].ends_with("/sub/link.img"), "a link stays one");
    assert!(paths(&["~/deb.img"])[0].ends_with("/deb.img"));
    assert_eq!(paths(&["file:../deb.img"]), [full("deb.img")]);
    assert_eq!(paths(&["../deb.img", "--disk", "../new.img:1G"])[1], full("new.img"));
    assert!(paths(&["../deb.img", "--disk=~/new.img:1G"])[1].ends_with("/new.img"));
    assert!(paths(&["../deb.img", "--disk=~/deb.img"])[1].ends_with("/deb.img"));
    below(&laptop, &["run", "--dry-run", "../nope.img"]).refused(4, "there is no file ../nope.img");
    below(&laptop, &["run", "--dry-run", "../deb.img", "--disk", "../none/new.img:1G"])
        .refused(4, "../none/new.img");
}

/// It ended with 1, in the middle of the start.
#[test]
fn a_new_disk_in_a_folder_that_is_not_there_is_not_found() {
    let laptop = laptop();
    let run = |how: &[&str], disk: &str| {
        let args =
            [&["run", "deb.img", "--launcher=/bin/false", "--accel=emulation"], how, &["--disk", disk]];
        laptop.run(&args.concat())
    };
    let folder = laptop.place.folder().canonicalize().unwrap().join("none");
    for how in ["--dry-run", "-d"] {
        let ran = run(&[how], "none/x.img:1G")
            .refused(4, &format!("the folder {} does not exist", folder.display()));
        assert!(ran.err.contains(&format!("make it first (mkdir -p {})", folder.display())), "{}", ran.err);
        run(&[how], "deb.img/x.img:1G").refused(3, "deb.img is not a folder");
    }
    laptop.is_empty();
}

#[test]
fn one_port_alone_is_no_forward() {
    let laptop = laptop();
    for (text, advice) in [("18082", "write 18082:18082"), ("53/udp", "write 53:53/udp")] {
        laptop.run(&["run", "--dry-run", "deb.img", "-p", text]).refused(2, advice);
    }
}

#[test]
fn all_vms_of_a_manifest_are_printed_without_a_start() {
    let laptop = laptop();
    laptop.place.shell("mkdir vms && for n in a b; do printf 'apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: %s}\nspec: {domain: {memory: {guest: 64Mi}, devices: {}}}\n' $n >vms/$n.yaml; done");
    let json = laptop.run(&["run", "--dry-run", "--all", "--json", "vms"]).ok().json();
    assert_eq!(json["items"].as_array().unwrap().len(), 2, "{json}");
    laptop.run(&["run", "--all", "vms"]).refused(2, "add -d, or --dry-run");
}

/// Each call had the VMs and images of the folder that it was made in.
#[test]
fn a_relative_home_is_refused_with_its_absolute_path() {
    let laptop = laptop();
    let absolute = laptop.place.folder().canonicalize().unwrap().join("sub/h");
    let said = format!("write {}", absolute.display());
    for args in [&["ps"][..], &["images"], &["run", "--dry-run", "../deb.img"]] {
        let mut command = laptop.command(args);
        command.env("CORACLE_HOME", "h").current_dir(laptop.place.path("sub"));
        Ran::of(command.output().unwrap()).refused(2, &said);
    }
    below(&laptop, &["ps", "--root", "./h"]).refused(2, &said);
    assert!(!absolute.exists());
}

#[test]
fn a_host_disk_lies_beside_its_manifest() {
    let laptop = laptop();
    let top = laptop.place.folder().canonicalize().unwrap().display().to_string();
    let manifest = |path: &str| {
        let text = format!(
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {{name: web}}\nspec:\n  domain:\n    \
             memory: {{guest: 64Mi}}\n    devices: {{disks: [{{name: d, disk: {{bus: virtio}}}}]}}\n  volumes:\n  \
             - name: d\n    hostDisk: {{type: Disk, path: '{path}'}}\n"
        );
        std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    };
    let run = || below(&laptop, &["run", "--dry-run", "--json", "../vm.yaml"]);
    for (path, is) in
        [("deb.img", "/deb.img"), ("./sub/../deb.img", "/deb.img"), ("sub/link.img", "/sub/link.img")]
    {
        manifest(path);
        let json = run().ok().json();
        let told = json["spec"]["volumes"][0]["hostDisk"]["path"].as_str().unwrap().to_owned();
        assert_eq!(
            Path::new(&told).canonicalize().unwrap(),
            Path::new(&format!("{top}{is}")).canonicalize().unwrap()
        );
        assert!(!told.contains(".."), "{told}");
    }
    manifest("~/deb.img");
    run().ok();
    manifest("none/../deb.img");
    run().refused(3, "vm.yaml:10: spec.volumes[0].hostDisk.path: cannot find");
    manifest("nope.img");
    run().refused(4, "nope.img");
}

#[test]
fn a_vm_larger_than_the_computer_is_told_before_its_start() {
    let laptop = laptop();
    let program = laptop.place.path("launcher");
    std::fs::write(&program, "").unwrap();
    let program = program.display().to_string();
    let run = ["run", "-d", "deb.img", "--memory", "500T", "--launcher", &program];
    laptop.run(&run).refused(1, "deb wants 500 TiB of memory, and this computer has ");
    assert!(super::below(&laptop.place.path("h/state/vms")).is_empty());
    let ran = laptop.run(&["run", "--dry-run", "deb.img", "--memory", "500T"]).ok();
    assert!(ran.err.contains("warning: deb wants 500 TiB of memory"), "{}", ran.err);
}

#[test]
fn the_holder_of_a_port_is_named() {
    let laptop = laptop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let ran = laptop.run(&["run", "--dry-run", "deb.img", "-p", &format!("{port}:22")]);
    ran.refused(1, &format!("(process {}) has it; choose another one", std::process::id()));
}

#[test]
fn json_is_asked_for_in_either_way() {
    let laptop = laptop();
    let schema = |args: &[&str]| laptop.run(args).ok().json()["schema"].as_str().map(str::to_owned);
    for verb in
        [&["images"][..], &["prune"], &["ps"], &["pool", "ls"], &["inspect", "deb.img"], &["info", "deb.img"]]
    {
        let both = [&["--json"][..], &["-o", "json"]].map(|how| schema(&[verb, how].concat()));
        assert!(both[0].is_some() && both[0] == both[1], "{verb:?}: {both:?}");
    }
    for args in
        [&["host", "--json"][..], &["host", "-o", "json"], &["convert", "-o", "json", "deb.img", "o.img"]]
    {
        laptop.run(args).ok().json();
    }
    for args in
        [&["run", "deb.img", "--dry-run", "--json"][..], &["run", "deb.img", "--dry-run", "-o", "json"]]
    {
        assert_eq!(laptop.run(args).ok().json()["kind"], "VirtualMachineInstance");
    }
}

/// A launcher that answers `GET /v1/state` after a while.
fn launcher(laptop: &Laptop, name: &str, record: &serde_json::Value) {
    let folder = laptop.place.path(&format!("h/state/vms/{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut record = record.clone();
    record["name"] = name.into();
    std::fs::write(folder.join("vm.json"), record.to_string()).unwrap();
    let socket = UnixListener::bind(laptop.place.path(&format!("h/run/{name}.sock"))).unwrap();
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                std::thread::sleep(Duration::from_millis(40));
                let state = State { life: Life::Running, generation: 1, ..State::default() };
                let body = serde_json::to_string(&state).unwrap();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all((head + &body).as_bytes());
            });
        }
    });
}

/// One after the other, the launchers would take 800 ms.
#[test]
fn twenty_vms_are_listed_at_once() {
    let laptop = laptop();
    laptop.place.shell("mkdir -p -m 700 h h/run h/state h/state/vms");
    let record = serde_json::json!({
        "schema": "coracle.vm/v1", "created": "2026-01-31T12:00:00Z", "source": "deb.img", "remove": false,
        "launcher": "/launcher", "sync": {"vmi": {}, "generation": 1, "resolved": {"accelerator": "kvm"}},
    });
    for i in 0..20 {
        launcher(&laptop, &format!("vm-{i:02}"), &record);
    }
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let since = Instant::now();
        let names = laptop.names(&[]);
        best = best.min(since.elapsed());
        assert_eq!(names.len(), 20, "{names:?}");
    }
    println!("ps of 20 VMs whose launchers take 40 ms each: {best:?}");
    assert!(best < Duration::from_millis(400), "{best:?}: the launchers are not asked at the same time");
    std::fs::remove_dir_all(laptop.place.path("h/state/vms")).unwrap();
}

#[test]
fn verbs_on_vms_say_what_is_missing() {
    let laptop = laptop();
    for args in [
        &["start", "web"][..],
        &["forward", "add", "web", "80:80"],
        &["forward", "ls", "web"],
        &["cp", "web:/x", "."],
    ] {
        laptop.run(args).refused(4, "VM \"web\" not found");
    }
    laptop.run(&["cp", "a", "b"]).refused(2, "write NAME:PATH, as in web:/etc/hosts");
    laptop.run(&["pool", "rm", "none"]).refused(4, "coracle pool ls");
    laptop.run(&["convert", "-c", "lz4", "deb.img", "x.qcow2"]).refused(2, "neither zlib nor zstd");
    laptop.run(&["convert", "-p", "-c", "-O", "qcow2", "-f", "raw", "deb.img", "x.img"]).ok();
    laptop.run(&["convert", "-q", "--resize", "+1M", "deb.img", "y.img"]).ok();
    assert_eq!(laptop.run(&["info", "--json", "y.img"]).ok().json()["virtual_size"], 2 << 20);
}
