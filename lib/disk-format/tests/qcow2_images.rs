//! Hundreds of images from `qemu-img` and `qemu-io`. Both readers return the same bytes as QEMU.

mod common;

use common::{Bench, Rng, by_image, by_stream, cases, each_seed, make_image, same};
use disk_format::Limits;

/// Pieces as a network delivers them: many small ones, few large ones, or a single one.
fn pieces(file: &[u8], rng: &mut Rng) -> impl FnMut() -> usize + use<> {
    let most = *rng.pick(&[file.len() as u64 / 500, 10_000, 65_536, 1 << 20, 256 << 20]);
    let mut rng = rng.clone();
    let least = file.len() as u64 / 2000;
    move || (least + rng.below(most)) as usize
}

#[test]
fn generated_images_read_as_in_qemu() {
    each_seed(0..cases(60), |bench: &Bench, seed| {
        let story = make_image(bench, seed, "a.qcow2");
        let file = bench.read("a.qcow2");
        let Ok(theirs) = bench.qemu_raw("a.qcow2") else {
            // With few refcount bits and many compressed clusters QEMU breaks its own image. No program can
            // read it then.
            assert!(
                by_image(&file, Limits::default()).is_err(),
                "seed {seed}: QEMU refuses what we read\n{story}"
            );
            return;
        };
        let ours = match by_image(&file, Limits::default()) {
            // QEMU 7.2 sometimes breaks its own images with clusters of 512 bytes, and marks them corrupt.
            Err(e) if e.to_string().contains("marked this image corrupt") => return,
            other => other.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{story}")),
        };
        same(&ours, &theirs).unwrap_or_else(|e| panic!("seed {seed}, by its tables: {e}\n{story}"));
        let mut rng = Rng(seed);
        // With little memory, tables do not fit, and windows are short.
        let little = Limits { table_memory: 32 << 10, ..Limits::default() };
        for limits in [Limits::default(), little] {
            let tight = limits.table_memory;
            let ours = by_stream(&file, limits, pieces(&file, &mut rng))
                .unwrap_or_else(|e| panic!("seed {seed}, stream, memory {tight}: {e}\n{story}"));
            same(&ours, &theirs)
                .unwrap_or_else(|e| panic!("seed {seed}, stream, memory {tight}: {e}\n{story}"));
        }
        let ours =
            by_image(&file, little).unwrap_or_else(|e| panic!("seed {seed}, little memory: {e}\n{story}"));
        same(&ours, &theirs).unwrap_or_else(|e| panic!("seed {seed}, little memory: {e}\n{story}"));
    });
}
