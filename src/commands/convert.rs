//! `coracle convert`.

use super::source::SourceArgs;
use crate::ui;
use cdi::convert::{Keep, Prepared, Request, prepare};
use cdi::filter::verify::Digest;
use cdi::journal::Mode;
use cdi::plan::{Output, Wishes};
use cdi::run::watch::Watch;
use cdi::size::human;
use cdi::{Error, Kind, Result};
use disk_format::{Codec, Format};
use std::sync::Arc;
use std::time::Duration;

/// Convert a disk: any format and compression in, one disk out, in one pass
///
/// SRC is a path, a block device, http:// or https://, or '-' for standard
/// input; compression (gzip, xz, zstd) and tar around the disk are undone on
/// the way. DST is a path, a block device, or '-' for standard output.
/// Nothing stands under DST until it is whole; a run that was cut short is
/// continued by the same command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle convert disk.qcow2.xz disk.img\n  \
    coracle convert https://server/disk.qcow2 /dev/vg/disk\n  \
    coracle convert --format qcow2 --compress zstd disk.img small.qcow2\n  \
    coracle convert --plan http://server/disk.raw.gz disk.img")]
pub(crate) struct Args {
    /// Where the disk comes from
    #[arg(value_name = "SRC")]
    source: String,

    /// Where it goes
    #[arg(value_name = "DST")]
    target: String,

    /// Format to write [default: qcow2 where DST ends so, else raw]
    #[arg(short = 'O', long, value_enum)]
    format: Option<Written>,

    /// Format of the source; a disk said to be raw is not looked into
    #[arg(short = 'f', long, value_enum, value_name = "FORMAT")]
    source_format: Option<Read>,

    /// Compress a qcow2: zlib or zstd, with a level if wanted (zstd:9)
    #[arg(short = 'c', long, value_name = "CODEC[:LEVEL]", value_parser = compression)]
    compress: Option<(Codec, u8)>,

    /// Cluster size of a qcow2: 512 bytes to 2 MiB
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = cluster_bits)]
    cluster_size: u32,

    /// Make the disk this large (it cannot shrink)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    resize: Option<u64>,

    /// Refuse the source unless its bytes, as they are before any
    /// decompression, have this digest: sha256:HEX or sha512:HEX
    #[arg(long, value_name = "DIGEST", value_parser = clap::value_parser!(Digest))]
    checksum: Option<Digest>,

    /// Allocate all blocks of the target instead of leaving holes
    #[arg(long)]
    preallocate: bool,

    /// Read the target back and compare, before it gets its name
    #[arg(long)]
    verify: bool,

    /// Continue an earlier run, or fail; by default it is continued where
    /// the source proves that it is the same
    #[arg(long, conflicts_with = "no_resume")]
    resume: bool,

    /// Begin anew, whatever is there
    #[arg(long)]
    no_resume: bool,

    /// Threads that decode and write [default: one a processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,

    /// Bound on the memory of all buffers together
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    memory: u64,

    /// Refuse a disk larger than this
    #[arg(long, value_name = "SIZE", default_value = "16TiB", value_parser = size)]
    max_size: u64,

    /// Print how the bytes would flow, and why; convert nothing
    #[arg(long)]
    plan: bool,

    /// Print the plan or the report as JSON
    #[arg(long)]
    json: bool,

    /// Show no progress
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    from: SourceArgs,

    /// Milliseconds between journal entries
    #[arg(long, hide = true, default_value_t = 5000)]
    journal_every: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Written {
    Raw,
    Qcow2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Read {
    Raw,
    Qcow2,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let watch = Arc::new(Watch::default());
    if !args.plan {
        ui::on_interrupt(watch.clone())?;
    }
    let prepared = prepare(request(args)?, &watch)?;
    if args.plan {
        return if args.json { ui::json(&prepared.plan_json()) } else { ui::out(&prepared.plan_text()) };
    }
    convert(args, prepared, &watch)
}

fn convert(args: &Args, prepared: Prepared, watch: &Arc<Watch>) -> Result<()> {
    let show = if args.quiet { ui::Show::Quiet } else { ui::Show::Auto };
    let progress = ui::Progress::start(watch.clone(), show);
    let report = prepared.run(watch);
    drop(progress);
    let report = report?;
    if args.json {
        return ui::json(&report);
    }
    if !args.quiet {
        ui::say(&report.sentence());
    }
    Ok(())
}

fn request(args: &Args) -> Result<Request> {
    let format =
        args.format.unwrap_or(if args.target.ends_with(".qcow2") { Written::Qcow2 } else { Written::Raw });
    let output = match (format, args.compress) {
        (Written::Raw, None) => Output::Raw,
        (Written::Raw, Some(_)) => {
            let what = "a raw disk cannot be compressed; add --format qcow2, or drop --compress";
            return Err(Error::new(Kind::Usage, what));
        }
        (Written::Qcow2, compress) => Output::Qcow2 { cluster_bits: args.cluster_size, compress },
    };
    if args.preallocate && output != Output::Raw {
        return Err(Error::new(
            Kind::Usage,
            "--preallocate is for raw targets; a qcow2 grows as it is written",
        ));
    }
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let resume = match (args.resume, args.no_resume) {
        (true, _) => Mode::Always,
        (_, true) => Mode::Never,
        _ => Mode::Auto,
    };
    Ok(Request {
        source: args.source.clone(),
        target: args.target.clone(),
        source_format: args.source_format.map(|f| match f {
            Read::Raw => Format::Raw,
            Read::Qcow2 => Format::Qcow2,
        }),
        keep: Keep::No,
        options: args.from.options()?,
        output,
        checksum: args.checksum,
        wishes: Wishes {
            checksum: args.checksum.is_some(),
            verify: args.verify,
            preallocate: args.preallocate,
            threads: args.threads.map_or(processors, usize::from),
            memory: args.memory,
            max_size: args.max_size,
            resize: args.resize,
            resume,
            connections: args.from.connections(),
        },
        journal_every: Duration::from_millis(args.journal_every),
    })
}

fn size(text: &str) -> Result<u64> {
    cdi::size::parse(text)
}

fn cluster_bits(text: &str) -> Result<u32> {
    let size = cdi::size::parse(text)?;
    if size.is_power_of_two() && (512..=2 << 20).contains(&size) {
        return Ok(size.trailing_zeros());
    }
    let what = format!("{} is not a cluster size: it is a power of two from 512 bytes to 2 MiB", human(size));
    Err(Error::new(Kind::Usage, what))
}

fn compression(text: &str) -> Result<(Codec, u8)> {
    let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
    let (codec, default, levels) = match name {
        "zlib" => (Codec::Deflate, 6, 1..=9),
        "zstd" => (Codec::Zstd, 3, 1..=19),
        _ => return Err(Error::new(Kind::Usage, format!("{name:?} is neither zlib nor zstd"))),
    };
    match level.map_or(Ok(default), str::parse) {
        Ok(level) if levels.contains(&level) => Ok((codec, level)),
        _ => {
            let what = format!("the level of {name} is a number from {} to {}", levels.start(), levels.end());
            Err(Error::new(Kind::Usage, what))
        }
    }
}
