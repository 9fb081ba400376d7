//! A registry that fails is replaced by another one: in the middle of the blob, at the byte.

use crate::log::logged;
use crate::work::{Image, LARGE, example, fetch, mirrored, open, registries, same, tag};
use container_disk::ErrorKind;
use container_disk::place::{Place, Reference};
use container_disk::reference::Remote;
use std::io::Read;
use std::ops::Range;
use tests::faults::{Fault, Proxy, What};
use tests::http::{Authority, Behaviour, Server};
use tests::registry::{Registry, Serve};

/// An offset inside a long piece.
const MIDDLE: u64 = 5_000_000;

/// Offset of the second piece.
const SECOND: u64 = 128 << 10;

/// Timeout for servers that never answer: short enough for a test, long enough for a busy host.
const SILENCE: &str = "idle = \"3s\"";

/// Two registries with the same image, the first one with faults.
struct Two {
    image: Image,
    first: Registry,
    second: Registry,
    proxy: Proxy,
    log: Proxy,
}

impl Two {
    fn new(seed: u8) -> Two {
        Two::of(LARGE, seed)
    }

    fn of(size: usize, seed: u8) -> Two {
        let (first, second) = (Registry::start(), Registry::start());
        let image = Image::new(size, seed);
        image.push(&open(&first.address(), "r"), "1").unwrap();
        image.push(&open(&second.address(), "r"), "1").unwrap();
        let proxy = Proxy::start(&first.address(), vec![]);
        let log = Proxy::start(&second.address(), vec![]);
        Two { image, first, second, proxy, log }
    }

    fn addresses(&self) -> Vec<String> {
        vec![self.proxy.address(), self.log.address()]
    }

    /// The ranges of blobs that were requested from the second registry.
    fn asked_of_second(&self) -> Vec<Range<u64>> {
        let requests = self.log.requests().into_iter().filter(|request| request.path.contains("/blobs/"));
        requests.map(|request| request.range(LARGE as u64).unwrap_or(0..LARGE as u64)).collect()
    }
}

#[test]
fn each_kind_of_trouble_leads_to_the_other_registry_at_the_same_byte() {
    let two = Two::new(1);
    let authority = Authority::new();
    let unknown = Server::start_tls(b"x", Behaviour::default(), &authority);
    let told = |status: u16, more: &str| What::Answer(status, more.into(), vec![]);
    let sent = |to: &str| told(307, &format!("Location: {to}\r\n"));
    // A fault at a byte hits the request that reaches it. Other faults hit the second piece and all after it.
    let later = |what| (Fault::blobs(what).skip(1), SECOND);
    let low = "patience = \"3s\"\nmin-rate = \"1MiB\"";
    for (name, (fault, at), terms) in [
        ("a connection that is cut", (Fault::blobs(What::Cut(MIDDLE)), MIDDLE), ""),
        ("silence", (Fault::blobs(What::Stall(MIDDLE)), MIDDLE), SILENCE),
        ("a low rate", (Fault::blobs(What::Throttle(100_000)), 0), low),
        ("no answer", later(What::Mute), SILENCE),
        ("a closed connection", later(What::Close), ""),
        ("a refused connection", later(sent("http://127.0.0.1:1/x")), ""),
        ("a certificate that nobody trusts", later(sent(&unknown.url("/x"))), ""),
        ("500", later(told(500, "")), ""),
        ("503 with Retry-After", later(told(503, "Retry-After: 100\r\n")), ""),
        ("429 with a long Retry-After", later(told(429, "Retry-After: 100\r\n")), ""),
        ("429 again after a short one", later(told(429, "Retry-After: 0\r\n")), ""),
        ("401", later(told(401, "")), ""),
        ("403", later(told(403, "")), ""),
        ("404", later(told(404, "")), ""),
        ("a range of another file", later(told(206, "Content-Range: bytes 4194304-4194304/77\r\n")), ""),
        ("another range", later(told(206, "Content-Range: bytes 0-0/9437184\r\n")), ""),
        ("a redirect to nowhere", later(sent("ftp://x/")), ""),
    ] {
        two.proxy.set(vec![fault]);
        let asked_before = two.asked_of_second().len();
        let logged_before = logged(&[&two.proxy.address()]);
        let all = mirrored(&two.addresses(), terms);
        let bytes =
            fetch(&example(&all), &two.image.layer_part()).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        same(&bytes, &two.image.layer);
        let asked = two.asked_of_second().split_off(asked_before);
        let starts = asked.iter().map(|range| range.start);
        match at {
            // The position at which the registry was found too slow.
            0 => assert!(starts.clone().any(|start| start % SECOND != 0), "{name}: {asked:?}"),
            at => assert_eq!(starts.clone().min(), Some(at), "{name}: nothing is asked for twice"),
        }
        let transfer_counts = all.counters().now();
        assert!(transfer_counts.switches > 0, "{name}: {transfer_counts:?}");
        let lines = logged(&[&two.proxy.address()]) - logged_before;
        assert_eq!(lines as u64, transfer_counts.switches, "{name}: a line for each switch");
    }
}

#[test]
fn it_goes_on_at_the_byte_also_where_ranges_are_not_known_to_the_first() {
    let two = Two::new(2);
    // All in one response, which is interrupted twice. Only the rest is requested from the second registry.
    two.proxy.set(vec![Fault::blobs(What::NoRanges).times(1), Fault::blobs(What::Cut(MIDDLE))]);
    let all = mirrored(&two.addresses(), "");
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
    assert!(all.counters().now().switches > 0);
}

