//! The plan as a table.

use super::*;
use crate::filter::Need;
use crate::filter::verify::Digest;
use crate::source::{EvidenceStrength, Identity, SourceFacts};

const KEPT: KeptImage = KeptImage { format: Format::Qcow2, virtual_size: Some(5 << 30) };

fn facts(seekable: bool, layers: &[Layer], format: Format, target: Destination, output: Output) -> Facts {
    let need = Need { least: 9 << 20, per_thread: 32 << 20 };
    let source = SourceFacts {
        name: "x".into(),
        size: Some(1 << 30),
        seekable,
        remote: false,
        plain: false,
        reentry: false,
        identity: None,
    };
    let virtual_size = Some(1 << 30);
    Facts {
        source,
        layers: layers.iter().map(|&l| (l, need)).collect(),
        format,
        kept: None,
        leftover: None,
        virtual_size,
        target,
        room: None,
        output,
    }
}

/// The plan for a source that is opened as [`crate::convert`] opens it.
fn plan(facts: &Facts, convert_options: &ConvertOptions) -> Result<Plan> {
    let access = match may_seek(&facts.source, convert_options) && facts.layers.is_empty() {
        true => SourceAccess::Seek(()),
        false => SourceAccess::Stream(()),
    };
    super::plan(facts.clone(), access, convert_options)
}

fn convert_options() -> ConvertOptions {
    ConvertOptions { max_size: 1 << 40, ..ConvertOptions::with_threads(2) }
}

fn file() -> Destination {
    Destination::File("d".into())
}

const QCOW2: Output = Output::Qcow2 { cluster_bits: 16, compress: None };

#[test]
fn the_flow_follows_from_the_facts() {
    let table = [
        (true, &[][..], Format::Qcow2, file(), Output::Raw, Flow::Tables(())),
        (true, &[], Format::Raw, file(), Output::Raw, Flow::Tables(())),
        (true, &[], Format::Qcow2, Destination::Stdout, Output::Raw, Flow::TablesInOrder(())),
        (true, &[], Format::Raw, file(), QCOW2, Flow::TablesInOrder(())),
        (true, &[Layer::Xz], Format::Qcow2, file(), Output::Raw, Flow::Stream(())),
        (false, &[], Format::Qcow2, file(), Output::Raw, Flow::Stream(())),
        (false, &[], Format::Raw, Destination::Stdout, Output::Raw, Flow::StreamInOrder(())),
        (false, &[], Format::Raw, file(), QCOW2, Flow::StreamInOrder(())),
        (false, &[], Format::Qcow2, file(), QCOW2, Flow::SpoolThenOrder(())),
        (false, &[], Format::Qcow2, Destination::Stdout, Output::Raw, Flow::SpoolThenOrder(())),
    ];
    for (seekable, layers, format, target, output, flow) in table {
        let facts = facts(seekable, layers, format, target, output);
        let plan = plan(&facts, &convert_options()).unwrap();
        assert_eq!(plan.flow, flow, "{facts:?}");
        assert_eq!(
            plan.spool.is_some(),
            flow == Flow::SpoolThenOrder(()) || (flow == Flow::Stream(()) && format == Format::Qcow2)
        );
        assert!(plan.memory_total() <= 256 << 20);
    }
}

