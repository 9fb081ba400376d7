//! `ssh` and `scp` into a guest that knows a key by cloud-init: by virtctl, and the same by `coracle virt`. The story of the
//! guest that has an ssh server calls this.

use super::{Virtctl, same};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tests::cluster::Space;

/// The key of somebody who logs in.
pub(crate) struct Key {
    folder: TempDir,
}

impl Key {
    pub(crate) fn new() -> Key {
        let key = Key { folder: tempfile::tempdir().unwrap() };
        let mut made = Command::new("ssh-keygen");
        made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key.path("key"));
        assert!(made.status().unwrap().success());
        key
    }

    /// The line for those who are to know it.
    pub(crate) fn public(&self) -> String {
        std::fs::read_to_string(self.path("key.pub")).unwrap().trim().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The flags that both programs have for ssh and scp. Nothing of the user's own is read.
    fn flags(&self) -> Vec<String> {
        let mut flags = vec!["-i".to_owned(), self.name("key")];
        let options = ["-Fnone", "-o StrictHostKeyChecking=no", "-o UserKnownHostsFile=/dev/null"];
        let quiet =
            ["-o LogLevel=ERROR", "-o BatchMode=yes", "-o IdentitiesOnly=yes", "-o IdentityAgent=none"];
        flags.extend(options.iter().chain(&quiet).map(|option| format!("--local-ssh-opts={option}")));
        flags
    }
}

/// Whoever has the key is `debian` in the VM `web`, whose guest calls itself `ours`.
pub(crate) fn is_let_in(space: &Space, key: &Key) {
    let mut virtctl = Virtctl::of(space, "login");
    virtctl.table.calls(key.name("key"), "FILE");
    let flags = key.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    virtctl.table.calls(flags[2..].join(" "), "OPTIONS");
    let with = |words: &[&'static str]| [words, &flags[..]].concat();
    for target in ["debian@vm/web", "debian@vmi/web"] {
        virtctl.does(&[&with(&["ssh", target])[..], &["-c", "hostname; id -un"]].concat(), "ours\ndebian\n");
        let ran =
            same::coracle(&virtctl, &[&with(&["ssh", target])[..], &["-c", "hostname; id -un"]].concat())
                .ok();
        assert_eq!(String::from_utf8_lossy(&ran.out), "ours\ndebian\n", "{target}");
    }
    // What a command ends with: ours passes it on, virtctl's says it.
    let fails = [&with(&["ssh", "debian@vm/web"])[..], &["-c", "exit 3"]].concat();
    virtctl.refuses(&fails, "exit status 3");
    assert_eq!(same::coracle(&virtctl, &fails).code, 3);
    copies(&virtctl, key, &flags);
    // Whoever has another key is not let in.
    let other = Key::new();
    let flags = other.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let enter = [&["ssh", "debian@vm/web"], &flags[..], &["-c", "hostname"]].concat();
    let ran = virtctl.try_run(&enter);
    assert!(ran.code == 1 && ran.err.contains("Permission denied"), "{} {}", ran.code, ran.err);
    same::coracle(&virtctl, &enter).refused(255, "Permission denied");
}

/// Bytes there and back, one way by each program; and a folder.
fn copies(virtctl: &Virtctl, key: &Key, flags: &[&str]) {
    // More than a buffer anywhere, and no byte twice at the same place of a page.
    let bytes: Vec<u8> = (0..1u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    std::fs::write(key.path("there"), &bytes).unwrap();
    let scp = |more: &[&str], from: &str, to: &str, is_ours: bool| {
        let words = [&["scp"][..], flags, more, &[from, to]].concat();
        let ran = if is_ours { same::coracle(virtctl, &words) } else { virtctl.try_run(&words) };
        assert_eq!(ran.code, 0, "{words:?}: {}", ran.err);
    };
    // What the one has brought there, the other brings back.
    for (is_ours, to, from) in [
        (true, "debian@vm/web:ours", "debian@vmi/web:ours"),
        (false, "debian@vm/web:theirs", "debian@vmi/web:theirs"),
    ] {
        let back = key.name(&format!("back-{is_ours}"));
        scp(&[], &key.name("there"), to, is_ours);
        scp(&[], from, &back, !is_ours);
        assert!(std::fs::read(back).unwrap() == bytes, "what came back of {to} differs");
    }
    std::fs::create_dir_all(key.path("folder/in")).unwrap();
    std::fs::write(key.path("folder/in/file"), "in a folder").unwrap();
    let whole = ["--recursive", "--preserve"];
    scp(&whole, &key.name("folder"), "debian@vm/web:.", false);
    scp(&whole, "debian@vm/web:folder", &key.name("whole"), true);
    assert_eq!(std::fs::read_to_string(key.path("whole/in/file")).unwrap(), "in a folder");
}
