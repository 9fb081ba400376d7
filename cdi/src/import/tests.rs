//! Each source of a job becomes its conversion; what makes no sense is refused without a secret in the sentence.

use super::*;
use crate::ErrorKind;
use crate::filter::verify::Digest;
use crate::journal::Mode;
use api::job::{Confidential, Files, SecretFiles, Source};
use std::collections::BTreeMap;
use std::path::Path;

fn job(source: Source) -> Import {
    Import { source, target: Target::File("/pool/disk.img".into()), size: None, preallocate: false }
}

fn http(url: &str) -> Http {
    Http {
        url: url.into(),
        headers: vec![],
        secret_headers: vec![],
        login: None,
        ca: None,
        checksum: None,
        insecure: false,
    }
}

fn values(secret: &str, files: &[(&str, &[u8])]) -> SecretFiles {
    let files = files.iter().map(|(key, value)| ((*key).to_owned(), Confidential(value.to_vec())));
    SecretFiles { secret: secret.into(), files: Files::Values(files.collect()) }
}

fn folder(place: &Path, files: &[(&str, &str)]) -> SecretFiles {
    for (key, value) in files {
        std::fs::write(place.join(key), value).unwrap();
    }
    SecretFiles { secret: "mounted".into(), files: Files::Folder(place.to_owned()) }
}

fn asked(job: &Import) -> Result<Request> {
    request(job, Arc::new(Places::new(None)), ConvertOptions::with_threads(1))
}

fn refused(job: &Import) -> String {
    let e = asked(job).unwrap_err();
    assert!(!format!("{e:?}").contains("s3cret"), "{e:?}");
    e.to_string()
}

/// Carries a job out that needs no network.
fn run(job: &Import) -> Result<convert::Report> {
    let watch = Watch::default();
    let convert_options = ConvertOptions::with_threads(1);
    prepare(job, Arc::new(Places::new(None)), convert_options, &watch, |_| Ok(()))?.run(&watch)
}

#[test]
fn a_web_server_is_asked_as_the_job_says() {
    let (more, ca) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(more.path().join("..2026")).unwrap();
    std::os::unix::fs::symlink("..2026", more.path().join("..data")).unwrap();
    std::fs::write(ca.path().join("b.pem"), "b").unwrap();
    std::fs::write(ca.path().join("a.pem"), "a").unwrap();
    let mut import = job(Source::Http(Http {
        headers: vec!["X-One: 1".into()],
        secret_headers: vec![
            values("more", &[("a", b"X-Two: 2:2"), ("b", b"X-Three:3\n")]),
            folder(more.path(), &[("h", "X-Four: 4")]),
        ],
        login: Some(values("login", &[("accessKeyId", b"me"), ("secretKey", b"s3cret")])),
        ca: Some(ca.path().to_owned()),
        checksum: Some("a".repeat(64)),
        insecure: true,
        ..http("https://h/x?sig=s3cret")
    }));
    (import.size, import.preallocate) = (Some(1 << 20), true);
    let request = asked(&import).unwrap();
    assert_eq!(request.source, SourceSpec::Web("https://h/x?sig=s3cret".into()));
    assert_eq!(request.target, Destination::File("/pool/disk.img".into()));
    let headers: Vec<_> = request.options.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(headers, [("X-One", "1"), ("X-Two", "2:2"), ("X-Three", "3"), ("X-Four", "4")]);
    assert_eq!(request.options.user.as_deref(), Some("me"));
    assert_eq!(request.options.password.as_deref(), Some("s3cret"));
    assert_eq!(request.options.ca_files, [ca.path().join("a.pem"), ca.path().join("b.pem")]);
    assert!(request.options.insecure_tls && request.convert_options.preallocate);
    assert_eq!(request.convert_options.checksum, Some(Digest::Sha256([0xaa; 32])));
    assert_eq!((request.convert_options.resize, request.convert_options.resume), (Some(1 << 20), Mode::Auto));
    assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
    assert_eq!(shown(&import.source), "https://h/x?…");
}

