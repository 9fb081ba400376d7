//! Arguments for reading a disk, shared by all verbs that read a whole disk.

use super::json_args::JsonArgs;
use super::source::SourceArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui::Show;
use crate::vm_disk;
use cdi::filter::verify::Digest;
use cdi::plan::ConvertOptions;
use cdi::source::SourceSpec;
use disk_format::{Codec, Format};

/// Default value of the flag `--memory`.
const MEMORY: &str = "256MiB";
const LARGEST: &str = "16TiB";

/// Arguments for reading a whole disk.
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// Format of the source [default: detected]; raw disables detection
    #[arg(short = 'f', long, value_enum, value_name = "FORMAT")]
    source_format: Option<SourceFormat>,

    /// Refuse the source unless its bytes, as they are before any
    /// decompression, have this digest: sha256:HEX or sha512:HEX
    #[arg(long, value_name = "DIGEST", value_parser = clap::value_parser!(Digest))]
    pub(crate) checksum: Option<Digest>,

    /// Number of threads that decode and write [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,

    /// Maximum memory of all buffers together
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = size)]
    pub(crate) memory: u64,

    /// Maximum size of the disk; a larger disk is refused
    #[arg(long, value_name = "SIZE", default_value = LARGEST, value_parser = size)]
    pub(crate) max_size: u64,

    /// Print the plan with its reasons; write nothing
    #[arg(long)]
    pub(crate) plan: bool,

    #[command(flatten)]
    pub(crate) output: JsonArgs,

    /// Hide the progress bar
    #[arg(short, long, conflicts_with = "progress")]
    pub(crate) quiet: bool,

    /// Show the progress bar, as without this flag
    #[arg(short, long)]
    progress: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SourceFormat {
    Raw,
    Qcow2,
}

impl DiskArgs {
    /// Format by the flag, if given.
    pub(crate) fn source_format(&self) -> Option<Format> {
        self.source_format.map(|format| match format {
            SourceFormat::Raw => Format::Raw,
            SourceFormat::Qcow2 => Format::Qcow2,
        })
    }

    /// Format by the flag. Without it a raw disk of a VM is raw: its guest may have written what looks like another format.
    pub(crate) fn source_format_of(&self, source: &SourceSpec) -> Result<Option<Format>> {
        match self.source_format() {
            Some(format) => Ok(Some(format)),
            None => vm_disk::format_of(source)
                .map_err(|e| Error::from(e).with_hint("-f raw or -f qcow2 says so for this command alone")),
        }
    }

    /// Number of threads by the flag. Default: one per CPU.
    pub(crate) fn threads(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        self.threads.map_or(cpus, usize::from)
    }

    /// Names of given flags, without those about output. A flag with its default value does not count.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let is_other = |bytes: u64, default: &str| size(default).ok() != Some(bytes);
        let flags = [
            ("--source-format", self.source_format.is_some()),
            ("--checksum", self.checksum.is_some()),
            ("--threads", self.threads.is_some()),
            ("--memory", is_other(self.memory, MEMORY)),
            ("--max-size", is_other(self.max_size, LARGEST)),
            ("--plan", self.plan),
        ];
        flags.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag)).collect()
    }

    /// Conversion options from the flags that verify, build and convert share. Each command adds its own.
    pub(crate) fn wishes(&self, from: &SourceArgs) -> ConvertOptions {
        ConvertOptions {
            checksum: self.checksum,
            memory: self.memory,
            max_size: self.max_size,
            connections: from.connections(),
            least_rate: from.least_rate(),
            ..ConvertOptions::with_threads(self.threads())
        }
    }

    /// Display of progress by the flag.
    pub(crate) fn show(&self) -> Show {
        if self.quiet && !self.progress { Show::Quiet } else { Show::Auto }
    }
}

/// Parses a size with an optional unit.
pub(crate) fn size(text: &str) -> Result<u64> {
    Ok(cdi::size::parse(text)?)
}

/// Parses a codec with an optional level: `zlib`, `zstd:9`.
pub(crate) fn compression(text: &str) -> Result<(Codec, u8)> {
    let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
    let (codec, default, levels) = match name {
        "zlib" => (Codec::Deflate, 6, 1..=9),
        "zstd" => (Codec::Zstd, 3, 1..=19),
        _ => return Err(Error::new(ErrorKind::Usage, format!("{name:?} is neither zlib nor zstd"))),
    };
    match level.map_or(Ok(default), str::parse) {
        Ok(level) if levels.contains(&level) => Ok((codec, level)),
        _ => {
            let what = format!("the level of {name} is a number from {} to {}", levels.start(), levels.end());
            Err(Error::new(ErrorKind::Usage, what))
        }
    }
}
