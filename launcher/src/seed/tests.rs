//! Whole seeds: from a volume and its folders to the files of the image.

use super::*;
use crate::error::ErrorKind;
use api::machine::volume::{ConfigMapOrSecret, Text};
use api::machine::{CloudInit, KeyDelivery};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

const IDENTITY: Identity<'_> = Identity {
    name: "vm",
    namespace: "default",
    uuid: "5d307ca9-b3ef-428c-8861-06e72d69f223",
    hostname: "vm-host",
    devices: &[],
};

fn unchanged(_: SeedFormat, _: &Identity<'_>, given: CloudInitData) -> Result<CloudInitData> {
    Ok(given)
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn secrets(secrets: &[(&str, &TempDir)]) -> Resolved {
    let path = |dir: &TempDir| PathBuf::from(dir.path());
    Resolved {
        secrets: secrets.iter().map(|(name, dir)| ((*name).to_owned(), path(dir))).collect(),
        ..Resolved::default()
    }
}

fn keys(secret: &str, delivery: KeyDelivery) -> Credential {
    Credential::SshKeys { secret: secret.to_owned(), delivery }
}

fn made(credentials: &[Credential], volume: &Volume, resolved: &Resolved) -> Seed {
    for_volume(&IDENTITY, credentials, "seed", volume, resolved, &unchanged).unwrap().expect("a seed")
}

/// The sentence and its causes.
fn said(volume: &Volume, resolved: &Resolved) -> String {
    for_volume(&IDENTITY, &[], "seed", volume, resolved, &unchanged).unwrap_err().chain()
}

fn text<'a>(seed: &'a Seed, path: &str) -> &'a str {
    std::str::from_utf8(seed.files.bytes(path).expect(path)).unwrap()
}

#[test]
fn nocloud_with_texts_of_both_kinds_and_keys() {
    let user = folder(&[("userData", "#cloud-config\n")]);
    let people =
        folder(&[("anna", "ssh-ed25519 A anna\n\n# old\n ssh-rsa B anna \n"), ("bert", "ssh-rsa C bert")]);
    let others = folder(&[("eve", "ssh-rsa E")]);
    let resolved = secrets(&[("user", &user), ("people", &people), ("others", &others)]);
    let credentials = [keys("people", KeyDelivery::NoCloud), keys("others", KeyDelivery::ConfigDrive)];
    let volume = Volume::NoCloud(CloudInit {
        user_data: Some(Text::Secret("user".to_owned())),
        network_data: Some(Text::Inline(b"version: 2\n".to_vec())),
    });
    let seed = made(&credentials, &volume, &resolved);
    assert_eq!(seed.label, "cidata");
    assert_eq!(seed.files.paths().collect::<Vec<_>>(), ["meta-data", "network-config", "user-data"]);
    assert_eq!(text(&seed, "user-data"), "#cloud-config\n");
    assert_eq!(text(&seed, "network-config"), "version: 2\n");
    assert_eq!(
        text(&seed, "meta-data"),
        r#"{"instance-id":"5d307ca9-b3ef-428c-8861-06e72d69f223","local-hostname":"vm-host","public-keys":{"0":"ssh-ed25519 A anna","1":"ssh-rsa B anna","2":"ssh-rsa C bert"}}"#
    );
}

#[test]
fn nocloud_has_empty_user_data_by_default() {
    let network = folder(&[("networkdata", "version: 2\n")]);
    let volume = Volume::NoCloud(CloudInit {
        user_data: None,
        network_data: Some(Text::Secret("network".to_owned())),
    });
    let seed = made(&[], &volume, &secrets(&[("network", &network)]));
    assert_eq!(text(&seed, "user-data"), "");
    assert_eq!(text(&seed, "network-config"), "version: 2\n");
}

#[test]
fn a_config_drive_has_its_files() {
    let people = folder(&[("anna", "ssh-ed25519 A")]);
    let volume = Volume::ConfigDrive(CloudInit {
        user_data: Some(Text::Inline(b"#!/bin/sh\n".to_vec())),
        network_data: None,
    });
    let seed = made(&[keys("people", KeyDelivery::ConfigDrive)], &volume, &secrets(&[("people", &people)]));
    assert_eq!(seed.label, "config-2");
    let paths: Vec<_> = seed.files.paths().collect();
    assert_eq!(paths, ["openstack/latest/meta_data.json", "openstack/latest/user_data"]);
    assert_eq!(
        text(&seed, paths[0]),
        r#"{"hostname":"vm-host","instance_id":"vm.default","local_hostname":"vm-host","public_keys":{"0":"ssh-ed25519 A"},"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"}"#
    );
}

#[test]
fn a_config_drive_names_the_devices_that_have_tags() {
    let devices = [serde_json::json!({"type": "nic", "tags": ["fast"]})];
    let identity = Identity { devices: &devices, ..IDENTITY };
    let volume = Volume::ConfigDrive(CloudInit { user_data: None, network_data: None });
    let seed =
        for_volume(&identity, &[], "seed", &volume, &Resolved::default(), &unchanged).unwrap().unwrap();
    let meta: serde_json::Value =
        serde_json::from_str(text(&seed, "openstack/latest/meta_data.json")).unwrap();
    assert_eq!(meta["devices"], serde_json::json!(devices));
}