#[test]
fn an_object_of_a_store_is_asked_for_with_the_key_of_its_secret() {
    let s3 =
        |login| job(Source::S3(job::S3 { url: "https://s3.example/b/x?v=s3cret".into(), login, ca: None }));
    let key = [("accessKeyId", &b"AKID"[..]), ("secretKey", b"s3cret")];
    let request = asked(&s3(Some(values("keys", &key)))).unwrap();
    assert_eq!(request.source, SourceSpec::Web("https://s3.example/b/x?v=s3cret".into()));
    assert!(matches!(&request.options.store, Some(Store::S3 { id, key }) if id == "AKID" && key == "s3cret"));
    assert!(!format!("{request:?}").contains("s3cret"), "{request:?}");
    assert!(asked(&s3(None)).unwrap().options.store.is_none(), "a public object");
    assert!(refused(&s3(Some(values("keys", &key[..1])))).contains("Secret keys has no key secretKey"));

    let gcs = |url: &str, login| job(Source::Gcs(job::Gcs { url: url.into(), login }));
    for (url, address) in [
        ("gs://bucket/a/b c?#%2F.img", "https://storage.googleapis.com/bucket/a/b%20c%3F%23%252F.img"),
        ("https://storage.googleapis.com/bucket/x", "https://storage.googleapis.com/bucket/x"),
    ] {
        assert_eq!(asked(&gcs(url, None)).unwrap().source, SourceSpec::Web(address.into()));
    }
    for url in ["gs://bucket", "gs:///x", "gs://a b/x", "/etc/shadow", "s3://b/x"] {
        refused(&gcs(url, None));
    }
    for url in ["gs://../x", "gs://./x", "gs://.../x"] {
        assert!(refused(&gcs(url, None)).contains("gs://BUCKET/OBJECT"), "{url}");
    }
    for object in ["a/../c", "a/./c", "..", "a/.", "a/.\t./c", "a/.\n./c", "a\rb"] {
        assert!(
            refused(&gcs(&format!("gs://b/{object}"), None)).contains("cannot be asked for"),
            "{object:?}"
        );
    }
    let dots = asked(&gcs("gs://b.c/a/..b/%2e%2e/c..", None)).unwrap().source;
    assert_eq!(dots, SourceSpec::Web("https://storage.googleapis.com/b.c/a/..b/%252e%252e/c..".into()));
    for files in [&[("credentials.json", &b"{}"[..]), ("other", b"x")][..], &[("any", b"{}")]] {
        let request = asked(&gcs("gs://b/x", Some(values("account", files)))).unwrap();
        assert!(matches!(&request.options.store, Some(Store::Account { key_file }) if key_file == b"{}"));
    }
    let two = values("account", &[("a", b"{}"), ("b", b"{}")]);
    assert!(refused(&gcs("gs://b/x", Some(two))).contains("Secret account has no key credentials.json"));
}

#[test]
fn a_folder_takes_an_archive_and_no_disk() {
    let import = Import { target: Target::Folder("/data".into()), ..job(Source::Http(http("http://h/x"))) };
    assert!(refused(&import).contains("takes an archive and no disk"));
    let (watch, places) = (Watch::default(), Arc::new(Places::new(None)));
    let mut seen = None;
    let ready = |permissions: &Permissions| {
        seen = Some((permissions.process().has_network(), permissions.process().use_of(Path::new("/data"))));
        Err(Error::failed("stopped here"))
    };
    let ended = unpack(&import, places, ConvertOptions::with_threads(1), &watch, ready);
    assert_eq!(ended.err().unwrap().to_string(), "stopped here");
    assert_eq!(seen, Some((true, Some(guard::confine::Use::Write))));
}

#[test]
fn an_image_is_of_a_registry_and_of_the_architecture_that_is_wanted() {
    let registry = |url: &str, architecture: Option<&str>| {
        let architecture = architecture.map(str::to_owned);
        job(Source::Registry(Registry {
            url: url.into(),
            architecture,
            login: None,
            ca: None,
            insecure: false,
            settings: BTreeMap::new(),
        }))
    };
    let request = asked(&registry("docker://h.example/os:1", Some("arm64"))).unwrap();
    assert_eq!(request.source.image().unwrap().to_string(), "docker://h.example/os:1");
    assert_eq!(request.options.image.arch, "arm64");
    let request = asked(&registry("docker://h.example/os:1", None)).unwrap();
    assert_eq!(request.options.image.arch, source::image::architecture());
    // The author of a DataVolume must not get files of this host.
    for url in ["oci-archive:/etc/shadow", "oci:/etc", "store:os:1", "/etc/shadow", "os:1", "docker://"] {
        let what = refused(&registry(url, None));
        assert!(what.contains("docker://") || what.contains("registry"), "{url}: {what}");
    }
}

