//! Imports from a registry that wants a login, over TLS with an authority of its own.

use super::poll::poll;
use super::{Ended, Pod, disk, names};
use api::job::{Confidential, Files, Import, MountedImage, Registry, SecretFiles, Source, Stage, Target};
use base64::Engine as _;
use container_disk::Name;
use container_disk::inputs::Inputs;
use container_disk::open::Places;
use container_disk::registry::config::{Login, UserSettings};
use container_disk::registry::copy::{Options, Progress, copy};
use fetch::Secret;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tests::http::{Authority, pattern};
use tests::layout::{LAYER_GZIP, Layout, Tar, gzip};
use tests::registry::{Registry as Server, Serve};

const USER: (&str, &str) = ("me", "s3cret-word");

/// A registry with the image `os:1`, for one user.
struct Guarded {
    server: Server,
    /// A folder of certificates, as a ConfigMap is mounted.
    ca: tempfile::TempDir,
}

impl Guarded {
    fn start(bytes: &[u8]) -> Guarded {
        let authority = Authority::new();
        let server = Server::serve(&Serve { tls: Some(&authority), basic: Some(USER), ..Serve::default() });
        let ca = tempfile::tempdir().expect("it can be made");
        std::fs::write(ca.path().join("ca.crt"), authority.pem()).expect("it can be made");
        let guarded = Guarded { server, ca };
        push(&guarded.server, &guarded.places(), bytes);
        guarded
    }

    /// Images, as its user finds them.
    fn places(&self) -> Places {
        let login = Some(Login::Basic(USER.0.to_owned(), Secret::new(USER.1)));
        let own = UserSettings { login, ca: vec![self.ca.path().join("ca.crt")], insecure: false };
        Places::new(None).for_user_of(&self.server.address(), own)
    }

    fn import(&self, volume: &Path, secret: &[(&str, String)]) -> Ended {
        let job = self.job(volume, secret, Some(self.ca.path().to_owned()));
        let ended = Pod::start_with(&job, &[("CORACLE_LOG", "debug")]).wait();
        assert!(!ended.log.contains(USER.1), "{}", ended.log);
        ended
    }

    /// The job with the login and without the authority, and a change of it.
    fn job_with(&self, volume: &Path, change: impl FnOnce(&mut Registry)) -> Import {
        let login = [("accessKeyId", USER.0.to_owned()), ("secretKey", USER.1.to_owned())];
        let mut job = self.job(volume, &login, None);
        if let Source::Registry(registry) = &mut job.source {
            change(registry);
        }
        job
    }

    fn job(&self, volume: &Path, secret: &[(&str, String)], ca: Option<PathBuf>) -> Import {
        let files =
            secret.iter().map(|(key, text)| ((*key).to_owned(), Confidential(text.clone().into_bytes())));
        let files = Files::Values(files.collect());
        let login = (!secret.is_empty()).then(|| SecretFiles { secret: "login".into(), files });
        let url = format!("docker://{}/os:1", self.server.address());
        let source = Source::Registry(Registry {
            url,
            architecture: Some("amd64".into()),
            login,
            ca,
            insecure: false,
            settings: BTreeMap::new(),
        });
        let target = Target::File(disk(volume));
        Import { source, target, size: None, preallocate: false }
    }
}

/// Puts the image `os:1` there.
fn push(server: &Server, places: &Places, bytes: &[u8]) {
    let tar = Tar::default().file("disk/disk.img", bytes).end();
    push_layer(server, places, LAYER_GZIP, &gzip(&tar));
}

/// The same with this layer.
pub(super) fn push_layer(server: &Server, places: &Places, media_type: &str, layer: &[u8]) {
    let folder = tempfile::tempdir().expect("it can be made");
    let layout = folder.path().join("os");
    Layout::create(&layout).image(media_type, layer);
    let name = |text: String| Name::of_image(&text).expect("a name");
    let from = places.find(&name(format!("oci:{}", layout.display()))).expect("a layout");
    let goal = name(format!("docker://{}/os:1", server.address()));
    let goal = places.goal(&goal, &Inputs::default()).expect("a registry");
    let (options, progress) = (Options::default(), Arc::new(Progress::default()));
    copy(&*from.place, &from.reference, &*goal.sink, goal.tag.as_deref(), &options, &progress)
        .expect("it is pushed");
}

