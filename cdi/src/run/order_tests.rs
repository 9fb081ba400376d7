//! Disks of zeros, raw and packed extents, through all threads of the engine to targets of both orders.

use super::engine::{Engine, Size};
use super::front::FrontToBack;
use super::job::{Cut, Reached};
use super::memory_targets::{AnyOrder, InOrder};
use super::packed_qcow2::PackedQcow2;
use super::sink::{EngineSink, Ordered, Packed, Packer};
use super::tables::{self, STRETCH};
use super::watch::Watch;
use crate::target::{Finished, Order, Target};
use crate::{Error, ErrorKind, Result};
use disk_format::qcow2::write::{Compression, Options};
use disk_format::{Codec, Data, Extent, Format, GuestView, Image, Limits, ReadAt, Window};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const KIB: u64 = 1 << 10;
const CLUSTER: u64 = 64 * KIB;

/// A disk, with an image file that holds it.
#[derive(Default)]
struct Disk {
    extents: Vec<Extent>,
    file: Vec<u8>,
    guest: Vec<u8>,
}

impl Disk {
    fn of(parts: &[(char, u64)]) -> Disk {
        let mut disk = Disk::default();
        parts.iter().for_each(|&(kind, len)| disk.push(kind, len));
        disk
    }

    /// Adds zeros (`z`), data that is not packed (`r`), or one packed cluster (`p`). The disk may end inside
    /// that.
    fn push(&mut self, kind: char, len: u64) {
        let guest = self.guest.len() as u64;
        // A gap: bytes of the file that belong to nothing.
        self.file.resize(self.file.len() + 300, 0xEE);
        let at = self.file.len() as u64;
        let bytes: Vec<u8> = (0..len.max(CLUSTER)).map(|i| ((guest + i) / 512 % 251 + 1) as u8).collect();
        let data = match kind {
            'z' => Data::Zero,
            'r' => {
                self.file.extend_from_slice(&bytes[..len as usize]);
                Data::Raw { at }
            }
            _ => {
                let packed = zstd::bulk::compress(&bytes[..CLUSTER as usize], 1).unwrap();
                self.file.extend_from_slice(&packed);
                Data::Packed { at, size: packed.len() as u32, codec: Codec::Zstd, unpacked: CLUSTER as u32 }
            }
        };
        self.extents.push(Extent { guest, len, data });
        match kind {
            'z' => self.guest.resize((guest + len) as usize, 0),
            _ => self.guest.extend_from_slice(&bytes[..len as usize]),
        }
    }
}

impl Image for Disk {
    fn format(&self) -> Format {
        Format::Qcow2
    }

    fn virtual_size(&self) -> u64 {
        self.guest.len() as u64
    }

    /// Four extents at a time.
    fn window(&self, from: u64) -> disk_format::Result<Window> {
        let rest = self.extents.iter().skip_while(|e| e.guest < from);
        let extents: Vec<Extent> = rest.take(4).copied().collect();
        let next = extents.last().map(Extent::end).filter(|&end| end < self.virtual_size());
        Ok(Window { extents, next })
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![]
    }
}

/// All cases of a stretch: zeros that begin, cross and end it, whole stretches of zeros, longer data, and
/// packed clusters.
fn disk() -> Disk {
    let mut parts = vec![
        ('r', 12 * KIB),
        ('z', 100 * KIB),
        ('p', CLUSTER),
        ('p', CLUSTER),
        ('r', 4 * KIB),
        // Past two boundaries, from the middle of a stretch to the middle of another.
        ('z', 3 * STRETCH + 8 * KIB),
        ('r', STRETCH + 40 * KIB),
        ('p', CLUSTER),
    ];
    let end: u64 = parts.iter().map(|(_, len)| len).sum();
    // Up to a boundary, then two whole stretches, then one.
    parts.push(('r', STRETCH - end % STRETCH));
    parts.extend([
        ('z', 2 * STRETCH),
        ('r', STRETCH),
        ('z', STRETCH),
        ('r', 4 * KIB),
        ('z', STRETCH - 4 * KIB),
    ]);
    // From a boundary, with a rest behind the whole ones.
    parts.extend([('z', 2 * STRETCH + 4 * KIB), ('p', CLUSTER), ('r', 4 * KIB)]);
    // The disk ends inside a cluster.
    parts.push(('p', 1536));
    Disk::of(&parts)
}

fn engine<'a>(bytes: &'a dyn ReadAt, sink: EngineSink<'a>, watch: &'a Watch, readers: usize) -> Engine<'a> {
    let size = Size { workers: 2, readers, buffers: readers + 5, sum: true };
    Engine { bytes: Some(bytes), sink, watch, size, marks: None }
}

