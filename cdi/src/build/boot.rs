//! A kernel, perhaps with an initrd, in its own layer, and the labels with their paths.

use crate::source::{FileSource, Source as _};
use crate::{Error, Result};
use container_disk::image;
use container_disk::pack::{Layer, LayerWriter, Options};
use container_disk::place::Sink;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The files of a VM that boots without a boot loader.
#[derive(Debug, Clone)]
pub struct BootFiles {
    pub kernel: PathBuf,
    pub initrd: Option<PathBuf>,
    /// The kernel's command line.
    pub cmdline: String,
}

impl BootFiles {
    /// Writes the layer and adds the labels.
    pub(super) fn layer(
        &self,
        sink: &dyn Sink,
        options: &Options,
        labels: &mut BTreeMap<String, String>,
    ) -> Result<Layer> {
        let mut layer = LayerWriter::boot(sink, options)?;
        let files = [(image::KERNEL, Some(&self.kernel)), (image::INITRD, self.initrd.as_ref())];
        for (label, path) in files {
            let Some(path) = path else { continue };
            let (file, size) = open(path)?;
            let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::Usage,
                    format!("{} has no name that an image can keep", path.display()),
                )
            })?;
            let inside = layer.boot_file(name, size)?;
            io::copy(&mut file.stream(0)?, &mut layer)
                .map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
            file.unchanged()?;
            labels.insert(label.to_owned(), inside);
        }
        labels.insert(image::CMDLINE.to_owned(), self.cmdline.clone());
        Ok(layer.finish()?)
    }
}

/// Opens a kernel or an initrd whose size is known: a file, or a block device.
fn open(path: &Path) -> Result<(FileSource, u64)> {
    let file = FileSource::open(path)?;
    match file.facts().size {
        Some(0) => Err(Error::refused(format!("{} is empty", path.display()))),
        Some(size) => Ok((file, size)),
        None => {
            let what = format!("{} is a pipe, and its size must be known", path.display());
            Err(Error::refused(what).with_hint("write it to a file, and name that"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use container_disk::layout::Layout;
    use container_disk::manifest::{Descriptor, Document};
    use container_disk::pack::Compression;
    use container_disk::place::BlobWriter;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;
    use std::io::Write;

    const PACK: Options = Options { compression: Compression::None, created: 0, threads: 1, memory: 1 << 20 };

    fn layer(kernel: &Path, sink: &dyn Sink) -> Result<Layer> {
        let boot = BootFiles { kernel: kernel.to_owned(), initrd: None, cmdline: String::new() };
        boot.layer(sink, &PACK, &mut BTreeMap::new())
    }

    #[test]
    fn a_kernel_is_packed_with_all_its_bytes_or_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Layout::create(&folder.path().join("layout")).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("vmlinuz"), [7; 3000]).unwrap();
        assert_eq!(layer(&at("vmlinuz"), &sink).unwrap().tar_size, 512 + 512 + 3072 + 1024);
        fs::write(at("empty"), "").unwrap();
        let fifo = at("pipe");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let writer = std::thread::spawn(move || drop(fs::write(fifo, "kernel")));
        for (path, says) in [
            (at("empty"), "is empty"),
            (at("pipe"), "is a pipe"),
            (folder.path().to_owned(), "is a folder"),
            ("/dev/zero".into(), "is a character device"),
        ] {
            let e = layer(&path, &sink).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
            let text = e.to_string();
            assert!(text.contains(says) && text.contains(path.to_str().unwrap()), "{text}");
        }
        writer.join().unwrap();
    }

    /// A sink that appends to a file with each write.
    struct Appending(PathBuf);

    impl Sink for Appending {
        fn has(&self, _: &Descriptor) -> container_disk::Result<bool> {
            Ok(false)
        }

        fn begin(&self, _: Option<&Descriptor>) -> container_disk::Result<Box<dyn BlobWriter + '_>> {
            Ok(Box::new(Appending(self.0.clone())))
        }

        fn put(&self, _: &Document, _: Option<&str>) -> container_disk::Result<()> {
            Ok(())
        }
    }

    impl Write for Appending {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            fs::File::options().append(true).open(&self.0)?.write_all(b"more")?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl BlobWriter for Appending {
        fn digest(&mut self) -> container_disk::Result<container_disk::Digest> {
            Ok(container_disk::Digest::of(b""))
        }

        fn finish(self: Box<Self>) -> container_disk::Result<(container_disk::Digest, u64)> {
            Ok((container_disk::Digest::of(b""), 0))
        }
    }

    #[test]
    fn a_kernel_that_changes_meanwhile_is_not_packed() {
        let kernel = tempfile::NamedTempFile::new().unwrap();
        fs::write(&kernel, [7; 3000]).unwrap();
        let e = layer(kernel.path(), &Appending(kernel.path().to_owned())).unwrap_err();
        assert!(e.to_string().contains("was changed while it was read"), "{e}");
    }
}
