//! Registries that fail during a run: another one carries on, the disk is complete, and the switch is
//! reported and counted.

use super::*;
use tests::disk::Noise;
use tests::faults::{Fault, Proxy, What};
use tests::registry::Registry;

/// Name of the image, which the settings map to the registries.
const IMAGE: &str = "docker://os.example/r:1";
/// Offset in the third piece of the layer.
const MIDDLE: u64 = 5_000_000;

/// The same image in two registries, the first behind a faulty proxy.
struct Two {
    place: Place,
    first: Registry,
    second: Registry,
    proxy: Proxy,
}

impl Two {
    fn new(seed: u64, layer: &str) -> Two {
        let place = Place::empty(PROGRAM);
        // The disk does not compress: its blob is larger than one that is fetched whole.
        std::fs::write(place.path("disk.raw"), Noise::new(seed).bytes(SIZE as usize)).unwrap();
        let (first, second) = (Registry::start(), Registry::start());
        let names = [&first, &second].map(|registry| format!("docker://{}/r:1", registry.address()));
        let args = ["--layer", layer, "--format", "raw", "-t", &names[0], "-t", &names[1], "disk.raw"];
        built(&place, &args);
        let proxy = Proxy::start(&first.address(), vec![]);
        Two { place, first, second, proxy }
    }

    /// Settings that map the image to these registries alone.
    fn settings(&self, addresses: &[String], terms: &str) {
        let mut toml = format!("[host.\"os.example\"]\nfallback = false\n{terms}\n");
        for address in addresses {
            toml += &format!("[[host.\"os.example\".mirror]]\nhost = \"{address}\"\nplain-http = true\n");
        }
        std::fs::write(self.place.path("registries.toml"), toml).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.place.run(&[args, &["-q", "--registries", "registries.toml"]].concat())
    }

    /// Makes an empty store.
    fn empty_store(&self) {
        let names = String::from_utf8(self.place.run(&["images", "-q"]).ok().out).unwrap();
        for name in names.lines() {
            self.place.run(&["rmi", name]).ok();
        }
        self.place.run(&["prune"]).ok();
    }
}

/// Asserts that a switch of registries was reported and counted, the same number of times.
#[track_caller]
fn switched(case: &str, ran: &Ran) {
    let json = ran.json();
    let switches = json["registries"]["switches"].as_u64().unwrap();
    assert!(switches > 0, "{case}: {json}");
    let said = ran.err.matches("the transfer continues from another registry").count() as u64;
    assert_eq!(said, switches, "{case}: a line for each: {}", ran.err);
    assert_eq!(
        ran.err.matches("coracle: warning: ").count() as u64,
        switches,
        "{case}: and no other: {}",
        ran.err
    );
}

fn told_by_server(status: u16, head: &str) -> What {
    What::Answer(status, head.into(), vec![])
}

#[test]
fn another_registry_carries_on_and_the_disk_is_whole() {
    let two = Two::new(1, "none");
    let gone = Registry::start().address();
    let proxy = || two.proxy.address();
    for (case, first, fault, terms) in [
        ("refused", gone.clone(), What::Close, ""),
        ("closed", proxy(), What::Close, ""),
        ("cut", proxy(), What::Cut(MIDDLE), ""),
        ("silence in the middle", proxy(), What::Stall(MIDDLE), "idle = \"3s\""),
        ("503", proxy(), told_by_server(503, ""), ""),
        ("429", proxy(), told_by_server(429, "Retry-After: 100\r\n"), ""),
        ("404", proxy(), told_by_server(404, ""), ""),
        ("401", proxy(), told_by_server(401, ""), ""),
        ("a wrong byte", proxy(), What::Corrupt(MIDDLE), ""),
        ("slow", proxy(), What::Throttle(100_000), "patience = \"3s\"\nmin-rate = \"1MiB\""),
    ] {
        two.proxy.set(vec![Fault::blobs(fault)]);
        two.settings(&[first, two.second.address()], terms);
        let ran = two.run(&["pull", "--json", IMAGE, "os:1"]).ok();
        switched(case, &ran);
        two.place.run(&["convert", "os:1", "pulled.img"]).ok();
        two.place.is_the_disk("pulled.img");
        two.empty_store();
        let ran = two.run(&["convert", "--json", IMAGE, "out.img"]).ok();
        switched(case, &ran);
        two.place.is_the_disk("out.img");
        two.place.shell("rm out.img pulled.img");
    }
}

