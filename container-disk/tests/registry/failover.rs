//! When a registry fails, another one carries on: in the middle of the blob, at the byte.

use crate::work::{Image, LARGE, example, fetch, mirrored, open, same, tag};
use container_disk::Kind;
use container_disk::place::{Place, Which};
use std::io::Read;
use tests::faults::{Fault, Proxy, What};
use tests::http::Authority;
use tests::registry::{Registry, Serve};

/// Somewhere in the third piece.
const MIDDLE: u64 = 5_000_000;

/// Short enough for a test, long enough for a machine that is busy.
const QUICK: &str = "idle = \"2s\"\npatience = \"1s\"\nmin-rate = \"1MiB\"";

/// Two registries with the same image, the first behind trouble.
struct Two {
    image: Image,
    first: Registry,
    second: Registry,
    proxy: Proxy,
    log: Proxy,
}

impl Two {
    fn new(seed: u8) -> Two {
        let (first, second) = (Registry::start(), Registry::start());
        let image = Image::new(LARGE, seed);
        image.push(&open(&first.address(), "r"), "1").unwrap();
        image.push(&open(&second.address(), "r"), "1").unwrap();
        let proxy = Proxy::start(&first.address(), vec![]);
        let log = Proxy::start(&second.address(), vec![]);
        Two { image, first, second, proxy, log }
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.proxy.address(), self.log.address()]
    }

    /// How much was asked of the second.
    fn asked_of_second(&self) -> u64 {
        let requests = self.log.requests().into_iter().filter(|request| request.path.contains("/blobs/"));
        requests
            .map(|request| request.range(LARGE as u64).map_or(LARGE as u64, |range| range.end - range.start))
            .sum()
    }
}

