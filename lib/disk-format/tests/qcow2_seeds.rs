//! The inputs in `cdi/fuzz/seeds`: seeds of the fuzz targets, and every input that once caused a failure.

#[path = "../../../cdi/fuzz/src/qcow2.rs"]
mod qcow2;
#[path = "../../../cdi/fuzz/src/sparse.rs"]
mod sparse;

mod common;

use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cdi/fuzz/seeds").join(target)
}

fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder(target)).expect("the seeds are committed");
    let paths = entries.map(|entry| entry.expect("a seed").path());
    paths.map(|path| (path.clone(), std::fs::read(path).expect("a seed"))).collect()
}

#[test]
fn all_inputs_hold() {
    let (image, stream) = (inputs("qcow2_image"), inputs("qcow2_stream"));
    assert!(image.len() >= 6 && stream.len() >= 6, "the seeds are missing");
    for (path, input) in image {
        println!("{}", path.display());
        qcow2::image(&input);
    }
    for (path, input) in stream {
        println!("{}", path.display());
        qcow2::stream(&input);
    }
}

#[test]
fn a_file_survives_as_a_seed() {
    let mut file = vec![0; 5120];
    file[0] = 1;
    file[100..160].fill(7);
    file[5119] = 9;
    assert_eq!(sparse::expand(&sparse::shrink(&file)), file);
    for input in
        [&[][..], &[0], &[0, 1], &[0, 1, 0, 0, 0, 0, 0xff, 0xff, 3], &[0, 1, 0xff, 0xff, 0xff, 0xff, 0, 1, 3]]
    {
        assert!(sparse::expand(input).len() <= 512);
    }
}

/// Makes the seeds again: `cargo test -p disk-format --test qcow2_seeds -- --ignored`.
#[test]
#[ignore = "writes into the source tree; the seeds are committed"]
fn make_seeds() {
    let bench = common::Bench::new();
    let recipes: [(&str, &str, &[&str]); 7] = [
        ("v2", "compat=0.10,cluster_size=512 a.qcow2 40k", &["write -P 1 1k 2k", "write -c -P 2 8k 512"]),
        (
            "zlib",
            "cluster_size=512 a.qcow2 100k",
            &["write -P 1 1k 512", "write -c -P 2 40k 512", "write -c -P 3 41k 512", "write -z 2k 1k"],
        ),
        (
            "zstd",
            "cluster_size=4k,compression_type=zstd a.qcow2 64k",
            &["write -c -P 4 8k 4k", "write -c -P 5 20k 4k"],
        ),
        (
            "extended",
            "cluster_size=16k,extended_l2=on a.qcow2 100k",
            &["write -P 6 512 1k", "write -z 20k 1k", "write -c -P 7 64k 16k"],
        ),
        ("large", "cluster_size=2M a.qcow2 4M", &["write -c -P 8 0 2M"]),
        ("lazy", "cluster_size=1k,lazy_refcounts=on,refcount_bits=64 a.qcow2 10k", &["write -P 9 3k 512"]),
        ("snapshot", "cluster_size=1k a.qcow2 30k", &["write -P 10 0 512"]),
    ];
    for (name, options, writes) in recipes {
        bench.run(&format!("qemu-img create -q -f qcow2 -o {options}"));
        bench.io("a.qcow2", &writes.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        if name == "snapshot" {
            bench.run("qemu-img snapshot -c one a.qcow2");
            bench.io("a.qcow2", &["write -P 11 1k 512".to_owned()]);
        }
        let input = sparse::shrink(&bench.read("a.qcow2"));
        for (target, cuts) in [("qcow2_image", &[][..]), ("qcow2_stream", &[10, 60, 1, 200])] {
            std::fs::create_dir_all(folder(target)).expect("the source tree");
            std::fs::write(folder(target).join(name), [cuts, &input].concat()).expect("the source tree");
        }
    }
}
