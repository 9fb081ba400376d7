//! `coracle apart`: one job on foreign bytes for the verbs that start VMs (`local-vm/src/worker.rs`). The job is read
//! from standard input, the result is written to standard output.
//!
//! Each job states the files and servers that it uses, gives up access to all others, and only then opens
//! anything.

use super::transfer::sentence;
use crate::error::{Error, Result};
use crate::ui::{self, Show};
use api::job::Import;
use api::launcher::Format;
use cdi::convert::{Keep, Prepared, Report, Request, prepare};
use cdi::import;
use cdi::permissions::Permissions;
use cdi::plan::ConvertOptions;
use cdi::run::watch::Watch;
use cdi::source::image::architecture;
use cdi::source::{Options, SourceSpec, image};
use cdi::target::Destination;
use container_disk::image::{Config, choose};
use container_disk::inputs::Inputs;
use container_disk::locate::{self, Located};
use container_disk::manifest::{Content, Document, Manifest};
use container_disk::open::{FoundImage, Places};
use container_disk::registry::copy;
use container_disk::{Digest, ErrorKind, Name, store};
use disk_format::Limits;
use disk_format::read_at::FileAt;
use local_vm::place::Lock;
use local_vm::resolve::image::usable;
use local_vm::unpacked;
use local_vm::whole_file::write_whole;
use local_vm::worker::{ImageInfo, JobRequest, Outcome, PinnedImage, Task};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Limit of the size of a kernel or an initrd in bytes.
const BOOT_MAX: u64 = 512 << 20;
/// Maximum size of a note in bytes: that of a path, and its end of line.
const NOTE_MAX: u64 = 4096;

/// Job of 'coracle run' or 'coracle test', read from standard input
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    let order: JobRequest = serde_json::from_reader(io::stdin().lock())
        .map_err(|e| Error::refused("this is not a job; 'coracle run' makes them").because(e))?;
    let show = if order.quiet { Show::Quiet } else { Show::Auto };
    // Each log line of this process names its job, also the lines about its confinement.
    let what = order.job.what();
    let _span = tracing::info_span!("process", number = std::process::id(), job = what.as_str()).entered();
    let places = Places::new(order.registries);
    // The command has warned of a store that is left behind.
    let places = match store::default_folder() {
        Ok(folder) => places.with_store(folder),
        Err(_) => places,
    };
    let work = Work { places: Arc::new(places), show };
    let answer = Outcome::from_result(work.run(order.job).map_err(local_vm::Error::from));
    let text = serde_json::to_string(&answer).map_err(|e| Error::failed("cannot write JSON").because(e))?;
    ui::out(&text)
}

/// An image by name and digest.
struct Pinned {
    name: Name,
    digest: Digest,
}

struct Work {
    places: Arc<Places>,
    show: Show,
}

/// An open image with its manifest.
struct Open {
    found: FoundImage,
    document: Document,
}

impl Work {
    fn run(&self, job: Task) -> Result<Value> {
        match job {
            Task::Here { image, digest } => {
                self.here(&named(&image)?, digest.map(|digest| digest.parse()).transpose()?)
            }
            Task::Pull { from, to } => self.pull(&named(&from)?, &named(&to)?),
            Task::Look { image, digest } => {
                self.look(&named(&image)?, digest.map(|digest| digest.parse()).transpose()?)
            }
            Task::HasDisk { image } => self.find_disk(&pinned(&image)?),
            Task::Judge { path } => judge(&path),
            Task::Disk { image, path, folder } => {
                let image = pinned(&image)?;
                self.unpacks(&image.name, &folder)?.enter();
                self.disk(&image, path.as_deref(), &folder).map(|path| json!(path))
            }
            Task::Boot { image, path, folder } => {
                let image = pinned(&image)?;
                self.unpacks(&image.name, &folder)?.enter();
                self.boot(&image, &path, &folder).map(|path| json!(path))
            }
            Task::Import(job) => self.import(&job),
        }
    }

    fn reads(&self, image: &Name) -> Result<Permissions> {
        Ok(Permissions::new().image(image, &self.places)?)
    }

    /// Access of a job that unpacks into the image's own folder.
    fn unpacks(&self, image: &Name, folder: &Path) -> Result<Permissions> {
        Ok(self.reads(image)?.target(&Destination::File(folder.join("any"))))
    }

    fn here(&self, image: &Name, digest: Option<Digest>) -> Result<Value> {
        self.reads(image)?.enter();
        Ok(json!(self.is_stored(image, digest)?))
    }

