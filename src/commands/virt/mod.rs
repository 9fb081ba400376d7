//! The verb `coracle virt`, the client of a cluster. Called as `virtctl`, or by kubectl as its plugin
//! `kubectl-virt`, the program consists of this verb alone: the same flags, the same messages on standard
//! output.
//!
//! ```text
//!  arguments ─► Verb (a file for each family) ─┬─► virt (requests, streams, facts) ─► output for people and scripts
//!                                              └─► create, completion, options, unsupported: without a cluster
//! ```
//!
//! `docs/reference/virtctl.md` has all verbs, and the differences from upstream's virtctl.

mod adm;
mod args;
mod console;
pub(super) mod create;
mod credentials;
mod expand;
mod expose;
mod guest;
mod image_upload;
mod migration;
mod password;
mod port_forward;
mod power;
mod program;
mod public_key;
mod ssh;
mod top;
mod unsupported;
mod version;
mod vnc;
mod volumes;
mod why;

use crate::error::Result;
use crate::ui;
use crate::verbs::{parsed, verbs};
use crate::virt::client::Cluster;
use crate::virt::connect::ConnectArgs;
use crate::virt::wait;
use clap::builder::{BoolishValueParser, StyledStr};
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, CommandFactory as _};
use clap::{FromArgMatches, Parser, Subcommand};
use std::ffi::OsStr;
use std::path::Path;

/// Arguments of the verb, built on use alone: they take memory, and most runs of the program are of another
/// verb.
#[derive(Debug)]
pub(crate) struct Args(Virt);

const ABOUT: &str = "Manage the VMs of a Kubernetes cluster, as virtctl does";
const LONG_ABOUT: &str = "Manage the VMs of a Kubernetes cluster, as virtctl does\n\n\
    A copy of this program, or a link to it, that is named virtctl or kubectl-virt offers these verbs directly.";
const EXAMPLES: &str = "Examples:\n  \
    coracle virt start web\n  \
    coracle virt console web\n  \
    coracle virt why web\n  \
    ln -s coracle /usr/local/bin/kubectl-virt && kubectl virt ssh me@vm/web";

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let command = command.about(ABOUT).after_help(EXAMPLES);
        // The deferred arguments would replace description and examples by those of the cluster's flags.
        command.defer(|command| Virt::augment_args(command).about(ABOUT).long_about(LONG_ABOUT))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Virt::augment_args_for_update(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Virt::from_arg_matches(matches).map(Args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

// Flags of the cluster, and the verb. A doc comment here would replace the help text.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Virt {
    #[command(flatten)]
    connect: ConnectArgs,

    #[command(subcommand)]
    verb: Verbs,
}

/// Manage the VMs of a Kubernetes cluster
#[derive(Debug, Parser)]
#[command(name = "virtctl", version, max_term_width = 80, arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  coracle virt start web\n  coracle virt console web\n  coracle virt why web"
)]
struct Program {
    #[command(flatten)]
    virt: Virt,

    #[command(flatten)]
    log: Log,
}

#[derive(Debug, clap::Args)]
struct Log {
    /// Log verbosity, from 0 to 9; RUST_LOG overrides it
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, global = true)]
    #[arg(hide_default_value = true)]
    level: u8,
}

