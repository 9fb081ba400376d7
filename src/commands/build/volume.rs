//! `coracle build -t docker://… pvc/NAME`: the build runs in the cluster, and this computer only requests it.

use super::{Args, Inside, Layer, Manifest};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::connect::ConnectArgs;
use crate::virt::export::{ExportParams, ExportProgress, ExportRequest, ask, follow};
use crate::virt::target::name;
use crate::virt::wait;
use api::cdi::annotations::{
    EXPORT_ARCHITECTURE, EXPORT_CERTIFICATES, EXPORT_FORMAT, EXPORT_LABELS, EXPORT_LAYER, EXPORT_SECRET,
    EXPORT_TARGET,
};
use api::job::export::Request;
use clap_complete::engine::CompletionCandidate;
use cluster_model::objects::Kind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of shell completion, for which a user waits.
const ANSWER: Duration = Duration::from_secs(3);

/// Arguments of a build in the cluster.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of pvc/NAME and dv/NAME")]
pub(super) struct VolumeArgs {
    /// Namespace of the PVC [default: that of the context]
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    namespace: Option<String>,

    /// Secret of that namespace with the login of the registry: a docker
    /// config, or accessKeyId and secretKey
    #[arg(long, value_name = "NAME", value_parser = name)]
    secret: Option<String>,

    /// ConfigMap of that namespace with certificates of authorities to trust
    #[arg(long, value_name = "NAME", value_parser = name)]
    cert_config_map: Option<String>,

