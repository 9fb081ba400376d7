//! The figures of a run that went on: what it did, and what it did not do again.

use super::Place;
use tests::disk::Noise;
use tests::http::{Behaviour, Server};

/// Size of a disk without zeros.
const LEN: usize = (24 << 20) + 512 * 9;

/// The earlier run counted what it had written behind its mark, too, which was then written once more.
#[test]
fn bytes_of_both_runs_are_those_of_the_disk() {
    let place = Place::new(41);
    let bytes = Noise::new(41).bytes(LEN);
    std::fs::write(place.path("noise.raw"), &bytes).unwrap();
    let slow = || Behaviour { rate: Some(12 << 20), ..Behaviour::default() };
    let server = Server::start(bytes.clone(), slow());
    let url = server.url("/noise.raw");
    let sum = String::from_utf8(place.shell("sha256sum noise.raw | cut -d' ' -f1")).unwrap();
    let sum = format!("sha256:{}", sum.trim());
    // By offsets from a file and from a server, and as a stream, whose bytes have a checksum.
    for source in [&["noise.raw"][..], &[&url], &["--checksum", &sum, &url]] {
        let args = [&["convert", "--json", "--threads", "4"], source, &["out.img"]].concat();
        server.set(slow());
        place.killed_behind_a_mark(&args, "out.img");
        server.set(Behaviour::default());
        let report = place.run(&args).ok().json();
        let number = |name: &str| report[name].as_u64().unwrap_or_default();
        assert!(number("resumed_at") > 0, "{report}");
        assert_eq!(number("resumed_at") + number("bytes_written"), LEN as u64, "{report}");
        place.shell("cmp noise.raw out.img && rm out.img");
    }
}