#[test]
fn how_a_run_is_continued_follows_from_what_proves_the_source() {
    let resume = |says: Option<EvidenceStrength>, seekable, target, mode| {
        let mut facts = facts(seekable, &[], Format::Raw, target, Output::Raw);
        let (value, name) = ("etag:x".into(), "n".into());
        facts.source.identity = says.map(|says| Identity { value, size: Some(7), name, says });
        plan(&facts, &ConvertOptions { resume: mode, ..convert_options() }).unwrap().resume
    };
    for says in [EvidenceStrength::Content, EvidenceStrength::Version] {
        assert_eq!(resume(Some(says), true, file(), Mode::Auto), Ok(ResumeCommand::SameCommand));
    }
    for mode in [Mode::Auto, Mode::Always] {
        let likely = resume(Some(EvidenceStrength::Likely), true, file(), mode);
        assert!(
            matches!(likely, Ok(ResumeCommand::WithResume(why)) if why.contains("no strong ETag")),
            "{likely:?}"
        );
        let unknown = resume(None, true, file(), mode);
        assert!(unknown.is_err_and(|why| why.contains("nothing shows")), "{unknown:?}");
    }
    for (seekable, target, mode, why) in [
        (true, file(), Mode::Never, "--no-resume"),
        (true, Destination::Stdout, Mode::Auto, "only a file target"),
        (false, file(), Mode::Auto, "cannot be entered again"),
    ] {
        let told = resume(Some(EvidenceStrength::Likely), seekable, target, mode);
        assert!(told.is_err_and(|said| said.contains(why)), "{told:?}");
    }
}

#[test]
fn a_raw_stream_of_unknown_size_is_spooled_for_qcow2() {
    let mut facts = facts(false, &[Layer::Gzip], Format::Raw, file(), QCOW2);
    facts.virtual_size = None;
    assert_eq!(plan(&facts, &convert_options()).unwrap().flow, Flow::SpoolThenOrder(()));
}

#[test]
fn a_checksum_makes_a_stream_of_a_seekable_source() {
    let facts = facts(true, &[], Format::Qcow2, file(), Output::Raw);
    let plan = plan(&facts, &ConvertOptions { checksum: Some(Digest::Sha256([0; 32])), ..convert_options() })
        .unwrap();
    assert_eq!(plan.flow, Flow::Stream(()));
}

#[test]
fn two_threads_stay_under_64_mib() {
    for (target, output) in [(file(), Output::Raw), (file(), QCOW2), (Destination::Stdout, Output::Raw)] {
        for remote in [false, true] {
            let mut facts = facts(true, &[], Format::Qcow2, target.clone(), output);
            facts.source.remote = remote;
            let plan = plan(&facts, &convert_options()).unwrap();
            let in_order = plan.flow == Flow::TablesInOrder(()) && remote;
            assert!(plan.memory_total() <= if in_order { 96 } else { 64 } << 20, "{:?}", plan.memory);
        }
    }
}

#[test]
fn little_memory_means_fewer_workers_then_a_refusal_that_names_the_need() {
    let facts = facts(true, &[], Format::Raw, file(), Output::Raw);
    let many = ConvertOptions { threads: 64, memory: 64 << 20, ..convert_options() };
    let tight = plan(&facts, &many).unwrap();
    assert!(tight.workers < 64 && tight.memory_total() <= 64 << 20);
    let refused = plan(&facts, &ConvertOptions { memory: 1 << 20, ..convert_options() }).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("--memory"), "{refused}");
}

#[test]
fn sizes_are_checked_before_a_byte_moves() {
    let mut small = facts(true, &[], Format::Raw, Destination::Device("/dev/x".into()), Output::Raw);
    small.room = Some(1 << 20);
    assert!(plan(&small, &convert_options()).unwrap_err().to_string().contains("/dev/x is too small"));
    let disk = facts(true, &[], Format::Raw, file(), Output::Raw);
    let limit = plan(&disk, &ConvertOptions { max_size: 1 << 20, ..convert_options() }).unwrap_err();
    assert_eq!(limit.kind(), ErrorKind::Refused);
    let shrink = plan(&disk, &ConvertOptions { resize: Some(1 << 20), ..convert_options() }).unwrap_err();
    assert_eq!(shrink.kind(), ErrorKind::Usage);
    assert_eq!(
        plan(&disk, &ConvertOptions { resize: Some(2 << 30), ..convert_options() }).unwrap().size,
        Some(2 << 30)
    );
}

