//! kill -9 at any moment: a name refers to a complete image or to none, and the same command completes.

use super::*;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tests::disk::{Noise, qemu_convert, raw_disk};
use tests::faults::{Fault, Proxy, What};
use tests::http::{Behaviour, Server, Spoil};
use tests::registry::Registry;

const STORE: &str = ".local/share/coracle/store";

/// A folder with a disk that does not compress, so that its layer is as large.
fn noise(seed: u64, size: u64) -> Place {
    let place = Place::empty(PROGRAM);
    fs::write(place.path("disk.raw"), Noise::new(seed).bytes(size as usize)).unwrap();
    place
}

fn start(place: &Place, args: &[&str]) -> Child {
    place.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a condition holds, or the program has ended; then kills it. True if it was killed.
#[track_caller]
fn killed_once(child: Child, what: &str, is_so: impl Fn() -> bool) -> bool {
    let mut child = child;
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() && child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "{what} has not come about");
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(matches!(ran.code, -1 | 0), "{what}: {} {}", ran.code, ran.err);
    ran.code == -1
}

/// Size of the largest file that is being written into the store, or 0.
fn on_its_way(place: &Place) -> u64 {
    let entries = fs::read_dir(place.path(STORE).join("ingest")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).max().unwrap_or(0)
}

fn names(place: &Place) -> String {
    String::from_utf8(place.run(&["images", "-q"]).ok().out).unwrap()
}

/// Asserts that the store has no partial file, and no unnamed blob.
#[track_caller]
fn is_clean(place: &Place) {
    place.run(&["prune"]).ok();
    assert_eq!(files(&place.path(STORE).join("ingest")), 0, "prune has left something");
}

#[test]
fn a_pull_goes_on_at_the_byte() {
    const LARGE: u64 = 24 << 20;
    let (place, registry) = (noise(1, LARGE), Registry::start());
    let origin = format!("docker://{}/r:1", registry.address());
    let args = ["build", "--json", "-t", &origin, "--layer", "none", "--format", "raw", "disk.raw"];
    let layer = place.run(&args).ok().json()["layers"][0]["size"].as_u64().unwrap();
    let proxy = Proxy::start(&registry.address(), vec![Fault::blobs(What::Throttle(8 << 20))]);
    let image = format!("docker://{}/r:1", proxy.address());
    let mut kills = 0;
    for round in 0..3u64 {
        // Each kill comes a little later, and never before new bytes have come.
        while kills < 4 * (round + 1) {
            let (before, asked) = (on_its_way(&place), proxy.requests().len());
            let there = before + (512 << 10);
            let child = start(&place, &["pull", "-q", &image, "os:1"]);
            assert!(killed_once(child, "more of the layer", || on_its_way(&place) >= there));
            kills += 1;
            assert_eq!(names(&place), "", "nothing has a name yet");
            assert_eq!(first_asked(&proxy, asked, layer), before, "kill {kills}");
            assert!(on_its_way(&place) >= there, "what has come stays");
        }
        let (before, asked) = (on_its_way(&place), proxy.requests().len());
        let ran = place.run(&["pull", "-q", "--json", &image, "os:1"]).ok();
        assert_eq!(first_asked(&proxy, asked, layer), before);
        assert_eq!(ran.json()["resumed_at"], before, "the run says that it went on");
        let received = ran.json()["registries"]["received"].as_u64().unwrap();
        assert!(
            (layer - before..layer - before + 4096).contains(&received),
            "{received} of {layer}, {before} were here"
        );
        assert_eq!(names(&place), "os:1\n");
        place.run(&["verify", "os:1"]).ok();
        place.run(&["convert", "os:1", "out.img"]).ok();
        place.is_the_disk("out.img");
        place.run(&["rmi", "os:1"]).ok();
        is_clean(&place);
    }
}

/// First requested byte of the layer since then.
fn first_asked(proxy: &Proxy, since: usize, layer: u64) -> u64 {
    let requests = proxy.requests().split_off(since);
    let blobs = requests.iter().filter(|r| r.method == "GET" && r.path.contains("/blobs/"));
    let ranges = blobs.filter_map(|request| request.range(layer));
    ranges.map(|range| range.start).min().unwrap()
}

#[test]
fn what_a_cut_of_the_power_has_spoilt_is_fetched_anew() {
    let (place, registry) = (noise(2, SIZE), Registry::start());
    let proxy = Proxy::start(&registry.address(), vec![]);
    let image = format!("docker://{}/r:1", proxy.address());
    built(&place, &["-t", &image, "--layer", "none", "--format", "raw", "disk.raw"]);
    for half in ["conv=notrunc seek=1", "seek=5"] {
        proxy.set(vec![Fault::blobs(What::Throttle(8 << 20))]);
        let child = start(&place, &["pull", "-q", &image, "os:1"]);
        assert!(killed_once(child, "half a layer", || on_its_way(&place) >= 3 << 20));
        proxy.set(vec![]);
        place.shell(&format!(
            "printf Spoilt | dd of=$(ls {STORE}/ingest/part-* | head -1) bs=1M {half} status=none"
        ));
        place.run(&["pull", "-q", &image, "os:1"]).ok();
        place.run(&["convert", "os:1", "out.img"]).ok();
        place.is_the_disk("out.img");
        place.run(&["rmi", "os:1"]).ok();
        is_clean(&place);
    }
}

