//! The verb `top`.

use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use crate::virt::target::name;
use crate::virt::usage::{self, Reading, Row, Sort, Usage, Vmi};
use cluster_model::objects::{Kind, escaped};
use futures_util::stream::{self, StreamExt as _};
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Show the CPU, memory, disk and network use of VMIs
///
/// On a terminal the table is shown again and again; Ctrl-C ends it. Of CPUs,
/// 100% is one that is always busy. Memory is that of the QEMU process. Who
/// may view a namespace (the role view) may see its numbers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt top\n  \
    coracle virt top web --interval 5\n  \
    coracle virt top -A --sort memory --once\n  \
    coracle virt top -o json")]
pub(super) struct Args {
    /// Name of the one VMI to show [default: all]
    #[arg(value_name = "VMI", value_parser = name, conflicts_with = "all_namespaces")]
    name: Option<String>,

    /// Show the VMIs of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Labels of the VMIs to show
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Order of the VMIs: those that use most come first
    #[arg(long, value_name = "BY", value_enum, default_value = "cpu")]
    sort: Sort,

    /// Seconds from one table to the next
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    interval: Duration,

    /// Show the table once, as without a terminal
    #[arg(long)]
    once: bool,

    /// Format of the output: table or json, which is printed once
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
/// Maximum number of VMIs: each is one request per table.
const MOST: usize = 500;
/// Escape sequence that moves to the first line, and clears the screen.
const ANEW: &str = "\x1b[H\x1b[2J";

fn seconds(text: &str) -> Result<Duration, String> {
    let fits = |seconds: &f64| (0.01..=3600.0).contains(seconds);
    let seconds = text.parse().ok().filter(fits).ok_or("say a number of seconds from 0.01 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    let is_json = args.output == "json";
    let is_once = args.once || is_json || !std::io::stdout().is_terminal();
    let mut readings = HashMap::new();
    let first = read_rows(args, cluster, &mut readings).await?;
    if !is_once {
        show(args, first)?;
    }
    loop {
        sleep(args.interval).await;
        let rows = read_rows(args, cluster, &mut readings).await?;
        if is_json {
            return ui::json(&usage::document(&rows, args.interval));
        }
        if is_once {
            return ui::out(&usage::table(&rows, args.all_namespaces));
        }
        show(args, rows)?;
    }
}

/// Prints the rows that fit on the terminal.
fn show(args: &Args, mut rows: Vec<Row>) -> Result<()> {
    let height = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(24, |size| usize::from(size.ws_row));
    let more = rows.len().saturating_sub(height.saturating_sub(3).max(1));
    rows.truncate(rows.len() - more);
    let rest = if more > 0 { format!("and {more} more\n") } else { String::new() };
    ui::raw(format!("{ANEW}{}{rest}", usage::table(&rows, args.all_namespaces)).as_bytes())
}

/// The VMIs, with their usage since the last call.
async fn read_rows(
    args: &Args,
    cluster: &Cluster,
    readings: &mut HashMap<(String, String), Reading>,
) -> Result<Vec<Row>> {
    let mut vmis = listed(args, cluster).await?;
    let left_out = vmis.len().saturating_sub(MOST);
    vmis.truncate(MOST);
    if left_out > 0 && readings.is_empty() {
        ui::say(&format!("coracle: {left_out} more VMIs are left out: name a namespace, or --selector"));
    }
    let asked = stream::iter(vmis).map(|vmi| ask(vmi, cluster)).buffer_unordered(AT_ONCE);
    let answers: Vec<(Vmi, Option<Result<Reading, Failure>>)> = asked.collect().await;
    let has_one = answers.iter().any(|(_, answer)| matches!(answer, Some(Ok(_))));
    let mut rows = Vec::new();
    let mut now = HashMap::new();
    for (vmi, answer) in answers {
        let key = (vmi.namespace.clone(), vmi.name.clone());
        let (usage, note) = match answer {
            None => (Usage::default(), None),
            Some(Ok(reading)) => {
                let usage = Usage::between(readings.get(&key), &reading);
                now.insert(key, reading);
                (usage, None)
            }
            // A failure that concerns all VMIs is the error of the verb.
            Some(Err(failure)) if !has_one && is_for_all(&failure) => return Err(refused(failure, &vmi)),
            Some(Err(failure)) => (Usage::default(), Some(failure.message().to_owned())),
        };
        rows.push(Row { vmi, usage, note });
    }
    *readings = now;
    usage::sort(&mut rows, args.sort);
    Ok(rows)
}

async fn listed(args: &Args, cluster: &Cluster) -> Result<Vec<Vmi>> {
    const KIND: Kind = Kind::VirtualMachineInstance;
    if let Some(name) = &args.name {
        let what = format!("cannot read VMI {name} in namespace {}", cluster.namespace());
        return Ok(vec![Vmi::from_object(&cluster.object(KIND, name, &what).await?)]);
    }
    let (path, place) = match args.all_namespaces {
        true => (KIND.collection(""), "all namespaces".to_owned()),
        false => (KIND.collection(cluster.namespace()), format!("namespace {}", cluster.namespace())),
    };
    let path = match &args.selector {
        Some(selector) => format!("{path}?labelSelector={}", escaped(selector)),
        None => path,
    };
    let vmis = cluster.list(&path).await.map_err(|failure| {
        let is_less = failure.is_of_too_many();
        let error = failure.into_error(&format!("cannot list the VMIs of {place}"));
        if is_less { error.with_hint("name a namespace, or --selector") } else { error }
    })?;
    Ok(vmis.iter().map(Vmi::from_object).collect())
}

/// Counters of a VMI; `None` unless it runs.
async fn ask(vmi: Vmi, cluster: &Cluster) -> (Vmi, Option<Result<Reading, Failure>>) {
    if vmi.phase != "Running" {
        return (vmi, None);
    }
    let path = Kind::VirtualMachineInstance.part(&vmi.namespace, &vmi.name, "stats");
    let stats = cluster.get(&path).await;
    (vmi, Some(stats.map(|stats| Reading { at: Instant::now(), stats })))
}

/// True if the user lacks the permission, or the cluster does not serve the counters.
fn is_for_all(failure: &Failure) -> bool {
    matches!(failure.code(), 401 | 403 | 404 | 501)
}

fn refused(failure: Failure, vmi: &Vmi) -> Error {
    let what = format!("cannot read what VMI {} in namespace {} uses", vmi.name, vmi.namespace);
    match (failure.code(), failure.message().contains("could not find the requested resource")) {
        (404, true) => {
            let error = Error::new(ErrorKind::Refused, format!("{what}: this cluster does not serve it"));
            error.with_hint("virtualmachineinstances/stats is Coracle's own; elsewhere, read the metrics (kubevirt_vmi_*)")
        }
        _ => failure.into_error(&what),
    }
}
