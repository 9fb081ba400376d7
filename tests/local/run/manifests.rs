//! Every manifest under `tests/manifests` passes a dry run, or is refused as its comment says; those with a
//! comment on the guest are run.

use super::{Laptop, launcher};
use std::time::{Duration, Instant, SystemTime};
use tests::manifests::Manifest;
use tests::serial::{Serial, with_another_guest};

/// Timeout, longer than a USB disk or an address of DHCP takes after the prompt.
const A_WHILE: Duration = Duration::from_secs(30);

#[test]
fn every_manifest_is_run_for_show_or_refused_as_it_says() {
    let laptop = Laptop::new();
    let wrong = |manifest: &Manifest| {
        let path = manifest.path.display().to_string();
        let ran = laptop.run(&["run", &path, "--dry-run"]);
        let is_right = match manifest.said("laptop")[..] {
            [] => ran.code == 0 && !ran.out.is_empty(),
            [text, ..] => matches!(ran.code, 3 | 4) && ran.out.is_empty() && ran.err.contains(text),
        };
        (!is_right).then(|| format!("{}: {} {}", manifest.name(), ran.code, ran.err))
    };
    let wrong: Vec<String> = Manifest::all().iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs half of the manifests, so that two processors have a guest each.
fn the_guest_sees_it(half: usize) {
    let Some(laptop) = Laptop::with_guest() else { return };
    let all = Manifest::all();
    let shown: Vec<_> = all.iter().filter(|manifest| !manifest.said("guest").is_empty()).collect();
    assert!(shown.len() >= 80, "{}", shown.len());
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

/// Expectations of a manifest that its guest does not fulfil, in the first run, and in the second if there is
/// one.
fn unseen(laptop: &Laptop, manifest: &Manifest) -> Vec<String> {
    let runs = ["guest", "again"].map(|run| manifest.said(run));
    let runs = runs.iter().filter(|commands| !commands.is_empty());
    let unseen = |commands: &Vec<&str>| {
        // The guest of a try before this one.
        laptop.remove_all();
        unseen_in_a_run(laptop, manifest, commands)
    };
    runs.flat_map(|commands| with_another_guest(|| unseen(commands))).collect()
}

fn unseen_in_a_run(laptop: &Laptop, manifest: &Manifest, commands: &[&str]) -> Vec<String> {
    let (path, launcher) = (manifest.path.display().to_string(), launcher().display().to_string());
    let args = ["run", &path, "--rm", "--accel", "emulation", "--launcher", &launcher];
    let mut guest = Serial::of(laptop.command(&args));
    guest.log_in();
    let wrong = |command: &&str| {
        let output = failed(&mut guest, command)?;
        Some(format!("{}: {command}: {output}", manifest.name()))
    };
    let wrong = commands.iter().filter_map(wrong).collect();
    // Killed at once: init would wait for two seconds, and the guest has no state to keep.
    guest.types("poweroff -f").ends();
    wrong
}

/// Last output of a command that has not succeeded within the timeout.
fn failed(guest: &mut Serial, command: &str) -> Option<String> {
    let since = Instant::now();
    loop {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let output = guest.runs(&format!("now={now}; {{ {command}; }} && echo HOLDS"));
        if output.trim_end().ends_with("HOLDS") {
            return None;
        }
        if since.elapsed() > A_WHILE {
            return Some(output);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
