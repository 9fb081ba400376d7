//! The manifests under `tests/manifests` before a real API server: schemas, defaults, policies and webhooks, all at once.
//!
//! Left out are those that want a KubeVirt object of their own: stories beside this one need the one that is there.

use tests::cluster::Space;
use tests::manifests::Manifest;

/// Kinds that a VM is checked against: a dry run of a VM sees those that are really there.
const SIZES: [&str; 4] = [
    "VirtualMachineInstancetype",
    "VirtualMachineClusterInstancetype",
    "VirtualMachinePreference",
    "VirtualMachineClusterPreference",
];

#[test]
fn every_manifest_is_accepted_or_refused_as_it_says() {
    let Some(space) = Space::new("manifests") else { return };
    let all = Manifest::all().into_iter();
    let all = all.filter(|one| one.said("settings").is_empty() && one.said("gates").is_empty());
    let (refused, accepted): (Vec<_>, Vec<_>) = all.partition(|one| !one.said("refused").is_empty());
    let (sized, plain): (Vec<_>, Vec<_>) = accepted.into_iter().partition(|one| !sizes(one).is_empty());
    assert!(plain.len() >= 200, "{}", plain.len());

    // One kubectl for all of them: it goes on behind one that is refused, and says which.
    let paths: Vec<String> = plain.iter().map(|one| format!("-f={}", one.path.display())).collect();
    let mut args = vec!["create", "--dry-run=server"];
    args.extend(paths.iter().map(String::as_str));
    let created = space.run(&args);
    let documents: usize = plain.iter().map(|one| documents(one).len()).sum();
    assert_eq!(created.lines().filter(|line| line.ends_with("created (server dry run)")).count(), documents);

    for one in sized {
        let sizes = sizes(&one).join("\n---\n");
        space.apply(&sizes);
        let path = one.path.display().to_string();
        space.run(&["apply", "--dry-run=server", "-f", &path]);
        let removed = space.try_run(&["delete", "--ignore-not-found", "-f", &path]);
        assert_eq!(removed.code, 0, "{}: {}", one.name(), removed.err);
    }
    for one in refused {
        let said = space.try_run(&["create", "--dry-run=server", "-f", &one.path.display().to_string()]);
        for text in one.said("refused") {
            assert!(said.code != 0 && said.err.contains(text), "{}: {}", one.name(), said.err);
        }
    }
}

/// The documents of sizes in it.
fn sizes(manifest: &Manifest) -> Vec<&str> {
    let is_size = |document: &&str| {
        SIZES.iter().any(|kind| document.lines().any(|line| line == format!("kind: {kind}")))
    };
    documents(manifest).into_iter().filter(is_size).collect()
}

fn documents(manifest: &Manifest) -> Vec<&str> {
    manifest.text.split("\n---\n").filter(|document| document.contains("kind: ")).collect()
}