#[test]
fn a_disk_grows_by_what_is_added() {
    let mut disk = facts(true, &[], Format::Raw, file(), Output::Raw);
    disk.virtual_size = Some(1 << 30);
    let grown = |growth| ConvertOptions { growth, ..convert_options() };
    let plan_of = |growth| plan(&disk, &grown(growth));
    assert_eq!(plan_of(1 << 30).unwrap().size, Some(2 << 30));
    assert_eq!(plan_of(1).unwrap().size, Some((1 << 30) + 512));
    assert!(!plan_of(1 << 30).unwrap().reasons.iter().any(|why| why.contains("zeros follow")));
    assert_eq!(plan_of(u64::MAX).unwrap_err().kind(), ErrorKind::Usage);
    // The run, which counts the bytes of a file, comes to the size that the plan has announced.
    disk.virtual_size = Some(8193);
    assert_eq!(plan(&disk, &grown(100)).unwrap().size, Some(9216));
    assert_eq!(target_size(&disk, &grown(100), 8193).unwrap(), 9216);
    let exact = ConvertOptions { resize: Some(8193), ..convert_options() };
    assert_eq!(plan(&disk, &exact).unwrap().size, Some(8704));
    assert_eq!(target_size(&disk, &exact, 8193).unwrap(), 8704);
}

#[test]
fn a_disk_is_of_whole_sectors_and_never_empty() {
    let mut disk = facts(true, &[], Format::Raw, file(), Output::Raw);
    for (bytes, size) in [(1, 512), (3, 512), (512, 512), (513, 1024), ((1 << 20) - 1, 1 << 20)] {
        disk.virtual_size = Some(bytes);
        let plan = plan(&disk, &convert_options()).unwrap();
        assert_eq!(plan.size, Some(size));
        let said = plan.reasons.iter().any(|why| why.contains(&format!("{} zeros follow", size - bytes)));
        assert_eq!(said, size > bytes, "{:?}", plan.reasons);
    }
    assert_eq!(
        plan(&disk, &ConvertOptions { resize: Some((1 << 20) + 1), ..convert_options() }).unwrap().size,
        Some((1 << 20) + 512)
    );
    disk.virtual_size = Some(u64::MAX - 1);
    assert_eq!(plan(&disk, &convert_options()).unwrap_err().kind(), ErrorKind::Refused);
    // An image file that is kept is not a raw disk.
    disk.virtual_size = Some(1000);
    disk.kept = Some(KEPT);
    assert_eq!(plan(&disk, &convert_options()).unwrap().size, Some(1000));
    disk.virtual_size = Some(0);
    let e = plan(&disk, &convert_options()).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("x is empty"), "{e}");
}

/// Members of a gzip, frames of zstd and streams of xz follow one another: a cut between two leaves a whole file.
#[test]
fn a_compressed_raw_disk_has_the_length_that_its_source_tells() {
    let unknown = |layers: &[Layer], format, marks_its_end| {
        let facts = facts(false, layers, format, file(), Output::Raw);
        has_unknown_length(&facts, &convert_options(), marks_its_end)
    };
    for layer in [Layer::Gzip, Layer::Zstd, Layer::Xz] {
        assert!(unknown(&[layer], Format::Raw, false) && !unknown(&[layer], Format::Raw, true), "{layer}");
        assert!(!unknown(&[layer], Format::Qcow2, false), "its tables say how long it is");
        assert!(!unknown(&[layer, Layer::Tar], Format::Raw, false), "the archive says how long it is");
        assert!(!unknown(&[Layer::Tar, layer], Format::Raw, false), "the archive says how long it is");
    }
    let sum =
        ConvertOptions { checksum: Some(format!("sha256:{:064}", 0).parse().unwrap()), ..convert_options() };
    assert!(!has_unknown_length(
        &facts(false, &[Layer::Gzip], Format::Raw, file(), Output::Raw),
        &sum,
        false
    ));
}

/// Bytes of the account under a name.
fn account(plan: &Plan, name: &str) -> Option<u64> {
    plan.memory.iter().find(|(what, _)| *what == name).map(|(_, bytes)| *bytes)
}