verbs! {
    /// Verbs of a cluster.
    enum Verb {
        Start(power::StartArgs) = "start",
        Stop(power::StopArgs) = "stop",
        Restart(power::RestartArgs) = "restart",
        Pause(power::PauseArgs) = "pause",
        Unpause(power::UnpauseArgs) = "unpause",
        SoftReboot(power::SoftRebootArgs) = "soft-reboot",
        Reset(power::ResetArgs) = "reset",
        Why(why::WhyArgs) = "why",
        Top(top::Args) = "top",
        Events(why::EventsArgs) = "events",
        Console(console::Args) = "console",
        Vnc(vnc::Args) = "vnc",
        Ssh(ssh::SshArgs) = "ssh",
        Scp(ssh::ScpArgs) = "scp",
        PortForward(port_forward::Args) = "port-forward",
        Expose(expose::Args) = "expose",
        GuestOsInfo(guest::OsInfoArgs) = "guestosinfo",
        UserList(guest::UserListArgs) = "userlist",
        FsList(guest::FsListArgs) = "fslist",
        AddVolume(volumes::AddArgs) = "addvolume",
        RemoveVolume(volumes::RemoveArgs) = "removevolume",
        MemoryDump(volumes::MemoryDumpArgs) = "memory-dump",
        Migrate(migration::MigrateArgs) = "migrate",
        MigrateCancel(migration::CancelArgs) = "migrate-cancel",
        EvacuateCancel(migration::EvacuateCancelArgs) = "evacuate-cancel",
        Create(Box<create::CreateArgs>) = "create",
        Credentials(Box<credentials::Args>) = "credentials",
        Expand(expand::ExpandArgs) = "expand",
        ObjectGraph(expand::ObjectGraphArgs) = "objectgraph",
        Adm(adm::AdmArgs) = "adm",
        PermittedDevices(version::PermittedDevicesArgs) = "permitted-devices",
        Version(version::Args) = "version",
        Completion(program::CompletionArgs) = "completion",
        Options(program::OptionsArgs) = "options",
        ImageUpload(Box<image_upload::Args>) = "image-upload",
        VmExport(unsupported::VmExportArgs) = "vmexport",
        GuestFs(unsupported::GuestFsArgs) = "guestfs",
        UsbRedir(unsupported::UsbRedirArgs) = "usbredir",
        Template(unsupported::TemplateArgs) = "template",
    }
}

impl Verb {
    fn described(verb: Command) -> Command {
        valued(verb)
    }
}

/// The verbs, with switches that may have a value as in kubectl: `--dry-run=true`.
#[derive(Debug)]
struct Verbs(Verb);

impl FromArgMatches for Verbs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Verb::from_arg_matches(matches).map(Verbs)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for Verbs {
    fn augment_subcommands(command: Command) -> Command {
        with_values(Verb::augment_subcommands(command))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        with_values(Verb::augment_subcommands_for_update(command))
    }

    fn has_subcommand(name: &str) -> bool {
        Verb::has_subcommand(name)
    }
}

fn with_values(command: Command) -> Command {
    command.mut_subcommands(valued)
}

fn valued(verb: Command) -> Command {
    with_values(verb.mut_args(with_value))
}

fn with_value(arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    arg.action(ArgAction::Set)
        .value_parser(BoolishValueParser::new())
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
        .default_value("false")
        .hide_default_value(true)
        .hide_possible_values(true)
        .value_name("BOOL")
}

/// The flags of the cluster, and the verbs, whose arguments are built on use.
pub(crate) fn by_name(command: Command) -> Command {
    Verb::by_name(ConnectArgs::augment_args(command)).subcommand_required(true)
}

pub(crate) fn run(Args(virt): &Args) -> Result<()> {
    of(virt)
}

fn of(args: &Virt) -> Result<()> {
    match &args.verb.0 {
        Verb::Version(version) => {
            // The version of the client is printed even if the cluster fails to answer.
            version::client()?;
            if version.is_of_client() { Ok(()) } else { with_cluster(args) }
        }
        Verb::Create(verb) => create::run(verb),
        Verb::Completion(verb) => program::completion(verb),
        Verb::Options(verb) => program::options(verb),
        Verb::VmExport(verb) => verb.refuse(),
        Verb::GuestFs(verb) => verb.refuse(),
        Verb::UsbRedir(verb) => verb.refuse(),
        Verb::Template(verb) => verb.refuse(),
        _ => with_cluster(args),
    }
}