    /// Ask for the image, and do not wait for it
    #[arg(long)]
    no_wait: bool,

    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// JSON output of the verb.
#[derive(Debug, Serialize)]
struct BuildReport<'a> {
    schema: &'static str,
    names: [&'a str; 1],
    /// Digest of the image; unset with --no-wait.
    digest: Option<&'a str>,
}

/// Kind and name of a volume of the cluster; `None` if DISK is another source. A file of that path is written
/// with `./` before it.
pub(super) fn named(disk: &str) -> Option<(Kind, &str)> {
    let (word, name) = disk.split_once('/')?;
    let kind = match word {
        "pvc" => Kind::PersistentVolumeClaim,
        "dv" => Kind::DataVolume,
        _ => return None,
    };
    Some((kind, name))
}

/// Requests the image, follows the export to its end, and prints the digest.
pub(super) fn run(args: &Args, kind: Kind, disk: &str) -> Result<()> {
    let params = params(args, kind, disk)?;
    let volume = &args.volume;
    let connect = ConnectArgs::of_few(
        volume.namespace.as_deref(),
        volume.kubeconfig.as_deref(),
        volume.context.as_deref(),
    );
    wait(async {
        let cluster = Cluster::from_args(&connect).await?;
        let asked = ask(&cluster, &params).await?;
        if volume.no_wait {
            if args.work.output.is_json() {
                return ui::json(&BuildReport { schema: SCHEMA, names: [params.target()], digest: None });
            }
            return ui::out(&format!(
                "Export of {} {} to {} asked for\n",
                params.kind,
                params.name,
                params.target()
            ));
        }
        wait_for_export(args, &params, &cluster, &asked).await
    })
}

const SCHEMA: &str = "coracle.build-volume/v1";

async fn wait_for_export(
    args: &Args,
    params: &ExportParams,
    cluster: &Cluster,
    asked: &ExportRequest,
) -> Result<()> {
    on_interrupt(params, cluster)?;
    if asked.is_joined {
        ui::say("coracle: the same export is running already; waiting for it");
    }
    let seen = Arc::new(ExportProgress::default());
    let digest = {
        let shown = Arc::clone(&seen);
        let _bar = ui::Progress::start(args.work.show(), move || ui::Step {
            phase: "exporting",
            done: shown.done.load(Relaxed),
            total: shown.total.load(Relaxed),
        });
        follow(cluster, asked, &seen).await?
    };
    match args.work.output.is_json() {
        true => ui::json(&BuildReport { schema: SCHEMA, names: [params.target()], digest: Some(&digest) }),
        false => ui::out(&format!("{}@{digest}\n", params.target())),
    }
}

/// Prints on Ctrl-C that the export continues, and how it can be stopped.
fn on_interrupt(params: &ExportParams, cluster: &Cluster) -> Result<()> {
    let (word, name, namespace) = (params.word(), params.name.clone(), cluster.namespace().to_owned());
    ui::on_signal(move || {
        ui::say(&format!(
            "coracle: interrupted; the cluster goes on by itself, and the same command follows it again; \
             'kubectl annotate {word} {name} -n {namespace} {EXPORT_TARGET}-' stops it"
        ));
        ui::leave(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    })
}

/// The export that the arguments ask for.
fn params(args: &Args, kind: Kind, disk: &str) -> Result<ExportParams> {
    let wanted = name(disk).map_err(|why| usage(format!("{disk:?} is not the name of a volume: {why}")))?;
    refuse_local(args)?;
    let [target] = &args.names[..] else {
        return Err(usage("a volume of the cluster becomes one image: give -t once"));
    };
    if !target.starts_with("docker://") {
        let what = format!(
            "a volume of the cluster becomes an image in a registry, but {target:?} does not name one"
        );
        return Err(usage(what).with_hint("write -t docker://HOST/REPO:TAG"));
    }
    let mut labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    labels.extend(super::hinted(args));
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let format = args.format.map(|format| match format {
        Inside::Raw => "raw",
        _ => "qcow2",
    });
    let layer = match args.layer {
        Layer::None => Some("none"),
        Layer::Gzip => Some("gzip"),
        Layer::Zstd => None,
    };
    let volume = &args.volume;
    let asks: BTreeMap<&'static str, String> = [
        (EXPORT_TARGET, Some(target.clone())),
        (EXPORT_SECRET, volume.secret.clone()),
        (EXPORT_CERTIFICATES, volume.cert_config_map.clone()),
        (EXPORT_FORMAT, format.map(str::to_owned)),
        (EXPORT_LAYER, layer.map(str::to_owned)),
        (EXPORT_ARCHITECTURE, args.from.arch()),
        (EXPORT_LABELS, Some(labels.join("\n")).filter(|text| !text.is_empty())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let notes = asks.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    if let Err(faults) = Request::from_annotations(&notes) {
        let said: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
        return Err(usage(format!("{target}: {}", said.join("; "))));
    }
    Ok(ExportParams { kind, name: wanted, asks })
}

/// Refuses flags that only a build on this computer has.
fn refuse_local(args: &Args) -> Result<()> {
    let own = [
        ("--push", args.push),
        ("--keep", args.keep),
        ("--format keep", args.format == Some(Inside::Keep)),
        ("--compress", args.compress.is_some()),
        ("--manifest docker", args.manifest == Manifest::Docker),
        ("--annotation", !args.annotations.is_empty()),
        ("--created", args.created.is_some()),
        ("--append-arch", args.append_arch),
        ("--kernel", args.kernel.is_some()),
    ];
    let own = own.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag));
    let Some(flag) = own.chain(args.work.given()).chain(args.from.given()).next() else { return Ok(()) };
    let refusal = usage(format!("{flag} is for builds on this computer; pvc/NAME is built in the cluster"));
    Err(match INSTEAD.iter().find(|(flags, _)| flags.contains(&flag)) {
        Some((_, instead)) => refusal.with_hint(*instead),
        None => refusal,
    })
}

/// Hints for refused flags.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["--registries"],
        "mirrors and certificates of a cluster are in the ConfigMap coracle-registries (docs/reference/registries-in-a-cluster.md)",
    ),
    (&["--insecure"], "list the registry in insecureRegistries of the CDIConfig"),
    (&["--cacert"], "put the certificates into a ConfigMap, and name it by --cert-config-map"),
    (
        &["--header", "--header-file", "--user", "--bearer-file"],
        "put the login of the registry into a Secret, and name it by --secret",
    ),
    (
        &["--threads", "--memory"],
        "set what the pod gets by podResourceRequirements of the CDIConfig; 128 MiB hold for a disk of any size",
    ),
    (&["--source-format"], "leave it out: the disk of a PVC is raw"),
    (&["--path", "--max-size", "--checksum"], "leave it out: a PVC has one disk, of the PVC's size"),
    (
        &["--idle-timeout", "--min-rate", "--retries", "--connections"],
        "leave it out: the pod tries again by itself until the image is there",
    ),
];