fn image() -> Destination {
    Destination::Image("os:1".to_owned())
}

const MIB: u64 = 1 << 20;

#[test]
fn the_account_names_what_takes_memory_and_nothing_else() {
    // A disk of this computer to a file.
    let local = facts(true, &[], Format::Raw, file(), Output::Raw);
    let made = plan(&local, &convert_options()).unwrap();
    assert_eq!((made.workers, made.readers, made.buffers, made.piece, made.gap), (2, 0, 5, MIB, 64 << 10));
    assert_eq!(made.memory, [("program", PROGRAM), ("buffers", 5 * MIB), ("workers", 2 * MIB)]);
    assert_eq!(made.memory_total(), PROGRAM + 7 * MIB);
    // The caller's own buffers.
    let beside = ConvertOptions { beside: vec![("hashing", 3 * MIB), ("nothing", 0)], ..convert_options() };
    let made = plan(&local, &beside).unwrap();
    assert_eq!((account(&made, "hashing"), account(&made, "nothing")), (Some(3 * MIB), None));
    // A qcow2 that is fetched by offset: longer pieces, more requests, and tables.
    let mut remote = facts(true, &[], Format::Qcow2, file(), Output::Raw);
    remote.source.remote = true;
    let made = plan(&remote, &convert_options()).unwrap();
    assert_eq!((made.readers, made.buffers, made.piece, made.gap), (8, 13, 2 * MIB, 256 << 10));
    assert_eq!((account(&made, "buffers"), account(&made, "tables")), (Some(26 * MIB), Some(TABLES)));
    assert_eq!((account(&made, "requests in flight"), account(&made, "ordering")), (None, None));
    // At least one request, and in order no more than three.
    assert_eq!(plan(&remote, &ConvertOptions { connections: 0, ..convert_options() }).unwrap().readers, 1);
    remote.target = Destination::Stdout;
    let made = plan(&remote, &convert_options()).unwrap();
    assert_eq!((made.readers, made.buffers), (3, 8));
    assert_eq!(account(&made, "ordering"), Some(16 * MIB));
    // One that arrives in order.
    remote.source.seekable = false;
    remote.target = file();
    let made = plan(&remote, &convert_options()).unwrap();
    assert_eq!((made.readers, account(&made, "requests in flight")), (0, Some(24 * MIB)));
    remote.source.remote = false;
    assert_eq!(account(&plan(&remote, &convert_options()).unwrap(), "requests in flight"), None);
    // A disk that is put together first.
    remote.target = Destination::Stdout;
    assert_eq!(account(&plan(&remote, &convert_options()).unwrap(), "ordering"), Some(5 * MIB));
    // An image file that is kept, and is judged as it passes.
    let mut kept = facts(false, &[], Format::Raw, file(), Output::Raw);
    kept.kept = Some(KEPT);
    assert_eq!(
        account(&plan(&kept, &convert_options()).unwrap(), "checking the image"),
        Some(Validator::MEMORY)
    );
    kept.source.seekable = true;
    assert_eq!(account(&plan(&kept, &convert_options()).unwrap(), "checking the image"), None);
}

#[test]
fn compression_takes_memory_by_codec_and_level() {
    for (compress, bytes) in [
        (None, None),
        (Some((Codec::Deflate, 19)), Some(4 * MIB)),
        (Some((Codec::Zstd, 12)), Some(4 * MIB)),
        (Some((Codec::Zstd, 13)), Some(64 * MIB)),
    ] {
        let output = Output::Qcow2 { cluster_bits: 16, compress };
        let plan = plan(&facts(true, &[], Format::Raw, file(), output), &convert_options()).unwrap();
        assert_eq!(account(&plan, "compression"), bytes, "{compress:?}");
    }
}

