//! Hundreds of images from `qemu-img` and `qemu-io`: both of our ways through them give QEMU's bytes.

mod common;

use common::{Bench, by_image, cases, each_seed, make_image, same};
use disk_format::Limits;

#[test]
fn generated_images_read_as_in_qemu() {
    each_seed(0..cases(200), |bench: &Bench, seed| {
        let story = make_image(bench, seed, "a.qcow2");
        let theirs = bench.qemu_raw("a.qcow2").unwrap_or_else(|e| panic!("seed {seed}: {e}\n{story}"));
        let file = bench.read("a.qcow2");
        let ours = by_image(&file, Limits::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{story}"));
        same(&ours, &theirs).unwrap_or_else(|e| panic!("seed {seed}, by its tables: {e}\n{story}"));
    });
}
