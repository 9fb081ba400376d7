//! The verb `image-upload`, with the flags and messages of virtctl.

use crate::commands::image_name::names_help;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::target::name;
use crate::virt::upload::params::{VolumeMode, check_access_mode, check_size};
use crate::virt::upload::{
    Bytes, Phase, ProxySettings, UploadContext, UploadObserver, UploadParams, run as upload,
};
use clap::ValueHint;
use cluster_model::objects::Kind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upload a disk image to a DataVolume or a PVC
///
/// Creates the DataVolume or PVC unless it exists, waits for its upload pod,
/// sends the image to the upload proxy, and waits until the disk is whole. An
/// upload that breaks off goes on behind the last byte that the server has,
/// where the server can do that (tus 1.0); else it begins anew.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle virt image-upload dv fedora --size=10Gi --image-path=fedora.qcow2\n  \
    coracle virt image-upload pvc fedora --no-create --image-path=fedora.qcow2\n  \
    coracle virt image-upload dv fedora --size=10Gi --image-path=https://host/fedora.qcow2\n  \
    xz -dc fedora.raw.xz | coracle virt image-upload dv fedora --size=10Gi --image-path=-\n  \
    coracle virt image-upload dv files --size=1Gi --archive-path=files.tar"))]
pub(super) struct Args {
    /// Type of the object: dv or pvc
    #[arg(value_name = "TYPE")]
    kind: Option<String>,

    /// Name of the DataVolume or PVC
    #[arg(value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Disk image to send: a path, - for standard input, an address (http://,
    /// https://) or an image (docker://, a name in the store)
    #[arg(long, value_hint = ValueHint::FilePath, value_name = "PATH", default_value = "", hide_default_value = true)]
    image_path: String,

    /// Tar archive to send, whose files become those of the volume
    #[arg(long, value_hint = ValueHint::FilePath, value_name = "PATH", default_value = "", hide_default_value = true)]
    archive_path: String,

    /// Size of the volume to create, for example 10Gi or 500Mi [default: that
    /// of the disk, where it can be known before it is sent]
    #[arg(long, value_name = "SIZE", default_value = "", hide_default_value = true)]
    size: String,

    /// Storage class of the volume to create [default: that of the cluster]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    storage_class: String,

    /// Access mode of the volume to create: ReadWriteOnce or ReadWriteMany
    /// [default: that of the storage profile]
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true)]
    access_mode: String,

    /// Volume mode of the volume to create: block or filesystem [default:
    /// that of the storage profile]
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true)]
    volume_mode: String,

    /// Deprecated: use the flag --volume-mode=block
    #[arg(long, hide_short_help = true)]
    block_volume: bool,

    /// Deprecated: use the flag --size
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "", hide_default_value = true)]
    pvc_size: String,

    /// Deprecated: say 'pvc NAME'
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = name)]
    pvc_name: Option<String>,

    /// Upload to what exists, and create nothing
    #[arg(long)]
    no_create: bool,

    /// Bind the volume at once, although its storage class waits for the first
    /// pod
    #[arg(long)]
    force_bind: bool,

    /// Address of the upload proxy [default: that of the CDIConfig]
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    uploadproxy_url: String,

    /// Accept any certificate of the upload proxy; others can then read along
    #[arg(long)]
    insecure: bool,

    /// Seconds to wait for the upload pod
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wait_secs: u32,

    /// Number of attempts without progress; 0 sends nothing, and waits for the
    /// disk
    #[arg(long, value_name = "N", default_value_t = 5)]
    retry: u32,

    /// Create a DataSource of the same name, or lead it to the PVC
    #[arg(long)]
    datasource: bool,

    /// Default instance type of VMs with this disk
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    default_instancetype: String,

    /// Kind of the default instance type
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    default_instancetype_kind: String,

    /// Default preference of VMs with this disk
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    default_preference: String,

    /// Kind of the default preference
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    default_preference_kind: String,
}

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    let params = args.params()?;
    args.note();
    let bytes = Bytes::open(&params.path, params.is_archive).await?;
    let typed = Typed {
        is_sent: on_interrupt(&params, cluster)?,
        sent: bytes.sent(),
        total: bytes.size().unwrap_or(0),
        bar: Mutex::default(),
    };
    let at = ProxySettings { url: args.uploadproxy_url.clone(), accepts_any_certificate: args.insecure };
    upload(UploadContext { cluster, params: &params, observer: &typed }, &at, &bytes).await?;
    match params.attempts {
        0 => Ok(()),
        _ => ui::out(&format!("Uploading {} completed successfully\n", params.path)),
    }
}

