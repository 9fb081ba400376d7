//! `coracle test`.

use super::Laptop;

const FLAGS: [&str; 7] = ["--memory", "256M", "--accel", "emulation", "--timeout", "540", "-q"];

fn test(laptop: &Laptop, args: &[&str]) -> tests::coracle::Ran {
    let ran = laptop.run(&[&["test", "tiny:1"], &FLAGS[..], args].concat());
    // Shown if the test fails: the guest's output tells why it did not come up.
    if let Ok(console) = std::fs::read(laptop.place.path("tiny-failed/console.log")) {
        eprintln!("the guest's console:\n{}", String::from_utf8_lossy(&console));
    }
    ran
}

#[test]
fn a_guest_that_comes_up_passes_and_is_gone() {
    let Some(laptop) = Laptop::with_guest() else { return };
    test(&laptop, &[]).ok();
    laptop.is_empty();
}

#[test]
fn a_script_types_asks_for_exit_codes_and_writes_a_report() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let script = "[[step]]\nexpect = \"login:\"\n[[step]]\nsend = \"root\\n\"\n\
                  [[step]]\nrun = \"uname -s\"\ncontains = \"Linux\"\n[[step]]\nrun = \"false\"\nexit = 1\n\
                  [[step]]\nscreenshot = \"screen.png\"\n\
                  [[step]]\nsend = \"poweroff\\n\"\n[[step]]\nname = \"it ends\"\nend = true\n";
    std::fs::write(laptop.place.path("steps.toml"), script).unwrap();
    test(&laptop, &["--script", "steps.toml", "--junit", "report.xml"]).ok();
    let report = String::from_utf8(laptop.place.bytes("report.xml")).unwrap();
    assert!(report.contains("tests=\"7\" failures=\"0\""), "{report}");
    assert!(report.contains("name=\"it ends\"") && report.contains("tiny ready"), "{report}");
    assert!(laptop.place.bytes("screen.png").starts_with(b"\x89PNG"));
    laptop.is_empty();
}

#[test]
fn a_guest_that_does_not_pass_leaves_its_console_and_nothing_else() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let script = "[[step]]\nexpect = \"tiny ready\"\n[[step]]\nexpect = \"no such words\"\ntimeout = 2\n";
    std::fs::write(laptop.place.path("steps.toml"), script).unwrap();
    let ran = test(&laptop, &["--script", "steps.toml", "--junit", "r.xml"]);
    ran.refused(1, "no \"no such words\" on the console within 2 s");
    let console = String::from_utf8_lossy(&laptop.place.bytes("tiny-failed/console.log")).into_owned();
    assert!(console.contains("tiny ready"), "{console}");
    let report = String::from_utf8(laptop.place.bytes("r.xml")).unwrap();
    assert!(report.contains("tests=\"2\" failures=\"1\""), "{report}");
    laptop.is_empty();
}

/// The download of a disk took all of it, and the guest had no time.
#[test]
fn the_timeout_begins_with_the_guest() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let slow = tests::http::Behaviour { rate: Some(1 << 20), ..tests::http::Behaviour::default() };
    let server = tests::http::Server::start(tests::disk::Noise::new(8).bytes(4 << 20), slow);
    let disk = server.url("/data.raw");
    let run = ["test", "tiny:1", "--memory=256M", "--accel=emulation", "-q", "--disk", &disk, "--timeout=2"];
    let ran = laptop.run(&[&run[..], &["--expect", "no such words", "--junit", "r.xml"]].concat());
    ran.refused(1, "no \"no such words\" on the console within 2 s");
    let report = String::from_utf8(laptop.place.bytes("r.xml")).unwrap();
    let (_, step) = report.split_once("<testcase").unwrap();
    let (_, time) = step.split_once("time=\"").unwrap();
    let seconds: f64 = time.split_once('"').unwrap().0.parse().unwrap();
    // The step gets what is left of the two seconds when the guest has started.
    assert!(seconds > 1.5, "{report}");
    laptop.is_empty();
}

/// They stayed in the pool, and the next `run` of the manifest booted what the test had written.
#[test]
fn the_disks_that_a_test_of_a_manifest_has_made_go_with_it() {
    let laptop = Laptop::new();
    let behaviour = tests::http::Behaviour::default();
    let server = tests::http::Server::start(tests::disk::Noise::new(8).bytes(1 << 20), behaviour);
    let text = format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: m}}
spec:
  runStrategy: Always
  dataVolumeTemplates:
  - metadata: {{name: web}}
    spec: {{storage: {{}}, source: {{http: {{url: '{}'}}}}}}
  template:
    spec:
      domain:
        memory: {{guest: 128Mi}}
        devices: {{disks: [{{name: a, disk: {{}}}}, {{name: b, disk: {{}}}}]}}
      volumes:
      - {{name: a, dataVolume: {{name: web}}}}
      - {{name: b, persistentVolumeClaim: {{claimName: claim}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: claim}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 8Mi}}}}}}
",
        server.url("/data.raw")
    );
    std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    let started = ["-q", "vm.yaml", "--accel=emulation", "--launcher=/bin/false"];
    let run = |verb: &[&str]| laptop.run(&[verb, &started].concat());
    let pool = || laptop.run(&["pool", "ls", "-q"]).ok().out;
    run(&["test"]).refused(1, "the launcher ended with");
    assert_eq!(pool(), b"");
    run(&["run", "-d"]).refused(1, "the launcher ended with");
    assert_eq!(pool(), b"claim\nweb\n");
    run(&["test"]).refused(3, "web was there before, and the test would write to it");
    assert_eq!(pool(), b"claim\nweb\n");
    laptop.is_empty();
}

#[test]
fn a_script_that_is_wrong_is_refused_before_anything_is_booted() {
    let laptop = Laptop::new();
    std::fs::write(laptop.place.path("steps.toml"), "[[step]]\nexpects = \"x\"\n").unwrap();
    laptop.run(&["test", "tiny:1", "--script", "steps.toml"]).refused(3, "steps.toml: this is not a script");
}

#[test]
fn a_report_without_a_folder_is_refused_before_anything_is_booted() {
    let laptop = Laptop::new();
    let ran = laptop.run(&["test", "tiny:1", "--junit", "missing/r.xml"]);
    ran.refused(4, "the folder missing does not exist; make it first");
}

#[test]
fn a_report_that_cannot_be_written_does_not_hide_the_verdict() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let ran = test(&laptop, &["--junit", "/dev/full"]);
    let told = ran.refused(1, "cannot write /dev/full").err;
    assert!(told.contains("tiny passed, 1 step(s)"), "{told}");
    laptop.is_empty();
}
