//! The verb `adm log-verbosity`.

use super::version;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use api::kubevirt::served::{self, Served};
use cluster_model::objects::Kind;
use serde_json::{Map, Value, json};

/// Change settings of the installation
#[derive(Debug, clap::Args)]
pub(super) struct AdmArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    LogVerbosity(VerbosityArgs),
}

/// Show or set the log verbosity of the components, from 0 to 9
///
/// A flag without a value shows the verbosity, one with a value sets it. A
/// component whose verbosity has no effect is refused by its name.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:\n  \
    coracle virt adm log-verbosity --all\n  \
    coracle virt adm log-verbosity --virt-launcher=4\n  \
    coracle virt adm log-verbosity --reset")]
struct VerbosityArgs {
    /// Log verbosity of virt-api
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    virt_api: Option<u8>,

    /// Log verbosity of virt-controller
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    virt_controller: Option<u8>,

    /// Log verbosity of virt-handler
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    virt_handler: Option<u8>,

    /// Log verbosity of virt-launcher, for VMIs that start from now on
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    virt_launcher: Option<u8>,

    /// Log verbosity of virt-operator
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    virt_operator: Option<u8>,

    /// Log verbosity of all components
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "10")]
    #[arg(conflicts_with = "reset")]
    all: Option<u8>,

    /// Set the default verbosity of all components
    #[arg(long)]
    reset: bool,
}

/// Value of a flag without a level, as in upstream's virtctl.
const SHOW: u8 = 10;
const DEFAULT: u64 = 2;
/// Components, with their fields of the KubeVirt object.
const COMPONENTS: [(&str, &str); 5] = [
    ("virt-api", "virtAPI"),
    ("virt-controller", "virtController"),
    ("virt-handler", "virtHandler"),
    ("virt-launcher", "virtLauncher"),
    ("virt-operator", "virtOperator"),
];
const AT: &str = "configuration.developerConfiguration.logVerbosity";

