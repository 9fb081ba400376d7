//! Container images as users build, copy and read them: the program, Debian's docker-registry, and common
//! tools.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod build;
mod failing;
mod hostile;
mod killed;
mod moved;
mod named;
mod peers;
mod rule;
mod verified;

use std::path::Path;
use tests::coracle::Ran;
use tests::place::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Size of the disk: not a multiple of a cluster, nor of the pieces that are copied.
const SIZE: u64 = (9 << 20) + 512 * 7;

/// A folder with a raw disk and the same as a qcow2.
fn place(seed: u64) -> Place {
    let place = Place::with_disk(PROGRAM, SIZE, seed);
    place.qcow2("disk.qcow2", "");
    place
}

/// A field of the `--json` output.
fn told(ran: Ran, field: &str) -> String {
    let json = ran.ok().json();
    let value = json.pointer(field).unwrap_or_else(|| panic!("no {field} in {json}"));
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The digest of a built image.
fn built(place: &Place, args: &[&str]) -> String {
    let args = [&["build", "--json"], args].concat();
    told(place.run(&args), "/digest")
}

/// Number of files below a folder.
fn files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.map(|entry| entry.unwrap().path()).map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}
