//! Imports that are killed again and again, as by drained nodes and evicted pods, and the bytes that they fetch twice.

use super::{PROGRAM, Place, wait_for};
use tests::disk::Noise;
use tests::http::{Behaviour, Server};

/// Drained nodes and evicted pods: an import that is killed again and again completes, and fetches little twice.
///
/// Bytes fetched twice after a kill: requests in flight (up to 8 of 2 MiB), the first bytes and tables (under
/// 1 MiB), and the bytes since the last mark. The first mark comes after 32 MiB or half a second, whichever
/// is first, the next ones as soon as marks cost no more than 2 % of the time. A run is killed after 24 to 96 MB: if
/// nothing of it were kept, a kill would cost 60 MB on average.
#[test]
fn ten_kills_at_random_moments_fetch_little_twice() {
    const SIZE: usize = 286_000_000;
    const MOST: f64 = 50e6;
    let place = Place(tests::place::Place::empty(PROGRAM));
    std::fs::write(place.path("disk.raw"), Noise::new(33).bytes(SIZE / 512 * 512)).unwrap();
    place.qcow2("disk.qcow2", "");
    place.packed("zst");
    place.packed_file("disk.qcow2", "xz");
    place.shell("gzip -1 -k disk.qcow2");
    for (name, seed) in
        [("disk.qcow2", 1), ("disk.raw", 2), ("disk.raw.zst", 3), ("disk.qcow2.xz", 4), ("disk.qcow2.gz", 5)]
    {
        let bytes = place.bytes(name);
        let size = bytes.len() as f64;
        let server = Server::start(bytes, Behaviour { rate: Some(30_000_000), ..Behaviour::default() });
        let url = server.url(&format!("/{name}"));
        let args = ["convert", "-q", &url, "out.img"];
        let (mut noise, mut kills, mut imports) = (Noise::new(seed), 0, 0);
        while kills < 10 {
            // By bytes and not by time, which a busy machine stretches.
            let until = server.sent() + 24_000_000 + noise.below(72_000_000);
            let mut child = place.start(&args);
            wait_for("its bytes", || server.sent() >= until || child.try_wait().unwrap().is_some());
            child.kill().unwrap();
            kills += usize::from(child.wait().unwrap().code().is_none());
            // On a quick machine an import ends before ten kills, and another one begins. A run that is
            // killed after its rename may leave a journal, which the next one must not use.
            if place.nothing_or_all(name, "out.img") {
                std::fs::remove_file(place.path("out.img")).unwrap();
                imports += 1;
            }
            println!("{name}: kill {kills}: {:.2} times the file was sent", server.sent() as f64 / size);
        }
        place.run(&args).ok();
        place.is_the_disk("out.img");
        std::fs::remove_file(place.path("out.img")).unwrap();
        imports += 1;
        let twice = (server.sent() as f64 - size * f64::from(imports)) / kills as f64;
        println!(
            "{name}: {kills} kills, {imports} imports, {:.0} MB fetched twice for each kill",
            twice / 1e6
        );
        assert!(twice <= MOST, "{name}: {twice} bytes were fetched twice for each kill");
    }
}