    fn is_stored(&self, image: &Name, digest: Option<Digest>) -> Result<bool> {
        let found = self.places.find(image).and_then(|found| match digest {
            None => found.place.document(&found.reference),
            // Of an index the store may have images of other architectures alone.
            Some(digest) => {
                let found = found.exactly(digest);
                choose::manifest(&*found.place, &found.reference, architecture())
            }
        });
        match found {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn pull(&self, from: &Name, to: &Name) -> Result<Value> {
        self.reads(from)?.goal(to, &self.places)?.enter();
        let found = self.places.find(from)?;
        let goal = self.places.goal(to, &Inputs::default().with_image(from)?)?;
        let options = copy::Options { arch: Some(architecture().to_owned()), parallel: 3, judge: true };
        let progress = Arc::new(copy::Progress::default());
        let bar = ui::Progress::of_blobs("pulling", &progress, self.show);
        let copied = copy::copy(
            &*found.place,
            &found.reference,
            &*goal.sink,
            goal.tag.as_deref(),
            &options,
            &progress,
        );
        let copied = copied.and_then(|copied| goal.sink.close().map(|()| copied));
        match &copied {
            Ok(copied) => {
                let counts = self.places.transfer_counts();
                bar.finish(&sentence(&from.to_string(), &to.to_string(), copied, &counts));
            }
            Err(_) => drop(bar),
        }
        let copied = copied?;
        tracing::info!("{from}: {} blobs, {} bytes", copied.moved, copied.bytes);
        Ok(json!(copied.digest.to_string()))
    }

    fn look(&self, image: &Name, digest: Option<Digest>) -> Result<Value> {
        self.reads(image)?.enter();
        let found = self.places.find(image)?;
        let open = Open::new(match digest {
            Some(digest) => found.exactly(digest),
            None => found,
        })?;
        let config = Config::read(&*open.found.place, manifest(image, &open.document)?)?;
        Ok(json!(ImageInfo { digest: open.document.digest.to_string(), boot: locate::boot(&config) }))
    }

    fn find_disk(&self, image: &Pinned) -> Result<Value> {
        self.reads(&image.name)?.enter();
        let open = self.open(image)?;
        let how = locate::Options { one_pass: true, ..locate::Options::default() };
        match locate::disk(&*open.found.place, manifest(&image.name, &open.document)?, &how) {
            Ok(_) => Ok(json!(true)),
            Err(e) if matches!(e.kind(), ErrorKind::Refused | ErrorKind::NotFound) => Ok(json!(false)),
            Err(e) => Err(e.into()),
        }
    }

    fn open(&self, image: &Pinned) -> Result<Open> {
        Open::new(self.places.find(&image.name)?.exactly(image.digest))
    }

    fn disk(&self, image: &Pinned, path: Option<&str>, folder: &Path) -> Result<PathBuf> {
        let open = self.open(image)?;
        let name = unpacked::note(path);
        let note = folder.join(&name);
        if let Some(known) = known(&note) {
            return Ok(known);
        }
        let _lock = Lock::wait(&folder.join(unpacked::lock(&name)))?;
        if let Some(known) = known(&note) {
            return Ok(known);
        }
        let target = self.unpack(image, &open, path, folder)?;
        write_whole(&note, format!("{}\n", target.display()).as_bytes())?;
        known(&note).ok_or_else(|| Error::failed(format!("{} vanished while it was made", target.display())))
    }

    /// Unpacks the disk, unless it was unpacked under another path of the image.
    fn unpack(&self, image: &Pinned, open: &Open, path: Option<&str>, folder: &Path) -> Result<PathBuf> {
        let name = unpacked::disk(&locate_file(image, open, path, true)?.path);
        let target = folder.join(&name);
        let _lock = Lock::wait(&folder.join(unpacked::lock(&name)))?;
        if target.is_file() {
            // The first search ends at the disk: an image without a path may have a second one behind it.
            locate_file(image, open, path, false)?;
            return Ok(target);
        }
        let options = Options {
            places: Arc::clone(&self.places),
            image: image::Options {
                digest: Some(image.digest),
                // Without a path the image is refused for a second disk, where the stream of the first one ends.
                path: path.map(str::to_owned),
                ..image::Options::default()
            },
            ..Options::default()
        };
        let (source, watch) = (SourceSpec::Image(image.name.clone()), Arc::new(Watch::default()));
        let request = Request::new(source, Destination::File(target.clone()), options, wishes());
        self.convert(prepare(Request { keep: Keep::Yes, ..request }, &watch)?, &watch)?;
        Ok(target)
    }

    /// Unpacks the kernel or the initrd.
    fn boot(&self, image: &Pinned, path: &str, folder: &Path) -> Result<PathBuf> {
        let open = self.open(image)?;
        let name = unpacked::boot(path);
        let target = folder.join(&name);
        let _lock = Lock::wait(&folder.join(unpacked::lock(&name)))?;
        if target.is_file() {
            return Ok(target);
        }
        let mut located = locate_file(image, &open, Some(path), true)?;
        if located.size > BOOT_MAX {
            let what = format!(
                "{path} in {} has {} bytes; a kernel or an initrd has {BOOT_MAX} at most",
                image.name, located.size
            );
            return Err(Error::refused(what));
        }
        let partial = folder.join(format!("{name}.partial"));
        let written =
            write_boot(&mut located.stream()?, &partial).and_then(|()| std::fs::rename(&partial, &target));
        written.map_err(|e| {
            // Without a file there is nothing to remove; one that stays is written anew.
            drop(std::fs::remove_file(&partial));
            Error::io(format!("cannot write {}", partial.display()), e)
        })?;
        Ok(target)
    }

    fn import(&self, job: &Import) -> Result<Value> {
        let watch = Arc::new(Watch::default());
        let ready = |reach: &Permissions| {
            reach.enter();
            ui::on_interrupt(watch.clone()).map_err(|e| cdi::Error::failed(e.to_string()))
        };
        let prepared = import::prepare(job, Arc::clone(&self.places), wishes(), &watch, ready)?;
        Ok(json!(self.convert(prepared, &watch)?.virtual_size))
    }

    fn convert(&self, prepared: Prepared, watch: &Arc<Watch>) -> Result<Report> {
        let bar = ui::Progress::of(watch, self.show);
        let report = prepared.run(watch);
        match &report {
            Ok(report) => bar.finish(&report.sentence()),
            Err(_) => drop(bar),
        }
        Ok(report?)
    }
}

/// Checks a disk as the launcher will, which does not trust its callers.
fn judge(path: &Path) -> Result<Value> {
    Permissions::new().file(path).enter();
    let format = usable(path)?;
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let known = match format {
        Format::Raw => disk_format::Format::Raw,
        Format::Qcow2 => disk_format::Format::Qcow2,
    };
    let bytes = Arc::new(FileAt::new(file, size));
    let checked = container_disk::run_confined(|| check_tables(known, bytes))?;
    checked.map_err(|e| {
        let e = Error::from(e);
        Error::new(e.kind(), format!("the disk {} is not used: {e}", path.display()))
    })?;
    Ok(json!(format))
}

/// Reads all tables of an image: each cluster must lie inside of the file, which may have been cut short.
fn check_tables(format: disk_format::Format, bytes: Arc<FileAt>) -> disk_format::Result<()> {
    let image = disk_format::open(format, bytes, Limits::default())?;
    let mut next = Some(0);
    while let Some(from) = next {
        next = image.window(from)?.next;
    }
    Ok(())
}

impl Open {
    fn new(found: FoundImage) -> Result<Open> {
        let document = choose::manifest(&*found.place, &found.reference, architecture())?;
        Ok(Open { found, document })
    }
}

fn pinned(exact: &PinnedImage) -> Result<Pinned> {
    Ok(Pinned { name: named(&exact.image)?, digest: exact.digest.parse()? })
}

fn named(text: &str) -> Result<Name> {
    let name = Name::with_scheme(text);
    Ok(name.ok_or_else(|| Error::refused(format!("{text:?} names an image without its scheme")))??)
}

/// Options of conversions for a VM's disk.
fn wishes() -> ConvertOptions {
    ConvertOptions::with_threads(std::thread::available_parallelism().map_or(2, usize::from))
}

/// Path of the disk in a note, if it still exists in the folder of the note. A process that read this image before may have
/// written anything there.
fn known(note: &Path) -> Option<PathBuf> {
    if !std::fs::symlink_metadata(note).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(note).ok()?.take(NOTE_MAX + 1).read_to_string(&mut text).ok()?;
    let path = PathBuf::from(text.trim_end());
    if text.len() as u64 > NOTE_MAX || path.parent() != note.parent() {
        return None;
    }
    usable(&path).ok()?;
    Some(path)
}

/// The disk of an image, or the file at this path. With `one_pass` the rest of its layer is checked while it is read.
fn locate_file(image: &Pinned, open: &Open, path: Option<&str>, one_pass: bool) -> Result<Located> {
    let how = locate::Options { path: path.map(str::to_owned), one_pass, ..locate::Options::default() };
    Ok(locate::disk(&*open.found.place, manifest(&image.name, &open.document)?, &how)?)
}

/// Writes a file of an image to disk. Reading to the end of the stream verifies the layer's digest.
fn write_boot(stream: &mut impl Read, to: &Path) -> io::Result<()> {
    let mut file = File::create(to)?;
    io::copy(stream, &mut file)?;
    file.sync_all()
}

fn manifest<'a>(name: &Name, document: &'a Document) -> Result<&'a Manifest> {
    match &document.content {
        Content::Manifest(manifest) => Ok(manifest),
        Content::Index(_) => Err(Error::refused(format!("{name} is an index where an image was expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::layout::{LAYER, LAYER_GZIP, Layout, Tar, bomb, digest, gzip};
    use guard::confine::Use;

    #[test]
    fn what_unpacks_an_image_writes_into_the_folder_of_that_image_alone() {
        let place = tempfile::tempdir().unwrap();
        let places = Arc::new(Places::new(None).with_store(place.path().join("store")));
        let work = Work { places, show: Show::Quiet };
        let own = place.path().join("disks/sha256-a");
        for image in ["store:os:1", "oci:layout", "oci-archive:os.tar"] {
            let reach = work.unpacks(&named(image).unwrap(), &own).unwrap();
            assert_eq!(reach.process().use_of(&own), Some(Use::Write), "{image}");
            let above = own.ancestors().skip(1).find(|above| reach.process().use_of(above).is_some());
            assert_eq!(above, None, "{image}");
        }
    }

    fn work(place: &Path) -> Work {
        Work { places: Arc::new(Places::new(None).with_store(place.join("store"))), show: Show::Quiet }
    }

    /// The image of a layout, by its digest.
    fn pinned_layout(work: &Work, layout: &Path) -> Pinned {
        let name = named(&format!("oci:{}:1", layout.display())).unwrap();
        let digest = Open::new(work.places.find(&name).unwrap()).unwrap().document.digest;
        Pinned { name, digest }
    }

    /// `coracle tag` gives any image the name that the store has for a digest.
    #[test]
    fn an_image_of_a_digest_is_not_the_one_that_has_its_name_in_the_store() {
        let place = tempfile::tempdir().unwrap();
        let work = work(place.path());
        let digest = format!("sha256:{}", "0a".repeat(32));
        let text = format!("store:h.example/os:{}", digest.replace(':', "-"));
        let image = named(&text).unwrap();
        assert!(!work.is_stored(&image, None).unwrap());
        let layout = Layout::create(&place.path().join("layout"));
        layout.image(LAYER, &Tar::default().file("disk/disk.img", &[1; 4096]).end());
        let found =
            work.places.find(&named(&format!("oci:{}", place.path().join("layout").display())).unwrap());
        let goal = work.places.goal(&image, &Inputs::default()).unwrap();
        let (from, options) = (found.unwrap(), copy::Options::default());
        let progress = copy::Progress::default();
        let copied =
            copy::copy(&*from.place, &from.reference, &*goal.sink, goal.tag.as_deref(), &options, &progress);
        assert!(work.is_stored(&image, None).unwrap());
        assert!(!work.is_stored(&image, Some(digest.parse().unwrap())).unwrap());
        assert!(work.is_stored(&image, Some(copied.unwrap().digest)).unwrap());
    }

    /// Also paths that differ in other letters than those of file names alone, or end like files beside a disk.
    #[test]
    fn each_path_of_an_image_has_a_disk_and_a_kernel_of_its_own() {
        let paths = [
            "数据.img",
            "系统.img",
            "root-1.img",
            "root_1.img",
            "root",
            "root.lock",
            "root.partial",
            "root.partial.journal",
        ]
        .map(|name| format!("disk/{name}"));
        let place = tempfile::tempdir().unwrap();
        let (layout, folder) = (place.path().join("layout"), place.path().join("sha256-a"));
        let bytes = |at: usize| vec![b'A' + u8::try_from(at).unwrap(); 4096];
        let tar = paths.iter().enumerate().fold(Tar::default(), |tar, (at, path)| tar.file(path, &bytes(at)));
        Layout::create(&layout).image(LAYER, &tar.end());
        std::fs::create_dir(&folder).unwrap();
        let work = work(place.path());
        let image = pinned_layout(&work, &layout);
        for _ in 0..2 {
            for (at, path) in paths.iter().enumerate() {
                let disk = work.disk(&image, Some(path), &folder).unwrap();
                let kernel = work.boot(&image, path, &folder).unwrap();
                assert!(std::fs::read(&disk).unwrap() == bytes(at), "{path}: {}", disk.display());
                assert!(std::fs::read(&kernel).unwrap() == bytes(at), "{path}: {}", kernel.display());
            }
        }
    }

    /// The VM would boot the first one, whatever its author meant. Also where that one was unpacked under its own path before.
    #[test]
    fn an_image_with_two_disks_is_refused_until_one_is_named() {
        let place = tempfile::tempdir().unwrap();
        let (at, folder) = (place.path().join("layout"), place.path().join("sha256-a"));
        let tar = Tar::default().file("disk/one.img", &[1; 4096]).file("disk/two.img", &[2; 4096]).end();
        std::fs::create_dir(&folder).unwrap();
        let work = work(place.path());
        for (kind, layer) in [(LAYER, tar.clone()), (LAYER_GZIP, gzip(&tar))] {
            Layout::create(&at).image(kind, &layer);
            let image = pinned_layout(&work, &at);
            let refused = || {
                let e = work.disk(&image, None, &folder).unwrap_err();
                let says = r#"has 2 files in /disk where one disk is allowed: "disk/one.img", "disk/two.img"; name one"#;
                assert!(e.chain().contains(says), "{}", e.chain());
            };
            refused();
            let named = work.disk(&image, Some("disk/one.img"), &folder).unwrap();
            assert_eq!(std::fs::read(&named).unwrap(), [1; 4096]);
            refused();
            std::fs::remove_dir_all(&folder).unwrap();
            std::fs::create_dir(&folder).unwrap();
            std::fs::remove_dir_all(&at).unwrap();
        }
    }

    #[test]
    fn a_kernel_that_is_refused_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (at, folder) = (place.path().join("layout"), place.path().join("sha256-a"));
        std::fs::create_dir(&folder).unwrap();
        let work = work(place.path());
        let unpacked = |path: &str| {
            let e = work.boot(&pinned_layout(&work, &at), path, &folder).unwrap_err();
            let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
            let left: Vec<_> =
                files.filter(|file| file.extension().is_none_or(|end| end != "lock")).collect();
            assert!(left.is_empty(), "{left:?}");
            e.to_string()
        };
        Layout::create(&at).image(LAYER_GZIP, &bomb(9));
        assert!(unpacked("disk/disk.img").contains("536870912 at most"));

        let tar = Tar::default().file("boot/vmlinuz", &[1; 4096]).end();
        let layout = Layout::create(&at);
        layout.image(LAYER, &tar);
        let mut other = tar.clone();
        other[512] = 2;
        std::fs::write(layout.path(&digest(&tar)), other).unwrap();
        assert!(unpacked("boot/vmlinuz").contains("digest"));
    }

    #[test]
    fn a_note_that_leads_out_of_the_folder_of_its_image_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (own, other) = (place.path().join("sha256-a"), place.path().join("sha256-b"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("_disk"), [1; 512]).unwrap();
        }
        let note = own.join("disk");
        for (leads_to, is_followed) in [(&own, true), (&other, false)] {
            let disk = leads_to.join("_disk");
            std::fs::write(&note, format!("{}\n", disk.display())).unwrap();
            assert_eq!(known(&note), is_followed.then_some(disk));
        }
    }
    #[test]
    fn a_note_that_is_no_path_is_not_read_on() {
        let place = tempfile::tempdir().unwrap();
        let (note, disk) = (place.path().join("default.path"), place.path().join("a.disk"));
        std::fs::write(&disk, [1; 512]).unwrap();
        let written = |ends: usize| {
            std::fs::write(&note, format!("{}{}", disk.display(), "\n".repeat(ends))).unwrap();
            known(&note)
        };
        assert_eq!(written(1), Some(disk.clone()));
        assert_eq!(written(1 << 20), None, "the bytes behind the bound would be those of the path");
        std::fs::remove_file(&note).unwrap();
        std::os::unix::fs::symlink(&disk, &note).unwrap();
        assert_eq!(known(&note), None);
        std::fs::remove_file(&note).unwrap();
        assert_eq!(known(&note), None);
    }
}
