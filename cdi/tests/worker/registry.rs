//! Imports from a registry that wants a login, over TLS with an authority of its own.

use super::{Ended, Pod, disk, names};
use api::job::{Confidential, Files, Import, Registry, SecretFiles, Source, Stage, Target};
use base64::Engine as _;
use container_disk::Name;
use container_disk::open::Places;
use container_disk::registry::config::{Login, Own};
use container_disk::registry::copy::{Options, Progress, copy};
use fetch::Secret;
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
        let folder = tempfile::tempdir().expect("it can be made");
        let layout = folder.path().join("os");
        Layout::create(&layout).image(LAYER_GZIP, &gzip(&Tar::default().file("disk/disk.img", bytes).end()));
        let login = Some(Login::Basic(USER.0.to_owned(), Secret::new(USER.1)));
        let own = Own { login, ca: vec![ca.path().join("ca.crt")] };
        let places = Places::new(None).for_user_of(&server.address(), own);
        let name = |text: String| Name::of_image(&text).expect("a name");
        let from = places.find(&name(format!("oci:{}", layout.display()))).expect("a layout");
        let goal = places.goal(&name(format!("docker://{}/os:1", server.address()))).expect("a registry");
        let (options, progress) = (Options::default(), Arc::new(Progress::default()));
        copy(&*from.place, &from.which, &*goal.sink, goal.tag.as_deref(), &options, &progress)
            .expect("it is pushed");
        Guarded { server, ca }
    }

    fn import(&self, volume: &Path, secret: &[(&str, String)]) -> Ended {
        let job = self.job(volume, secret, Some(self.ca.path().to_owned()));
        let ended = Pod::start_with(&job, &[("CORACLE_LOG", "debug")]).wait();
        assert!(!ended.log.contains(USER.1), "{}", ended.log);
        ended
    }

    fn job(&self, volume: &Path, secret: &[(&str, String)], ca: Option<PathBuf>) -> Import {
        let files =
            secret.iter().map(|(key, text)| ((*key).to_owned(), Confidential(text.clone().into_bytes())));
        let files = Files::Values(files.collect());
        let login = (!secret.is_empty()).then(|| SecretFiles { secret: "login".into(), files });
        let url = format!("docker://{}/os:1", self.server.address());
        let source = Source::Registry(Registry { url, architecture: Some("amd64".into()), login, ca });
        let target = Target::File(disk(volume));
        Import { source, target, size: None, preallocate: false }
    }
}

#[test]
fn the_login_and_the_authority_of_a_datavolume_open_a_registry() {
    let bytes = pattern(5 << 20);
    let registry = Guarded::start(&bytes);
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", USER.0, USER.1));
    let docker = serde_json::json!({
        "auths": {registry.server.address(): {"auth": coded}},
        // Nobody's Secret starts a program here.
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
    assert!(names(volume.path()).is_empty());
}
