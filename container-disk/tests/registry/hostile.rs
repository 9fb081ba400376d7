//! Registries that send wrong content.

use crate::work::{Image, LARGE, descriptor, example, fetch, index, mirrored, open, part, registries, tag};
use container_disk::ErrorKind;
use container_disk::manifest::{
    Document, IMAGE_CONFIG_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use container_disk::place::{Place, Reference, Sink};
use container_disk::reference::Remote;
use container_disk::registry::copy::{Options, Progress, copy};
use serde_json::{Value, json};
use tests::faults::{Fault, Proxy, What};
use tests::http::{Authority, Behaviour, Server};
use tests::registry::Registry;

fn answer(media_type: &str, body: impl Into<Vec<u8>>) -> What {
    What::Answer(200, format!("Content-Type: {media_type}\r\n"), body.into())
}

fn manifest(change: impl FnOnce(&mut Value)) -> String {
    let mut value = json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE_MEDIA_TYPE,
        "config": part(IMAGE_CONFIG_MEDIA_TYPE, b"{}"),
        "layers": [part(IMAGE_LAYER_MEDIA_TYPE, b"layer")],
    });
    change(&mut value);
    value.to_string()
}

#[test]
fn documents_that_lie_are_refused_with_the_reason() {
    let huge = manifest(|m| m["annotations"] = json!({ "x": "y".repeat(5 << 20) }));
    let digest = container_disk::Digest::of(b"something else");
    for (name, what, says) in [
        ("larger than any", answer(OCI_IMAGE_MEDIA_TYPE, huge), "longer than 4096 KiB"),
        ("not JSON", answer(OCI_IMAGE_MEDIA_TYPE, "<html>"), "is not a manifest"),
        ("nothing", answer(OCI_IMAGE_MEDIA_TYPE, ""), "is not a manifest"),
        ("another media type", answer(OCI_IMAGE_INDEX_MEDIA_TYPE, manifest(|_| ())), "is served as"),
        (
            "an index and of a manifest",
            answer(OCI_IMAGE_MEDIA_TYPE, manifest(|m| m["manifests"] = json!([]))),
            "the fields of an index and of a manifest",
        ),
        (
            "the same without a word of its own",
            answer(
                OCI_IMAGE_INDEX_MEDIA_TYPE,
                manifest(|m| {
                    m["manifests"] = json!([]);
                    m.as_object_mut().unwrap().remove("mediaType");
                }),
            ),
            "the fields of an index and of a manifest",
        ),
        ("an old kind", answer("x/y", r#"{"schemaVersion":1,"mediaType":"x/y"}"#), "not an image"),
        (
            "a negative size",
            answer(OCI_IMAGE_MEDIA_TYPE, manifest(|m| m["layers"][0]["size"] = json!(-1))),
            "the size -1",
        ),
        (
            "a foreign layer",
            answer(OCI_IMAGE_MEDIA_TYPE, manifest(|m| m["layers"][0]["urls"] = json!(["http://x/"]))),
            "are not supported",
        ),
        (
            "a digest that is none",
            answer(OCI_IMAGE_MEDIA_TYPE, manifest(|m| m["layers"][0]["digest"] = json!("sha256:../../x"))),
            "the digest",
        ),
        (
            "another digest beside it",
            What::Answer(200, format!("Docker-Content-Digest: {digest}\r\n"), manifest(|_| ()).into()),
            "Docker-Content-Digest header claims",
        ),
    ] {
        let proxy = Proxy::start("127.0.0.1:1", vec![Fault::always(what)]);
        let e = example(&mirrored(&[proxy.address()], "")).document(&tag("1")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{name}: {e:?}");
        assert!(format!("{e:?}").contains(says), "{name}: {e:?}");
        assert!(e.to_string().contains(&proxy.address()), "{name}: {e}");
    }
    let proxy =
        Proxy::start("127.0.0.1:1", vec![Fault::always(answer(OCI_IMAGE_MEDIA_TYPE, manifest(|_| ())))]);
    let e = example(&mirrored(&[proxy.address()], "")).document(&Reference::Digest(digest)).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("has the digest"), "{e}");
}

#[test]
fn blobs_of_another_size_are_refused() {
    let server = Registry::start();
    let image = Image::new(LARGE, 1);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    let from = open(&server.address(), "r");
    for (part, by) in [
        (image.layer_part(), 1),
        (image.layer_part(), -1),
        (image.config_part(), 1),
        (image.config_part(), -1),
    ] {
        let mut part = part;
        part.size += by;
        let e = fetch(&from, &part).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e:?}");
        assert!(e.to_string().contains("promised"), "{e}");
    }
    // A response without a length never ends. Only the promised number of bytes is read.
    let small = descriptor(IMAGE_CONFIG_MEDIA_TYPE, b"{}");
    let endless = What::Answer(200, "Content-Type: x/y\r\n".into(), vec![b'{'; 100_000]);
    let proxy = Proxy::start("127.0.0.1:1", vec![Fault::always(endless)]);
    let e = fetch(&example(&mirrored(&[proxy.address()], "")), &small).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused, "{e:?}");
}

