//! Exports: the disk of a PVC becomes a container image in a real registry, through trouble of all kinds.

use super::{Ended, PATIENCE, Pod, disk, names};
use api::job::export::{Compression, Disk, Format};
use api::job::{Confidential, Export, Files, Import, Registry, Report, SecretFiles, Source, Stage, Target};
use cdi::build;
use cdi::convert::{Keep, Request};
use cdi::plan::{ConvertOptions, Output};
use cdi::run::watch::Watch;
use cdi::source::{Options, SourceSpec};
use cdi::target::Destination;
use container_disk::image::{Recipe, hints};
use container_disk::manifest::Content;
use container_disk::open::Places;
use container_disk::place::Reference;
use container_disk::{Name, pack};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::disk::{Noise, raw_disk};
use tests::faults::{Fault, Proxy, What};
use tests::http::Authority;
use tests::registry::{Registry as Server, Serve};

const SIZE: u64 = 24 << 20;
const USER: (&str, &str) = ("me", "s3cret-word");

/// The volume of a PVC, with a disk in it.
struct Volume(tempfile::TempDir);

impl Volume {
    fn of(seed: u64) -> Volume {
        let folder = tempfile::tempdir().unwrap();
        raw_disk(&disk(folder.path()), SIZE, seed);
        Volume(folder)
    }

    /// A disk that no compression shrinks.
    fn of_noise(seed: u64) -> Volume {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(disk(folder.path()), Noise::new(seed).bytes(SIZE as usize)).unwrap();
        Volume(folder)
    }

    fn disk(&self) -> PathBuf {
        disk(self.0.path())
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.disk()).unwrap()
    }

    /// The job that exports it.
    fn job(&self, address: &str) -> Export {
        job(Disk::File(self.disk()), address)
    }
}

fn job(disk: Disk, address: &str) -> Export {
    let url = format!("docker://{address}/golden/os:1");
    let target = Registry { url, architecture: Some("amd64".into()), ..Registry::default() };
    Export { disk, target, format: None, layer: Compression::Zstd, labels: BTreeMap::new() }
}

fn start(job: &Export) -> Pod {
    Pod::start_as(&["export"], job, &[("CORACLE_LOG", "debug")])
}

fn run(job: &Export) -> Ended {
    start(job).wait()
}

fn name(address: &str) -> Name {
    Name::of_image(&format!("docker://{address}/golden/os:1")).unwrap()
}

/// The disk in the image, as the next importer gets it.
fn imported(address: &str) -> Vec<u8> {
    let volume = tempfile::tempdir().unwrap();
    let url = format!("docker://{address}/golden/os:1");
    let source =
        Source::Registry(Registry { url, architecture: Some("amd64".into()), ..Registry::default() });
    let target = Target::File(disk(volume.path()));
    Pod::run(&Import { source, target, size: None, preallocate: false }).done();
    std::fs::read(disk(volume.path())).unwrap()
}

fn is_exported(address: &str) -> bool {
    let found = Places::new(None).find(&name(address)).unwrap();
    found.place.document(&found.reference).is_ok()
}

/// The image that `coracle build` makes of the same disk.
fn built(
    volume: &Volume,
    output: Output,
    layer: pack::Compression,
    labels: &BTreeMap<String, String>,
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = SourceSpec::Path(volume.disk());
    let request =
        Request::new(source, Destination::Null, Options::default(), ConvertOptions::with_threads(2));
    let recipe = Recipe { labels: labels.clone(), env: hints(labels), ..Recipe::new("amd64", vec![]) };
    let order = build::Order {
        disk: Some(Request { keep: Keep::UnlessRaw(output), ..request }),
        boot: None,
        recipe,
        pack: pack::Options { compression: layer, ..pack::Options::default() },
        names: vec![Name::of_image(&format!("oci:{}", folder.path().join("os").display())).unwrap()],
        append: false,
    };
    let places = Places::new(None).with_store(folder.path().join("store"));
    let watch = Watch::default();
    build::prepare(order, &watch).unwrap().run(&places, &watch).unwrap().digest
}