/// Refuses flags of a build in the cluster for any other source.
pub(super) fn refuse(args: &VolumeArgs) -> Result<()> {
    let flags = [
        ("--namespace", args.namespace.is_some()),
        ("--secret", args.secret.is_some()),
        ("--cert-config-map", args.cert_config_map.is_some()),
        ("--no-wait", args.no_wait),
        ("--kubeconfig", args.kubeconfig.is_some()),
        ("--context", args.context.is_some()),
    ];
    match flags.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => {
            let what = format!("{flag} is for a build in the cluster, but DISK is not a volume of it");
            Err(usage(what).with_hint("write pvc/NAME or dv/NAME for one"))
        }
        None => Ok(()),
    }
}

/// Completes names of volumes, in the namespace of the command line or of the kubeconfig's context. Errors
/// complete nothing: a shell must not print them.
pub(super) fn complete(begin: &OsStr) -> Vec<CompletionCandidate> {
    let begin = begin.to_string_lossy();
    let Some((kind, name)) = named(&begin) else { return Vec::new() };
    let words = std::env::args_os().skip(1);
    let flags = ClusterFlags::parse(words.map(|word| word.to_string_lossy().into_owned()));
    let listed = wait(async {
        let names = async {
            let args = ConnectArgs::of_few(
                flags.namespace.as_deref(),
                flags.kubeconfig.as_deref().map(Path::new),
                flags.context.as_deref(),
            );
            let cluster = Cluster::from_args(&args).await?;
            let listed = cluster.list(&kind.collection(cluster.namespace())).await;
            listed.map_err(|e| e.into_error("cannot list the volumes"))
        };
        timeout(ANSWER, names).await.unwrap_or_else(|_| Ok(Vec::new()))
    });
    let word = begin.strip_suffix(name).unwrap_or_default();
    let listed = listed.unwrap_or_default();
    let names = listed.iter().filter_map(|object| object["metadata"]["name"].as_str());
    let names = names.filter(|found| found.starts_with(name));
    names.map(|found| CompletionCandidate::new(format!("{word}{found}"))).collect()
}

/// Cluster flags in an incomplete command line, as a shell passes it.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClusterFlags {
    namespace: Option<String>,
    kubeconfig: Option<String>,
    context: Option<String>,
}

impl ClusterFlags {
    /// Parses the flags of [`VolumeArgs`]. An invalid namespace is ignored.
    fn parse(words: impl Iterator<Item = String>) -> ClusterFlags {
        let mut flags = ClusterFlags::default();
        // The shell's own arguments come before `--`.
        let mut words = words.skip_while(|word| word != "--").skip(1);
        while let Some(word) = words.next() {
            let close = word.strip_prefix("-n").filter(|value| !value.is_empty() && !value.starts_with('='));
            let (flag, value) = match (close, word.split_once('=')) {
                (Some(value), _) => ("-n", Some(value.to_owned())),
                (None, Some((flag, value))) => (flag, Some(value.to_owned())),
                (None, None) => (word.as_str(), None),
            };
            let field = match flag {
                "-n" | "--namespace" => &mut flags.namespace,
                "--kubeconfig" => &mut flags.kubeconfig,
                "--context" => &mut flags.context,
                _ => continue,
            };
            *field = value.or_else(|| words.next()).filter(|value| !value.is_empty());
        }
        flags.namespace = flags.namespace.filter(|namespace| name(namespace).is_ok());
        flags
    }
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_where_the_line_says() {
        let of = |line: &str| ClusterFlags::parse(line.split(' ').map(str::to_owned));
        let within = |namespace: &str| ClusterFlags {
            namespace: Some(namespace.to_owned()),
            ..ClusterFlags::default()
        };
        for line in [
            "-- coracle build -t docker://h/a -n images pvc/g",
            "-- coracle build --namespace=images pvc/",
            "-- coracle build pvc/ -nimages",
            "-- coracle build pvc/ -n other -n=images",
        ] {
            assert_eq!(of(line), within("images"), "{line}");
        }
        for line in
            ["-- coracle build pvc/", "-- coracle build -n ../a pvc/", "-- coracle build pvc/ -n", "-n a"]
        {
            assert_eq!(of(line), ClusterFlags::default(), "{line}");
        }
        let flags = of("-- coracle build --kubeconfig k --context=c -n images dv/a");
        let wanted =
            ClusterFlags { kubeconfig: Some("k".into()), context: Some("c".into()), ..within("images") };
        assert_eq!(flags, wanted);
    }
}