#[test]
fn a_registry_that_leads_around_is_not_followed_for_ever() {
    let to = |target: &str| What::Answer(302, format!("Location: {target}\r\n"), vec![]);
    let image = Image::new(LARGE, 2);
    for (target, says) in [
        ("/v2/again", "more than 10 redirects"),
        ("file:///etc/passwd", "the scheme \"file\""),
        ("http://me:pw@127.0.0.1/x", "with a user of its own"),
        ("https://[x", "not a URL"),
    ] {
        let proxy = Proxy::start("127.0.0.1:1", vec![Fault::always(to(target))]);
        let from = example(&mirrored(&[proxy.address()], ""));
        for e in [from.document(&tag("1")).unwrap_err(), fetch(&from, &image.layer_part()).unwrap_err()] {
            assert!(e.to_string().contains(says), "{target}: {e}");
            assert!(!e.to_string().contains("me:pw"), "{e}");
        }
    }
    let mute = Proxy::start("127.0.0.1:1", vec![Fault::always(What::Answer(302, String::new(), vec![]))]);
    let e = example(&mirrored(&[mute.address()], "")).document(&tag("1")).unwrap_err();
    assert!(e.to_string().contains("without saying where to go"), "{e}");
}

#[test]
fn nobody_is_led_from_tls_to_plain_http() {
    let (authority, image) = (Authority::new(), Image::new(LARGE, 4));
    let plain = Server::start(&image.layer[..], Behaviour::default());
    let path = format!("/v2/os/blobs/{}", image.layer_part().digest);
    let redirects = vec![(path, 307, plain.url("/x"))];
    let server = Server::start_tls(b"x", Behaviour { redirects, ..Behaviour::default() }, &authority);
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let url = server.url("");
    let address = url.strip_prefix("https://").unwrap().trim_end_matches('/');
    let all = registries(&format!("[host.\"{address}\"]\nca = {:?}", ca.path()));
    let place = all.open(&Remote::parse(&format!("{address}/os")).unwrap()).unwrap();
    let e = fetch(&place, &image.layer_part()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("from TLS to plain HTTP"), "{e}");
    assert!(plain.requests().is_empty());
}

#[test]
fn indexes_that_go_round_or_too_deep_are_refused() {
    let (server, target) = (Registry::start(), Registry::start());
    let image = Image::new(1000, 3);
    let from = open(&server.address(), "r");
    image.push(&from, "1").unwrap();
    // A true digest cannot refer to itself, so the deepest possible nesting goes deeper and deeper.
    let mut top = index(&[("amd64", &image)]);
    for level in 0..6 {
        from.put(&top, Some(&format!("level{level}"))).unwrap();
        let entry = part(OCI_IMAGE_INDEX_MEDIA_TYPE, &top.bytes);
        let next =
            json!({ "schemaVersion": 2, "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": [entry] });
        top = Document::parse("deeper", next.to_string().into_bytes(), None).unwrap();
    }
    let to = open(&target.address(), "r");
    let (options, progress) = (Options::default(), Progress::default());
    copy(&from, &tag("level2"), &to, Some("1"), &options, &progress).unwrap();
    let e = copy(&from, &tag("level5"), &to, Some("2"), &options, &progress).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("nested deeper than 3"), "{e}");
    assert_eq!(to.document(&tag("2")).unwrap_err().kind(), ErrorKind::NotFound, "nothing is tagged");
    // A wrong digest that refers to itself is detected at once.
    let loops = json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE,
        "manifests": [part(OCI_IMAGE_INDEX_MEDIA_TYPE, b"itself")],
    });
    let liar = Proxy::start(
        "127.0.0.1:1",
        vec![Fault::always(answer(OCI_IMAGE_INDEX_MEDIA_TYPE, loops.to_string()))],
    );
    let from = example(&mirrored(&[liar.address()], ""));
    let e = copy(&from, &tag("1"), &to, Some("3"), &options, &progress).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("has the digest"), "{e}");
}
