//! A server's disk, as people have them: its settings make it theirs, and its agent answers. It takes a processor for a
//! minute, and so has the cluster for itself.

use crate::virtctl::login::{self, Key};
use crate::virtctl::udp;
use crate::{bodies, from_disks, tiny, virtctl, with_disks, with_spec};
use tests::cluster::Space;
use tests::serial::Serial;

/// Settings, by which whoever has this key logs in.
fn seed(key: &Key) -> String {
    let user_data = format!(
        "#cloud-config\nhostname: ours\nssh_authorized_keys:\n- {}\nruncmd:\n- [sh, -c, 'echo by the manifest >/run/told']\n",
        key.public()
    );
    format!("{{name: seed, cloudInitNoCloud: {{userData: {user_data:?}}}}}")
}

#[test]
fn a_server_is_ready_when_its_own_program_says_so() {
    let Some(space) = Space::new("debian") else { return };
    let key = Key::new();
    let seed = seed(&key);
    let disks = [
        (
            "{name: root, disk: {bus: virtio}}",
            "{name: root, containerDisk: {image: 'registry:5000/debian:1'}}",
        ),
        ("{name: seed, disk: {bus: virtio}}", seed.as_str()),
    ];
    let probes =
        "      readinessProbe: {exec: {command: [cat, /run/told]}, timeoutSeconds: 20, periodSeconds: 2}
      livenessProbe: {guestAgentPing: {}, timeoutSeconds: 20, failureThreshold: 60}
      accessCredentials:
      - userPassword: {source: {secret: {secretName: words}}, propagationMethod: {qemuGuestAgent: {}}}
";
    space.run(&["create", "secret", "generic", "words", "--from-literal=root=by-its-agent"]);
    let vm = from_disks(&tiny("web", "Always")).replace("256Mi", "512Mi");
    space.apply(&with_spec(&with_disks(&vm, &disks), probes));
    space.says("vmi/web", ".status.phase", "Running");
    // Its agent speaks, …
    space.has("vmi/web", "AgentConnected", "True");
    space.says("vmi/web", ".status.guestOSInfo.id", "debian");
    space.says("vmi/web", ".status.interfaces[0].infoSource", "domain, guest-agent");
    // … and runs a program, which finds what the settings made.
    space.has("vmi/web", "Ready", "True");
    // … which has set the password of the Secret.
    space.has("vmi/web", "AccessCredentialsSynchronized", "True");
    let mut console = space.console("web");
    console.says("login:").types("root").says("Password:").types("by-its-agent").says("root@ours:~#");
    console.types("cat /run/told").says("by the manifest");
    virtctl::asks_the_guest_agent(&space);
    login::is_let_in(&space, &key);
    udp::reaches(&space, &mut console);
    bodies::thaws_by_itself(&space, &mut console);
    is_backed_up(&space, &mut console);
    answers_virsh(&space);
}

/// What administrators type in the launcher pod, where there is no libvirt daemon.
fn answers_virsh(space: &Space) {
    let pod = space.pod_of("web");
    let domain = format!("{}_web", space.name);
    let virsh =
        |args: &[&str]| space.try_run(&[&["exec", &pod, "-c", "compute", "--", "virsh"], args].concat());
    let says = |args: &[&str]| String::from_utf8_lossy(&virsh(args).ok().out).into_owned();
    assert_eq!(says(&["domstate", &domain]), "running\n\n");
    assert_eq!(says(&["list", "--name"]), format!("{domain}\n\n"));
    assert!(says(&["-c", "qemu:///system", "dumpxml", &domain]).starts_with("<domain type="));
    assert!(says(&["domblklist", &domain]).contains(" vda "));
    let status = says(&["qemu-monitor-command", &domain, r#"{"execute":"query-status"}"#]);
    assert!(status.contains(r#""status":"running""#), "{status}");
    let refused = virsh(&["destroy", &domain]);
    assert!(
        refused.code == 1 && refused.err.contains("virtctl stop web -n"),
        "{} {}",
        refused.code,
        refused.err
    );
}

/// What a backup program runs in the launcher pod, as the annotations of the pod say it.
fn is_backed_up(space: &Space, console: &mut Serial) {
    let pod = space.pod_of("web");
    let runs = |hook: &str| {
        let path = format!(".metadata.annotations.{hook}\\.hook\\.backup\\.velero\\.io");
        let note = |field: &str| space.get(&format!("pod/{pod}"), &format!("{path}/{field}"));
        let (container, command) = (note("container"), note("command"));
        let command: Vec<String> = serde_json::from_str(&command).unwrap();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        space.run(&[&["exec", &pod, "-c", &container, "--"], &command[..]].concat());
    };
    console.types(&bodies::watcher("3"));
    runs("pre");
    console.says("is-frozen-3");
    runs("post");
    console.says("is-thawed-3");
}