#[test]
fn an_image_that_is_mounted_is_its_one_disk() {
    let place = tempfile::tempdir().unwrap();
    let image = || {
        let url = "docker://h/os:1".to_owned();
        job(Source::Mounted(job::MountedImage { url, folder: place.path().to_owned() }))
    };
    assert!(refused(&image()).contains("docker://h/os:1"), "an image without a disk");
    std::fs::create_dir(place.path().join("disk")).unwrap();
    std::fs::write(place.path().join("disk/os.img"), "x").unwrap();
    assert_eq!(asked(&image()).unwrap().source, SourceSpec::Path(place.path().join("disk/os.img")));
    assert_eq!(shown(&image().source), "docker://h/os:1");
    // The author of an image must not get files of the pod.
    std::fs::remove_file(place.path().join("disk/os.img")).unwrap();
    std::os::unix::fs::symlink("/etc/cdi/secrets/login/secretKey", place.path().join("disk/os.img")).unwrap();
    assert!(refused(&image()).contains("a link"));
    std::fs::remove_dir_all(place.path().join("disk")).unwrap();
    std::os::unix::fs::symlink("/etc", place.path().join("disk")).unwrap();
    assert!(refused(&image()).contains("docker://h/os:1"));
}

#[test]
fn an_upload_comes_through_standard_input_and_its_size_is_what_its_client_said() {
    for bytes in [None, Some(5)] {
        let upload = job(Source::Upload(job::Upload { bytes }));
        assert_eq!(asked(&upload).unwrap().source, SourceSpec::Upload(bytes));
        assert_eq!(shown(&upload.source), "the upload");
    }
    let text = r#"{"source": {"upload": {}}, "target": {"file": "/data/disk.img"}}"#;
    let read: Import = serde_json::from_str(text).unwrap();
    assert_eq!(read.source, Source::Upload(job::Upload::default()));
}

#[test]
fn a_clone_is_a_qcow2_from_a_server_that_is_known_by_its_certificate() {
    let clone = |url: &str| job(Source::Clone(job::Clone { url: url.into(), tls: "/clone".into() }));
    let import = clone("https://clone-source-1.golden.svc:8443/disk");
    let request = asked(&import).unwrap();
    assert_eq!(request.source_format, Some(Format::Qcow2), "what a guest wrote is not looked into");
    let mutual = request.options.mutual.as_ref().unwrap();
    assert_eq!(
        (mutual.certificate.to_str(), mutual.key.to_str()),
        (Some("/clone/tls.crt"), Some("/clone/tls.key"))
    );
    assert_eq!(mutual.authority.to_str(), Some("/clone/ca.crt"));
    let permissions = request.permissions().unwrap();
    for file in ["tls.crt", "tls.key", "ca.crt"] {
        let used = permissions.process().use_of(&Path::new("/clone").join(file));
        assert_eq!(used, Some(guard::confine::Use::Read), "{file}");
    }
    assert!(permissions.process().has_network());
    assert_eq!(shown(&import.source), "https://clone-source-1.golden.svc:8443/disk");
    for url in ["http://h/disk", "/etc/shadow", "docker://h/x:1", ""] {
        assert!(refused(&clone(url)).contains("begins with https://"), "{url}");
    }
    let text = r#"{"source": {"clone": {"url": "https://h/disk", "tls": "/c"}}, "target": {"file": "/data/disk.img"}}"#;
    let read: Import = serde_json::from_str(text).unwrap();
    assert_eq!(read.source.address(), Some("https://h/disk"));
    let text = r#"{"disk": {"device": "/dev/x"}, "client": "a/b-c/d"}"#;
    let serve: job::Serve = serde_json::from_str(text).unwrap();
    assert_eq!(serve.disk, Target::Device("/dev/x".into()));
}

#[test]
fn an_address_leads_to_the_web_and_nowhere_else() {
    for url in ["/etc/shadow", "file:///etc/shadow", "docker://h/os:1", "-", "s3cret", ""] {
        assert!(refused(&job(Source::Http(http(url)))).contains("http://"), "{url}");
    }
}

