//! Archives made by GNU tar in all its formats.

use crate::kit::{AMPLE, Folder, decode, decodes_to, refused, same, sample};
use cdi::filter::Layer;

/// A disk with small and large holes, one at its end.
fn holey() -> Vec<u8> {
    let mut disk = sample(600_000);
    for page in (0..140).step_by(3) {
        disk[page * 4096..(page + 1) * 4096].fill(0);
    }
    disk.resize(3_000_000, 0);
    disk
}

#[test]
fn every_format_plain_and_sparse() {
    let folder = Folder::new();
    let disk = holey();
    folder.sparse("disk.img", &disk);
    for format in ["v7", "oldgnu", "gnu", "ustar", "posix"] {
        decodes_to(&folder.tar(&[&format!("--format={format}"), "disk.img"]), &disk);
    }
    for args in [
        &["--format=oldgnu"][..],
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ] {
        let packed = folder.tar(&[args, &["-S", "disk.img"]].concat());
        assert!(packed.len() < 700_000, "tar found no holes");
        decodes_to(&packed, &disk);
    }
}

#[test]
fn all_hole_and_all_data() {
    let folder = Folder::new();
    for disk in [vec![0; 1 << 20], sample(100_001), sample(512)] {
        folder.sparse("disk.img", &disk);
        for args in [&["--format=gnu"][..], &["--format=posix"], &["--format=posix", "--sparse-version=0.1"]]
        {
            decodes_to(&folder.tar(&[args, &["-S", "disk.img"]].concat()), &disk);
        }
    }
}

#[test]
fn long_names_and_folders() {
    let folder = Folder::new();
    let disk = sample(50_000);
    let long = format!("{}/{}/disk.img", "a".repeat(90), "b".repeat(50));
    std::fs::create_dir_all(folder.0.path().join(&long).parent().unwrap()).unwrap();
    folder.sparse(&long, &disk);
    for args in
        [&["--format=ustar"][..], &["--format=gnu", "--label=x"], &["--format=oldgnu"], &["--format=posix"]]
    {
        decodes_to(&folder.tar(&[args, &["."]].concat()), &disk);
    }
}

#[test]
fn a_second_disk_is_noticed_after_the_first() {
    let folder = Folder::new();
    let disk = sample(200_000);
    folder.sparse("a.img", &disk);
    folder.sparse("b.img", &disk);
    std::fs::write(folder.0.path().join("README.md"), sample(5000)).unwrap();
    decodes_to(&folder.tar(&["README.md", "a.img"]), &disk);
    let packed = folder.tar(&["a.img", "README.md", "b.img"]);
    let (out, result) = decode(Layer::Tar, &packed, AMPLE);
    same(&out, &disk);
    assert!(result.unwrap_err().to_string().contains(r#""a.img", "b.img""#));
}

#[test]
fn links_are_no_disks() {
    let folder = Folder::new();
    folder.sparse("a.img", &sample(5000));
    std::fs::hard_link(folder.0.path().join("a.img"), folder.0.path().join("b.img")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.0.path().join("c.img")).unwrap();
    decodes_to(&folder.tar(&["a.img", "b.img", "c.img"]), &sample(5000));
    refused(&folder.tar(&["c.img"]), Layer::Tar, AMPLE, r#""c.img" is a symbolic link"#);
    refused(&folder.tar(&["-P", "/etc/hostname"]), Layer::Tar, AMPLE, "leads outside");
}