#[test]
fn the_disk_of_a_pvc_becomes_the_image_that_coracle_build_makes_and_stays_as_it_is() {
    let (server, volume) = (Server::start(), Volume::of(1));
    let before = volume.bytes();
    let qcow2 = Output::Qcow2 { cluster_bits: 16, compress: None };
    let labels: BTreeMap<String, String> =
        [("instancetype.kubevirt.io/default-instancetype".to_owned(), "u1.small".to_owned())].into();
    for (format, layer, output, packed) in [
        (None, Compression::Zstd, qcow2, pack::Compression::Zstd),
        (Some(Format::Qcow2), Compression::Gzip, qcow2, pack::Compression::Gzip),
        (Some(Format::Raw), Compression::Zstd, Output::Raw, pack::Compression::Zstd),
        (Some(Format::Raw), Compression::None, Output::Raw, pack::Compression::None),
    ] {
        let job = Export { format, layer, labels: labels.clone(), ..volume.job(&server.address()) };
        let ended = run(&job);
        let report = ended.done();
        assert_eq!((report.done, report.message.as_str()), (SIZE, "Export Complete"));
        assert_eq!(report.digest, built(&volume, output, packed, &labels), "{format:?} {layer:?}");
        assert!(imported(&server.address()) == before);
    }
    assert!(volume.bytes() == before);
    assert_eq!(names(volume.0.path()), ["disk.img"], "nothing lies beside it");
}

#[test]
fn what_the_registry_has_is_not_sent_again() {
    let (server, volume) = (Server::start(), Volume::of_noise(2));
    let proxy = Proxy::start(&server.address(), vec![]);
    let first = run(&volume.job(&proxy.address())).done();
    assert_eq!(first.resumed, 0);
    let (uploads, patches) = (proxy.count("POST", "/blobs/uploads/"), proxy.count("PATCH", "/blobs/"));
    assert!(uploads >= 2 && patches >= 1, "{uploads} {patches}");
    let again = run(&volume.job(&proxy.address())).done();
    assert_eq!((again.resumed, &again.digest), (SIZE, &first.digest));
    assert_eq!(proxy.count("POST", "/blobs/uploads/"), uploads, "no blob is begun");
    // With another label only the config is sent.
    let labels = [("a".to_owned(), "b".to_owned())].into();
    let other = run(&Export { labels, ..volume.job(&proxy.address()) }).done();
    assert_ne!(other.digest, first.digest);
    assert_eq!(other.resumed, SIZE);
    assert_eq!(proxy.count("POST", "/blobs/uploads/"), uploads + 1);
}

/// Waits until something is so, and kills the pod.
fn killed_when(mut pod: Pod, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "it has not come about: {}", pod.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    pod.signal(Signal::KILL);
    // Nothing is sent after the end of the log.
    pod.log();
}

#[test]
fn a_pod_that_is_killed_in_the_middle_of_the_layer_is_followed_by_one_that_ends_the_image() {
    let (server, volume) = (Server::start(), Volume::of_noise(3));
    let cut = Fault::always(What::CutRequest(8 << 20)).method("PATCH");
    let proxy = Proxy::start(&server.address(), vec![cut.times(u32::MAX)]);
    let job = volume.job(&proxy.address());
    killed_when(start(&job), || proxy.count("PATCH", "/blobs/uploads/") >= 1);
    assert!(!is_exported(&server.address()), "nothing has the tag yet");
    proxy.set(vec![]);
    let report = run(&job).done();
    assert!(imported(&server.address()) == volume.bytes());
    let qcow2 = Output::Qcow2 { cluster_bits: 16, compress: None };
    assert_eq!(report.digest, built(&volume, qcow2, pack::Compression::Zstd, &BTreeMap::new()));
}

#[test]
fn a_pod_that_is_killed_behind_the_layer_is_followed_by_one_that_sends_no_byte_of_it() {
    let (server, volume) = (Server::start(), Volume::of_noise(4));
    let mute = Fault::always(What::Mute).method("PUT").path("/manifests/");
    let proxy = Proxy::start(&server.address(), vec![mute]);
    let job = volume.job(&proxy.address());
    killed_when(start(&job), || proxy.count("PUT", "/manifests/") >= 1);
    assert!(!is_exported(&server.address()), "nothing has the tag yet");
    proxy.set(vec![]);
    let before = proxy.count("POST", "/blobs/uploads/");
    let report = run(&job).done();
    assert_eq!(report.resumed, SIZE);
    assert_eq!(proxy.count("POST", "/blobs/uploads/"), before, "no blob is begun");
    assert!(imported(&server.address()) == volume.bytes());
}

#[test]
fn a_registry_that_breaks_connections_gets_the_image_all_the_same() {
    let (server, volume) = (Server::start(), Volume::of_noise(5));
    let faults = vec![
        Fault::always(What::Close).method("HEAD").times(2),
        Fault::always(What::CutRequest(5 << 20)).method("PATCH").times(2),
        Fault::always(What::Answer(503, String::new(), vec![])).method("PUT").times(2),
    ];
    let proxy = Proxy::start(&server.address(), faults);
    run(&volume.job(&proxy.address())).done();
    assert!(imported(&server.address()) == volume.bytes());
}

