//! A VM from its start to its end.

use super::{Laptop, fetched, free_port, until};

#[test]
fn a_vm_runs_is_reached_paused_stopped_and_started_again() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let port = free_port();
    let started = laptop.start("web", &["-p", &format!("{port}:80")]);
    assert_eq!(String::from_utf8(started.out).unwrap(), "web\n");
    assert_eq!(laptop.names(&[]), ["web"]);
    let table = String::from_utf8(laptop.run(&["ps"]).ok().out).unwrap();
    let (head, line) = table.trim_end().split_once('\n').unwrap();
    for (name, value) in [("SINCE", " ago"), ("FROM", "tiny:1"), ("PORTS", "127.0.0.1:")] {
        let column = head.find(name).unwrap();
        let shown = line[column..].split("  ").next().unwrap();
        assert!(line[..column].ends_with("  ") && (shown.contains(value) || shown == "just now"), "{table}");
    }
    laptop.says("web", "tiny ready");
    until(|| fetched(port).is_some(), || "the port leads nowhere".into());

    laptop.run(&["pause", "web"]).ok();
    assert_eq!(laptop.status("web")["state"], "Paused");
    laptop.run(&["unpause", "web"]).ok();
    assert_eq!(laptop.status("web")["state"], "Running");

    laptop.run(&["stop", "web", "-t", "60"]).ok();
    assert_eq!(laptop.names(&[]), Vec::<String>::new());
    assert_eq!(laptop.names(&["-a"]), ["web"]);
    assert_eq!(laptop.status("web")["phase"], "Succeeded");
    assert!(laptop.log("web").contains("tiny ready"), "the log outlives the VM");
    laptop.run(&["pause", "web"]).refused(1, "web does not run");

    laptop.run(&["restart", "web"]).ok();
    assert_eq!(laptop.names(&[]), ["web"]);
    laptop.run(&["rm", "web"]).refused(1, "stop it first");
    laptop.run(&["kill", "web"]).ok();
    laptop.run(&["rm", "web"]).ok();
    laptop.is_empty();
}

#[test]
fn a_name_is_one_vms_and_an_image_finds_another() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("tiny", &[]);
    let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation"];
    laptop.run(&[&args[..], &["--name", "tiny"]].concat()).refused(1, "tiny runs already");
    let other = laptop.run(&args).ok();
    assert_eq!(String::from_utf8(other.out).unwrap(), "tiny-2\n");
    laptop.run(&["rm", "-f", "tiny", "tiny-2"]).ok();
    laptop.is_empty();
}

#[test]
fn a_vm_that_cannot_start_leaves_nothing() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let port = free_port();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let args = ["run", "-d", "-q", "tiny:1", "-p", &format!("{port}:80"), "--accel", "emulation"];
    laptop.run(&args).refused(1, "cannot be forwarded");
    laptop.is_empty();
}

#[test]
fn a_vm_to_be_removed_is_gone_with_its_end() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("short", &["--rm"]);
    laptop.says("short", "tiny ready");
    laptop.run(&["stop", "short", "-t", "60"]).ok();
    assert_eq!(laptop.names(&["-a"]), Vec::<String>::new());
    laptop.is_empty();
}