/// Action that the flags ask for.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// Show the verbosity of these components.
    Show(Vec<&'static str>),
    /// Set the verbosity of these components, and reset all others if the flag is true.
    Set(Vec<(&'static str, u8)>, bool),
}

pub(super) async fn run(args: &AdmArgs, cluster: &Cluster) -> Result<()> {
    let Verb::LogVerbosity(args) = &args.verb;
    let action = args.action()?;
    let what = "cannot read the KubeVirt object";
    let found = cluster.list_whole(&Kind::KubeVirt.collection("")).await.map_err(|e| e.into_error(what))?;
    let kubevirt = match found.as_slice() {
        [one] => one,
        [] => return Err(Error::new(ErrorKind::NotFound, "could not detect a KubeVirt installation")),
        _ => {
            return Err(Error::failed(
                "invalid kubevirt installation, more than one KubeVirt resource found",
            ));
        }
    };
    match action {
        Action::Show(fields) => ui::out(&shown(kubevirt, &fields)),
        Action::Set(levels, reset) => {
            if version::is_ours(cluster).await {
                served(&levels)?;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, name) =
                (text(&kubevirt["metadata"]["namespace"]), text(&kubevirt["metadata"]["name"]));
            let path = Kind::KubeVirt.object(&namespace, &name);
            let done = cluster.patch(&path, &changes(kubevirt, &levels, reset)).await;
            done.map_err(|e| e.into_error("cannot set the log verbosity"))?;
            ui::out("successfully set/reset the log verbosity\n")
        }
    }
}

impl VerbosityArgs {
    fn action(&self) -> Result<Action> {
        let each =
            [self.virt_api, self.virt_controller, self.virt_handler, self.virt_launcher, self.virt_operator];
        let said: Vec<(&str, u8)> = COMPONENTS
            .iter()
            .zip(each)
            .filter_map(|((_, field), level)| Some((*field, level.or(self.all)?)))
            .collect();
        let names = COMPONENTS.iter().map(|(name, _)| *name).zip(each).chain([("all", self.all)]);
        for (name, level) in names {
            if level.is_some_and(|level| level > SHOW) {
                return Err(Error::new(ErrorKind::Usage, format!("{name}: log verbosity must be 0-9")));
            }
        }
        let shows = each.contains(&Some(SHOW)) || self.all == Some(SHOW);
        let sets = self.reset || each.iter().chain([&self.all]).flatten().any(|level| *level < SHOW);
        match (shows, sets) {
            (true, true) => Err(Error::new(ErrorKind::Usage, "only show or set is allowed")),
            (true, false) => Ok(Action::Show(said.into_iter().map(|(field, _)| field).collect())),
            (false, true) => Ok(Action::Set(said, self.reset)),
            (false, false) => {
                Err(Error::new(ErrorKind::Usage, "no flag specified - expecting at least one flag"))
            }
        }
    }
}

fn levels(kubevirt: &Value) -> &Value {
    &kubevirt["spec"]["configuration"]["developerConfiguration"]["logVerbosity"]
}

fn shown(kubevirt: &Value, fields: &[&str]) -> String {
    let components = COMPONENTS.iter().filter(|(_, field)| fields.contains(field));
    let line = |(name, field): &(&str, &str)| {
        format!("{name}={}\n", levels(kubevirt)[*field].as_u64().unwrap_or(DEFAULT))
    };
    components.map(line).collect()
}

/// Refuses components whose verbosity has no effect in this version.
fn served(levels: &[(&str, u8)]) -> Result<()> {
    let refused: Vec<(&str, &str)> = COMPONENTS
        .iter()
        .filter(|(_, field)| levels.iter().any(|(said, _)| said == field))
        .filter_map(|(name, field)| match served::entry(&format!("{AT}.{field}"))? {
            (_, Served::No(why)) => Some((*name, *why)),
            _ => None,
        })
        .collect();
    let Some((_, why)) = refused.first() else { return Ok(()) };
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let what = format!("cannot set the log verbosity of {}: {why}", names.join(", "));
    Err(Error::new(ErrorKind::Refused, what).with_hint("name the others one by one in place of --all: --virt-api, --virt-controller, --virt-handler, --virt-launcher"))
}

fn changes(kubevirt: &Value, set: &[(&str, u8)], reset: bool) -> Value {
    let mut fields = Map::new();
    if reset {
        let known = levels(kubevirt).as_object().into_iter().flatten();
        fields.extend(known.map(|(field, _)| (field.clone(), Value::Null)));
    }
    fields.extend(set.iter().map(|(field, level)| ((*field).to_owned(), json!(level))));
    json!({"spec": {"configuration": {"developerConfiguration": {"logVerbosity": fields}}}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn action(line: &str) -> Result<Action> {
        let command = VerbosityArgs::augment_args(clap::Command::new("x").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        VerbosityArgs::from_arg_matches(&matches).unwrap().action()
    }

    #[test]
    fn a_flag_without_a_value_shows_and_one_with_a_value_sets() {
        assert_eq!(
            action("--virt-api --virt-handler=10").unwrap(),
            Action::Show(vec!["virtAPI", "virtHandler"])
        );
        assert_eq!(action("--virt-api=3 --reset").unwrap(), Action::Set(vec![("virtAPI", 3)], true));
        let Action::Set(all, false) = action("--all=3 --virt-api=0").unwrap() else { panic!("not set") };
        assert_eq!((all.len(), all[0], all[4]), (5, ("virtAPI", 0), ("virtOperator", 3)));
        for (line, wanted) in [
            ("--virt-api --all=2", "only show or set"),
            ("--virt-api=11", "virt-api: log verbosity must be 0-9"),
        ] {
            assert!(action(line).unwrap_err().to_string().contains(wanted), "{line}");
        }
    }

    #[test]
    fn what_is_not_set_is_the_default() {
        let kubevirt =
            json!({"spec": {"configuration": {"developerConfiguration": {"logVerbosity": {"virtAPI": 5}}}}});
        assert_eq!(shown(&kubevirt, &["virtAPI", "virtHandler"]), "virt-api=5\nvirt-handler=2\n");
        let reset = changes(&kubevirt, &[("virtHandler", 3)], true);
        assert_eq!(*levels(&reset), json!({"virtAPI": null, "virtHandler": 3}));
    }

    #[test]
    fn a_component_whose_verbosity_has_no_effect_is_named() {
        assert!(served(&[("virtLauncher", 4)]).is_ok() && served(&[]).is_ok());
        let e = served(&[("virtLauncher", 4), ("virtOperator", 4)]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(
            e.to_string().contains("verbosity of virt-operator: this program does not exist here"),
            "{e}"
        );
    }
}