#[test]
fn a_push_is_whole_or_has_no_name() {
    let (place, registry) = (noise(3, SIZE), Registry::start());
    let proxy = Proxy::start(&registry.address(), vec![]);
    place.run(&["build", "-t", "os:1", "disk.raw"]).ok();
    let digest = told(place.run(&["inspect", "--json", "os:1"]), "/image/digest");
    let mut killed = 0;
    // Kills after so many requests; the last of them transfer the documents.
    for requests in 1..=14 {
        let image = format!("docker://{}/r{requests}:1", proxy.address());
        let before = proxy.requests().len();
        let child = start(&place, &["push", "-q", "os:1", &image]);
        killed +=
            usize::from(killed_once(child, "a request", || proxy.requests().len() >= before + requests));
        let seen = place.run(&["verify", "-q", &image]);
        assert!(matches!(seen.code, 0 | 4), "after {requests} requests: {}", seen.err);
        place.run(&["push", "-q", "os:1", &image]).ok();
        assert_eq!(told(place.run(&["inspect", "--json", &image]), "/image/digest"), digest);
        place.run(&["verify", &image]).ok();
    }
    assert!(killed >= 5, "only {killed} were killed");
    // In the middle of the layer: the server stalls until the program is killed.
    proxy.set(vec![
        Fault::always(What::CutRequest(1 << 20)).method("PATCH"),
        Fault::always(What::Mute).method("GET").path("/uploads/"),
    ]);
    let image = format!("docker://{}/middle:1", proxy.address());
    let child = start(&place, &["push", "-q", "os:1", &image]);
    assert!(killed_once(child, "a cut", || proxy.count("GET", "/middle/blobs/uploads/") > 0));
    proxy.set(vec![]);
    place.run(&["convert", &image, "out.img"]).refused(4, "middle");
    place.run(&["push", "-q", "os:1", &image]).ok();
    place.run(&["convert", &image, "out.img"]).ok();
    place.is_the_disk("out.img");
}

#[test]
fn a_build_leaves_nothing_that_has_a_name_and_prune_removes_the_rest() {
    let place = noise(4, SIZE);
    let never_killed = built(&place, &["-t", "oci:other", "--format", "raw", "disk.raw"]);
    for megabytes in 1..=7u64 {
        // The source stalls in the middle, so the build is running when it is killed.
        let stall = Spoil::always(megabytes << 20);
        let server = Server::start(
            place.bytes("disk.raw"),
            Behaviour { stall_after: stall, ranges: false, ..Behaviour::default() },
        );
        let url = server.url("/disk.raw");
        let child = start(&place, &["build", "-q", "-t", "os:1", "--format", "raw", "--layer", "none", &url]);
        assert!(killed_once(child, "a part of a layer", || on_its_way(&place) > 0));
        assert_eq!(names(&place), "");
        assert_eq!(files(&place.path(STORE).join("blobs")), 0, "nothing has a digest for a name");
        if megabytes % 2 == 0 {
            is_clean(&place);
        }
        assert_eq!(built(&place, &["-t", "os:1", "--format", "raw", "disk.raw"]), never_killed);
        place.run(&["verify", "os:1"]).ok();
        place.run(&["rmi", "os:1"]).ok();
        is_clean(&place);
    }
}

#[test]
fn builds_and_a_prune_at_once_do_not_harm_each_other() {
    let place = noise(5, SIZE);
    raw_disk(&place.path("other.raw"), SIZE, 6);
    qemu_convert("-f raw -O qcow2", &place.path("other.raw"), &place.path("other.qcow2"));
    for round in 0..4 {
        let tags = [format!("a:{round}"), format!("b:{round}")];
        let mut builds = vec![
            start(&place, &["build", "-q", "-t", &tags[0], "--format", "raw", "disk.raw"]),
            start(&place, &["build", "-q", "-t", &tags[1], "other.qcow2"]),
        ];
        while builds.iter_mut().any(|build| build.try_wait().unwrap().is_none()) {
            let ran = place.run(&["prune"]);
            assert!(ran.code == 0 || ran.code == 1 && ran.err.contains("is in use"), "{}", ran.err);
        }
        builds.into_iter().for_each(|build| drop(Ran::of(build.wait_with_output().unwrap()).ok()));
        place.run(&["prune"]).ok();
        place.run(&["convert", &tags[0], "out.img"]).ok();
        place.is_the_disk("out.img");
        place.run(&["convert", &tags[1], "other.img"]).ok();
        assert_eq!(place.bytes("other.img"), place.bytes("other.raw"));
        place.run(&["rmi", &tags[0], &tags[1]]).ok();
    }
}
