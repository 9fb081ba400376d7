//! Checksums of the kernel from a container image, which show the kernel that a VMI has booted.

use api::launcher::{Kernel, KernelChecksums};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The CRC-32 checksums of the files. Blocks.
pub(super) fn checksums(kernel: &Kernel) -> io::Result<KernelChecksums> {
    let initrd = kernel.initrd.as_deref().map(checksum).transpose()?;
    Ok(KernelChecksums { kernel: checksum(&kernel.kernel)?, initrd })
}

fn checksum(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            size => hasher.update(buffer.get(..size).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_kernel_have_their_checksums() {
        let folder = tempfile::tempdir().unwrap();
        let (kernel, initrd) = (folder.path().join("vmlinuz"), folder.path().join("initrd"));
        std::fs::write(&kernel, "123456789").unwrap();
        std::fs::write(&initrd, vec![0; 100_000]).unwrap();
        let of = |initrd| checksums(&Kernel { kernel: kernel.clone(), initrd, args: None }).unwrap();
        assert_eq!(of(None), KernelChecksums { kernel: 0xcbf4_3926, initrd: None });
        assert_eq!(of(Some(initrd)).initrd, Some(crc32fast::hash(&vec![0; 100_000])));
    }
}