#[test]
fn a_secret_without_the_key_is_named() {
    let empty = folder(&[("other", "")]);
    let volume = |secret: &str| {
        Volume::NoCloud(CloudInit { user_data: Some(Text::Secret(secret.to_owned())), network_data: None })
    };
    let resolved = secrets(&[("empty", &empty)]);
    assert_eq!(
        said(&volume("empty"), &resolved),
        "cannot create the ISO image of the volume \"seed\": the secret \"empty\" has no user data: it needs a key \
         userdata or userData"
    );
    assert!(said(&volume("gone"), &resolved).ends_with("the secret \"gone\" is not there"));

    let large = folder(&[]);
    fs::write(large.path().join("userdata"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let said = said(&volume("large"), &secrets(&[("large", &large)]));
    assert!(said.contains("userdata has more than 1048576 bytes"), "{said}");
}

#[test]
fn config_maps_and_secrets_become_files() {
    let dir = folder(&[("app.conf", "a=1\n")]);
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(dir.path().join("sub/run"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut resolved = Resolved::default();
    resolved.volumes.insert("seed".to_owned(), Source::Folder { path: dir.path().to_owned() });
    let map = |optional, label: Option<&str>| Volume::ConfigMap {
        name: "app".to_owned(),
        optional,
        label: label.map(str::to_owned),
    };
    let seed = made(&[], &map(false, None), &resolved);
    assert_eq!((seed.label.as_str(), seed.files.paths().count()), ("cfgdata", 2));
    assert_eq!(made(&[], &map(false, Some("mine")), &resolved).label, "mine");

    assert!(said(&map(false, None), &Resolved::default()).ends_with("the config map \"app\" is not there"));
    resolved.volumes.insert("seed".to_owned(), Source::Absent);
    assert_eq!(made(&[], &map(true, None), &resolved).files.paths().count(), 0);
    resolved.volumes.insert("seed".to_owned(), Source::Block { path: "/dev/null".into() });
    assert!(said(&map(true, None), &resolved).ends_with("should be given as a folder and is a block device"));
}

#[test]
fn an_answer_file_for_windows_is_required() {
    let volume = Volume::Sysprep { source: ConfigMapOrSecret::Secret("answers".to_owned()) };
    let given = |dir: &TempDir| {
        let mut resolved = Resolved::default();
        resolved.volumes.insert("seed".to_owned(), Source::Folder { path: dir.path().to_owned() });
        resolved
    };
    let good = folder(&[("Autounattend.xml", "<unattend/>"), ("extra.ps1", "")]);
    let seed = made(&[], &volume, &given(&good));
    assert_eq!((seed.label.as_str(), seed.files.paths().count()), ("unattendCD", 2));
    let bad = folder(&[("answers.xml", "")]);
    let said = said(&volume, &given(&bad));
    assert!(
        said.ends_with("the secret \"answers\" has neither a key autounattend.xml nor unattend.xml"),
        "{said}"
    );
}

#[test]
fn volumes_of_other_kinds_have_no_seed() {
    let volume = Volume::Empty { capacity: 1 };
    assert!(for_volume(&IDENTITY, &[], "seed", &volume, &Resolved::default(), &unchanged).unwrap().is_none());
}

#[test]
fn an_iso_image_is_for_its_owner_and_appears_whole_or_not_at_all() {
    let dir = folder(&[]);
    let path = dir.path().join("seed.iso");
    let partial = dir.path().join("seed.iso.partial");
    let mut seed = Seed { label: "cidata".to_owned(), files: Files::new() };
    seed.files.add("user-data", "secret").unwrap();
    // The rest of an earlier run, and a link that leads elsewhere.
    let elsewhere = dir.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, &partial).unwrap();
    iso_file::write(&seed, &path, 0).unwrap();
    let first = fs::read(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!partial.exists() && !elsewhere.exists());

    let wrong = Seed { label: String::new(), files: Files::new() };
    iso_file::write(&wrong, &path, 0).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), first);
    assert!(!partial.exists());

    let nowhere = iso_file::write(&seed, Path::new("/nowhere/seed.iso"), 0).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
    assert_eq!(nowhere.to_string(), "cannot make /nowhere/seed.iso.partial");
}

#[test]
fn a_full_disk_is_an_error_of_its_kind() {
    // The device that is always full takes the file's place in the writer.
    let mut full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = iso::write(&Files::new(), "cidata", 0, &mut full).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_named() {
    for content in ["longer than it was", "s"] {
        let dir = folder(&[("key", "value")]);
        let files = folder::Folder::open(dir.path()).unwrap().files().unwrap();
        fs::write(dir.path().join("key"), content).unwrap();
        let error = iso::write(&files, "cfgdata", 0, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("key) changed while it was read"), "{error}");
    }
}