/// The layers get what is left, and no more than they can use.
#[test]
fn decompression_takes_what_the_rest_leaves() {
    let disk = facts(false, &[Layer::Xz], Format::Raw, file(), Output::Raw);
    let wanted = disk.layers[0].1.wanted(2);
    let own = PROGRAM + 7 * MIB;
    for (memory, layers) in
        [(own + wanted, wanted), (own + wanted - 1, wanted - 1), (own + (9 << 20), 9 << 20)]
    {
        let made = plan(&disk, &ConvertOptions { memory, ..convert_options() }).unwrap();
        assert_eq!((made.workers, account(&made, "decompression")), (2, Some(layers)));
    }
    // One byte less, and there is one worker.
    let tight = plan(&disk, &ConvertOptions { memory: own + (9 << 20) - 1, ..convert_options() }).unwrap();
    assert_eq!((tight.workers, tight.buffers), (1, 3));
    // With one worker the account must fit, and the refusal names the layer that takes most.
    let least = PROGRAM + 4 * MIB + (9 << 20);
    assert_eq!(plan(&disk, &ConvertOptions { memory: least, ..convert_options() }).unwrap().workers, 1);
    let refused = plan(&disk, &ConvertOptions { memory: least - 1, ..convert_options() }).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("for the xz dictionary") && said.contains("allow it with --memory 27M"), "{said}");
    assert_eq!(refused.detail(), Some(&Detail::Memory(27 * MIB)));
    // A layer that takes little is not named.
    let mut small = disk;
    small.layers[0].1 = Need { least: 8 << 20, per_thread: 0 };
    let refused = plan(&small, &ConvertOptions { memory: 1, ..convert_options() }).unwrap_err();
    assert!(refused.to_string().contains("(for its buffers)"), "{refused}");
}

#[test]
fn a_spool_holds_at_most_the_disk_and_its_tables() {
    let spool = |facts: &Facts| plan(facts, &convert_options()).unwrap().spool;
    let disk = 1_u64 << 30;
    let with_tables = disk + disk / 64 + 64 * MIB;
    let stream = |format, target, output| facts(false, &[], format, target, output);
    assert_eq!(spool(&stream(Format::Raw, file(), Output::Raw)), None);
    assert_eq!(spool(&stream(Format::Qcow2, file(), Output::Raw)), Some(with_tables));
    let front_to_back = stream(Format::Qcow2, Destination::Stdout, Output::Raw);
    assert_eq!(spool(&front_to_back), Some(with_tables));
    let why = plan(&front_to_back, &convert_options()).unwrap().reasons;
    assert!(why.iter().any(|why| why == "the whole disk waits in a spool, at most 1.1 GiB"), "{why:?}");
    // Only the end of the file tells the size of a layer.
    let raw = stream(Format::Raw, image(), Output::Raw);
    assert_eq!(spool(&raw), None);
    assert_eq!(spool(&Facts { virtual_size: None, ..raw.clone() }), Some((1 << 40) + (1 << 34) + 64 * MIB));
    assert_eq!(spool(&stream(Format::Raw, image(), QCOW2)), Some(with_tables));
    let why = plan(&stream(Format::Raw, image(), QCOW2), &convert_options()).unwrap().reasons;
    assert!(why.iter().any(|why| why.contains("waits in a spool in the store's folder")), "{why:?}");
}

#[test]
fn a_disk_of_this_computer_is_read_twice_for_a_plain_qcow2_in_a_layer() {
    let twice = facts(true, &[], Format::Raw, image(), QCOW2);
    let made = plan(&twice, &convert_options()).unwrap();
    assert_eq!((made.spool, account(&made, "tables of the qcow2")), (None, Some(two_passes::LARGEST)));
    assert!(made.reasons.iter().any(|why| why.contains("read twice")), "{:?}", made.reasons);
    let compress = Some((Codec::Zstd, 3));
    let mut remote = twice.clone();
    remote.source.remote = true;
    let mut in_order = twice.clone();
    in_order.source.seekable = false;
    for once in [
        Facts { output: Output::Qcow2 { cluster_bits: 16, compress }, ..twice.clone() },
        Facts { target: file(), ..twice.clone() },
        Facts { output: Output::Raw, ..twice },
        remote,
        in_order,
    ] {
        let made = plan(&once, &convert_options()).unwrap();
        assert_eq!(account(&made, "tables of the qcow2"), None, "{once:?}");
        assert!(!made.reasons.iter().any(|why| why.contains("read twice")), "{once:?}");
    }
}

