//! `coracle build -t docker://… pvc/NAME`: the build happens in the cluster, and this computer only asks for it.

use super::{Args, Inside, Layer, Manifest};
use crate::error::code_of;
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::connect::ConnectArgs;
use crate::virt::export::{Asked, Seen, Wish, ask, follow};
use crate::virt::object::Kind;
use crate::virt::target::name;
use crate::virt::wait;
use api::cdi::annotations::{
    EXPORT_ARCHITECTURE, EXPORT_CERTIFICATES, EXPORT_FORMAT, EXPORT_LABELS, EXPORT_LAYER, EXPORT_SECRET,
    EXPORT_TARGET,
};
use api::job::export::Request;
use cdi::{Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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

/// What was made, for programs.
#[derive(Debug, Serialize)]
struct Made<'a> {
    schema: &'static str,
    names: [&'a str; 1],
    /// Unset while nobody waited for it.
    digest: Option<&'a str>,
}

/// The kind and the name of a volume of the cluster; nothing where DISK is something else. A file of that path is written
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

/// Asks for the image, follows it to its end, and says its digest.
pub(super) fn run(args: &Args, kind: Kind, disk: &str) -> Result<()> {
    let wish = wish(args, kind, disk)?;
    let volume = &args.volume;
    let connect = ConnectArgs::of_few(
        volume.namespace.as_deref(),
        volume.kubeconfig.as_deref(),
        volume.context.as_deref(),
    );
    wait(async {
        let cluster = Cluster::of(&connect).await?;
        let asked = ask(&cluster, &wish).await?;
        if volume.no_wait {
            if args.work.json {
                return ui::json(&Made { schema: SCHEMA, names: [wish.target()], digest: None });
            }
            return ui::out(&format!(
                "Export of {} {} to {} asked for\n",
                wish.kind,
                wish.name,
                wish.target()
            ));
        }
        followed(args, &wish, &cluster, &asked).await
    })
}

const SCHEMA: &str = "coracle.build-volume/v1";

async fn followed(args: &Args, wish: &Wish, cluster: &Cluster, asked: &Asked) -> Result<()> {
    on_interrupt(wish, cluster)?;
    if asked.is_joined {
        ui::say("coracle: the same export is under way, and is followed");
    }
    let seen = Arc::new(Seen::default());
    let digest = {
        let shown = Arc::clone(&seen);
        let _bar = ui::Progress::start(args.work.show(), move || ui::Step {
            phase: "exporting",
            done: shown.done.load(Relaxed),
            total: shown.total.load(Relaxed),
        });
        follow(cluster, asked, &seen).await?
    };
    match args.work.json {
        true => ui::json(&Made { schema: SCHEMA, names: [wish.target()], digest: Some(&digest) }),
        false => ui::out(&format!("{}@{digest}\n", wish.target())),
    }
}

/// Ctrl-C leaves a sentence about what becomes of the export.
fn on_interrupt(wish: &Wish, cluster: &Cluster) -> Result<()> {
    let (word, name, namespace) = (wish.word(), wish.name.clone(), cluster.namespace().to_owned());
    ui::on_signal(move || {
        ui::say(&format!(
            "coracle: interrupted; the cluster goes on by itself, and the same command follows it again; \
             'kubectl annotate {word} {name} -n {namespace} {EXPORT_TARGET}-' stops it"
        ));
        ui::leave(i32::from(code_of(ErrorKind::Interrupted)));
    })
}

/// What the arguments ask for.
fn wish(args: &Args, kind: Kind, disk: &str) -> Result<Wish> {
    let wanted = name(disk).map_err(|why| usage(format!("{disk:?} is not the name of a volume: {why}")))?;
    refuse_local(args)?;
    let [target] = &args.names[..] else {
        return Err(usage("a volume of the cluster becomes one image: give -t once"));
    };
    if !target.starts_with("docker://") {
        let what = format!("a volume of the cluster becomes an image of a registry, and {target:?} is none");
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
    if let Err(faults) = Request::of(&notes) {
        let said: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
        return Err(usage(format!("{target}: {}", said.join("; "))));
    }
    Ok(Wish { kind, name: wanted, asks })
}

/// What a build on this computer knows, and one in the cluster does not.
fn refuse_local(args: &Args) -> Result<()> {
    let local = [
        ("--push", args.push),
        ("--format keep", args.format == Some(Inside::Keep)),
        ("--compress", args.compress.is_some()),
        ("--manifest docker", args.manifest == Manifest::Docker),
        ("--annotation", !args.annotations.is_empty()),
        ("--created", args.created.is_some()),
        ("--append-arch", args.append_arch),
        ("--kernel", args.kernel.is_some()),
        ("--plan", args.work.plan),
        ("--checksum", args.work.checksum.is_some()),
    ];
    match local.iter().find(|(_, is_said)| *is_said) {
        Some((flag, _)) => {
            Err(usage(format!("{flag} is of a build on this computer; pvc/NAME is built in the cluster")))
        }
        None => Ok(()),
    }
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}
