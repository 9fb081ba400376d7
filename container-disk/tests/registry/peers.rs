//! Another common tool reads the images that we push, and we read those that it pushes.

use crate::work::{Image, LARGE, fetch, index, open, same, tag};
use container_disk::place::{Place, Sink};
use std::process::Command;
use tests::registry::Registry;

fn skopeo(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("skopeo").arg("--insecure-policy").args(arguments).output();
    let output = output.expect("skopeo is installed (make setup)");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn skopeo_reads_and_copies_what_we_push_and_we_read_its_copy() {
    let (server, copy) = (Registry::start(), Registry::start());
    let (amd, arm) = (Image::new(LARGE, 1), Image::new(1000, 2));
    let to = open(&server.address(), "group/os");
    amd.push(&to, "amd").unwrap();
    arm.push(&to, "arm").unwrap();
    let both = index(&[("amd64", &amd), ("arm64", &arm)]);
    to.put(&both, Some("1")).unwrap();
    let (from, into) =
        (format!("docker://{}/group/os:1", server.address()), format!("docker://{}/x:2", copy.address()));
    assert_eq!(skopeo(&["inspect", "--raw", "--tls-verify=false", &from]), both.bytes);
    let plain = ["--src-tls-verify=false", "--dest-tls-verify=false"];
    // It would compress the layers otherwise.
    let digests = ["copy", "--all", "--preserve-digests"];
    skopeo(&[&digests[..], &plain, &[&from, &into]].concat());
    let ours = open(&copy.address(), "x");
    assert_eq!(ours.document(&tag("2")).unwrap().digest, both.digest);
    for image in [&amd, &arm] {
        same(&fetch(&ours, &image.layer_part()).unwrap(), &image.layer);
    }
}
