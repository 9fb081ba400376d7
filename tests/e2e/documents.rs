//! The commands of `README.md` and of `install.md`, `cluster.md` and `upload.md` in `docs/how-to` that say so are run here, in
//! order, as they stand.

use std::path::{Path, PathBuf};
use std::process::Command;
use tests::cluster::{Space, kept, until};
use tests::serial::Serial;

const MARK: &str = "```console no-run: needs a cluster, make e2e runs it\n";

#[test]
fn the_way_from_zero_to_a_console_is_true() {
    let Some(space) = Space::new("readme") else { return };
    let reader = Reader::new(&space);
    let commands = commands("README.md");
    let [zero, middle @ .., console] = &commands[..] else { panic!("the README has no commands") };
    // Whoever started this cluster has typed the first line.
    let start = std::fs::read_to_string(root().join("tests/e2e/run")).unwrap();
    assert!(start.lines().any(|line| line.trim() == zero), "tests/e2e/run does not say {zero:?}");
    reader.run(&root(), &format!("set -e\n{}", middle.join("\n")));
    assert_eq!(console, "coracle virt console tiny");
    Serial::of(reader.shell(&root(), console)).says("tiny login:");
}

#[test]
fn the_way_to_a_vm_is_true() {
    let Some(space) = Space::new("documents") else { return };
    let reader = Reader::new(&space);
    let document = std::fs::read_to_string(root().join("docs/how-to/cluster.md")).unwrap();
    // The smallest guest stands in for the Debian of the document: its kernel for the disk's.
    let manifest = document.split("```yaml web.yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(manifest.contains("image: registry.example/debian:12"), "{manifest}");
    let kernel = "        firmware:\n          kernelBoot:\n            container: {image: \"registry:5000/tiny:1\", \
                  kernelPath: /boot/vmlinux, initrdPath: /boot/initrd}\n            kernelArgs: console=ttyS0\n        devices:\n";
    let manifest = manifest
        .replace("        devices:\n", kernel)
        .replace("registry.example/debian:12", "registry:5000/disk:1");
    std::fs::write(reader.folder.path().join("web.yaml"), manifest).unwrap();
    let (install, boot) = (commands("docs/how-to/install.md"), commands("docs/how-to/cluster.md"));
    assert_eq!((install.len(), boot.len()), (1, 3), "the documents have other commands now");
    for line in install.into_iter().chain(boot) {
        reader.run(reader.folder.path(), &line);
    }
    space.console("web").says("tiny login:");
}

/// An ISO is uploaded by the real virtctl, and a VM boots it beside an empty disk.
#[test]
fn the_way_of_an_iso_is_true() {
    let Some(space) = Space::new("upload") else { return };
    let reader = Reader::new(&space);
    let at = reader.folder.path();
    let document = std::fs::read_to_string(root().join("docs/how-to/upload.md")).unwrap();
    let manifest = document.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(at.join("vm.yaml"), manifest).unwrap();
    let iso = Command::new(root().join("images/guests/installer/build")).output().unwrap();
    let iso = String::from_utf8(iso.stdout).unwrap();
    std::os::unix::fs::symlink(iso.trim(), at.join("installer.iso")).unwrap();
    let commands = commands("docs/how-to/upload.md");
    let [forward, middle @ .., console] = &commands[..] else { panic!("the document has no commands") };
    assert!(forward.ends_with('&') && middle.len() == 3, "the document has other commands now: {commands:?}");
    // The port is forwarded as long as the shell runs, and nobody waits for its words.
    let forward = forward.replace('&', ">/dev/null 2>&1 &");
    reader.run(at, &format!("set -e\ntrap 'kill $!' EXIT\n{forward}\n{}", middle.join("\n")));
    Serial::of(reader.shell(at, console)).says("Select a language");
    let screen = || {
        reader.run(at, "virtctl vnc screenshot installer --file screen.png");
        std::fs::read(at.join("screen.png")).unwrap()
    };
    // The question is drawn on the screen a moment later; one that is empty but for a line has 3 KB.
    until(|| screen().len() > 8_000, || format!("{} bytes", screen().len()));
    let screen = screen();
    assert!(screen.starts_with(b"\x89PNG"));
    std::fs::write(kept("screens").unwrap().join("installer.png"), screen).unwrap();
}

/// The commands of a document that are marked.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let blocks = text.split(MARK).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks
        .flat_map(|block| {
            block.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// Somebody who reads them: with a kubectl, a virtctl and a coracle whose context has a namespace, unless a line names another.
struct Reader {
    folder: tempfile::TempDir,
    path: String,
}

impl Reader {
    fn new(space: &Space) -> Reader {
        let folder = tempfile::tempdir().unwrap();
        let (namespace, tool) = (&space.name, |name: &str| space.cluster.path(name).display().to_string());
        let kubectl = format!(
            "case \" $* \" in *' -n '*) ;; *) set -- -n {namespace} \"$@\" ;; esac\nexec {} \"$@\"",
            tool("kubectl")
        );
        // The verbs that the documents name here are those on VMs of a cluster.
        let coracle = format!(
            "KUBECONFIG=$({} kubeconfig) exec {} \"$@\" -n {namespace}",
            tool("info"),
            env!("CARGO_BIN_EXE_coracle")
        );
        let virtctl = format!(
            "info={}\nKUBECONFIG=$($info kubeconfig) exec $($info virtctl) \"$@\" -n {namespace}",
            tool("info")
        );
        for (name, script) in [("kubectl", kubectl), ("virtctl", virtctl), ("coracle", coracle)] {
            std::fs::write(folder.path().join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
            Command::new("chmod").args(["+x", name]).current_dir(&folder).status().unwrap();
        }
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        Reader { folder, path }
    }

    fn shell(&self, at: &Path, line: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).current_dir(at).env("PATH", &self.path);
        bash
    }

    #[track_caller]
    fn run(&self, at: &Path, line: &str) {
        let done = self.shell(at, line).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
