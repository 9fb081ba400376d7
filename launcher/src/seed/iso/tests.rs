//! Images read back by other programs: xorriso (both trees), isoinfo, blkid.

use super::super::folder::Folder;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const NOW: u64 = 1_795_289_882;

fn disc(files: &Files, label: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write(files, label, NOW, &mut out).unwrap();
    assert_eq!(out.len() % BLOCK, 0);
    out
}

/// An image in a file of its own.
fn on_disk(files: &Files, label: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disc.iso");
    fs::write(&path, disc(files, label)).unwrap();
    (dir, path)
}

fn run(command: &mut Command) -> String {
    let out = command.output().expect("the program is there (make setup)");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}

/// All files that xorriso finds in one of the trees, with their bytes; folders end with a slash.
fn extracted(iso: &Path, joliet: bool) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("to");
    let tree = if joliet { "norock" } else { "nojoliet" };
    let mut command = Command::new("xorriso");
    command.args(["-no_rc", "-abort_on", "WARNING", "-return_with", "WARNING", "32"]);
    command.args(["-charset", "UTF-8"]).args(["-read_fs", tree, "-osirrox", "on", "-indev"]).arg(iso);
    run(command.args(["-extract", "/"]).arg(&to));
    let mut found = BTreeMap::new();
    collect(&to, "", &mut found);
    found
}

fn collect(at: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(at).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755)).unwrap();
            collect(&entry.path(), &format!("{name}/"), found);
        } else {
            found.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}

fn wanted(files: &Files) -> BTreeMap<String, Vec<u8>> {
    files.paths().map(|path| (path.to_owned(), files.bytes(path).unwrap().to_vec())).collect()
}

fn sample() -> Files {
    let mut files = Files::new();
    files.add("openstack/latest/meta_data.json", "{}").unwrap();
    files.add("openstack/latest/user_data", vec![7; 5000]).unwrap();
    files.add("openstack/content/empty", "").unwrap();
    files.add("user-data", "#cloud-config\n").unwrap();
    files.add("block", vec![1; BLOCK]).unwrap();
    files.add(".hidden", "h").unwrap();
    files.add("a name with spaces & Größe.TXT", "ä").unwrap();
    files
}

#[test]
fn both_trees_hold_the_same_files() {
    let files = sample();
    let (_dir, iso) = on_disk(&files, "config-2");
    assert_eq!(extracted(&iso, false), wanted(&files));
    assert_eq!(extracted(&iso, true), wanted(&files));
}

#[test]
fn labels_and_sizes_as_blkid_and_isoinfo_report_them() {
    for label in ["cidata", "config-2", "cfgdata", "unattendCD", "A label of 32 characters, yes it"] {
        let (_dir, iso) = on_disk(&sample(), label);
        let seen = run(Command::new("/usr/sbin/blkid").args(["-p", "-o", "export"]).arg(&iso));
        assert!(seen.contains("TYPE=iso9660"), "{seen}");
        let seen = run(Command::new("/usr/sbin/blkid").args(["-p", "-o", "value", "-s", "LABEL"]).arg(&iso));
        assert_eq!(seen.trim_end(), label);
        let seen = run(Command::new("isoinfo").args(["-d", "-i"]).arg(&iso));
        let blocks = fs::metadata(&iso).unwrap().len() / BLOCK as u64;
        for line in [
            format!("Volume id: {label}"),
            format!("Volume size is: {blocks}"),
            "Joliet with UCS level 3".to_owned(),
        ] {
            assert!(seen.contains(&line), "no {line:?} in {seen}");
        }
        assert!(seen.contains("Rock Ridge signatures version 1 found"), "{seen}");
    }
}