fn with_cluster(args: &Virt) -> Result<()> {
    wait(async {
        let cluster = match &args.verb.0 {
            Verb::Credentials(_) => Cluster::from_args(&args.connect.without_user()).await?,
            _ => Cluster::from_args(&args.connect).await?,
        };
        match &args.verb.0 {
            Verb::Start(args) => power::start(args, &cluster).await,
            Verb::Stop(args) => power::stop(args, &cluster).await,
            Verb::Restart(args) => power::restart(args, &cluster).await,
            Verb::Pause(args) => power::pause(args, &cluster).await,
            Verb::Unpause(args) => power::unpause(args, &cluster).await,
            Verb::SoftReboot(args) => power::soft_reboot(args, &cluster).await,
            Verb::Reset(args) => power::reset(args, &cluster).await,
            Verb::Why(args) => why::why(args, &cluster).await,
            Verb::Top(args) => top::run(args, &cluster).await,
            Verb::Events(args) => why::events(args, &cluster).await,
            Verb::Console(args) => console::run(args, &cluster).await,
            Verb::Vnc(args) => vnc::run(args, &cluster).await,
            Verb::Ssh(verb) => ssh::ssh(verb, &args.connect, &cluster),
            Verb::Scp(verb) => ssh::scp(verb, &args.connect, &cluster),
            Verb::PortForward(args) => port_forward::run(args, cluster).await,
            Verb::Expose(args) => expose::run(args, &cluster).await,
            Verb::GuestOsInfo(args) => guest::os_info(args, &cluster).await,
            Verb::UserList(args) => guest::user_list(args, &cluster).await,
            Verb::FsList(args) => guest::fs_list(args, &cluster).await,
            Verb::AddVolume(args) => volumes::add(args, &cluster).await,
            Verb::RemoveVolume(args) => volumes::remove(args, &cluster).await,
            Verb::MemoryDump(args) => volumes::memory_dump(args, &cluster).await,
            Verb::Migrate(args) => migration::migrate(args, &cluster).await,
            Verb::MigrateCancel(args) => migration::cancel(args, &cluster).await,
            Verb::EvacuateCancel(args) => migration::evacuate_cancel(args, &cluster).await,
            Verb::Credentials(args) => credentials::run(args, &cluster).await,
            Verb::Expand(args) => expand::expand(args, &cluster).await,
            Verb::ObjectGraph(args) => expand::object_graph(args, &cluster).await,
            Verb::Adm(args) => adm::run(args, &cluster).await,
            Verb::PermittedDevices(_) => version::permitted_devices(&args.connect, &cluster).await,
            Verb::ImageUpload(args) => image_upload::run(args, &cluster).await,
            Verb::Version(_) => version::server(&cluster).await,
            // These verbs need no cluster.
            Verb::Create(_)
            | Verb::Completion(_)
            | Verb::Options(_)
            | Verb::VmExport(_)
            | Verb::GuestFs(_)
            | Verb::UsbRedir(_)
            | Verb::Template(_) => Ok(()),
        }
    })
}

/// Name by which users call this program, if its file name makes it a client of a cluster alone: `virtctl`,
/// `kubectl virt`.
pub(crate) fn called(program: Option<&OsStr>) -> Option<String> {
    let name = Path::new(program?).file_name()?.to_str()?;
    match name.strip_suffix("-virt") {
        Some(before) if !before.is_empty() => Some(format!("{before} virt")),
        _ => name.starts_with("virtctl").then(|| "virtctl".to_owned()),
    }
}

/// Name by which users call the verbs of this program.
fn prefix() -> String {
    called(std::env::args_os().next().as_deref()).unwrap_or_else(|| "coracle virt".to_owned())
}

/// The verb's help texts, with the name by which users call the program.
fn under(name: &str, command: Command) -> Command {
    let renamed = |text: &StyledStr| text.to_string().replace("coracle virt", name);
    let mut command = command;
    if let Some(text) = command.get_long_about().map(renamed) {
        command = command.long_about(text);
    }
    if let Some(text) = command.get_after_help().map(renamed) {
        command = command.after_help(text);
    }
    command.mut_subcommands(|verb| under(name, verb))
}

/// The program `virtctl`, whose verbs build their arguments on use.
fn names() -> Command {
    Log::augment_args(by_name(Command::new("virtctl")))
}

