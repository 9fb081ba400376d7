//! Golden documents: registries and clusters have stored documents like these.

use super::*;
use crate::Digest;
use crate::manifest::Platform;
use crate::pack::Compression;

fn layer(compression: Compression) -> Layer {
    Layer { digest: Digest::of(b"blob"), size: 4, diff_id: Digest::of(b"tar"), tar_size: 1024, compression }
}

fn recipe() -> Recipe {
    let mut recipe = Recipe::new("amd64", vec![layer(Compression::Zstd)]);
    recipe.created = Some(1_700_000_000);
    recipe.labels = [("shasum", "abc"), ("a", "b")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    recipe.env = [(hint("instancetype.kubevirt.io/default-instancetype"), "u1.medium".to_owned())].into();
    recipe.annotations = [("org.opencontainers.image.title".to_owned(), "os".to_owned())].into();
    recipe
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn an_oci_image_is_written_so() {
    let (config, document) = manifest(&recipe()).unwrap();
    assert_eq!(
        text(&config),
        r#"{"created":"2023-11-14T22:13:20Z","architecture":"amd64","os":"linux","config":{"Env":["INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.medium"],"Entrypoint":["no-entrypoint"],"Labels":{"a":"b","shasum":"abc"}},"rootfs":{"type":"layers","diff_ids":["sha256:b9f0c9d6b2c07ce25a3d3bd5ed0e70ee3e1e2ccc1b5a6aa5c8e7dbbf5a8b7a7f"]},"history":[{"created":"2023-11-14T22:13:20Z","created_by":"coracle"}]}"#
            .replace("sha256:b9f0c9d6b2c07ce25a3d3bd5ed0e70ee3e1e2ccc1b5a6aa5c8e7dbbf5a8b7a7f", &Digest::of(b"tar").to_string())
    );
    assert_eq!(
        text(&document.bytes),
        format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{}}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar+zstd","digest":"{}","size":4}}],"annotations":{{"org.opencontainers.image.title":"os"}}}}"#,
            Digest::of(&config),
            config.len(),
            Digest::of(b"blob")
        )
    );
}