#[test]
fn modes_owners_and_times_are_fixed() {
    let dir = tempfile::tempdir().unwrap();
    for (name, mode) in [("secret", 0o600), ("program", 0o700)] {
        fs::write(dir.path().join(name), name).unwrap();
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(dir.path().join("folder")).unwrap();
    fs::write(dir.path().join("folder/inner"), "").unwrap();
    let (_dir, iso) = on_disk(&Folder::open(dir.path()).unwrap().files().unwrap(), "cfgdata");
    let seen = run(Command::new("xorriso")
        .env("TZ", "UTC")
        .args(["-no_rc", "-indev"])
        .arg(&iso)
        .args(["-find", "/", "-exec", "lsdl"]));
    for line in ["drwxr-xr-x    1 0        0               0 Nov 21", "-rw-r--r--", "-rwxr-xr-x"] {
        assert!(seen.contains(line), "no {line:?} in {seen}");
    }
    // Links are counted: the root's own two, and the folder's two dots.
    let seen = run(Command::new("isoinfo").args(["-R", "-l", "-i"]).arg(&iso));
    assert!(seen.contains("drwxr-xr-x   3    0    0"), "{seen}");
    assert!(seen.contains("-rwxr-xr-x   1    0    0               7 Nov 21 2026"), "{seen}");
}

#[test]
fn the_same_files_give_the_same_bytes() {
    assert_eq!(disc(&sample(), "cidata"), disc(&sample(), "cidata"));
    let mut other = Vec::new();
    write(&sample(), "cidata", NOW + 1, &mut other).unwrap();
    assert_ne!(disc(&sample(), "cidata"), other);
}

#[test]
fn long_names_deep_folders_and_many_files() {
    let mut files = Files::new();
    for length in [30, 64, 100, 103, 130, 140, 141, 142, 143, 144, 145, 150, 200, 245, 246, 250, 251, 253] {
        files.add(&"n".repeat(length), format!("{length}")).unwrap();
    }
    files.add("1/2/3/4/5/6/7/deep", "deep").unwrap();
    for i in 0..700 {
        files.add(&format!("many/{}{i}", "of them ".repeat(25)), format!("{i}")).unwrap();
        files.add(&format!("many/short{i}"), "").unwrap();
        files.add(&format!("folders/{i}/file"), format!("{i}")).unwrap();
    }
    let (_dir, iso) = on_disk(&files, "cfgdata");
    assert_eq!(extracted(&iso, false), wanted(&files));
    // Joliet cuts names, and loses none.
    let joliet = extracted(&iso, true);
    let mut contents: Vec<_> = joliet.into_values().collect();
    let mut all: Vec<_> = wanted(&files).into_values().collect();
    contents.sort();
    all.sort();
    assert_eq!(contents, all);
}

#[test]
fn invalid_labels_are_refused() {
    for label in ["", "ä", "a\n", "\0", "this label has 33 characters, one"] {
        let error = write(&Files::new(), label, NOW, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(&format!("{label:?}")), "{error}");
    }
}

#[test]
fn an_image_without_files() {
    let (_dir, iso) = on_disk(&Files::new(), "cfgdata");
    assert!(extracted(&iso, false).is_empty());
    assert!(extracted(&iso, true).is_empty());
}

/// Names as hostile as a folder may have them: anything but a slash and control characters.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9._-]{1,40}",
        "[ -.0-~]{1,80}",
        "[;:*?\\\\.]{1,5}",
        "[äß🦀中 x]{1,30}",
        Just("a".to_owned()),
        Just("A".to_owned()),
    ]
    .prop_filter("no name", |name| name != "." && name != "..")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_files_are_read_back(
        paths in prop::collection::vec((prop::collection::vec(names(), 1..4), prop::collection::vec(any::<u8>(), 0..5000)), 0..30)
    ) {
        let mut files = Files::new();
        for (names, content) in paths {
            // Refused where a name is both a file and a folder; another test is about that.
            let _ = files.add(&names.join("/"), content);
        }
        let (_dir, iso) = on_disk(&files, "cidata");
        prop_assert_eq!(extracted(&iso, false), wanted(&files));
        let mut joliet: Vec<_> = extracted(&iso, true).into_values().collect();
        let mut all: Vec<_> = wanted(&files).into_values().collect();
        joliet.sort();
        all.sort();
        prop_assert_eq!(joliet, all);
    }
}