/// Bytes of a disk that are data, and so are read and written.
fn data(disk: &Disk) -> u64 {
    disk.extents.iter().filter(|e| e.data != Data::Zero).map(|e| e.len).sum()
}

#[test]
fn a_disk_in_guest_order_is_the_same_with_readers_and_without() {
    let disk = disk();
    let mut sums = vec![];
    for readers in [0, 2] {
        let (target, watch) = (InOrder::default(), Watch::default());
        let front = FrontToBack { target: &target, watch: &watch };
        let engine = engine(&disk.file, EngineSink::Ordered(&front), &watch, readers);
        let end = engine.run(|feed| tables::guest_order(feed, &disk, 4 * KIB)).unwrap();
        assert!(*target.bytes.lock().unwrap() == disk.guest, "{readers} readers");
        assert_eq!(watch.progress().0, disk.virtual_size());
        // Zeros between data are copied where they are few.
        assert!(watch.written() >= data(&disk) && watch.written() < data(&disk) + 512 * KIB);
        assert!(watch.read() > 0 && watch.read() < disk.file.len() as u64 + 1);
        // Whole stretches of zeros are one range, whatever is around them.
        let zeros = target.zeros.lock().unwrap();
        for len in [2 * STRETCH, STRETCH] {
            assert!(zeros.iter().any(|&(at, zeros)| at % STRETCH == 0 && zeros == len), "{zeros:?}");
        }
        sums.push(end.sum);
    }
    let (target, watch) = (AnyOrder::of_size(disk.guest.len()), Watch::default());
    let how = Cut { piece: 256 * KIB, gap: 4 * KIB };
    let engine = engine(&disk.file, EngineSink::Any(&target), &watch, 2);
    let end = engine.run(|feed| tables::any_order(feed, &disk, how, Reached::default())).unwrap();
    assert!(*target.0.lock().unwrap() == disk.guest, "in any order");
    assert_eq!((watch.progress().0, watch.written()), (disk.virtual_size(), data(&disk)));
    sums.push(end.sum);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}

#[test]
fn a_run_that_goes_on_writes_what_is_behind_its_mark_and_counts_all() {
    let disk = disk();
    let target = AnyOrder(disk.guest.clone().into());
    let watch = Watch::default();
    let how = Cut { piece: 256 * KIB, gap: 0 };
    // The first window's reads are done up to the first packed cluster.
    let done = disk.extents[2].file_range().unwrap().end;
    let engine = engine(&disk.file, EngineSink::Any(&target), &watch, 0);
    let from = Reached { window: 0, file: done };
    engine.run(|feed| tables::any_order(feed, &disk, how, from)).unwrap();
    assert!(*target.0.lock().unwrap() == disk.guest);
    let before = disk.extents[0].len + disk.extents[2].len;
    assert_eq!((watch.progress().0, watch.written()), (disk.virtual_size(), data(&disk) - before));
}

#[test]
fn data_of_a_later_window_is_written_though_it_lies_before_the_mark_in_the_file() {
    // Two windows of four clusters, whose file has them from the last to the first.
    let mut disk = Disk::of(&[('r', CLUSTER); 8]);
    let last = 7 * CLUSTER;
    disk.file = disk.guest.chunks(CLUSTER as usize).rev().flatten().copied().collect();
    disk.extents.iter_mut().for_each(|e| e.data = Data::Raw { at: last - e.guest });
    let (target, watch) = (AnyOrder::of_size(disk.guest.len()), Watch::default());
    let engine = engine(&disk.file, EngineSink::Any(&target), &watch, 0);
    // The last cluster of the first window lies first in the file, and is done.
    let done = disk.extents[3].file_range().unwrap().end;
    let how = Cut { piece: CLUSTER, gap: 0 };
    engine.run(|feed| tables::any_order(feed, &disk, how, Reached { window: 0, file: done })).unwrap();
    let mut expected = disk.guest.clone();
    expected[3 * CLUSTER as usize..4 * CLUSTER as usize].fill(0xAA);
    assert!(*target.0.lock().unwrap() == expected);
}

#[test]
fn zeros_behind_a_grown_disk_are_told_in_both_orders() {
    let disk = Disk::of(&[('r', 8 * KIB)]);
    let size = 3 * STRETCH;
    let grown = [&disk.guest[..], &vec![0; (size - disk.virtual_size()) as usize]].concat();
    let (target, watch) = (InOrder::default(), Watch::default());
    let front = FrontToBack { target: &target, watch: &watch };
    let run = engine(&disk.file, EngineSink::Ordered(&front), &watch, 0).run(|feed| {
        tables::guest_order(feed, &disk, 0)?;
        tables::grow(feed, disk.virtual_size(), size)?;
        // A disk that is not grown gets none.
        tables::grow(feed, size, size)
    });
    run.unwrap();
    assert!(*target.bytes.lock().unwrap() == grown);
}

