//! Pods that are killed at any moment, fifty times in all: nothing that has a mark is fetched again, and no byte is wrong.

use super::ends::mark;
use super::{Pod, disk, job, names};
use std::time::Duration;
use tests::disk::{Noise, qemu_convert};
use tests::http::{Behaviour, Server};

const SIZE: usize = 128 << 20;
const KILLS: u32 = 50;
/// A mark is a place in the image, whose tables lie before the data; a report counts the data.
const TABLES: u64 = 1 << 20;

/// On a quick machine an import ends before so many kills, and another one begins.
#[test]
fn fifty_kills_at_random_moments_never_take_an_import_back() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    std::fs::write(&raw, Noise::new(11).bytes(SIZE)).unwrap();
    let image = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("disk.qcow2"))).unwrap();
    let (raw, length, seed) = (std::fs::read(raw).unwrap(), image.len() as u64, 50);
    let (mut random, mut kills, mut imports) = (Noise::new(seed), 0, 0);
    while kills < KILLS {
        // A request of 2 MiB takes half a second: what a pod has of one that is not whole is lost with the pod.
        let slow = Behaviour { rate: Some(4 << 20), ..Behaviour::default() };
        let server = Server::start(image.clone(), slow);
        let volume = tempfile::tempdir().unwrap();
        let job = job(volume.path(), &server.url("/disk.qcow2"));
        let (mut reached, mut own) = (0, 0);
        let report = loop {
            let mut pod = Pod::start(&job);
            if kills < KILLS {
                // The start of the program is left out: it may be slow on a busy host.
                pod.at();
                std::thread::sleep(Duration::from_millis(300 + random.below(1200)));
                if !pod.has_ended() {
                    drop(pod);
                    (kills, own) = (kills + 1, own + 1);
                    let now = mark(volume.path()).unwrap_or(0);
                    assert!(now >= reached, "seed {seed}, kill {kills}: from {reached} back to {now}");
                    reached = now;
                    continue;
                }
            } else {
                server.hurry();
            }
            break pod.wait().done();
        };
        imports += 1;
        assert!(report.resumed + TABLES >= reached, "seed {seed}: {report:?} behind a mark at {reached}");
        assert!(own < 5 || reached > 0, "{own} kills, and no mark");
        assert!(std::fs::read(disk(volume.path())).unwrap() == raw, "seed {seed}: other bytes");
        assert_eq!(names(volume.path()), ["disk.img"]);
        eprintln!("{own} kills, {} bytes sent of {length}", server.sent());
    }
    assert!(imports > 0);
}