#[test]
fn wrong_bytes_are_read_again_from_elsewhere_by_every_verb() {
    for (seed, layer) in [(2, "none"), (3, "gzip"), (4, "zstd")] {
        let two = Two::new(seed, layer);
        two.settings(&[two.proxy.address(), two.second.address()], "");
        // Faults at the disk's head, in its middle, and near the end of its layer.
        for at in [3000, MIDDLE, SIZE - 20_000] {
            let case = format!("{layer}, byte {at}");
            two.proxy.set(vec![Fault::blobs(What::Corrupt(at)).path("/blobs/")]);
            let ran = two.run(&["convert", "--json", IMAGE, "out.img"]).ok();
            switched(&case, &ran);
            two.place.is_the_disk("out.img");
            two.run(&["build", "-t", "built", "--format", "raw", IMAGE]).ok();
            two.place.run(&["convert", "built", "built.img"]).ok();
            two.place.is_the_disk("built.img");
            two.run(&["verify", IMAGE]).ok();
            two.place.shell("rm out.img built.img");
        }
        // Bytes on standard output cannot be taken back.
        let ran = two.run(&["convert", IMAGE, "-"]);
        assert_eq!(ran.code, 3, "{}", ran.err);
        // The run ends if no registry has the right bytes.
        let other = Proxy::start(&two.second.address(), vec![Fault::blobs(What::Corrupt(MIDDLE))]);
        two.settings(&[two.proxy.address(), other.address()], "");
        two.empty_store();
        for args in [
            &["convert", IMAGE, "out.img"][..],
            &["pull", IMAGE, "os:1"],
            &["build", "-t", "os:1", IMAGE],
            &["verify", IMAGE],
        ] {
            let ran = two.run(args);
            assert_eq!(ran.code, 3, "{layer}, {args:?}: {}", ran.err);
        }
        assert!(!two.place.path("out.img").exists());
        two.place.nothing_beside("out.img");
        assert!(two.place.run(&["images", "-q"]).ok().out.is_empty());
        assert_eq!(files(&two.place.path(".local/share/coracle/store/ingest")), 0, "{layer}");
    }
}

#[test]
fn if_all_fail_each_is_named_with_its_own_reason() {
    let mut two = Two::new(5, "none");
    two.second.stop();
    let also = Proxy::start(&two.first.address(), vec![]);
    let refused = (two.second.address(), "Connection refused");
    let [p, q] = [&two.proxy, &also].map(Proxy::address);
    let says = |status: u16| Fault::always(told_by_server(status, ""));
    for (code, faults, reasons) in [
        (5, [says(403), says(404)], [(&p, "403 Forbidden"), (&q, "404 Not Found")]),
        // The registry that does not answer may have it.
        (1, [says(404), says(503)], [(&p, "404 Not Found"), (&q, "503 Service Unavailable")]),
        // The manifest is served, and then no registry serves the layer.
        (
            1,
            [Fault::blobs(told_by_server(503, "")), Fault::blobs(told_by_server(502, ""))],
            [(&p, "503 Service Unavailable"), (&q, "502 Bad Gateway")],
        ),
    ] {
        let [one, other] = faults;
        two.proxy.set(vec![one]);
        also.set(vec![other]);
        two.settings(&[p.clone(), q.clone(), refused.0.clone()], "");
        for args in [&["pull", IMAGE, "os:1"][..], &["convert", IMAGE, "out.img"]] {
            let ran = two.run(args);
            assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
            let last = ran.err.split("coracle: ").last().unwrap();
            for (address, reason) in reasons.iter().copied().chain([(&refused.0, refused.1)]) {
                assert!(last.contains(address.as_str()) && last.contains(reason), "{reason}: {last}");
            }
            assert!(!two.place.path("out.img").exists());
            assert!(two.place.run(&["images", "-q"]).ok().out.is_empty());
        }
    }
}