#[test]
fn clusters_wait_beside_a_file_and_elsewhere_for_a_device() {
    for (target, place) in
        [(file(), "beside the target"), (Destination::Device("/dev/x".into()), "among the temporary files")]
    {
        let why =
            plan(&facts(false, &[], Format::Qcow2, target, Output::Raw), &convert_options()).unwrap().reasons;
        assert!(why.iter().any(|why| why.contains(place)), "{why:?}");
    }
}

#[test]
fn sizes_are_allowed_up_to_their_bounds() {
    let mut disk = facts(true, &[], Format::Qcow2, Destination::Device("/dev/x".into()), Output::Raw);
    let bytes = disk.virtual_size.unwrap();
    disk.room = Some(bytes);
    let exact = ConvertOptions { max_size: bytes, resize: Some(bytes), ..convert_options() };
    assert_eq!(plan(&disk, &exact).unwrap().size, Some(bytes));
    // The size of a qcow2 on a device follows from its tables, and not from the disk.
    disk.room = Some(bytes - 1);
    assert!(plan(&Facts { output: QCOW2, ..disk.clone() }, &convert_options()).is_ok());
    let e = plan(&disk, &convert_options()).unwrap_err();
    assert_eq!(e.detail(), Some(&Detail::TooLarge { disk: bytes, room: bytes - 1 }));
    let e = plan(&disk, &ConvertOptions { max_size: bytes - 1, ..convert_options() }).unwrap_err();
    assert!(e.to_string().contains("more than the limit"), "{e}");
    disk.virtual_size = Some(0);
    let e = plan(&disk, &convert_options()).unwrap_err();
    assert!(e.to_string().contains("by its header the disk has 0 bytes"), "{e}");
}

#[test]
fn a_stream_is_entered_again_where_nothing_of_it_has_gone_by() {
    let resume =
        |facts: &Facts, convert_options: &ConvertOptions| plan(facts, convert_options).unwrap().resume;
    let stream = |layers: &[Layer], format| {
        let mut facts = facts(true, layers, format, file(), Output::Raw);
        facts.source.identity = Some(Identity::of_content("sha256:00".to_owned(), Some(7)));
        facts
    };
    let layer = |layers: &[Layer], format| {
        let mut facts = stream(layers, format);
        (facts.source.seekable, facts.source.reentry) = (false, true);
        facts
    };
    let sum = ConvertOptions { checksum: Some(Digest::Sha256([0; 32])), ..convert_options() };
    let verify = ConvertOptions { verify: true, ..convert_options() };
    let same = Ok(ResumeCommand::SameCommand);
    assert_eq!(resume(&stream(&[Layer::Gzip], Format::Raw), &convert_options()), same);
    assert_eq!(resume(&layer(&[], Format::Qcow2), &convert_options()), same);
    assert_eq!(resume(&layer(&[], Format::Raw), &convert_options()), same);
    // All of its bytes are summed up, whatever proves the source.
    let mut unproved = stream(&[], Format::Raw);
    unproved.source.identity = None;
    assert_eq!(resume(&unproved, &sum), same);
    // The tables of an image are read once more.
    assert_eq!(resume(&stream(&[Layer::Xz], Format::Qcow2), &convert_options()), same);
    assert_eq!(resume(&stream(&[], Format::Qcow2), &sum), same);
    let kept = Facts { kept: Some(KEPT), ..layer(&[], Format::Raw) };
    let packed = Facts { kept: Some(KEPT), ..stream(&[Layer::Gzip], Format::Raw) };
    for (facts, convert_options, why) in [
        (packed, convert_options(), "is checked from its first byte"),
        (stream(&[Layer::Gzip], Format::Raw), verify, "compares all of it"),
        (stream(&[Layer::Gzip, Layer::Xz], Format::Raw), convert_options(), "only one layer"),
        (stream(&[Layer::Tar], Format::Raw), convert_options(), "an archive cannot"),
        (layer(&[Layer::Gzip], Format::Raw), convert_options(), "is compressed itself"),
        (layer(&[], Format::Raw), sum, "cannot be entered again"),
        (kept, convert_options(), "cannot be entered again"),
    ] {
        let told = resume(&facts, &convert_options);
        assert!(told.is_err_and(|said| said.contains(why)), "{facts:?}: {told:?}");
    }
    let device = Facts { target: Destination::Device("/dev/x".into()), ..stream(&[], Format::Raw) };
    assert!(resume(&device, &convert_options()).is_err());
    assert_eq!(
        resume(&device, &ConvertOptions { journals: Some("/journals".into()), ..convert_options() }),
        same
    );
}