#[test]
fn a_registry_that_is_away_is_waited_for_and_says_so() {
    let (mut server, volume) = (Server::start(), Volume::of(6));
    server.stop();
    let mut pod = start(&volume.job(&server.address()));
    let waits = pod.reports(|report| report.stage == Stage::Waiting);
    assert_eq!((waits.reason.as_str(), waits.failures), ("Failed", 1), "{waits:?}");
    assert!(waits.retry_at.is_some() && waits.message.contains(&server.address()), "{waits:?}");
    server.start_again();
    let ended = pod.wait();
    assert!(ended.done().failures >= 1);
    assert!(imported(&server.address()) == volume.bytes());
}

#[test]
fn a_pod_that_is_asked_to_end_does_so_at_once() {
    let (server, volume) = (Server::start(), Volume::of_noise(7));
    let proxy = Proxy::start(&server.address(), vec![Fault::always(What::Mute).method("PATCH")]);
    let pod = start(&volume.job(&proxy.address()));
    let until = Instant::now() + PATIENCE;
    while proxy.count("PATCH", "/blobs/") == 0 {
        assert!(Instant::now() < until, "no byte is sent");
        std::thread::sleep(Duration::from_millis(5));
    }
    pod.signal(Signal::TERM);
    let ended = pod.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.log);
    let report = ended.report.expect("a termination message");
    assert_eq!((report.stage, report.reason.as_str()), (Stage::Waiting, "Interrupted"));
}

#[test]
fn a_login_and_an_authority_open_a_registry_and_without_them_the_job_ends() {
    let (authority, volume) = (Authority::new(), Volume::of(8));
    let server = Server::serve(&Serve { tls: Some(&authority), basic: Some(USER), ..Serve::default() });
    let ca = tempfile::tempdir().unwrap();
    std::fs::write(ca.path().join("ca.crt"), authority.pem()).unwrap();
    let job = |secret: &[(&str, &str)]| {
        let mut job = volume.job(&server.address());
        let files =
            secret.iter().map(|(key, text)| ((*key).to_owned(), Confidential(text.as_bytes().to_vec())));
        let files = Files::Values(files.collect());
        job.target.login = (!secret.is_empty()).then(|| SecretFiles { secret: "login".into(), files });
        job.target.ca = Some(ca.path().to_owned());
        job
    };
    let right = [("accessKeyId", USER.0), ("secretKey", USER.1)];
    for secret in [&[("accessKeyId", USER.0), ("secretKey", "other")][..], &[]] {
        let report = run(&job(secret)).failed("Forbidden");
        assert!(report.message.contains(&server.address()), "{report:?}");
    }
    let half = run(&job(&[("accessKeyId", USER.0)])).failed("Refused");
    assert!(half.message.contains("Secret login has no key secretKey"), "{half:?}");
    let ended = run(&job(&right));
    assert!(!ended.log.contains(USER.1), "{}", ended.log);
    ended.done();
    let stranger = Export { target: Registry { ca: None, ..job(&right).target }, ..job(&right) };
    let mut pod = start(&stranger);
    let waits = pod.reports(|report| report.stage == Stage::Waiting);
    assert!(waits.message.contains("certificate"), "{waits:?}");
}

#[test]
fn what_no_other_attempt_could_mend_ends_the_job() {
    let (server, volume) = (Server::start(), Volume::of(9));
    let plain = volume.job(&server.address());
    let with = |url: &str| Export {
        target: Registry { url: url.to_owned(), ..plain.target.clone() },
        ..plain.clone()
    };
    for url in [
        "docker://h/UPPER:1",
        "docker://h/os:a b",
        "docker://user:word@h/os:1",
        "oci:/data/image",
        "store:os:1",
        "registry.example/os",
        &format!("docker://{}/os@sha256:{}", server.address(), "0a".repeat(32)),
    ] {
        let ended = run(&with(url));
        let report = ended.report.unwrap_or_else(|| panic!("{url}: {}", ended.log));
        assert_eq!((ended.code, report.stage), (Some(1), Stage::Failed), "{url}: {report:?}");
        assert!(matches!(report.reason.as_str(), "InvalidJob" | "Refused"), "{url}: {report:?}");
    }
    // The registry takes no such name.
    let answer = What::Answer(400, String::new(), b"{\"errors\":[{\"code\":\"NAME_INVALID\"}]}".to_vec());
    let proxy = Proxy::start(&server.address(), vec![Fault::always(answer)]);
    let report = run(&volume.job(&proxy.address())).failed("Refused");
    assert!(report.message.contains("400"), "{report:?}");
    let missing = Export { disk: Disk::File("/nowhere/disk.img".into()), ..plain.clone() };
    let report = run(&missing).failed("NotFound");
    assert!(report.message.contains("/nowhere/disk.img"), "{report:?}");
    std::fs::write(volume.disk(), b"").unwrap();
    run(&plain).failed("Refused");
}