#[test]
fn a_registry_that_is_killed_in_the_middle_is_left_and_asked_again_when_the_other_one_is_gone() {
    // Larger than all data in flight when the first registry goes away.
    let mut two = Two::of(24 << 20, 3);
    let all = mirrored(&[two.first.address(), two.second.address()], "");
    let from = example(&all);
    let mut stream = from.blob(&two.image.layer_part()).unwrap().stream(0).unwrap();
    let mut bytes = vec![0; 3_000_000];
    stream.read_exact(&mut bytes).unwrap();
    two.first.stop();
    stream.read_to_end(&mut bytes).unwrap();
    same(&bytes, &two.image.layer);
    assert!(all.counters().now().switches > 0);
    two.second.stop();
    two.first.start_again();
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
}

#[test]
fn one_that_failed_is_skipped_for_a_while_and_then_tried_again() {
    let two = Two::new(12);
    let all = mirrored(&two.addresses(), "");
    let get = || same(&fetch(&example(&all), &two.image.config_part()).unwrap(), &two.image.config);
    let asked = || two.proxy.count("GET", "/blobs/");
    let failing = |after: u32| {
        let head = format!("Retry-After: {after}\r\n");
        vec![Fault::blobs(What::Answer(503, head, vec![])).times(1)]
    };
    // Down for no time at all: it is half-open at once, and the next transfer tries it.
    two.proxy.set(failing(0));
    get();
    get();
    assert_eq!((asked(), all.counters().now().switches), (2, 1));
    // Down for minutes: no request is sent, also not for another blob.
    two.proxy.set(failing(300));
    get();
    get();
    same(&fetch(&example(&all), &two.image.layer_part()).unwrap(), &two.image.layer);
    assert_eq!((asked(), all.counters().now().switches), (3, 2));
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
    let all = mirrored(&two.addresses(), "");
    let from = example(&all);
    let first = from.document(&tag("1")).unwrap().digest;
    assert_eq!(first, two.image.manifest.digest);
    two.proxy.set(vec![Fault::always(What::Close)]);
    assert_eq!(from.document(&tag("1")).unwrap().digest, first, "not what the other calls so");
    assert_eq!(two.log.count("GET", "/manifests/1"), 0);
    assert_eq!(two.log.count("GET", &format!("/manifests/{first}")), 1);
}

#[test]
fn a_mirror_for_digests_is_not_asked_what_a_tag_means() {
    let two = Two::new(13);
    let mirror = |address: &str, more: &str| {
        format!("[[host.\"os.example\".mirror]]\nhost = \"{address}\"\nplain-http = true\n{more}\n")
    };
    let first = mirror(&two.proxy.address(), "for = \"digests\"\nrewrite = { from = \"team/\", to = \"\" }");
    let second = mirror(&two.log.address(), "rewrite = { from = \"team/\" }");
    let all = registries(&format!("[host.\"os.example\"]\nfallback = false\n{first}{second}"));
    let from = all.open(&Remote::parse("os.example/team/r").unwrap()).unwrap();
    let digest = from.document(&tag("1")).unwrap().digest;
    assert_eq!((two.proxy.requests().len(), two.log.count("GET", "/v2/r/manifests/1")), (0, 1));
    from.document(&Reference::Digest(digest)).unwrap();
    same(&fetch(&from, &two.image.config_part()).unwrap(), &two.image.config);
    assert_eq!((two.proxy.count("GET", "/v2/r/"), two.log.requests().len()), (2, 1));
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
    assert_eq!(e.kind(), ErrorKind::Refused, "never a clean end");
    let says = format!("it came from {} (from byte 0)", two.proxy.address());
    assert!(e.to_string().contains(&says), "{e}");
    assert!(blob.is_elsewhere());
    same(&fetch(&from, &two.image.layer_part()).unwrap(), &two.image.layer);
    // Without another registry the transfer fails.
    let alone = example(&mirrored(&[two.proxy.address()], ""));
    let blob = alone.blob(&two.image.layer_part()).unwrap();
    for _ in 0..2 {
        let e = blob.stream(0).unwrap().read_to_end(&mut vec![]).unwrap_err();
        assert_eq!(container_disk::Error::io("reading", e).kind(), ErrorKind::Refused);
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
    assert_eq!(from.document(&Reference::Digest(digest)).unwrap().digest, digest);
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
    let transfer_counts = all.counters().now();
    assert_eq!((transfer_counts.switches, transfer_counts.retries), (0, 0));
}

#[test]
fn if_all_fail_each_is_listed_with_its_own_reason() {
    let mut two = Two::new(10);
    two.proxy.set(vec![Fault::always(What::Answer(403, String::new(), vec![]))]);
    two.second.stop();
    let addresses = vec![two.proxy.address(), two.second.address(), two.first.address()];
    let e = example(&mirrored(&addresses, "")).document(&tag("none")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth, "the strongest");
    let text = e.to_string();
    for says in [
        "docker://os.example/r:none: no registry could provide it".to_owned(),
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
    let transfer_counts = all.counters().now();
    assert_eq!((transfer_counts.retries, transfer_counts.switches), (1, 0));
}