#[test]
fn what_is_written_front_to_back_is_begun_anew() {
    let mut disk = facts(true, &[], Format::Raw, file(), QCOW2);
    disk.source.identity = Some(Identity::of_content("sha256:00".to_owned(), Some(7)));
    let told = plan(&disk, &convert_options()).unwrap().resume;
    assert!(told.is_err_and(|why| why.contains("front to back")), "{told:?}");
}

#[test]
fn the_fingerprint_tells_runs_apart_whose_bytes_land_elsewhere() {
    let base = facts(false, &[Layer::Gzip], Format::Raw, file(), Output::Raw);
    let mut remote = base.clone();
    remote.source.remote = true;
    let all = [
        base.clone(),
        Facts { layers: vec![], ..base.clone() },
        Facts { format: Format::Qcow2, ..base.clone() },
        Facts { virtual_size: Some(1 << 20), ..base.clone() },
        Facts { output: QCOW2, ..base },
        remote,
    ];
    let prints: std::collections::BTreeSet<String> =
        all.iter().map(|facts| plan(facts, &convert_options()).unwrap().fingerprint()).collect();
    assert_eq!(prints.len(), all.len(), "{prints:?}");
}

#[test]
fn the_first_reason_tells_why_the_bytes_flow_so() {
    let sum = ConvertOptions { checksum: Some(Digest::Sha256([0; 32])), ..convert_options() };
    let disk = |seekable, layers: &[Layer], target| facts(seekable, layers, Format::Raw, target, Output::Raw);
    for (facts, wishes, why) in [
        (disk(true, &[], file()), convert_options(), "straight to its place"),
        (disk(true, &[], Destination::Stdout), convert_options(), "as the target wants it"),
        (disk(true, &[Layer::Gzip], file()), sum.clone(), "the disk is inside a compressed stream: it"),
        (disk(true, &[], file()), sum, "the checksum is of all bytes in order: it"),
        (disk(false, &[], Destination::Stdout), convert_options(), "the source cannot be read by offset: it"),
    ] {
        let reasons = plan(&facts, &wishes).unwrap().reasons;
        assert!(reasons[0].contains(why), "{reasons:?}");
    }
}

#[test]
fn a_file_beside_the_disk_and_an_image_file_keep_their_size() {
    let mut disk = facts(true, &[], Format::Raw, file(), Output::Raw);
    assert_eq!(in_sectors(&disk, 700).unwrap(), 1024);
    disk.source.plain = true;
    assert_eq!(in_sectors(&disk, 700).unwrap(), 700);
    disk.source.plain = false;
    disk.kept = Some(KEPT);
    assert_eq!(in_sectors(&disk, 700).unwrap(), 700);
    assert!(!has_unknown_length(&disk, &convert_options(), false), "its tables say how long it is");
}