#[test]
fn each_kind_of_trouble_leads_to_the_other_registry_at_the_same_byte() {
    let two = Two::new(1);
    let told = |status: u16, more: &str| What::Answer(status, more.into(), vec![]);
    for (name, what) in [
        ("a connection that is cut", What::Cut(MIDDLE)),
        ("silence", What::Stall(MIDDLE)),
        ("a low rate", What::Throttle(200_000)),
        ("500", told(500, "")),
        ("503 with Retry-After", told(503, "Retry-After: 100\r\n")),
        ("429 with a long Retry-After", told(429, "Retry-After: 100\r\n")),
        ("429 again after a short one", told(429, "Retry-After: 0\r\n")),
        ("401", told(401, "")),
        ("403", told(403, "")),
        ("404", told(404, "")),
        ("no answer", What::Mute),
        ("a closed connection", What::Close),
        ("a range of another file", told(206, "Content-Range: bytes 4194304-4194304/77\r\n")),
        ("another range", told(206, "Content-Range: bytes 0-0/9437184\r\n")),
        ("a redirect to nowhere", told(307, "Location: ftp://x/\r\n")),
    ] {
        // The first two pieces come well.
        let fault = Fault::blobs(what);
        two.proxy.set(vec![
            if name.starts_with("a low") || name.starts_with("a conn") || name == "silence" {
                fault
            } else {
                fault.skip(2)
            },
        ]);
        two.log.set(vec![]);
        let before = two.asked_of_second();
        let all = mirrored(&two.addresses(), QUICK);
        let bytes =
            fetch(&example(&all), &two.image.layer_part()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        same(&bytes, &two.image.layer);
        let counted = all.counters().now();
        assert!(counted.switches > 0, "{name}: {counted:?}");
        let asked = two.asked_of_second() - before;
        assert!(0 < asked && asked < LARGE as u64, "{name}: {asked} were asked of the second, not all of it");
    }
}

#[test]
fn it_goes_on_at_the_byte_also_where_ranges_are_not_known_to_the_first() {
    let two = Two::new(2);
    // All in one answer, which breaks twice; the second registry is asked for the rest alone.
    two.proxy.set(vec![Fault::blobs(What::NoRanges).times(1), Fault::blobs(What::Cut(MIDDLE))]);
    let all = mirrored(&two.addresses(), QUICK);
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
    assert!(all.counters().now().switches > 0);
}

#[test]
fn a_registry_that_goes_away_in_the_middle_is_left_and_comes_back_later() {
    let mut two = Two::new(3);
    let all = mirrored(&[two.first.address(), two.second.address()], QUICK);
    let from = example(&all);
    let mut stream = from.blob(&two.image.layer_part()).unwrap().stream(0).unwrap();
    let mut bytes = vec![0; 3_000_000];
    stream.read_exact(&mut bytes).unwrap();
    two.first.stop();
    stream.read_to_end(&mut bytes).unwrap();
    same(&bytes, &two.image.layer);
    assert!(all.counters().now().switches > 0);
    // Everybody knows that it is down: the next blob does not even ask.
    let switches = all.counters().now().switches;
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
    assert_eq!(all.counters().now().switches, switches);
    two.second.stop();
    two.first.start_again();
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
}

#[test]
fn a_registry_that_nobody_trusts_is_passed_over() {
    let authority = Authority::new();
    let unknown = Registry::serve(&Serve { tls: Some(&authority), ..Serve::default() });
    let second = Registry::start();
    let image = Image::new(LARGE, 4);
    image.push(&open(&second.address(), "r"), "1").unwrap();
    let all = mirrored(&[unknown.address(), second.address()], "");
    assert_eq!(example(&all).document(&tag("1")).unwrap().digest, image.manifest.digest);
    same(&fetch(&example(&all), &image.layer_part()).unwrap(), &image.layer);
}

#[test]
fn a_tag_is_resolved_once_and_later_mirrors_are_asked_by_the_digest() {
    let two = Two::new(5);
    let newer = Image::new(1000, 6);
    newer.push(&open(&two.second.address(), "r"), "1").unwrap();
    let all = mirrored(&two.addresses(), QUICK);
    let from = example(&all);
    let first = from.document(&tag("1")).unwrap().digest;
    assert_eq!(first, two.image.manifest.digest);
    two.proxy.set(vec![Fault::always(What::Close)]);
    assert_eq!(from.document(&tag("1")).unwrap().digest, first, "not what the other calls so");
    assert_eq!(two.log.count("GET", "/manifests/1"), 0);
    assert_eq!(two.log.count("GET", &format!("/manifests/{first}")), 1);
}

#[test]
fn a_wrong_byte_is_refused_at_the_end_and_another_reading_asks_elsewhere() {
    let two = Two::new(7);
    two.proxy.set(vec![Fault::blobs(What::Corrupt(MIDDLE))]);
    let all = mirrored(&two.addresses(), "");
    let from = example(&all);
    let blob = from.blob(&two.image.layer_part()).unwrap();
    let mut bytes = vec![];
    let e = blob.stream(0).unwrap().read_to_end(&mut bytes).unwrap_err();
    let e = container_disk::Error::io("reading", e);
    assert_eq!(e.kind(), Kind::Refused, "never a clean end");
    let says = format!("it came from {} (from byte 0)", two.proxy.address());
    assert!(e.to_string().contains(&says), "{e}");
    assert!(blob.is_elsewhere());
    same(&fetch(&from, &two.image.layer_part()).unwrap(), &two.image.layer);
    // If there is nobody else, that is the end of it.
    let alone = example(&mirrored(&[two.proxy.address()], ""));
    let blob = alone.blob(&two.image.layer_part()).unwrap();
    for _ in 0..2 {
        let e = blob.stream(0).unwrap().read_to_end(&mut vec![]).unwrap_err();
        assert_eq!(container_disk::Error::io("reading", e).kind(), Kind::Refused);
        assert!(!blob.is_elsewhere());
    }
}

#[test]
fn wrong_documents_and_small_blobs_are_not_even_seen() {
    let two = Two::new(8);
    two.proxy.set(vec![
        Fault::blobs(What::Corrupt(3)),
        Fault::always(What::Corrupt(30)).path("/manifests/sha256"),
    ]);
    let all = mirrored(&two.addresses(), "");
    let from = example(&all);
    same(&fetch(&from, &two.image.config_part()).unwrap(), &two.image.config);
    let digest = two.image.manifest.digest;
    assert_eq!(from.document(&Which::Digest(digest)).unwrap().digest, digest);
    assert!(all.counters().now().switches >= 1);
}

#[test]
fn a_slow_registry_is_not_left_where_nobody_else_is() {
    let server = Registry::start();
    let image = Image::new(5 << 20, 9);
    image.push(&open(&server.address(), "r"), "1").unwrap();
    let proxy = Proxy::start(&server.address(), vec![Fault::blobs(What::Throttle(2_000_000))]);
    let all = mirrored(&[proxy.address()], "patience = \"100ms\"\nmin-rate = \"100MiB\"");
    same(&fetch(&example(&all), &image.layer_part()).unwrap(), &image.layer);
}

#[test]
fn if_all_fail_each_is_listed_with_its_own_reason() {
    let mut two = Two::new(10);
    two.proxy.set(vec![Fault::always(What::Answer(403, String::new(), vec![]))]);
    two.second.stop();
    let addresses = vec![two.proxy.address(), two.second.address(), two.first.address()];
    let e = example(&mirrored(&addresses, "")).document(&tag("none")).unwrap_err();
    assert_eq!(e.kind(), Kind::Auth, "the strongest");
    let text = e.to_string();
    for says in [
        "docker://os.example/r:none: no registry could give it".to_owned(),
        format!("http://{}/v2/r/manifests/none: the server answered 403 Forbidden", two.proxy.address()),
        format!("{} cannot be reached", two.second.address()),
        "Connection refused".to_owned(),
        format!("http://{}/v2/r/manifests/none: the server answered 404 Not Found", two.first.address()),
    ] {
        assert!(text.contains(&says), "{says:?} is not in {text}");
    }
}

#[test]
fn a_short_retry_after_is_waited_for() {
    let two = Two::new(11);
    let busy = Fault::always(What::Answer(429, "Retry-After: 1\r\n".into(), vec![])).times(1);
    two.proxy.set(vec![busy]);
    let all = mirrored(&two.addresses(), "");
    assert_eq!(example(&all).document(&tag("1")).unwrap().digest, two.image.manifest.digest);
    let counted = all.counters().now();
    assert_eq!((counted.retries, counted.switches), (1, 0));
}
