//! The verbs on the store: `tag`, `images`, `rmi`, `prune`.

use super::complete;
use super::image_name::{self, names_help};
use super::json_args::JsonArgs;
use super::vm_args::HomeArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::size::human;
use clap_complete::engine::ArgValueCompleter;
use container_disk::Name;
use container_disk::meaning::Surroundings;
use container_disk::open::Places;
use container_disk::reference::Local;
use container_disk::store::{self, Listed, ListedFacts, Store};
use local_vm::disks;
use serde::Serialize;
use std::fmt::Write;

/// Add a name to an image in the store
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle tag os:12 os:latest\n  \
    coracle tag os:12 registry.example/os:12"))]
pub(crate) struct TagArgs {
    /// Existing name of the image
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::stored))]
    name: String,

    /// Additional name; an image with this name loses it
    #[arg(value_name = "NEW")]
    new: String,
}

/// List the images in the store
///
/// The store is $CORACLE_STORE, else data/store in $CORACLE_HOME, else
/// coracle/store in the user's data folder.
#[derive(Debug, clap::Args)]
pub(crate) struct ImagesArgs {
    #[command(flatten)]
    output: JsonArgs,

    /// Print the names only
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

/// Remove names from the store; 'coracle prune' frees the space
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle rmi os:12 os:latest\n  \
    coracle rmi registry.example/os:12"))]
pub(crate) struct RmiArgs {
    /// Names to remove from the store
    #[arg(value_name = "NAME", required = true, add = ArgValueCompleter::new(complete::stored))]
    names: Vec<String>,
}

/// Remove unnamed images from the store, and unpacked disks that no VM uses
#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    home: HomeArgs,

    #[command(flatten)]
    output: JsonArgs,
}

pub(crate) fn tag(args: &TagArgs) -> Result<()> {
    let places = Places::new(None);
    let from = match image_name::stored(&args.name, &places)? {
        Name::Store(local) => local,
        other => {
            let what = format!("{other} is not in the store; use coracle copy");
            return Err(Error::new(ErrorKind::Usage, what));
        }
    };
    let to = added(&from, image_name::stored(&args.new, &places)?)?;
    Ok(open()?.tag(&from, &to)?)
}

/// A name that is added to the image `from` of the store.
fn added(from: &Local, to: Name) -> Result<Local> {
    let what = format!("{to} is not in the store, and the new name is one in the store");
    let hint = match to {
        Name::Store(local) => return Ok(local),
        Name::Registry(remote) => format!(
            "'coracle tag {from} {}' keeps the image under it; 'coracle push {from} docker://{remote}' sends it",
            remote.stored()
        ),
        other => format!("'coracle copy store:{from} {other}' writes the image there"),
    };
    Err(Error::new(ErrorKind::Usage, what).with_hint(hint))
}

pub(crate) fn images(args: &ImagesArgs) -> Result<()> {
    let listed = if store::folder()?.is_dir() { open()?.list()? } else { vec![] };
    if args.output.is_json() {
        let images = listed.iter().map(Image::of).collect();
        return ui::json(&Images {
            schema: "coracle.images/v1",
            store: store::folder()?.display().to_string(),
            images,
        });
    }
    if args.quiet {
        return ui::out(&listed.iter().map(|image| format!("{}\n", image.name)).collect::<String>());
    }
    ui::out(&table(&listed))?;
    if listed.is_empty() {
        ui::say(&format!("the store {} has no images", store::folder()?.display()));
    }
    Ok(())
}

pub(crate) fn rmi(args: &RmiArgs) -> Result<()> {
    let places = Places::new(None);
    let names = args.names.iter().map(|name| removed(name, &places)).collect::<Result<Vec<_>>>()?;
    let store = open()?;
    for (at, name) in names.iter().enumerate() {
        if let Err(e) = store.untag(name) {
            names.iter().take(at).for_each(|removed| ui::say(&format!("{removed} is removed")));
            return Err(e.into());
        }
    }
    Ok(())
}