#[test]
fn the_login_and_the_authority_of_a_datavolume_open_a_registry() {
    let bytes = pattern(5 << 20);
    let registry = Guarded::start(&bytes);
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", USER.0, USER.1));
    let docker = serde_json::json!({
        "auths": {registry.server.address(): {"auth": coded}},
        // A Secret starts no program here.
        "credHelpers": {registry.server.address(): "nothing-of-this-name"},
        "credsStore": "nothing-of-this-name",
    });
    for secret in [
        &[("accessKeyId", USER.0.to_owned()), ("secretKey", USER.1.to_owned())][..],
        &[(".dockerconfigjson", docker.to_string())],
    ] {
        let volume = tempfile::tempdir().unwrap();
        let ended = registry.import(volume.path(), secret);
        assert!(!ended.log.contains("the labels of the image are not known"), "{}", ended.log);
        ended.done();
        assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
    }
}

#[test]
fn a_login_that_is_wrong_or_missing_ends_the_job_and_an_unknown_authority_is_not_believed() {
    let registry = Guarded::start(&pattern(1 << 20));
    let volume = tempfile::tempdir().unwrap();
    let wrong = [("accessKeyId", USER.0.to_owned()), ("secretKey", "other".to_owned())];
    for secret in [&wrong[..], &[]] {
        let report = registry.import(volume.path(), secret).failed("Forbidden");
        assert!(report.message.contains(&registry.server.address()), "{report:?}");
    }
    let half = [("accessKeyId", USER.0.to_owned())];
    let report = registry.import(volume.path(), &half).failed("InvalidImage");
    assert!(report.message.contains("Secret login has no key secretKey"), "{report:?}");
    let login = [("accessKeyId", USER.0.to_owned()), ("secretKey", USER.1.to_owned())];
    let mut pod = Pod::start(&registry.job(volume.path(), &login, None));
    let waits = pod.reports(|report| report.stage == Stage::Waiting);
    assert!(waits.message.contains("certificate"), "{waits:?}");
    // The advice names the cluster's settings, and no file that a pod does not have.
    let (field, host) = ("spec.insecureRegistries of the CDIConfig config", registry.server.address());
    assert!(waits.message.contains(field) && waits.message.contains(&host), "{waits:?}");
    assert!(!waits.message.contains("registries.toml"), "{waits:?}");
    assert!(names(volume.path()).is_empty());
}

#[test]
fn a_poll_says_the_digest_of_an_image_behind_a_login_and_of_a_mirror() {
    let registry = Guarded::start(&pattern(1 << 20));
    let name = Name::of_image(&format!("docker://{}/os:1", registry.server.address())).unwrap();
    let found = registry.places().find(&name).unwrap();
    let digest = found.place.document(&found.reference).unwrap().digest.to_string();
    let (volume, ca) = (Path::new("/nowhere"), Some(registry.ca.path().to_owned()));
    let login = [("accessKeyId", USER.0.to_owned()), ("secretKey", USER.1.to_owned())];
    let ended = poll(registry.job(volume, &login, ca.clone()).source);
    assert!(!ended.log.contains(USER.1), "{}", ended.log);
    assert_eq!(ended.done().digest, digest);
    let wrong = [("accessKeyId", USER.0.to_owned()), ("secretKey", "other".to_owned())];
    let report = poll(registry.job(volume, &wrong, ca).source).failed("Forbidden");
    assert!(report.digest.is_empty(), "{report:?}");
    // The registry itself is away.
    let open = open_registry(&pattern(1 << 20));
    let settings =
        format!("[[host.'away.invalid'.mirror]]\nhost = '{}'\nplain-http = true\n", open.address());
    let job = registry.job_with(volume, |registry| {
        registry.url = "docker://away.invalid/os:1".into();
        registry.settings = BTreeMap::from([("registries.toml".to_owned(), settings)]);
    });
    assert_eq!(poll(job.source).done().digest, digest);
}

/// Registries that an administrator lists in the CDIConfig.
#[test]
fn a_registry_that_is_listed_as_insecure_is_asked_without_a_look_at_its_certificate() {
    let bytes = pattern(1 << 20);
    let registry = Guarded::start(&bytes);
    let volume = tempfile::tempdir().unwrap();
    Pod::run(&registry.job_with(volume.path(), |registry| registry.insecure = true)).done();
    assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
}

