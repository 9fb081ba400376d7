//! A complete Debian: cloud-init, ssh, guest agent, power button; then the same disk with EFI.

use super::{Laptop, guest_verbs, recipe, until};
use tests::coracle::Ran;

fn manifest(key: &str) -> String {
    format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: deb}}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {{guest: 512Mi}}
        devices:
          disks:
          - {{name: root, disk: {{bus: virtio}}}}
          - {{name: seed, disk: {{bus: virtio}}}}
          interfaces: [{{name: default, masquerade: {{}}}}]
      networks: [{{name: default, pod: {{}}}}]
      volumes:
      - name: root
        containerDisk: {{image: \"debian:1\"}}
      - name: seed
        cloudInitNoCloud:
          userData: |
            #cloud-config
            hostname: story
            users:
            - name: me
              lock_passwd: false
              plain_text_passwd: secret
              shell: /bin/bash
              sudo: ALL=(ALL) NOPASSWD:ALL
              ssh_authorized_keys: ['{key}']
            runcmd:
            - [sh, -c, 'echo all of it > /var/tmp/seed']
"
    )
}

/// Logs in on the serial console, runs commands, and powers off.
const SCRIPT: &str = "
[[step]]
expect = \"login:\"
timeout = 500
[[step]]
send = \"root\\n\"
[[step]]
expect = \"Password:\"
[[step]]
send = \"coracle\\n\"
[[step]]
run = \"ls -d /sys/firmware/efi\"
exit = 0
timeout = 200
[[step]]
send = \"poweroff\\n\"
[[step]]
end = true
timeout = 200
";

#[test]
fn a_server_takes_its_settings_is_reached_and_ends_by_the_power_button() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let disk = recipe("debian", &["demo"]).display().to_string();
    laptop.run(&["build", "-q", "-t", "debian:1", "--layer", "none", "--format", "raw", &disk]).ok();
    laptop.place.shell("ssh-keygen -q -t ed25519 -N '' -f key");
    let key = String::from_utf8(laptop.place.bytes("key.pub")).unwrap();
    std::fs::write(laptop.place.path("vm.yaml"), manifest(key.trim())).unwrap();
    laptop.run(&["run", "-d", "-q", "vm.yaml", "--accel", "emulation"]).ok();

    // cloud-init has applied all settings, without an error.
    let exec = |args: &[&str]| laptop.run(&[&["exec", "deb", "--"], args].concat());
    let text = |ran: Ran| String::from_utf8_lossy(&ran.out).into_owned();
    until(|| exec(&["true"]).code == 0, || laptop.log("deb"));
    let waited =
        laptop.run(&["exec", "--timeout", "500", "deb", "--", "cloud-init", "status", "--wait"]).ok();
    assert!(text(waited).contains("status: done"));
    assert_eq!(text(exec(&["cat", "/var/tmp/seed", "/etc/hostname"]).ok()), "all of it\nstory\n");
    assert!(text(exec(&["cloud-init", "schema", "--system"]).ok()).contains("Valid cloud-config"));
    let password = "import crypt,spwd; h = spwd.getspnam('me').sp_pwdp; print(crypt.crypt('secret', h) == h)";
    assert_eq!(text(exec(&["python3", "-W", "ignore", "-c", password]).ok()), "True\n");
    assert_eq!(exec(&["sh", "-c", "echo no >&2; exit 7"]).refused(7, "no").out, b"");

    guest_verbs::run_programs(&laptop);
    guest_verbs::join_terminals(&laptop);
    guest_verbs::copy_files(&laptop);
    guest_verbs::forward_ports(&laptop, "key");
    let status = laptop.status("deb");
    assert_eq!((&status["agent"], &status["guest"]["hostname"]), (&true.into(), &"story".into()), "{status}");
    let shown = text(laptop.run(&["status", "deb"]).ok());
    assert!(shown.contains("answers") && shown.contains("Debian") && shown.contains(" ago"), "{shown}");
    laptop.run(&["vnc", "deb", "--screenshot", "s.png"]).ok();
    assert!(laptop.place.bytes("s.png").starts_with(b"\x89PNG"));

    laptop.run(&["stop", "deb", "-t", "300"]).ok();
    assert_eq!(laptop.status("deb")["reason"], "Shutdown");
    assert!(laptop.log("deb").contains("reboot: Power down"), "the power button does nothing");
    laptop.run(&["rm", "deb"]).ok();

    std::fs::write(laptop.place.path("steps.toml"), SCRIPT).unwrap();
    let efi = ["--efi", "--memory", "512M", "--accel", "emulation", "--timeout", "540", "-q"];
    laptop.run(&[&["test", "debian:1", "--script", "steps.toml"], &efi[..]].concat()).ok();
    laptop.is_empty();
}
