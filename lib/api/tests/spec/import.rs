//! A DataVolume becomes a job or is refused by its fields; what is confidential is in the JSON and not in `Debug`.

use api::data_volume::DataVolume;
use api::fault::Reason;
use api::job::{
    Confidential, Files, Import, MountedImage, References, Refusal, Registry, SecretFiles, Source, Target,
    check,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn volume(spec: &Value) -> DataVolume {
    serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
}

fn of_source(source: &Value) -> DataVolume {
    volume(&json!({"storage": {"resources": {"requests": {"storage": "1Gi"}}}, "source": source}))
}

/// `field: reason` of each fault.
fn faults(volume: &DataVolume) -> Vec<(String, Reason)> {
    check(volume).into_iter().map(|fault| (fault.field, fault.reason)).collect()
}

/// A place that has every Secret and ConfigMap but `gone`, and notes who was asked for.
#[derive(Default)]
struct Mounts(Vec<String>);

impl References for Mounts {
    type Error = String;

    fn secret(&mut self, name: &str) -> Result<Files, String> {
        self.0.push(format!("secret {name}"));
        match name {
            "gone" => Err(format!("there is no Secret {name}")),
            "values" => Ok(Files::Values(BTreeMap::from([(
                "accessKeyId".to_owned(),
                Confidential(b"s3cret-value".to_vec()),
            )]))),
            _ => Ok(Files::Folder(PathBuf::from("/secrets").join(name))),
        }
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf, String> {
        self.0.push(format!("config map {name}"));
        Ok(PathBuf::from("/maps").join(name))
    }
}

/// A place whose node mounts images.
struct Node;

impl References for Node {
    type Error = String;

    fn secret(&mut self, name: &str) -> Result<Files, String> {
        Err(format!("the node has the Secret {name}"))
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf, String> {
        Err(format!("the node has its own certificates, and not {name}"))
    }

    fn image(&mut self, reference: &str, pull_secret: Option<&str>) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/{reference} with {}", pull_secret.unwrap_or_default())))
    }
}

fn import(volume: &DataVolume) -> Import {
    Import::from_data_volume(volume, Target::File("disk.img".into()), &mut Mounts::default()).unwrap()
}

#[test]
fn every_source_that_is_not_served_is_refused_by_its_name() {
    let sources = json!({
        "pvc": {"namespace": "n", "name": "x"},
        "imageio": {"url": "x", "diskId": "x"},
        "vddk": {"url": "x"},
        "snapshot": {"namespace": "n", "name": "x"},
    });
    for (name, value) in sources.as_object().unwrap() {
        let volume = of_source(&json!({name: value}));
        assert_eq!(faults(&volume), [(format!("spec.source.{name}"), Reason::NotSupported)]);
        let refused = Import::from_data_volume(&volume, Target::File("x".into()), &mut Mounts::default());
        assert!(matches!(refused, Err(Refusal::Faults(faults)) if faults.len() == 1), "{name}");
    }
    for source in [
        json!({"http": {"url": "http://h/x"}}),
        json!({"registry": {"url": "docker://h/x"}}),
        json!({"s3": {"url": "https://h/b/x"}}),
        json!({"gcs": {"url": "gs://b/x"}}),
        json!({"gcs": {"url": "http://h/b/x"}}),
        json!({"blank": {}}),
        json!({"upload": {}}),
    ] {
        assert_eq!(faults(&of_source(&source)), [], "{source}");
    }
}

#[test]
fn every_field_of_a_source_that_is_not_served_is_refused_by_its_name() {
    let digest = "a".repeat(64);
    let table = [
        (json!({"registry": {"imageStream": "i"}}), "registry.imageStream", Reason::NotSupported),
        (
            json!({"registry": {"imageStream": "i", "pullMethod": "node"}}),
            "registry.imageStream",
            Reason::NotSupported,
        ),
        (
            json!({"registry": {"url": "docker://h/x", "pullMethod": "other"}}),
            "registry.pullMethod",
            Reason::Invalid,
        ),
        (json!({"registry": {"url": "oci-archive:x"}}), "registry.url", Reason::Invalid),
        (json!({"registry": {}}), "registry.url", Reason::Required),
        (json!({"http": {"url": "ftp://h/x"}}), "http.url", Reason::Invalid),
        (json!({"s3": {"url": "s3://b/x"}}), "s3.url", Reason::Invalid),
        (json!({"gcs": {"url": "s3://b/x"}}), "gcs.url", Reason::Invalid),
        (json!({"gcs": {"url": "http://h/b/x", "secretRef": "account"}}), "gcs.url", Reason::Invalid),
        (
            json!({"http": {"url": "http://h/x", "extraHeaders": ["A: b", "none"]}}),
            "http.extraHeaders[1]",
            Reason::Invalid,
        ),
        (
            json!({"http": {"url": "http://h/x", "checksum": "md5:d41d8cd98f00b204e9800998ecf8427e"}}),
            "http.checksum",
            Reason::NotSupported,
        ),
        (
            json!({"http": {"url": "http://h/x", "checksum": format!("sha1:{digest}")}}),
            "http.checksum",
            Reason::NotSupported,
        ),
        (
            json!({"http": {"url": "http://h/x", "checksum": format!("sha512:{digest}")}}),
            "http.checksum",
            Reason::Invalid,
        ),
        (json!({"http": {"url": "http://h/x", "checksum": "sha256:zz"}}), "http.checksum", Reason::Invalid),
    ];
    for (source, field, reason) in table {
        assert_eq!(faults(&of_source(&source)), [(format!("spec.source.{field}"), reason)], "{source}");
    }
    for checksum in [format!("sha256:{digest}"), digest.clone(), digest.repeat(2), String::new()] {
        let source = json!({"http": {"url": "http://h/x", "checksum": checksum}});
        assert_eq!(faults(&of_source(&source)), [], "{source}");
    }
    for method in ["pod", "node", ""] {
        let source = json!({"registry": {"url": "docker://h/x", "pullMethod": method, "secretRef": ""}});
        assert_eq!(faults(&of_source(&source)), [], "{source}");
    }
}

#[test]
fn what_is_around_the_source_is_checked_too() {
    let size = json!({"resources": {"requests": {"storage": "1Gi"}}});
    let (http, blank) = (json!({"http": {"url": "http://h/x"}}), json!({"blank": {}}));
    let reference = json!({"kind": "DataSource", "name": "x"});
    let storage = "spec.storage.resources.requests.storage";
    let table = [
        (json!({"storage": size, "sourceRef": reference}), "spec.sourceRef", Reason::NotSupported),
        (json!({"storage": size, "sourceRef": reference, "source": http}), "spec", Reason::Invalid),
        (json!({"storage": size}), "spec.source", Reason::Required),
        (json!({"storage": size, "source": {}}), "spec.source", Reason::Required),
        (
            json!({"storage": size, "source": {"blank": {}, "http": http["http"]}}),
            "spec.source",
            Reason::Invalid,
        ),
        (json!({"source": http}), "spec.storage", Reason::Invalid),
        (json!({"source": http, "storage": {}, "pvc": {}}), "spec.storage", Reason::Invalid),
        (json!({"source": blank, "storage": {}}), storage, Reason::Required),
        (
            json!({"source": blank, "storage": {"resources": {"requests": {"storage": "0"}}}}),
            storage,
            Reason::Invalid,
        ),
        (
            json!({"storage": size, "source": blank, "contentType": "archive"}),
            "spec.contentType",
            Reason::Invalid,
        ),
        (
            json!({"storage": size, "source": {"registry": {"url": "docker://h/x"}}, "contentType": "archive"}),
            "spec.contentType",
            Reason::Invalid,
        ),
        (
            json!({
                "storage": {"volumeMode": "Block", "resources": size["resources"]},
                "source": http,
                "contentType": "archive",
            }),
            "spec.contentType",
            Reason::Invalid,
        ),
        (json!({"storage": size, "source": http, "contentType": "tar"}), "spec.contentType", Reason::Invalid),
        (
            json!({"storage": size, "source": http, "checkpoints": [{"previous": "", "current": "a"}]}),
            "spec.checkpoints",
            Reason::NotSupported,
        ),
        (
            json!({"storage": size, "source": http, "finalCheckpoint": true}),
            "spec.finalCheckpoint",
            Reason::NotSupported,
        ),
    ];
    for (spec, field, reason) in table {
        assert_eq!(faults(&volume(&spec)), [(field.to_owned(), reason)], "{spec}");
    }
}

#[test]
fn a_web_server_is_told_headers_a_login_and_certificates() {
    let volume = of_source(&json!({"http": {
        "url": "https://me:s3cret@h/x?token=s3cret",
        "extraHeaders": ["X-Token: s3cret"],
        "secretExtraHeaders": ["more", "values"],
        "secretRef": "login",
        "certConfigMap": "ca",
        "checksum": "a".repeat(64),
        "insecureSkipVerify": true,
    }}));
    let mut mounts = Mounts::default();
    let import = Import::from_data_volume(&volume, Target::Device("/dev/x".into()), &mut mounts).unwrap();
    assert_eq!(mounts.0, ["secret more", "secret values", "secret login", "config map ca"]);
    assert_eq!((import.size, import.preallocate), (Some(1 << 30), false));
    assert_eq!(import.target, Target::Device("/dev/x".into()));
    let Source::Http(http) = &import.source else { panic!("{import:?}") };
    assert_eq!(http.url.0, "https://me:s3cret@h/x?token=s3cret");
    assert_eq!(http.headers, ["X-Token: s3cret".into()]);
    assert_eq!(http.secret_headers[0].files, Files::Folder("/secrets/more".into()));
    assert_eq!(http.login.as_ref().unwrap().secret, "login");
    assert_eq!(http.ca.as_deref(), Some("/maps/ca".as_ref()));
    assert!(http.insecure && http.checksum.as_ref().is_some_and(|sum| sum.len() == 64));

    let shown = format!("{import:?}");
    assert!(!shown.contains("s3cret") && shown.contains("/secrets/login"), "{shown}");
    // 's3c' as numbers.
    assert!(!shown.contains("115, 51, 99"), "{shown}");
    let text = serde_json::to_string(&import).unwrap();
    assert!(text.contains("X-Token: s3cret"), "{text}");
    assert_eq!(serde_json::from_str::<Import>(&text).unwrap(), import);
    let more = text.replacen('{', "{\"more\":1,", 1);
    assert!(serde_json::from_str::<Import>(&more).unwrap_err().to_string().contains("more"));
}

#[test]
fn an_object_of_a_store_has_its_login_and_an_archive_goes_into_the_folder_of_the_disk() {
    let of = |volume: &DataVolume, target: Target| {
        Import::from_data_volume(volume, target, &mut Mounts::default())
    };
    let s3 = of_source(&json!({"s3": {"url": "https://h/b/x", "secretRef": "keys", "certConfigMap": "ca"}}));
    let Source::S3(object) = import(&s3).source else { panic!("it is of S3") };
    assert_eq!((object.url.0.as_str(), object.ca), ("https://h/b/x", Some("/maps/ca".into())));
    assert_eq!(object.login.unwrap().files, Files::Folder("/secrets/keys".into()));
    let mut gcs = of_source(&json!({"gcs": {"url": "gs://b/x", "secretRef": "account"}}));
    gcs.spec.content_type = Some(api::data_volume::ContentType::Archive);
    gcs.spec.preallocation = Some(true);
    let archive = of(&gcs, Target::File("/data/disk.img".into())).unwrap();
    let Source::Gcs(object) = &archive.source else { panic!("it is of Google") };
    assert_eq!(object.login.as_ref().unwrap().secret, "account");
    assert_eq!((archive.target.clone(), archive.preallocate), (Target::Folder("/data".into()), false));
    assert_eq!((archive.size, archive.source.address()), (Some(1 << 30), Some("gs://b/x")));
    let text = serde_json::to_string(&archive).unwrap();
    assert_eq!(serde_json::from_str::<Import>(&text).unwrap(), archive);
    let refused = of(&gcs, Target::Device("/dev/x".into()));
    let Err(Refusal::Faults(faults)) = refused else { panic!("a device takes no files") };
    assert_eq!(faults[0].message, "ContentType Archive cannot have block volumeMode");
}

#[test]
fn an_image_and_nothing_become_jobs() {
    let image = import(&of_source(
        &json!({"registry": {"url": "docker://h/x:1", "pullMethod": "pod", "platform": {"architecture": "arm64"},
            "secretRef": "login", "certConfigMap": "ca"}}),
    ));
    let registry = Registry {
        url: "docker://h/x:1".into(),
        architecture: Some("arm64".into()),
        login: Some(SecretFiles { secret: "login".into(), files: Files::Folder("/secrets/login".into()) }),
        ca: Some("/maps/ca".into()),
        insecure: false,
        settings: BTreeMap::new(),
    };
    assert_eq!(image.source, Source::Registry(registry));
    assert_eq!(image.source.address(), Some("docker://h/x:1"));

    let mut blank = of_source(&json!({"blank": {}}));
    blank.spec.preallocation = Some(true);
    let blank = import(&blank);
    assert_eq!((blank.size, blank.preallocate), (Some(1 << 30), true));
    assert_eq!((&blank.source, blank.source.address()), (&Source::Blank, None));
    let text = serde_json::to_string(&blank).unwrap();
    assert_eq!(serde_json::from_str::<Import>(&text).unwrap(), blank);
}

#[test]
fn an_image_that_the_node_pulls_is_read_where_it_is_mounted() {
    let image =
        json!({"url": "docker://h/x:1", "pullMethod": "node", "secretRef": "login", "certConfigMap": "ca"});
    let volume = of_source(&json!({"registry": image}));
    let mounted = Import::from_data_volume(&volume, Target::File("x".into()), &mut Node).unwrap().source;
    let wanted = MountedImage { url: "docker://h/x:1".into(), folder: "/h/x:1 with login".into() };
    assert_eq!((mounted.address(), &mounted), (Some("docker://h/x:1"), &Source::Mounted(wanted)));
    // On a computer without Kubernetes no node does: it is pulled as any other.
    assert!(matches!(import(&volume).source, Source::Registry(registry) if registry.login.is_some()));
}

#[test]
fn a_scheme_is_the_same_in_all_letters() {
    for (source, wanted) in [
        (json!({"http": {"url": "HTTPS://Host/Path"}}), "https://Host/Path"),
        (json!({"s3": {"url": "Https://h/b/x"}}), "https://h/b/x"),
        (json!({"gcs": {"url": "GS://b/x"}}), "gs://b/x"),
        (json!({"registry": {"url": "Docker://h/x"}}), "docker://h/x"),
    ] {
        let volume = of_source(&source);
        assert_eq!(faults(&volume), [], "{source}");
        assert_eq!(import(&volume).source.address(), Some(wanted));
    }
    // The token of an account goes by TLS alone, however that is written.
    let plain = of_source(&json!({"gcs": {"url": "HTTP://h/b/x", "secretRef": "account"}}));
    assert_eq!(faults(&plain), [("spec.source.gcs.url".to_owned(), Reason::Invalid)]);
}

#[test]
fn the_name_of_another_object_is_one_that_an_object_can_have() {
    for (source, field) in [
        (json!({"http": {"url": "http://h/x", "secretRef": "../a"}}), "http.secretRef"),
        (json!({"http": {"url": "http://h/x", "certConfigMap": "a/b"}}), "http.certConfigMap"),
        (
            json!({"http": {"url": "http://h/x", "secretExtraHeaders": ["a", "A"]}}),
            "http.secretExtraHeaders[1]",
        ),
        (json!({"s3": {"url": "https://h/b/x", "secretRef": "a b"}}), "s3.secretRef"),
        (json!({"s3": {"url": "https://h/b/x", "certConfigMap": "-"}}), "s3.certConfigMap"),
        (json!({"gcs": {"url": "gs://b/x", "secretRef": "a\n"}}), "gcs.secretRef"),
        (json!({"registry": {"url": "docker://h/x", "secretRef": ".."}}), "registry.secretRef"),
        (json!({"registry": {"url": "docker://h/x", "certConfigMap": "a?"}}), "registry.certConfigMap"),
    ] {
        assert_eq!(faults(&of_source(&source)), [(format!("spec.source.{field}"), Reason::Invalid)]);
    }
    let mut volume = of_source(&json!({"blank": {}}));
    volume.spec.service_account_name = Some("a/b".into());
    assert_eq!(faults(&volume), [("spec.serviceAccountName".to_owned(), Reason::Invalid)]);
}

#[test]
fn a_pvc_that_says_what_fills_it_has_no_source_beside() {
    let size = json!({"requests": {"storage": "1Gi"}});
    let other = json!({"kind": "PersistentVolumeClaim", "name": "other"});
    for field in ["dataSource", "dataSourceRef"] {
        for at in ["pvc", "storage"] {
            let mut spec = json!({"source": {"blank": {}}});
            spec[at] = json!({"resources": size, field: other});
            assert_eq!(faults(&volume(&spec)), [("spec.source".to_owned(), Reason::Invalid)], "{at} {field}");
        }
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_told_and_an_empty_one_is_none() {
    let gone = of_source(&json!({"http": {"url": "http://h/x", "secretRef": "gone"}}));
    let refused = Import::from_data_volume(&gone, Target::File("x".into()), &mut Mounts::default());
    assert!(matches!(refused, Err(Refusal::Reference(why)) if why == "there is no Secret gone"));

    let empty = of_source(
        &json!({"http": {"url": "http://h/x", "secretRef": "", "certConfigMap": "", "checksum": ""}}),
    );
    let Source::Http(http) = import(&empty).source else { panic!("it is of the web") };
    assert_eq!((http.login, http.ca, http.checksum), (None, None, None));
}
