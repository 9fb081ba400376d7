//! A kernel, perhaps with an initrd, in its own layer, and the labels with their paths.

use crate::{Error, Result};
use container_disk::image;
use container_disk::pack::{Layer, LayerWriter, Options};
use container_disk::place::Sink;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

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
            let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
            let file = File::open(path).map_err(cannot)?;
            let size = file.metadata().map_err(cannot)?.len();
            let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::Usage,
                    format!("{} has no name that an image can keep", path.display()),
                )
            })?;
            let inside = layer.boot_file(name, size)?;
            // A file that grows meanwhile is cut to its first size.
            copy(file.take(size), &mut layer).map_err(cannot)?;
            labels.insert(label.to_owned(), inside);
        }
        labels.insert(image::CMDLINE.to_owned(), self.cmdline.clone());
        Ok(layer.finish()?)
    }
}

fn copy(mut from: impl Read, to: &mut impl Write) -> std::io::Result<()> {
    std::io::copy(&mut from, to).map(|_| ())
}