/// Runs the program under the name of virtctl.
pub(crate) fn main(name: &str) -> Result<()> {
    let command = || under(name, Program::command().bin_name(name));
    clap_complete::CompleteEnv::with_factory(command).complete();
    let program: Option<Program> = parsed(names(), std::env::args_os());
    let all = || Program::from_arg_matches(&command().get_matches()).unwrap_or_else(|e| e.exit());
    let program = program.unwrap_or_else(all);
    // klog's levels from 3 on are informative; from 6 on they include requests.
    ui::log(match program.log.level {
        0..=2 => 0,
        3..=5 => 1,
        _ => 2,
    });
    of(&program.virt)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a command line with all verbs built, and with the used one alone; both must agree.
    fn parsed(line: &str) -> Result<Program, clap::Error> {
        let all = Program::try_parse_from(line.split_whitespace());
        let words = line.split_whitespace().map(Into::into);
        let one: Option<Program> = crate::verbs::parsed(names(), words);
        assert_eq!(format!("{one:?}"), format!("{:?}", all.as_ref().ok()), "{line}");
        all
    }

    #[test]
    fn a_verb_that_is_asked_for_is_the_verb_of_the_list() {
        crate::verbs::tests::agree(Program::command(), names());
    }

    #[test]
    fn the_name_of_the_program_makes_it_virtctl() {
        for (name, wanted) in [
            ("/usr/bin/virtctl", Some("virtctl")),
            ("virtctl-v1.9.0-linux-amd64", Some("virtctl")),
            ("/home/me/.krew/bin/kubectl-virt", Some("kubectl virt")),
            ("oc-virt", Some("oc virt")),
            ("coracle", None),
            ("-virt", None),
        ] {
            assert_eq!(called(Some(OsStr::new(name))).as_deref(), wanted, "{name}");
        }
        assert_eq!(called(None), None);
    }

    #[test]
    fn examples_have_the_name_of_the_program() {
        let mut program = under("kubectl virt", Program::command().bin_name("kubectl virt"));
        program.build();
        let mut texts = vec![program.render_long_help().to_string()];
        for verb in program.get_subcommands_mut() {
            texts.push(verb.render_long_help().to_string());
            texts.extend(verb.get_subcommands_mut().map(|verb| verb.render_long_help().to_string()));
        }
        let all = texts.join("\n");
        assert!(!all.contains("coracle virt") && !all.contains("virtctl why"), "{all}");
        for example in ["kubectl virt why web", "kubectl virt ssh me@vm/web", "kubectl virt completion bash"]
        {
            assert!(all.contains(example), "{example}\n{all}");
        }
        let mut own = <Args as clap::Args>::augment_args(Command::new("virt"));
        own.build();
        let completion = own.find_subcommand_mut("completion").expect("the verb");
        assert!(completion.render_long_help().to_string().contains("<(coracle virt completion bash)"));
    }

    #[test]
    fn the_definitions_of_the_verbs_agree() {
        Program::command().debug_assert();
    }

    #[test]
    fn lines_that_people_and_scripts_have_are_understood() {
        for line in [
            "virtctl start web",
            "virtctl start web --paused --dry-run",
            "virtctl start --paused=true web -n blue",
            "virtctl --namespace=blue stop web --force --grace-period=0",
            "virtctl stop web --force=true --grace-period 0 --dry-run=false",
            "virtctl restart web --kubeconfig /k --context c --server https://h:6443",
            "virtctl pause vm web",
            "virtctl unpause VMI web",
            "virtctl soft-reboot web",
            "virtctl console web --timeout=1",
            "virtctl console --read-only web",
            "virtctl vnc web --proxy-only --port 5900 --address 0.0.0.0 --preserve-session",
            "virtctl vnc web --vnc-type tiger --vnc-path /usr/bin/vncviewer",
            "virtctl vnc screenshot web -f -",
            "virtctl vnc screenshot web --file=a.png --move-cursor",
            "virtctl ssh me@vm/web/blue --command ls -i key -p 2222",
            "virtctl ssh --username=me vmi/web",
            "virtctl scp -r a me@vm/web:b --preserve",
            "virtctl port-forward --stdio=true vmi/web/blue 22",
            "virtctl port-forward vm/web tcp/8080:80 udp/53 --address=127.0.0.1",
            "virtctl expose vm web --name web --port 80 --target-port http --type NodePort --protocol UDP",
            "virtctl guestosinfo web",
            "virtctl userlist web",
            "virtctl fslist web",
            "virtctl addvolume web --volume-name=d --serial 1 --cache none --disk-type lun --bus scsi --persist",
            "virtctl removevolume web --volume-name=d --dry-run",
            "virtctl memory-dump get web --claim-name=m",
            "virtctl memory-dump remove web",
            "virtctl migrate web --addedNodeSelector=a=b,c=d",
            "virtctl migrate web --offline --dry-run",
            "virtctl migrate-cancel web",
            "virtctl evacuate-cancel vmi web --dry-run",
            "virtctl permitted-devices",
            "virtctl version --client",
            "virtctl version -c",
            "virtctl why web",
            "virtctl why pool/web -n blue",
            "virtctl events web -v 4",
            "virtctl top",
            "virtctl top web --once --interval=0.5 -n blue",
            "virtctl top -A --sort=net -o json -l app=web",
            "virtctl vnc web --web --port=4000 --proxy-only",
            "virtctl vnc web --screenshot a.png",
            "virtctl create vm",
            "virtctl create vm --name web --run-strategy=Manual --memory 1Gi --termination-grace-period=30",
            "virtctl create vm --volume-containerdisk=src:r/i:t,name:a --volume-pvc src:b --volume-blank=size:1Gi",
            "virtctl create vm --volume-import type:ds,src:n/d --infer-instancetype --infer-preference-from=a -n blue",
            "virtctl create vm --instancetype=a --preference=virtualmachinepreference/b",
            "virtctl create vm --user me --password-file=/p --ssh-key=k --ga-manage-ssh=true --access-cred=src:k",
            "virtctl create vm --cloud-init=none --cloud-init-user-data=QQ== --cloud-init-network-data QQ==",
            "virtctl create instancetype --cpu 2 --memory=1Gi --namespaced --gpu=name:a,devicename:b",
            "virtctl create preference --cpu-topology=cores --volume-storage-class c --machine-type=q35",
            "virtctl create clone --source-name s --target-name=t --label-filter=* --new-mac-address=a:b",
            "virtctl credentials add-ssh-key --user me --file key.pub web",
            "virtctl credentials add-ssh-key web -u me --value=k --create-secret --force",
            "virtctl credentials remove-ssh-key web -u me -f key.pub --secret s",
            "virtctl credentials set-password -u me -p secret --force web",
            "virtctl credentials set-password web -u me --password-file -",
            "virtctl expand --vm web -o json",
            "virtctl expand -f -",
            "virtctl objectgraph web --vmi --exclude-optional --selector=a=b,c=d --output yaml",
            "virtctl adm log-verbosity --all --virt-api=3",
            "virtctl adm log-verbosity --reset",
            "virtctl completion powershell",
            "virtctl options",
            "virtctl image-upload dv d --size=1Gi --image-path=/d.img --insecure",
            "virtctl image-upload DV d --no-create --archive-path /d.tar --wait-secs 10 --retry=0 --datasource=true",
            "virtctl image-upload pvc d --size 1Gi --image-path - --storage-class=c --access-mode ReadWriteMany",
            "virtctl image-upload pvc d --volume-mode=block --force-bind --uploadproxy-url h --image-path=http://h/d",
            "virtctl image-upload --pvc-name d --pvc-size=1Gi --block-volume --image-path d.img -n blue",
            "virtctl vmexport download e --vm=web --output=d.gz",
            "virtctl guestfs pvc --kvm=false",
            "virtctl usbredir 1-2 web",
            "virtctl template process t --param=A=b",
        ] {
            if let Err(e) = parsed(line) {
                panic!("{line}: {e}");
            }
        }
    }

    #[test]
    fn lines_that_make_no_sense_are_refused_before_anything_is_asked() {
        for line in [
            "virtctl start",
            "virtctl start a b",
            "virtctl start ../secrets",
            "virtctl start web -n a/b",
            "virtctl pause pod web",
            "virtctl port-forward web 22",
            "virtctl port-forward vm/web",
            "virtctl addvolume web",
            "virtctl expose vm web",
            "virtctl vnc screenshot web",
            "virtctl migrate web --addedNodeSelector=a",
            "virtctl top web -A",
            "virtctl top --sort=age",
            "virtctl top --interval=0",
            "virtctl vnc web --web --screenshot a.png",
            "virtctl create",
            "virtctl create pod",
            "virtctl create vm --name=../a",
            "virtctl create vm --memory=1Gi --instancetype=a",
            "virtctl create vm --instancetype=a --infer-instancetype=false",
            "virtctl create vm --cloud-init-user-data=QQ== --user=me",
            "virtctl create instancetype --cpu=2",
            "virtctl create clone",
            "virtctl credentials add-ssh-key web",
            "virtctl credentials add-ssh-key web -u me --file=a --value=b",
            "virtctl credentials set-password web -u me",
            "virtctl credentials set-password web -u me -p a --password-file=b",
            "virtctl expand",
            "virtctl expand --vm=a --file=b",
            "virtctl adm log-verbosity --all=3 --reset",
            "virtctl completion csh",
            "virtctl image-upload dv d e --image-path=d.img",
            "virtctl image-upload dv ../d --image-path=d.img",
            "virtctl image-upload dv d --image-path=d.img --retry=-1",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn every_verb_has_its_line_in_the_document() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/virtctl.md");
        let document = std::fs::read_to_string(path).unwrap();
        let table =
            document.split("\n\n").find(|block| block.starts_with("| verb | | |")).expect("the table");
        let mut listed: Vec<&str> = table
            .lines()
            .skip(2)
            .flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
            .collect();
        let mut program = Program::command();
        program.build();
        let verbs = program.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
        let mut verbs: Vec<String> = verbs.map(str::to_owned).collect();
        listed.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(listed, verbs);
    }

    #[test]
    fn a_verb_that_our_cluster_refuses_says_so_before_it_is_tried() {
        let program = Program::command();
        for (verb, words) in [
            ("addvolume", "Clusters of this version refuse this"),
            ("removevolume", "Clusters of this version refuse this"),
            ("memory-dump", "Clusters of this version refuse this"),
            ("objectgraph", "Clusters of this version refuse this"),
        ] {
            let about =
                program.find_subcommand(verb).and_then(Command::get_long_about).map(ToString::to_string);
            assert!(about.as_deref().is_some_and(|about| about.contains(words)), "{verb}: {about:?}");
        }
    }

    #[test]
    fn a_manifest_has_the_namespace_of_the_flag_and_none_else() {
        for (line, wanted) in [
            ("virtctl create vm -n blue", Some("blue")),
            ("virtctl create -n blue vm", Some("blue")),
            ("virtctl -n blue create vm", Some("blue")),
            ("virtctl create vm", None),
        ] {
            let Verb::Create(args) = parsed(line).unwrap().virt.verb.0 else { panic!("{line}") };
            assert_eq!(args.namespace(), wanted, "{line}");
        }
        let mut program = Program::command();
        program.build();
        for kind in ["vm", "instancetype", "preference", "clone"] {
            let create = program.find_subcommand_mut("create").expect("the verb");
            let help = create.find_subcommand_mut(kind).expect("a kind").render_help().to_string();
            assert!(help.contains("Namespace of the object [default: none is written]"), "{kind}: {help}");
        }
    }

    #[test]
    fn switches_may_say_yes_or_no() {
        let dry = |line: &str| match parsed(line).unwrap().virt.verb.0 {
            Verb::SoftReboot(_) => false,
            Verb::Start(args) => args.is_dry(),
            other => panic!("{other:?}"),
        };
        assert!(dry("virtctl start web --dry-run") && dry("virtctl start --dry-run=True web"));
        assert!(!dry("virtctl start web --dry-run=false") && !dry("virtctl start web"));
    }
}
