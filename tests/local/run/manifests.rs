//! Every manifest under `tests/manifests` is run for show, or refused as it says; those that say what is to be seen in the
//! guest are run.

use super::{Laptop, launcher};
use tests::manifests::Manifest;
use tests::serial::Serial;

#[test]
fn every_manifest_is_run_for_show_or_refused_as_it_says() {
    let laptop = Laptop::new();
    let wrong = |manifest: &Manifest| {
        let path = manifest.path.display().to_string();
        let ran = laptop.run(&["run", &path, "--dry-run"]);
        let is_right = match manifest.said("laptop")[..] {
            [] => ran.code == 0 && !ran.out.is_empty(),
            [text, ..] => ran.code == 3 && ran.out.is_empty() && ran.err.contains(text),
        };
        (!is_right).then(|| format!("{}: {} {}", manifest.name(), ran.code, ran.err))
    };
    let wrong: Vec<String> = Manifest::all().iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// In two halves, so that two processors have a guest each.
fn the_guest_sees_it(half: usize) {
    let Some(laptop) = Laptop::with_guest() else { return };
    let all = Manifest::all();
    let shown: Vec<_> = all.iter().filter(|manifest| !manifest.said("guest").is_empty()).collect();
    assert!(shown.len() >= 30, "{}", shown.len());
    let wrong: Vec<String> =
        shown.iter().skip(half).step_by(2).flat_map(|manifest| unseen(&laptop, manifest)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_guests_of_manifests_see_what_they_say() {
    the_guest_sees_it(0);
}

#[test]
fn the_guests_of_the_other_manifests_see_what_they_say() {
    the_guest_sees_it(1);
}

/// What the guest of a manifest should see, and does not.
fn unseen(laptop: &Laptop, manifest: &Manifest) -> Vec<String> {
    let (path, launcher) = (manifest.path.display().to_string(), launcher().display().to_string());
    let args = ["run", &path, "--rm", "--accel", "emulation", "--launcher", &launcher];
    let mut guest = Serial::of(laptop.command(&args));
    guest.log_in();
    let mut wrong = Vec::new();
    for command in manifest.said("guest") {
        let output = guest.runs(&format!("{{ {command}; }} && echo HOLDS"));
        if !output.trim_end().ends_with("HOLDS") {
            wrong.push(format!("{}: {command}: {output}", manifest.name()));
        }
    }
    guest.power_off();
    guest.ends();
    wrong
}
