//! The manifests under `tests/manifests`, one for each feature, and what their first lines say of them.
//!
//! ```text
//! # A watchdog.                                  what it shows
//! # gates: HostDisk, …                           feature gates that must be open
//! # settings: {"network": …}                     the configuration of the KubeVirt object beside these
//! # refused: TEXT                                admission refuses it, and says this
//! # laptop: TEXT                                 `coracle run` refuses it, and says this
//! # guest: COMMAND                               succeeds in the guest, when it runs; as many as are wanted
//! # again: COMMAND                               the same in a second run, after the last
//! ```
//!
//! A COMMAND may fail for some seconds, until what it looks for has come; `$now` is the second that it is on the host.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// One of them.
#[derive(Debug)]
pub struct Manifest {
    /// Where it stands.
    pub path: PathBuf,
    /// The whole of it.
    pub text: String,
    lines: Vec<(String, String)>,
}

impl Manifest {
    /// All of them, in the order of their paths.
    pub fn all() -> Vec<Manifest> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
        let mut paths: Vec<PathBuf> = entries(&folder).iter().flat_map(|group| entries(group)).collect();
        paths.sort();
        paths.into_iter().map(Manifest::read).collect()
    }

    fn read(path: PathBuf) -> Manifest {
        let text = std::fs::read_to_string(&path).expect("a manifest is a text");
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let lines =
            head.map(|line| line.strip_prefix("# ").unwrap_or_else(|| panic!("{}: {line}", path.display())));
        let lines = lines.skip(1).map(|line| {
            let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", path.display()));
            assert!(
                ["gates", "settings", "refused", "laptop", "guest", "again"].contains(&key),
                "{}: {line}",
                path.display()
            );
            (key.to_owned(), value.to_owned())
        });
        Manifest { lines: lines.collect(), text, path }
    }

    /// `devices/watchdog.yaml`
    pub fn name(&self) -> String {
        let mut parts = self.path.iter().rev().map(|part| part.to_string_lossy());
        let (file, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        format!("{group}/{file}")
    }

    /// What its first lines say under a word.
    pub fn said(&self, key: &str) -> Vec<&str> {
        self.lines.iter().filter(|(word, _)| word == key).map(|(_, value)| value.as_str()).collect()
    }

    /// The configuration of a KubeVirt object with which it is accepted.
    pub fn configuration(&self) -> Value {
        let mut configuration = match self.said("settings")[..] {
            [] => json!({}),
            [settings, ..] => serde_json::from_str(settings).expect("settings are JSON"),
        };
        let gates: Vec<&str> = self.said("gates").iter().flat_map(|gates| gates.split(", ")).collect();
        configuration["developerConfiguration"] = json!({"featureGates": gates});
        configuration
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    read.map(|entry| entry.expect("an entry").path()).collect()
}