#[test]
fn a_docker_image_is_written_so_and_refuses_what_docker_does_not_know() {
    let mut recipe = Recipe::new("arm64", vec![layer(Compression::Gzip), layer(Compression::None)]);
    recipe.kind = ManifestFormat::Docker;
    let (config, document) = manifest(&recipe).unwrap();
    assert!(
        text(&config).starts_with(r#"{"created":"1970-01-01T00:00:00Z","architecture":"arm64","os":"linux""#)
    );
    let shown = text(&document.bytes);
    for part in [
        r#""mediaType":"application/vnd.docker.distribution.manifest.v2+json""#,
        r#""mediaType":"application/vnd.docker.container.image.v1+json""#,
        r#""mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip""#,
        r#""mediaType":"application/vnd.docker.image.rootfs.diff.tar""#,
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    recipe.layers = vec![layer(Compression::Zstd)];
    assert!(manifest(&recipe).unwrap_err().to_string().contains("zstd"));
    recipe.annotations.insert("a".into(), "b".into());
    assert!(manifest(&recipe).unwrap_err().to_string().contains("annotations"));
}

#[test]
fn nothing_is_written_where_nothing_is_known() {
    let (config, _) = manifest(&Recipe::new("amd64", vec![])).unwrap();
    assert_eq!(
        text(&config),
        r#"{"architecture":"amd64","os":"linux","config":{"Entrypoint":["no-entrypoint"]},"rootfs":{"type":"layers","diff_ids":[]},"history":[]}"#
    );
}

#[test]
fn an_index_is_the_same_in_whatever_order_it_is_joined() {
    let of = |arch: &str, label: &str| {
        let mut recipe = recipe();
        recipe.architecture = arch.into();
        recipe.labels.insert("which".into(), label.into());
        manifest(&recipe).unwrap().1
    };
    let (amd, arm, s390x) = (of("amd64", "1"), of("arm64", "1"), of("s390x", "1"));
    let first = index(&amd, "amd64", None).unwrap();
    let first = join(&first, &arm, "arm64", Some("v8")).unwrap();
    let first = join(&first, &s390x, "s390x", None).unwrap();
    let other = index(&s390x, "s390x", None).unwrap();
    let other = join(&other, &of("amd64", "old"), "amd64", None).unwrap();
    let other = join(&other, &arm, "arm64", Some("v8")).unwrap();
    let other = join(&other, &amd, "amd64", None).unwrap();
    assert_eq!(text(&first.bytes), text(&other.bytes));
    assert_eq!(first.media_type, "application/vnd.oci.image.index.v1+json");
    let Content::Index(content) = &first.content else { panic!() };
    let platforms: Vec<String> =
        content.manifests.iter().map(|m| m.platform.as_ref().map(shown).unwrap()).collect();
    assert_eq!(platforms, ["linux/amd64/", "linux/arm64/v8", "linux/s390x/"]);
    assert!(join(&amd, &arm, "arm64", None).unwrap_err().to_string().contains("a single image"));
    assert!(join(&first, &other, "arm64", None).unwrap_err().to_string().contains("is an index"));
}

fn shown(p: &Platform) -> String {
    format!("{}/{}/{}", p.os, p.architecture, p.variant.as_deref().unwrap_or_default())
}

#[test]
fn an_index_of_docker_images_is_docker_s() {
    let mut recipe = Recipe::new("amd64", vec![layer(Compression::Gzip)]);
    recipe.kind = ManifestFormat::Docker;
    let index = index(&manifest(&recipe).unwrap().1, "amd64", None).unwrap();
    assert_eq!(index.media_type, "application/vnd.docker.distribution.manifest.list.v2+json");
}

#[test]
fn configs_of_others_may_say_null() {
    let config = r#"{"architecture":"amd64","os":"linux","created":null,"config":{"Env":null,"Labels":null,"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":[]},"history":null}"#;
    let config = Config::parse("x", config.as_bytes()).unwrap();
    assert_eq!((config.architecture.as_str(), config.label("a")), ("amd64", None));
    assert_eq!(Config::parse("x", b"[").unwrap_err().kind(), crate::ErrorKind::Refused);
}

mod choosing {
    use super::super::choose::manifest as choose;
    use super::*;
    use crate::layout::Layout;
    use crate::place::Reference;

    fn write_one(layout: &Layout, arch: &str) -> Document {
        write(layout, &Recipe::new(arch, vec![]), &[]).unwrap()
    }

    #[test]
    fn the_fitting_architecture_is_taken_and_a_single_image_always() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        let (amd, arm) = (write_one(&layout, "amd64"), write_one(&layout, "arm64"));
        let both = join(&index(&amd, "amd64", None).unwrap(), &arm, "arm64", Some("v8")).unwrap();
        put(&layout, &both, &["both"]).unwrap();
        put(&layout, &arm, &["one", "another"]).unwrap();
        let tag = |tag: &str| Reference::Tag(tag.into());
        for (name, arch, want) in [
            ("both", "amd64", &amd),
            ("both", "arm64", &arm),
            ("both", "arm64/v8", &arm),
            ("one", "amd64", &arm),
            ("another", "arm64", &arm),
        ] {
            assert_eq!(choose(&layout, &tag(name), arch).unwrap().digest, want.digest, "{name} {arch}");
        }
        for arch in ["s390x", "arm64/v9"] {
            let e = choose(&layout, &tag("both"), arch).unwrap_err();
            assert_eq!(e.kind(), crate::ErrorKind::NotFound);
            assert!(e.to_string().ends_with("it has amd64, arm64/v8"), "{e}");
        }
    }

    #[test]
    fn indexes_in_indexes_have_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        let mut inner = write_one(&layout, "amd64");
        for depth in 1..=6 {
            let entry = serde_json::json!({
                "mediaType": inner.media_type, "digest": inner.digest.to_string(), "size": inner.bytes.len(),
                "platform": {"architecture": "amd64", "os": "linux"},
            });
            let media_type = "application/vnd.oci.image.index.v1+json";
            let index =
                serde_json::json!({"schemaVersion": 2, "mediaType": media_type, "manifests": [entry]});
            inner = Document::parse("x", index.to_string().into_bytes(), None).unwrap();
            layout.put(&inner, None).unwrap();
            let chosen = choose(&layout, &Reference::Digest(inner.digest), "amd64");
            assert_eq!(chosen.is_ok(), depth < 4, "{depth}");
        }
    }
}

#[test]
fn short_fields_of_a_config_are_short() {
    for field in ["created", "architecture", "variant", "os"] {
        let config = |length| format!(r#"{{"{field}":"{}"}}"#, "x".repeat(length));
        Config::parse("x", config(256).as_bytes()).unwrap();
        let e = Config::parse("x", config(257).as_bytes()).unwrap_err();
        assert!(e.to_string().contains(&format!("its {field} has 257 bytes")), "{e}");
    }
}
