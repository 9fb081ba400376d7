//! Memory and expansion are bounded, and a refusal names the need.

use crate::kit::{AMPLE, decode, refused, same, sample, tool};
use cdi::filter::stack::{self, Options};
use cdi::filter::{Budget, Layer, need};
use cdi::source::options::Decoded;
use cdi::{Error, ErrorKind};
use std::io::Read;

/// An xz file whose first block says that it needs a dictionary of this size code.
fn with_dictionary(bits: u8) -> (Vec<u8>, Vec<u8>) {
    let plain = sample(50_000);
    let mut packed = tool(&["xz", "-0c"], &plain);
    let header = 12..12 + (usize::from(packed[12]) + 1) * 4;
    assert_eq!(packed[14..16], [0x21, 1], "an unusual block header");
    packed[16] = bits;
    let crc = crc32fast::hash(&packed[header.start..header.end - 4]);
    packed[header.end - 4..header.end].copy_from_slice(&crc.to_le_bytes());
    (packed, plain)
}

#[test]
fn an_xz_dictionary_over_the_budget_is_refused_with_the_need() {
    // 2 GiB, 1.5 GiB, 4 GiB.
    for (bits, mib) in [(38, 2048), (37, 1536), (40, 4096)] {
        let (packed, _) = with_dictionary(bits);
        let least = need(Layer::Xz, &packed).unwrap().least;
        assert!(least >= (mib << 20) - 1 && least < (mib + 8) << 20, "{least}");
        let budget = Budget { beside: 30 << 20, ..AMPLE };
        let allow = (least + (30 << 20)).div_ceil(1 << 20);
        refused(&packed, Layer::Xz, budget, &format!("for its dictionary; allow it with --memory {allow}M"));
    }
    let (packed, plain) = with_dictionary(28);
    let least = need(Layer::Xz, &packed).unwrap().least;
    let (out, result) = decode(Layer::Xz, &packed, Budget { memory: least, ..AMPLE });
    result.unwrap();
    same(&out, &plain);
    refused(&packed, Layer::Xz, Budget { memory: least - 1, ..AMPLE }, "for its dictionary");
}

#[test]
fn a_zstd_window_over_the_budget_is_refused_with_the_need() {
    let plain = sample(300_000);
    let mut packed = tool(&["zstd", "-qc"], &plain);
    assert_eq!(packed[4] & 0x20, 0, "from a pipe the frame has a window");
    let least = need(Layer::Zstd, &packed).unwrap().least;
    let (out, result) = decode(Layer::Zstd, &packed, Budget { memory: least, ..AMPLE });
    result.unwrap();
    same(&out, &plain);
    refused(
        &packed,
        Layer::Zstd,
        Budget { memory: least - 1, ..AMPLE },
        "for its window; allow it with --memory",
    );
    // 2 GiB; and the largest that can be written down, which libzstd could not use either.
    packed[5] = 21 << 3;
    let mib = need(Layer::Zstd, &packed).unwrap().least.div_ceil(1 << 20);
    assert!((2049..2056).contains(&mib), "{mib}");
    refused(&packed, Layer::Zstd, AMPLE, &format!("this zstd needs {mib} MiB for its window"));
    packed[5] = 0xff;
    refused(&packed, Layer::Zstd, Budget { memory: u64::MAX, ..AMPLE }, "more than libzstd can use");
}

#[test]
fn needs_are_read_from_the_head() {
    let plain = sample(900_000);
    let stated = tool(&["xz", "-0c", "-T2", "--block-size=300000"], &plain);
    let need_of = |layer, bytes: &[u8]| need(layer, bytes).unwrap();
    let xz = need_of(Layer::Xz, &stated);
    assert!(xz.least > 256 << 10 && xz.per_thread > 300_000 && xz.per_thread < 2 << 20, "{xz:?}");
    assert_eq!(need_of(Layer::Xz, &tool(&["xz", "-c"], b"")).per_thread, 0);
    let gzip = need_of(Layer::Gzip, &tool(&["gzip", "-c"], &plain));
    assert!(gzip.least < 4 << 20 && gzip.per_thread == 0, "{gzip:?}");
    let mut skip = b"\x50\x2a\x4d\x18\x05\0\0\0hello".to_vec();
    skip.extend(tool(&["zstd", "-qc", "-1"], &plain));
    let zstd = need_of(Layer::Zstd, &skip);
    assert!(zstd.least > 512 << 10 && zstd.least < 8 << 20, "{zstd:?}");
    for (layer, bytes) in [(Layer::Xz, &stated), (Layer::Zstd, &skip)] {
        for cut in 0..16 {
            // Too short to tell is a refusal, or (between two headers) no need.
            if let Err(e) = need(layer, &bytes[..cut]) {
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            }
        }
    }
}