/// Output of the verb: steps to standard output, messages to standard error. While bytes are sent, a terminal
/// shows a bar with rate and time left; without a terminal a line is printed every few seconds.
struct Typed {
    is_sent: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    total: u64,
    bar: Mutex<Option<ui::Progress>>,
}

impl UploadObserver for Typed {
    fn out(&self, line: &str) -> Result<()> {
        ui::out(line)
    }

    fn say(&self, sentence: &str) {
        ui::say(&format!("coracle: {sentence}"));
    }

    fn begins(&self, phase: Phase) {
        let (sent, total) = (Arc::clone(&self.sent), self.total);
        let bar = (phase == Phase::Sending).then(|| {
            ui::Progress::start(ui::Show::Auto, move || ui::Step {
                phase: "uploading",
                done: sent.load(Relaxed),
                total,
            })
        });
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
        self.is_sent.store(phase == Phase::Processing, Relaxed);
    }
}

/// Prints on Ctrl-C how the upload can be resumed. The flag is to be set once all bytes are sent.
fn on_interrupt(params: &UploadParams, cluster: &Cluster) -> Result<Arc<AtomicBool>> {
    let is_sent = Arc::new(AtomicBool::new(false));
    let word = if params.kind == Kind::DataVolume { "dv" } else { "pvc" };
    let (name, namespace) = (params.name.clone(), cluster.namespace().to_owned());
    let after = format!(
        "coracle: interrupted; all bytes are sent, and the cluster goes on by itself: \
         'kubectl get {word} {name} -n {namespace}' shows how far it is"
    );
    let before = format!(
        "coracle: interrupted; {} {name} in namespace {namespace} has no disk yet: the same command uploads it anew",
        params.kind
    );
    let is_over = Arc::clone(&is_sent);
    ui::on_signal(move || {
        ui::say(if is_over.load(Relaxed) { &after } else { &before });
        ui::leave(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    })?;
    Ok(is_sent)
}

impl Args {
    /// The upload that the flags ask for. Errors that virtctl has too have its messages.
    fn params(&self) -> Result<UploadParams> {
        let size = self.size()?;
        let volume_mode = self.volume_mode()?;
        let (path, is_archive) = self.path(volume_mode)?;
        let (kind, name) = self.object()?;
        let labels = self.labels()?;
        check_access_mode(&self.access_mode)?;
        if self.access_mode == "ReadOnlyMany" {
            let what =
                "cannot upload to a readonly volume, use either ReadWriteOnce or ReadWriteMany if supported";
            return Err(usage(what));
        }
        Ok(UploadParams {
            kind,
            name,
            path,
            is_archive,
            size,
            storage_class: non_empty(&self.storage_class),
            access_mode: non_empty(&self.access_mode),
            volume_mode,
            labels,
            no_create: self.no_create,
            force_bind: self.force_bind,
            data_source: self.datasource,
            patience: Duration::from_secs(self.wait_secs.into()),
            attempts: self.retry,
        })
    }

    fn size(&self) -> Result<Option<String>> {
        let (new, old) = (non_empty(&self.size), non_empty(&self.pvc_size));
        if new.is_some() && old.is_some() && new != old {
            return Err(usage("--pvc-size and --size can not be specified at the same time"));
        }
        let size = new.or(old);
        size.as_deref().map_or(Ok(()), check_size)?;
        Ok(size)
    }

    fn volume_mode(&self) -> Result<Option<VolumeMode>> {
        match (self.volume_mode.as_str(), self.block_volume) {
            ("", false) => Ok(None),
            ("" | "block", true) | ("block", false) => Ok(Some(VolumeMode::Block)),
            (mode, true) => Err(usage(format!("incompatible --volume-mode '{mode}' and --block-volume"))),
            ("filesystem", false) => Ok(Some(VolumeMode::Filesystem)),
            (mode, false) => Err(usage(format!(
                "Invalid volume mode '{mode}'. Valid values are 'block' and 'filesystem'."
            ))),
        }
    }

    /// Path of the bytes, and true for an archive.
    fn path(&self, volume_mode: Option<VolumeMode>) -> Result<(String, bool)> {
        match (non_empty(&self.image_path), non_empty(&self.archive_path)) {
            (None, None) => Err(usage("either image-path or archive-path must be provided")),
            (Some(_), Some(_)) => {
                Err(usage("cannot handle both image-path and archive-path, provide only one"))
            }
            (None, Some(_)) if volume_mode == Some(VolumeMode::Block) => {
                Err(usage("In archive upload the volume mode should always be filesystem"))
            }
            (None, Some(path)) => Ok((path, true)),
            (Some(path), None) => Ok((path, false)),
        }
    }

    fn object(&self) -> Result<(Kind, String)> {
        match (&self.pvc_name, &self.kind, &self.name) {
            (Some(name), None, None) => Ok((Kind::PersistentVolumeClaim, name.clone())),
            (Some(_), _, _) => Err(usage("cannot use --pvc-name and args")),
            (None, Some(kind), Some(name)) => match kind.to_lowercase().as_str() {
                "dv" => Ok((Kind::DataVolume, name.clone())),
                "pvc" => Ok((Kind::PersistentVolumeClaim, name.clone())),
                _ => Err(usage(format!("invalid resource type {kind}")).with_hint("say dv or pvc")),
            },
            (None, _, None) | (None, None, _) => {
                Err(usage("expecting two args").with_hint("say 'dv NAME' or 'pvc NAME'"))
            }
        }
    }

    fn labels(&self) -> Result<Vec<(&'static str, String)>> {
        let [a_type, its_kind] = [&self.default_instancetype, &self.default_instancetype_kind];
        let [preference, kind_of_it] = [&self.default_preference, &self.default_preference_kind];
        if a_type.is_empty() && !its_kind.is_empty() {
            return Err(usage("--default-instancetype must be provided with --default-instancetype-kind"));
        }
        if preference.is_empty() && !kind_of_it.is_empty() {
            return Err(usage("--default-preference must be provided with --default-preference-kind"));
        }
        let labels = [
            ("instancetype.kubevirt.io/default-instancetype", a_type),
            ("instancetype.kubevirt.io/default-instancetype-kind", its_kind),
            ("instancetype.kubevirt.io/default-preference", preference),
            ("instancetype.kubevirt.io/default-preference-kind", kind_of_it),
        ];
        let labels: Vec<_> =
            labels.into_iter().filter_map(|(label, value)| Some((label, non_empty(value)?))).collect();
        if !labels.is_empty() && self.no_create {
            let what = "--default-instancetype and --default-preference cannot be used with --no-create";
            return Err(usage(what));
        }
        Ok(labels)
    }

    /// Prints a warning for each deprecated flag.
    fn note(&self) {
        for (is_said, flag, instead) in [
            (self.pvc_name.is_some(), "pvc-name", "specify the name as the second argument instead."),
            (!self.pvc_size.is_empty(), "pvc-size", "use --size instead."),
            (
                self.block_volume,
                "block-volume",
                "specify volume mode (filesystem/block) with --volume-mode instead.",
            ),
        ] {
            if is_said {
                ui::say(&format!("Flag --{flag} has been deprecated, {instead}"));
            }
        }
    }
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}

/// Value of a flag. Scripts pass an empty one for no value.
fn non_empty(flag: &str) -> Option<String> {
    (!flag.is_empty()).then(|| flag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn params(line: &str) -> Result<UploadParams> {
        let command = Args::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        Args::from_arg_matches(&matches).unwrap().params()
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_the_words_of_virtctl() {
        for (line, wanted) in [
            ("dv d", "either image-path or archive-path must be provided"),
            ("dv d --image-path= --archive-path=", "either image-path or archive-path must be provided"),
            (
                "dv d --image-path=a --archive-path=b",
                "cannot handle both image-path and archive-path, provide only one",
            ),
            (
                "dv d --archive-path=b --block-volume",
                "In archive upload the volume mode should always be filesystem",
            ),
            (
                "dv d --archive-path=b --volume-mode=block",
                "In archive upload the volume mode should always be filesystem",
            ),
            (
                "dv d --image-path=a --block-volume --volume-mode=filesystem",
                "incompatible --volume-mode 'filesystem' and --block-volume",
            ),
            (
                "dv d --image-path=a --volume-mode=foo",
                "Invalid volume mode 'foo'. Valid values are 'block' and 'filesystem'.",
            ),
            ("--image-path=a", "expecting two args; say 'dv NAME' or 'pvc NAME'"),
            ("dv --image-path=a", "expecting two args; say 'dv NAME' or 'pvc NAME'"),
            ("vm d --image-path=a", "invalid resource type vm; say dv or pvc"),
            ("dv d --pvc-name=d --image-path=a", "cannot use --pvc-name and args"),
            (
                "dv d --image-path=a --size=1Gi --pvc-size=2Gi",
                "--pvc-size and --size can not be specified at the same time",
            ),
            (
                "dv d --image-path=a --access-mode=ReadOnlyMany",
                "cannot upload to a readonly volume, use either ReadWriteOnce or ReadWriteMany if supported",
            ),
            (
                "dv d --image-path=a --default-instancetype-kind=k",
                "--default-instancetype must be provided with --default-instancetype-kind",
            ),
            (
                "dv d --image-path=a --default-preference-kind=k",
                "--default-preference must be provided with --default-preference-kind",
            ),
            (
                "dv d --image-path=a --no-create --default-preference=p",
                "--default-instancetype and --default-preference cannot be used with --no-create",
            ),
        ] {
            let error = params(line).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Usage, wanted), "{line}");
        }
        let size = params("dv d --image-path=a --size=500Zb").unwrap_err().to_string();
        assert!(size.starts_with("validation failed for size=500Zb: a size is a number"), "{size}");
    }

    #[test]
    fn flags_become_a_wish() {
        let plain = params("DV d --image-path=a").unwrap();
        assert_eq!((plain.kind, plain.name.as_str(), plain.path.as_str()), (Kind::DataVolume, "d", "a"));
        assert_eq!((plain.size, plain.volume_mode, plain.attempts), (None, None, 5));
        assert_eq!(plain.patience, Duration::from_secs(300));
        let old = params("--pvc-name=d --pvc-size=1Gi --block-volume --image-path=a --retry=0").unwrap();
        assert_eq!((old.kind, old.size.as_deref()), (Kind::PersistentVolumeClaim, Some("1Gi")));
        assert_eq!((old.volume_mode, old.attempts), (Some(VolumeMode::Block), 0));
        let archive = params("pvc d --archive-path=a.tar --volume-mode=filesystem --wait-secs=1").unwrap();
        assert_eq!((archive.is_archive, archive.volume_mode), (true, Some(VolumeMode::Filesystem)));
        let labelled =
            params("pvc d --image-path=a --default-instancetype=t --default-preference=p").unwrap();
        assert_eq!(
            labelled.labels,
            [
                ("instancetype.kubevirt.io/default-instancetype", "t".to_owned()),
                ("instancetype.kubevirt.io/default-preference", "p".to_owned()),
            ]
        );
    }
}
