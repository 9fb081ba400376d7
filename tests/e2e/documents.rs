//! The commands of `docs/how-to/cluster.md` that say so are run here, in order, as they stand.

use std::process::Command;
use tests::cluster::Space;

const MARK: &str = "```console no-run: needs a cluster, make e2e runs it\n";

#[test]
fn the_way_to_a_machine_is_true() {
    let Some(space) = Space::new("documents") else { return };
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/cluster.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let block = |from: &str| document.split(from).nth(1).unwrap().split("```").next().unwrap().to_owned();
    // The smallest guest stands in for the Debian of the document: its kernel for the disk's.
    let manifest = block("```yaml\n");
    assert!(manifest.contains("image: registry.example/debian:12"));
    let kernel = "        firmware:\n          kernelBoot:\n            container: {image: \"registry:5000/tiny:1\", \
                  kernelPath: /boot/vmlinux, initrdPath: /boot/initrd}\n            kernelArgs: console=ttyS0\n        devices:\n";
    let manifest = manifest
        .replace("        devices:\n", kernel)
        .replace("registry.example/debian:12", "registry:5000/disk:1");
    std::fs::write(folder.path().join("web.yaml"), manifest).unwrap();
    // kubectl as a person has it: a context with a namespace.
    let script =
        format!("#!/bin/sh\nexec {} -n \"${{NAMESPACE}}\" \"$@\"\n", space.cluster.path("kubectl").display());
    std::fs::write(folder.path().join("kubectl"), script).unwrap();
    Command::new("chmod").args(["+x", "kubectl"]).current_dir(&folder).status().unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut count = 0;
    for commands in document.split(MARK).skip(1).map(|rest| rest.split("```").next().unwrap()) {
        for line in commands.lines().filter_map(|line| line.strip_prefix("$ ")) {
            // The settings are in a namespace of their own, which the line names itself.
            let namespace = if line.contains("-n kubevirt") { "kubevirt" } else { &space.name };
            let mut bash = Command::new("bash");
            bash.args(["-c", line]).current_dir(&folder).env("PATH", &path).env("NAMESPACE", namespace);
            let done = bash.output().unwrap();
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
            count += 1;
        }
    }
    assert_eq!(count, 4, "the document has other commands now");
    space.console("web").says("tiny login:");
}