fn limited(packed: Vec<u8>, limit: u64) -> Result<u64, Error> {
    let options = Options { budget: AMPLE, limit, on_boundary: None, decoded: Decoded::default() };
    let mut stack = stack::stack(Box::new(std::io::Cursor::new(packed)), &options)?;
    std::io::copy(&mut stack.reader, &mut std::io::sink()).map_err(|e| Error::io("reading", e))
}

#[test]
fn bombs_end_at_the_limit() {
    let zeros = vec![0; 64 << 20];
    for command in
        [&["gzip", "-9c"][..], &["xz", "-0c"], &["xz", "-0c", "-T2", "--block-size=1MiB"], &["zstd", "-qc"]]
    {
        let packed = tool(command, &zeros);
        assert!(packed.len() < 200_000);
        let e = limited(packed.clone(), 20 << 20).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("passed 20 MiB, the limit"), "{e}");
        assert_eq!(limited(packed.clone(), 64 << 20).unwrap(), 64 << 20);
        // A bomb in a bomb goes off no later.
        let twice = tool(&["gzip", "-9c"], &packed);
        assert!(limited(twice, 20 << 20).unwrap_err().to_string().contains("passed 20 MiB"));
    }
}

/// The process's own peak: of a child, so that other tests do not count.
#[test]
fn peak_memory_stays_near_the_budget() {
    const FILE: &str = "FILTER_PEAK_FILE";
    const MEMORY: &str = "FILTER_PEAK_MEMORY";
    if let (Ok(file), Ok(memory)) = (std::env::var(FILE), std::env::var(MEMORY)) {
        let budget = Budget { threads: 4, memory: memory.parse::<u64>().unwrap() << 20, beside: 0 };
        let options = Options { budget, limit: u64::MAX, on_boundary: None, decoded: Decoded::default() };
        let input = Box::new(std::fs::File::open(file).unwrap());
        let mut stack = stack::stack(input, &options).unwrap();
        // A slow consumer, so that every thread that may run ahead does.
        let mut buf = vec![0; 1 << 20];
        while stack.reader.read(&mut buf).unwrap() > 0 {
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        println!("{line}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = sample(48 << 20);
    let parts =
        |command: &[&str]| plain.chunks(4 << 20).flat_map(|part| tool(command, part)).collect::<Vec<u8>>();
    for (name, packed) in [
        ("gz", tool(&["gzip", "-1c"], &plain)),
        ("blocks.xz", tool(&["xz", "-0c", "-T2", "--lzma2=preset=0,dict=4MiB", "--block-size=6MiB"], &plain)),
        ("single.xz", tool(&["xz", "-0c"], &plain)),
        ("frames.zst", parts(&["zstd", "-qc", "-1"])),
        ("single.zst", tool(&["zstd", "-qc", "-1"], &plain)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, packed).unwrap();
        for memory in [16, 40] {
            let child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "bounds::peak_memory_stays_near_the_budget", "--nocapture"])
                .env(FILE, &path)
                .env(MEMORY, memory.to_string())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&child.stdout).into_owned();
            assert!(child.status.success(), "{name}: {text}");
            let peak =
                text.lines().find_map(|line| line.split("VmHWM:").nth(1)).expect("the child tells its peak");
            let peak: u64 = peak.trim().trim_end_matches("kB").trim().parse().unwrap();
            // The test program itself, its stacks and the allocator's slack.
            let most = (memory + 16) << 10;
            println!("{name} with {memory} MiB: peak {peak} KiB");
            assert!(peak < most, "{name} with {memory} MiB: peak {peak} KiB");
        }
    }
}