/// A file that fails, or panics, where it is read at an offset.
struct Broken<'a> {
    file: &'a [u8],
    at: u64,
    how: fn() -> io::Result<()>,
}

impl ReadAt for Broken<'_> {
    fn size(&self) -> u64 {
        self.file.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if (offset..offset + buf.len() as u64).contains(&self.at) {
            (self.how)()?;
        }
        self.file.read_exact_at(buf, offset)
    }
}

/// The error of a run in guest order over a file that is broken in its middle, with many stretches behind.
fn error_of(disk: &Disk, bytes: &dyn ReadAt, readers: usize) -> Error {
    let (target, watch) = (InOrder::default(), Watch::default());
    let front = FrontToBack { target: &target, watch: &watch };
    let engine = engine(bytes, EngineSink::Ordered(&front), &watch, readers);
    let e = engine.run(|feed| tables::guest_order(feed, disk, 0)).unwrap_err();
    let there = target.bytes.lock().unwrap();
    assert!(disk.guest.starts_with(&there) && there.len() < disk.guest.len(), "{e}");
    e
}

#[test]
fn the_first_error_of_a_thread_ends_the_run_and_is_told() {
    let parts: Vec<_> = (0..40).map(|_| ('r', STRETCH / 2)).chain([('p', CLUSTER)]).collect();
    let mut disk = Disk::of(&parts);
    let at = disk.extents[21].file_range().unwrap().start + 7;
    let full = || Err(io::Error::other("the cable is out"));
    for readers in [0, 2] {
        let e = error_of(&disk, &Broken { file: &disk.file, at, how: full }, readers);
        assert!(
            e.to_string().contains("cannot read") && e.chain().contains("the cable is out"),
            "{}",
            e.chain()
        );
        let e = error_of(&disk, &Broken { file: &disk.file, at, how: || panic!("a fault of ours") }, readers);
        assert!(e.to_string().contains("internal error"), "{e}");
    }
    let packed = disk.extents[40].file_range().unwrap().start as usize;
    disk.file[packed..].fill(0);
    let e = error_of(&disk, &disk.file, 0);
    assert!(e.to_string().contains("does not unpack"), "{e}");
}

/// Counts what is committed, and fails at once.
struct Full(AtomicU64);

impl Ordered for Full {
    fn packer(&self) -> Box<dyn Packer + '_> {
        Box::new(Full(AtomicU64::new(0)))
    }

    fn commit(&self, _: &Packed) -> Result<()> {
        self.0.fetch_add(1, Relaxed);
        Err(Error::failed("the target is full"))
    }
}

impl Packer for Full {
    fn pack(&mut self, _: u64, _: &[u8], _: &mut Packed) -> Result<()> {
        Ok(())
    }
}

/// A target that fails once, at the next data or the next zeros.
struct Failing {
    at_zeros: bool,
    is_full: AtomicBool,
}

impl Failing {
    fn check(&self, is_zeros: bool) -> Result<()> {
        match is_zeros == self.at_zeros && self.is_full.swap(false, Relaxed) {
            true => Err(Error::failed("no room")),
            false => Ok(()),
        }
    }
}

impl Target for Failing {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        self.check(false)
    }

    fn zero(&self, _: u64, _: u64) -> Result<()> {
        self.check(true)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}

#[test]
fn an_error_of_the_target_ends_the_run() {
    let mut holed = Disk::of(&[('r', 4 * CLUSTER)]);
    let from = holed.extents[0].file_range().unwrap().start as usize;
    holed.file[from + CLUSTER as usize..from + 3 * CLUSTER as usize].fill(0);
    let (raw, packed) = (Disk::of(&[('r', CLUSTER)]), Disk::of(&[('p', CLUSTER)]));
    let (zeros, apart) =
        (Disk::of(&[('z', CLUSTER)]), Disk::of(&[('p', CLUSTER), ('z', CLUSTER), ('p', CLUSTER)]));
    let how = Cut { piece: 256 * KIB, gap: 4 * KIB };
    for (disk, at_zeros) in [(&zeros, true), (&holed, true), (&raw, false), (&packed, false), (&apart, false)]
    {
        let target = Failing { at_zeros, is_full: true.into() };
        let watch = Watch::default();
        let run = engine(&disk.file, EngineSink::Any(&target), &watch, 0)
            .run(|feed| tables::any_order(feed, disk, how, Reached::default()));
        assert_eq!(run.unwrap_err().to_string(), "no room", "{:?}", disk.extents);
        target.is_full.store(true, Relaxed);
        let watch = Watch::default();
        let front = FrontToBack { target: &target, watch: &watch };
        let run = engine(&disk.file, EngineSink::Ordered(&front), &watch, 0)
            .run(|feed| tables::guest_order(feed, disk, 0));
        assert_eq!(run.unwrap_err().to_string(), "no room", "{:?}", disk.extents);
    }
    for compress in [None, Some(Compression { codec: Codec::Deflate, level: 6 })] {
        let target = Failing { at_zeros: false, is_full: false.into() };
        let watch = Watch::default();
        let options = Options { compress, ..Options::new(CLUSTER) };
        let qcow2 = PackedQcow2::create(&target, options, &watch).unwrap();
        target.is_full.store(true, Relaxed);
        let run = engine(&raw.file, EngineSink::Ordered(&qcow2), &watch, 0)
            .run(|feed| tables::guest_order(feed, &raw, 0));
        // Compressed clusters are collected, and written with the tables.
        let done = run.and_then(|_| qcow2.finish());
        assert!(done.unwrap_err().chain().contains("no room"), "{compress:?}");
    }
}