/// A name that is removed from the store.
fn removed(text: &str, places: &Places) -> Result<Local> {
    let remote = match image_name::stored(text, places)? {
        Name::Store(local) => return Ok(local),
        Name::Registry(remote) => remote,
        other => {
            let what = format!("{other} is not in the store; it is removed as a file is: rm");
            return Err(Error::new(ErrorKind::Usage, what));
        }
    };
    let what = format!(
        "docker://{remote} is not in the store: to remove it would take the image from all users of its \
         registry, which rmi never does"
    );
    let local = remote.stored();
    let hint = match Surroundings::stored(places)?.contains(&local.to_string()) {
        true => format!("coracle rmi {local} removes the copy on this computer"),
        false => "no copy of it is on this computer".to_owned(),
    };
    Err(Error::new(ErrorKind::Usage, what).with_hint(hint))
}

pub(crate) fn prune(args: &PruneArgs) -> Result<()> {
    let folder = store::folder()?;
    let pruned = if folder.is_dir() { store::prune(&folder)? } else { store::Pruned::default() };
    // The store goes first: disks unpacked of a removed image are then removed, too.
    let unpacked = match args.home.home() {
        Ok(home) => disks::prune(&home, &folder)?,
        // Without a folder for VMs there are no VMs.
        Err(_) => disks::Pruned::default(),
    };
    let freed = pruned.freed + unpacked.freed;
    if args.output.is_json() {
        let (blobs, disks) = (pruned.blobs, unpacked.disks);
        return ui::json(&Freed { schema: "coracle.prune/v1", blobs, disks, freed });
    }
    ui::out(&format!("{} blobs and {} disks removed, {} freed\n", pruned.blobs, unpacked.disks, human(freed)))
}

fn open() -> Result<Store> {
    Ok(Store::open(&store::folder()?)?)
}

#[derive(Debug, Serialize)]
struct Images {
    schema: &'static str,
    store: String,
    images: Vec<Image>,
}

#[derive(Debug, Serialize)]
struct Image {
    name: String,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    architectures: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

#[derive(Debug, Serialize)]
struct Freed {
    schema: &'static str,
    blobs: u64,
    disks: u64,
    freed: u64,
}

impl Image {
    fn of(listed: &Listed) -> Image {
        let facts = listed.facts.as_ref().ok();
        Image {
            name: listed.name.clone(),
            digest: listed.digest.to_string(),
            size: facts.map(|facts| facts.size),
            architectures: facts.map(|facts| facts.architectures.clone()).unwrap_or_default(),
            created: facts.and_then(|facts| facts.created.clone()),
            broken: listed.facts.as_ref().err().map(ToString::to_string),
        }
    }
}

fn table(listed: &[Listed]) -> String {
    let widest = listed.iter().map(|image| image.name.len()).max().unwrap_or(0).max(4);
    let mut text = format!("{:widest$}  {:12}  {:>9}  {:20}  ARCH\n", "NAME", "DIGEST", "SIZE", "CREATED");
    for image in listed {
        let hex = image.digest.hex();
        let short = hex.get(..12).unwrap_or(&hex);
        let _ = match &image.facts {
            Ok(ListedFacts { size, architectures, created }) => writeln!(
                text,
                "{:widest$}  {short:12}  {:>9}  {:20}  {}",
                image.name,
                human(*size),
                created.as_deref().unwrap_or("-"),
                architectures.join(",")
            ),
            Err(e) => writeln!(text, "{:widest$}  {short:12}  broken: {e}", image.name),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_in_a_registry_is_refused_with_both_ways() {
        let name = |text: &str| image_name::stored(text, &Places::new(None)).unwrap();
        let Name::Store(from) = name("app:1") else { panic!("app:1 is not in the store") };
        assert_eq!(added(&from, name("app:2")).unwrap().to_string(), "app:2");
        let e = added(&from, name("docker://reg.example/x:1")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage);
        assert_eq!(
            e.to_string(),
            "docker://reg.example/x:1 is not in the store, and the new name is one in the store; \
             'coracle tag app:1 reg.example/x:1' keeps the image under it; \
             'coracle push app:1 docker://reg.example/x:1' sends it"
        );
        let e = added(&from, name("oci:./x:1")).unwrap_err().to_string();
        assert!(e.contains("'coracle copy store:app:1 oci:./x:1' writes the image there"), "{e}");
    }
}