#[test]
fn a_disk_that_a_guest_made_look_like_a_qcow2_reaches_no_file_of_the_pod() {
    let (server, volume) = (Server::start(), Volume::of(10));
    let base = volume.0.path().join("secret");
    std::fs::write(&base, vec![0x5e; 1 << 20]).unwrap();
    let hostile = volume.0.path().join("hostile.qcow2");
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"])
        .args([&base, &hostile])
        .status();
    assert!(made.unwrap().success());
    let mut bytes = volume.bytes();
    let header = std::fs::read(&hostile).unwrap();
    bytes[..header.len()].copy_from_slice(&header);
    std::fs::write(volume.disk(), &bytes).unwrap();
    run(&volume.job(&server.address())).done();
    let found = imported(&server.address());
    assert!(found == bytes, "the guest's own bytes, {} of them", found.len());
    let raw = Export { format: Some(Format::Raw), ..volume.job(&server.address()) };
    let report = run(&raw).failed("Refused");
    assert!(report.message.contains("begins like an image of the format qcow2"), "{report:?}");
}

#[test]
fn a_block_device_is_exported_as_a_file_is() {
    let (server, volume) = (Server::start(), Volume::of(11));
    let made = Command::new("losetup").args(["--find", "--show", "--read-only"]).arg(volume.disk()).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return eprintln!("skipped: no loop device");
    };
    let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
    let report = run(&job(Disk::Device(device.clone()), &server.address()));
    let _ = Command::new("losetup").arg("--detach").arg(&device).status();
    assert_eq!(report.done().done, SIZE);
    let found = imported(&server.address());
    assert!(found == volume.bytes());
}

/// The layers of the image: one, whose tar has the one disk.
fn layers(address: &str) -> Vec<u64> {
    let found = Places::new(None).find(&name(address)).unwrap();
    let document = found.place.document(&Reference::Tag("1".into())).unwrap();
    let Content::Manifest(manifest) = &document.content else { panic!("no manifest") };
    manifest.layers.iter().map(|layer| layer.size as u64).collect()
}

/// The most memory that all processes of a pod had at once, as far as a look every few milliseconds tells.
fn peak(pod: u32) -> u64 {
    let of = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map(str::trim);
        line.and_then(|line| line.strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let children = std::fs::read_to_string(format!("/proc/{pod}/task/{pod}/children")).unwrap_or_default();
    of(pod) + children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(of).sum::<u64>()
}

#[test]
fn a_disk_of_any_size_takes_the_memory_of_a_pod_and_no_room_of_its_volume() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let path = disk(folder.path());
    // 1 TiB with data here and there, and 192 MiB that nothing shrinks.
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let mut noise = Noise::new(12);
    for number in 0..192_u64 {
        let at = number * (5 << 30) + number * 4096;
        std::os::unix::fs::FileExt::write_all_at(&file, &noise.bytes(1 << 20), at).unwrap();
    }
    let exported = job(Disk::File(path.clone()), &server.address());
    let mut pod = Pod::start_as(&["export"], &exported, &[("TMPDIR", "/nowhere")]);
    let mut most = 0;
    let until = Instant::now() + PATIENCE;
    while pod.process.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it does not end: {}", pod.log());
        most = most.max(peak(pod.process.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let report: Report = pod.wait().done();
    assert_eq!(report.done, 1 << 40);
    assert!(most > 8 << 20 && most <= 128 << 20, "{} MiB", most >> 20);
    let layers = layers(&server.address());
    assert!(layers.len() == 1 && layers[0] < 256 << 20, "{layers:?}");
    assert_eq!(names(folder.path()), ["disk.img"]);
}

#[test]
fn progress_is_told_while_the_layer_is_sent() {
    let (server, volume) = (Server::start(), Volume::of_noise(13));
    let mute = Fault::always(What::Mute).method("PUT").path("/manifests/");
    let proxy = Proxy::start(&server.address(), vec![mute]);
    let mut pod = start(&volume.job(&proxy.address()));
    let last = pod.reports(|report| report.stage == Stage::Finishing);
    assert_eq!(last.message, "asks the registry to keep the image");
    assert!(last.total.is_none_or(|total| total == 3 * SIZE), "{last:?}");
    proxy.set(vec![]);
    drop(pod);
    assert!(!is_exported(&server.address()));
}
