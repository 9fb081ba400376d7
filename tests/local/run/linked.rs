//! `coracle` runs on a host without libvirt.

use super::PROGRAM;
use tests::disk::shell;

#[test]
fn the_program_links_no_libvirt() {
    let text = shell(std::path::Path::new("/"), &format!("readelf -d {PROGRAM}"));
    let text = String::from_utf8(text).unwrap();
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty(), "{text}");
    for known in &needed {
        let libc = ["libc.so", "libgcc_s.so", "libm.so", "ld-linux"].iter().any(|name| known.contains(name));
        assert!(libc, "{known} is needed by coracle, which is to run in a bare image");
    }
}