#[test]
fn a_broken_cluster_ends_a_run_in_any_order() {
    let mut disk = Disk::of(&[('p', CLUSTER)]);
    disk.file.fill(0);
    let (target, watch) = (AnyOrder::of_size(disk.guest.len()), Watch::default());
    let how = Cut { piece: 256 * KIB, gap: 0 };
    let run = engine(&disk.file, EngineSink::Any(&target), &watch, 0)
        .run(|feed| tables::any_order(feed, &disk, how, Reached::default()));
    assert!(run.unwrap_err().to_string().contains("does not unpack"));
}

#[test]
fn behind_a_write_that_failed_nothing_is_written() {
    let disk = Disk::of(&[('r', 20 * STRETCH)]);
    let (target, watch) = (Full(AtomicU64::new(0)), Watch::default());
    let engine = engine(&disk.file, EngineSink::Ordered(&target), &watch, 0);
    let e = engine.run(|feed| tables::guest_order(feed, &disk, 0)).unwrap_err();
    assert_eq!((e.to_string().as_str(), target.0.load(Relaxed)), ("the target is full", 1));
}

#[test]
fn a_run_that_has_failed_takes_no_job() {
    let disk = Disk::of(&[('r', STRETCH)]);
    let (target, watch) = (AnyOrder::of_size(disk.guest.len()), Watch::default());
    let engine = engine(&disk.file, EngineSink::Any(&target), &watch, 0);
    let e = engine.run(|feed| {
        feed.watch.fail(Error::failed("the first one"));
        let how = Cut { piece: 256 * KIB, gap: 0 };
        let echo = tables::any_order(feed, &disk, how, Reached::default());
        assert_eq!(echo.unwrap_err().kind(), ErrorKind::Interrupted);
        Ok(())
    });
    assert_eq!(e.unwrap_err().to_string(), "the first one");
    assert!(target.0.lock().unwrap().iter().all(|&byte| byte == 0xAA));
}

#[test]
fn a_disk_in_a_qcow2_reads_back_as_it_was_also_where_it_is_grown() {
    let disk = disk();
    let deflate = Compression { codec: Codec::Deflate, level: 6 };
    for (compress, grown) in [(None, 0), (Some(deflate), 0), (None, STRETCH), (Some(deflate), 12 * KIB)] {
        let size = disk.virtual_size() + grown;
        let (target, watch) = (AnyOrder::of_size(3 * size as usize), Watch::default());
        let options = Options { compress, ..Options::new(size) };
        let qcow2 = PackedQcow2::create(&target, options, &watch).unwrap();
        let run = engine(&disk.file, EngineSink::Ordered(&qcow2), &watch, 0).run(|feed| {
            tables::guest_order(feed, &disk, 4 * KIB)?;
            tables::grow(feed, disk.virtual_size(), size)
        });
        run.unwrap();
        let file_size = qcow2.finish().unwrap().file_size as usize;
        // Each cluster of data, and none of zeros.
        let (written, most) = (watch.written(), data(&disk) + 20 * CLUSTER);
        assert!(written <= most && (compress.is_some() || written >= data(&disk)), "{written} of {most}");
        let file = Arc::new(target.0.lock().unwrap()[..file_size].to_vec());
        let image = disk_format::open(Format::Qcow2, file.clone(), Limits::default()).unwrap();
        assert_eq!(image.virtual_size(), size);
        let view = GuestView::new(image, file);
        let mut guest = vec![0xAA; size as usize];
        view.read_exact_at(&mut guest, 0).unwrap();
        let (whole, rest) = guest.split_at(disk.guest.len());
        assert!(whole == disk.guest, "{compress:?}, grown by {grown}");
        assert!(rest.iter().all(|&byte| byte == 0), "{compress:?}, grown by {grown}");
    }
}
