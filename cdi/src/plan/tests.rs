//! The plan as a table.

use super::*;
use crate::source::{EvidenceStrength, Identity, SourceFacts};

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
    // An image file that is kept is no raw disk.
    disk.virtual_size = Some(1000);
    disk.kept = Some(Format::Qcow2);
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