/// The cluster's settings come with the job, and so do the certificates that they name.
#[test]
fn a_mirror_of_the_cluster_is_asked_when_the_registry_is_away() {
    let bytes = pattern(1 << 20);
    let guarded = Guarded::start(&bytes);
    let open = open_registry(&bytes);
    for (mirror, more) in [
        (open.address(), "plain-http = true".to_owned()),
        // Anonymous: a login of the image's own registry is nothing to a mirror.
        (guarded.server.address(), "ca = 'corp.pem'".to_owned()),
    ] {
        let is_open = mirror == open.address();
        let settings = format!("[[host.'away.invalid'.mirror]]\nhost = '{mirror}'\n{more}\n");
        let pem = std::fs::read_to_string(guarded.ca.path().join("ca.crt")).unwrap();
        let volume = tempfile::tempdir().unwrap();
        let job = guarded.job_with(volume.path(), |registry| {
            registry.url = "docker://away.invalid/os:1".into();
            registry.settings =
                BTreeMap::from([("registries.toml".to_owned(), settings), ("corp.pem".to_owned(), pem)]);
        });
        if is_open {
            Pod::run(&job).done();
            assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
        } else {
            // The mirror refuses for good, but the registry itself is only unreachable.
            let waits = Pod::start(&job).reports(|report| report.stage == Stage::Waiting);
            assert!(
                waits.message.contains(&mirror) && waits.message.contains("without a login"),
                "{waits:?}"
            );
        }
    }
}

/// Such settings do not belong to the DataVolume, which waits until they are corrected; here only the pod
/// ends.
#[test]
fn settings_of_the_cluster_that_are_wrong_make_the_pod_wait() {
    let registry = Guarded::start(&pattern(1 << 20));
    for (name, text, wanted) in [
        ("registries.toml", "[host.a]\nmirrors = 1", "line 2"),
        ("registries.toml", "[[host.a.mirror]]\nhost = 'b c'", "is not a host name"),
    ] {
        let volume = tempfile::tempdir().unwrap();
        let job = registry.job_with(volume.path(), |registry| {
            registry.settings = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        });
        let mut pod = Pod::start(&job);
        let waits = pod.reports(|report| report.stage == Stage::Waiting);
        assert!(waits.message.contains("ConfigMap coracle-registries"), "{waits:?}");
        assert!(waits.message.contains(wanted), "{waits:?}");
    }
    // A job is what another process wrote: no file leads out of its folder.
    for name in ["../registries.toml", "a/b", "..", "/etc/x", ""] {
        let volume = tempfile::tempdir().unwrap();
        let job = registry.job_with(volume.path(), |registry| {
            registry.settings = BTreeMap::from([
                ("registries.toml".to_owned(), String::new()),
                (name.to_owned(), String::new()),
            ]);
        });
        let report = Pod::run(&job).failed("Failed");
        assert!(report.message.contains("which is not a valid file name"), "{report:?}");
    }
}

/// The mounted files of an image that the node has pulled.
#[test]
fn an_image_that_the_node_has_mounted_is_read_in_place() {
    let bytes = pattern(3 << 20);
    let image = tempfile::tempdir().unwrap();
    std::fs::create_dir(image.path().join("disk")).unwrap();
    std::fs::write(image.path().join("disk/disk.img.gz"), gzip(&bytes)).unwrap();
    let job = |volume: &Path| {
        let url = "docker://registry.invalid/os:1".to_owned();
        let source = Source::Mounted(MountedImage { url, folder: image.path().to_owned() });
        Import { source, target: Target::File(disk(volume)), size: None, preallocate: false }
    };
    let volume = tempfile::tempdir().unwrap();
    let ended = Pod::run(&job(volume.path()));
    assert!(ended.log.contains("docker://registry.invalid/os:1"), "{}", ended.log);
    ended.done();
    assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
    std::fs::write(image.path().join("disk/second"), "").unwrap();
    let volume = tempfile::tempdir().unwrap();
    let report = Pod::run(&job(volume.path())).failed("InvalidImage");
    assert!(report.message.contains("docker://registry.invalid/os:1"), "{report:?}");
}

/// The import of `os:1` from a registry in plain HTTP that wants no login.
pub(super) fn job_of(address: &str, volume: &Path) -> Import {
    let source = Source::Registry(Registry {
        url: format!("docker://{address}/os:1"),
        architecture: Some("amd64".into()),
        login: None,
        ca: None,
        insecure: false,
        settings: BTreeMap::new(),
    });
    Import { source, target: Target::File(disk(volume)), size: None, preallocate: false }
}

/// A registry for everybody, in plain HTTP, with the image `os:1`.
fn open_registry(bytes: &[u8]) -> Server {
    let server = Server::start();
    push(&server, &Places::new(None), bytes);
    server
}