#[test]
fn headers_and_logins_that_make_no_sense_are_refused_by_the_name_of_their_secret() {
    let with = |change: &dyn Fn(&mut Http)| {
        let mut http = http("http://h/x");
        change(&mut http);
        refused(&job(Source::Http(http)))
    };
    let line = with(&|http| http.headers = vec!["s3cret".into()]);
    assert!(line.contains("extraHeaders"), "{line}");
    let line = with(&|http| http.secret_headers = vec![values("tokens", &[("a", b"s3cret")])]);
    assert!(line.contains("Secret tokens") && line.contains("no colon"), "{line}");
    let line = with(&|http| http.secret_headers = vec![values("tokens", &[("a", b"s3cret: \xff")])]);
    assert!(line.contains("Secret tokens is not text"), "{line}");
    let line = with(&|http| http.login = Some(values("who", &[("accessKeyId", b"s3cret")])));
    assert!(line.contains("Secret who has no key secretKey"), "{line}");
    let line = with(&|http| {
        http.login = Some(values("who", &[("accessKeyId", b"s3cret\xff"), ("secretKey", b"x")]))
    });
    assert!(line.contains("key accessKeyId of the Secret who is not text"), "{line}");
    let line = with(&|http| http.checksum = Some("md5:00".into()));
    assert!(line.contains("sha256"), "{line}");
    let line = with(&|http| http.ca = Some("/there/is/none".into()));
    assert!(line.contains("/there/is/none"), "{line}");
}

#[test]
fn a_mounted_secret_is_read_within_bounds() {
    let place = tempfile::tempdir().unwrap();
    let mounted = folder(place.path(), &[("accessKeyId", "me"), ("secretKey", "s3cret")]);
    assert_eq!(secrets::login(&mounted).unwrap(), ("me".to_owned(), "s3cret".to_owned()));
    std::fs::File::create(place.path().join("secretKey")).unwrap().set_len((1 << 20) + 1).unwrap();
    let e = secrets::login(&mounted).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("larger than 1 MiB"), "{e}");
    let gone = SecretFiles { secret: "gone".into(), files: Files::Folder("/there/is/none".into()) };
    assert_eq!(secrets::login(&gone).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_checksum_that_a_datavolume_may_have_is_one_that_is_computed_and_no_other() {
    let hex = |count: usize| "a".repeat(count);
    let texts = [
        hex(64),
        hex(128),
        format!("sha256:{}", hex(64)),
        format!("SHA512:{}", hex(128)),
        format!("sha256:{}", hex(128)),
        format!("sha512:{}", hex(64)),
        format!("md5:{}", hex(32)),
        format!("sha1:{}", hex(40)),
        format!(":{}", hex(64)),
        format!("sha256:{}", "x".repeat(64)),
        hex(63),
    ];
    for text in texts {
        let volume = serde_json::json!({
            "metadata": {"name": "d"},
            "spec": {"storage": {}, "source": {"http": {"url": "http://h/x", "checksum": text}}},
        });
        let faults = job::check(&serde_json::from_value(volume).unwrap());
        assert_eq!(faults.is_empty(), text.parse::<Digest>().is_ok(), "{text}: {faults:?}");
    }
}

#[test]
fn an_empty_disk_has_its_size_and_no_block() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("disk.img");
    let blank = |size, preallocate| Import {
        source: Source::Blank,
        target: Target::File(path.clone()),
        size,
        preallocate,
    };
    let report = run(&blank(Some(5 << 20), false)).unwrap();
    assert_eq!((report.virtual_size, report.bytes_written), (5 << 20, 0));
    assert_eq!((report.source.as_str(), report.flow), ("nothing", "tables"));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 5 << 20);
    assert_eq!(report.bytes_allocated, Some(0));
    assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");

    assert_eq!(run(&blank(Some(1 << 20), true)).unwrap().bytes_allocated, Some(1 << 20));
    // An empty disk has no foreign content, so the bound does not apply.
    let sparse = ConvertOptions { max_size: 1 << 10, ..ConvertOptions::with_threads(1) };
    let request = request(&blank(Some(1 << 20), false), Arc::new(Places::new(None)), sparse).unwrap();
    assert_eq!(request.convert_options.max_size, 1 << 20);
    for size in [None, Some(0)] {
        assert!(refused(&blank(size, false)).contains("needs a size"));
    }
    assert_eq!(shown(&Source::Blank), "nothing");
}

#[test]
fn what_is_used_is_told_before_anything_is_opened() {
    let import = job(Source::Http(http("http://127.0.0.1:1/x")));
    let watch = Watch::default();
    let mut seen = None;
    let ended = prepare(
        &import,
        Arc::new(Places::new(None)),
        ConvertOptions::with_threads(1),
        &watch,
        |permissions| {
            seen = Some((
                permissions.process().has_network(),
                permissions.process().use_of(Path::new("/pool")).is_some(),
            ));
            Err(Error::failed("stopped here"))
        },
    );
    assert_eq!(ended.err().unwrap().to_string(), "stopped here");
    assert_eq!(seen, Some((true, true)));
}
