//! The verb `credentials`: SSH keys and passwords of a guest, in Secrets that its VM refers to.
//!
//! ```text
//!  add-ssh-key ─┬─ the VM refers to a Secret for the user ─► the key is added to it
//!               └─ else ─► dry run of the VM with a new Secret ─► the Secret ─► the VM
//! ```
//!
//! **Guarantees.** A change of a VM or a Secret is guarded by its resourceVersion. A change of the VM that
//! the cluster refuses fails before a Secret is created.

use super::args::{VmArg, doing};
use super::create::unused;
use super::password::PasswordArg;
use super::public_key::{key_of, keys};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use crate::virt::target::name;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cluster_model::objects::Kind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Change the SSH keys and passwords that a VM gives its guest
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    AddSshKey(AddArgs),
    RemoveSshKey(RemoveArgs),
    SetPassword(PasswordArgs),
}

/// Add a public SSH key of a user of the guest
#[derive(Debug, clap::Args)]
struct AddArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    user: UserArgs,

    #[command(flatten)]
    key: KeyArgs,

    /// Make a new Secret for the key, which the guest has after a restart
    #[arg(long, conflicts_with = "update_secret")]
    create_secret: bool,

    /// Add the key to a Secret that the VM names already
    #[arg(long)]
    update_secret: bool,

    /// Change a Secret that the VM does not own, and a VM that runs
    #[arg(long)]
    force: bool,
}

/// Remove a public SSH key of a user of the guest
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    user: UserArgs,

    #[command(flatten)]
    key: KeyArgs,

    /// Change a Secret that the VM does not own
    #[arg(long)]
    force: bool,
}

/// Set the password of a user of the guest
#[derive(Debug, clap::Args)]
struct PasswordArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    user: UserArgs,

    #[command(flatten)]
    password: PasswordArg,

    /// Change a Secret that the VM does not own
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
struct UserArgs {
    /// User of the guest
    #[arg(short, long, value_name = "NAME")]
    user: String,

    /// Secret to change, where the VM names several
    #[arg(long, value_name = "NAME", value_parser = name)]
    secret: Option<String>,
}

#[derive(Debug, clap::Args)]
struct KeyArgs {
    /// File with the public SSH key
    #[arg(short, long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,

    /// Public SSH key itself
    #[arg(long, value_name = "KEY")]
    value: Option<String>,
}

const VM: Kind = Kind::VirtualMachine;
/// Maximum size of a public key file in bytes.
const KEY: u64 = 64 << 10;
/// Maximum number of attempts after conflicts.
const TRIES: u32 = 5;

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    match &args.verb {
        Verb::AddSshKey(args) => add(args, cluster).await,
        Verb::RemoveSshKey(args) => remove(args, cluster).await,
        Verb::SetPassword(args) => set_password(args, cluster).await,
    }
}

impl KeyArgs {
    /// The key, without surrounding blanks.
    fn read(&self) -> Result<String> {
        let text = match (&self.value, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => {
                let cannot = |e| Error::io(format!("cannot read the SSH key {}", path.display()), e);
                let size = std::fs::metadata(path).map_err(cannot)?.len();
                if size > KEY {
                    let what = format!("{} has {size} bytes: a public SSH key is smaller", path.display());
                    return Err(Error::new(ErrorKind::Usage, what));
                }
                std::fs::read_to_string(path).map_err(cannot)?
            }
            (None, None) => {
                return Err(Error::new(ErrorKind::Usage, "one of --file, or --value must be specified"));
            }
        };
        let key = text.trim();
        if key.contains("PRIVATE KEY") || keys(key).next().is_none() {
            let error =
                Error::new(ErrorKind::Usage, "the SSH key is not a public one: TYPE BASE64 [COMMENT]");
            return Err(error.with_hint("name the file that ends in .pub"));
        }
        Ok(key.to_owned())
    }
}

async fn add(args: &AddArgs, cluster: &Cluster) -> Result<()> {
    let key = args.key.read()?;
    let vm_name = &args.vm.name;
    let what = doing("add an SSH key to", VM, vm_name, cluster);
    let vm = cluster.object(VM, vm_name, &what).await?;
    let user = &args.user;
    let known = Secrets::of(&vm, &user.user);
    let wanted = known.wanted(user.secret.is_some() || args.update_secret);
    if args.create_secret || !args.update_secret && wanted.is_empty() {
        return add_secret(args, &vm, &key, &known, cluster).await;
    }
    let secret =
        one_of(user.secret.as_deref(), &wanted, &format!("no secrets specified for user: {}", user.user))?;
    let done = change(cluster, &vm, secret, args.force, &what, |data| {
        let has = |wanted| data.values().any(|text| keys(text).any(|key| key == wanted));
        (!keys(&key).all(has))
            .then(|| Ok(Map::from_iter([(unused("ssh-key-")?, json!(BASE64_STANDARD.encode(&key)))])))
    });
    match done.await? {
        true => ui::out(&format!("Successfully added the key to secret \"{secret}\"\n"))?,
        false => ui::out(&format!("Secret \"{secret}\" already contains this SSH key.\n"))?,
    }
    known.note(secret);
    Ok(())
}

/// Creates a Secret for the key, and refers to it in the VM. A dry run of the VM goes first, so that no
/// useless Secret is created.
async fn add_secret(
    args: &AddArgs,
    vm: &Value,
    key: &str,
    known: &Secrets<'_>,
    cluster: &Cluster,
) -> Result<()> {
    let (namespace, vm_name) = (cluster.namespace(), &args.vm.name);
    let what = doing("add an SSH key to", VM, vm_name, cluster);
    if !args.force {
        let vmi = Kind::VirtualMachineInstance.object(namespace, vm_name);
        if cluster.find(&vmi).await.map_err(|e| e.into_error(&what))?.is_some() {
            let error = Error::failed(format!("{what}: virtual machine {vm_name} is running"));
            return Err(error.with_hint("say --force: the new Secret takes effect after a restart"));
        }
    }
    let secret = unused(&format!("{vm_name}-ssh-key-"))?;
    let user = &args.user.user;
    let tried = name_in(cluster, vm, "?dryRun=All", &secret, user).await;
    tried.map_err(|e| {
        let error = e.into_error(&what);
        match known.cloud_init.first() {
            Some(other) => {
                error.with_hint(format!("cloud-init reads the keys of Secret {other}: say --secret {other}"))
            }
            None => error,
        }
    })?;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": namespace, "ownerReferences": [{
            "apiVersion": VM.api_version(),
            "kind": VM.name(),
            "name": vm_name,
            "uid": vm["metadata"]["uid"],
            "controller": true,
        }]},
        "data": {unused("ssh-key-")?: BASE64_STANDARD.encode(key)},
    });
    cluster.post(&Kind::Secret.collection(namespace), &object).await.map_err(|e| e.into_error(&what))?;
    if let Err(e) = name_in(cluster, vm, "", &secret, user).await {
        // No VM refers to the Secret. If it cannot be deleted, it is deleted with the VM, its owner.
        let _ = cluster.delete(&Kind::Secret.object(namespace, &secret), &json!({})).await;
        return Err(e.into_error(&what));
    }
    ui::say(&format!("coracle: Secret {secret} has the key; the guest has it after its next start"));
    Ok(())
}

/// Adds a reference to a Secret to a VM. It is repeated after conflicts: each change of the VM's status makes
/// one.
async fn name_in(
    cluster: &Cluster,
    vm: &Value,
    query: &str,
    secret: &str,
    user: &str,
) -> std::result::Result<(), Failure> {
    let path = VM.object(cluster.namespace(), vm["metadata"]["name"].as_str().unwrap_or_default());
    let (mut vm, mut tried) = (vm.clone(), 1);
    loop {
        match cluster.patch(&format!("{path}{query}"), &with_credential(&vm, secret, user)).await {
            Err(failure) if failure.code() == 409 && tried < TRIES => {
                tried += 1;
                vm = cluster.get(&path).await?;
            }
            done => return done,
        }
    }
}

/// Merge patch that adds the reference.
fn with_credential(vm: &Value, secret: &str, user: &str) -> Value {
    let mut all = credentials(vm).to_vec();
    all.push(json!({"sshPublicKey": {
        "source": {"secret": {"secretName": secret}},
        "propagationMethod": {"qemuGuestAgent": {"users": [user]}},
    }}));
    json!({
        "metadata": {"resourceVersion": vm["metadata"]["resourceVersion"]},
        "spec": {"template": {"spec": {"accessCredentials": all}}},
    })
}

async fn remove(args: &RemoveArgs, cluster: &Cluster) -> Result<()> {
    let key = args.key.read()?;
    let what = doing("remove an SSH key from", VM, &args.vm.name, cluster);
    let vm = cluster.object(VM, &args.vm.name, &what).await?;
    let UserArgs { user, secret } = &args.user;
    let known = Secrets::of(&vm, user);
    let wanted = known.wanted(true);
    if wanted.is_empty() {
        return ui::out(&format!("No secrets associated with user {user}\n"));
    }
    let chosen = match secret {
        None => wanted,
        Some(name) if wanted.contains(&name.as_str()) => vec![name.as_str()],
        Some(name) => {
            let what = format!("secret {name} is not associated with user {user}");
            return Err(Error::new(ErrorKind::NotFound, what));
        }
    };
    for secret in chosen {
        let changed = change(cluster, &vm, secret, args.force, &what, |data| {
            let changes = without(data, &key);
            (!changes.is_empty()).then_some(Ok(changes))
        });
        if changed.await? {
            known.note(secret);
        }
    }
    Ok(())
}

/// Changes that remove the key from the files of a Secret. Files without another key are removed.
fn without(data: &BTreeMap<String, String>, key: &str) -> Map<String, Value> {
    let mut changes = Map::new();
    for (file, text) in data {
        let is_key = |line: &str| key_of(line).is_some_and(|known| keys(key).any(|key| key == known));
        if text.lines().any(is_key) {
            let rest: Vec<&str> =
                text.lines().filter(|line| !is_key(line) && !line.trim().is_empty()).collect();
            let rest = (!rest.is_empty()).then(|| BASE64_STANDARD.encode(rest.join("\n")));
            changes.insert(file.clone(), json!(rest));
        }
    }
    changes
}

async fn set_password(args: &PasswordArgs, cluster: &Cluster) -> Result<()> {
    let password = BASE64_STANDARD.encode(args.password.read()?);
    let what = doing("set a password of", VM, &args.vm.name, cluster);
    let vm = cluster.object(VM, &args.vm.name, &what).await?;
    let secrets: Vec<&str> = credentials(&vm)
        .iter()
        .filter_map(|one| {
            let one = &one["userPassword"];
            one["propagationMethod"].get("qemuGuestAgent")?;
            secret_of(one)
        })
        .collect();
    let none = "no secrets assigned to UserPassword AccessCredentials";
    let secret =
        one_of(args.user.secret.as_deref(), &secrets, none).map_err(|e| match secrets.is_empty() {
            true => e.with_hint(
                "name a Secret in accessCredentials[].userPassword of the VM, or set the password with cloud-init: userData of a volume, password:",
            ),
            false => e,
        })?;
    let user = &args.user.user;
    change(cluster, &vm, secret, args.force, &what, |_| {
        Some(Ok(Map::from_iter([(user.clone(), json!(password))])))
    })
    .await?;
    ui::out(&format!("Successfully set password in secret \"{secret}\"\n"))
}

/// Changes the data of a Secret, and repeats that after conflicts. False if there is nothing to change.
async fn change(
    cluster: &Cluster,
    vm: &Value,
    name: &str,
    force: bool,
    what: &str,
    decide: impl Fn(&BTreeMap<String, String>) -> Option<Result<Map<String, Value>>>,
) -> Result<bool> {
    let path = Kind::Secret.object(cluster.namespace(), name);
    let mut tried = 1;
    loop {
        let secret = cluster.get(&path).await.map_err(|e| e.into_error(what))?;
        if !force && !is_owned(&secret, vm) {
            let vm = vm["metadata"]["name"].as_str().unwrap_or_default();
            let error = Error::failed(format!(
                "{what}: secret {name} does not have an owner reference pointing to VM {vm}"
            ));
            return Err(error.with_hint("other VMs may use it, too; --force changes it all the same"));
        }
        let Some(changes) = decide(&texts(&secret)) else { return Ok(false) };
        let changes = json!({
            "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
            "data": changes?,
        });
        match cluster.patch(&path, &changes).await {
            Err(failure) if failure.code() == 409 && tried < TRIES => tried += 1,
            done => return done.map(|()| true).map_err(|e| e.into_error(what)),
        }
    }
}

/// Text files of a Secret; a binary one cannot hold a key.
fn texts(secret: &Value) -> BTreeMap<String, String> {
    let data = secret["data"].as_object().into_iter().flatten();
    let texts = data.filter_map(|(file, value)| {
        let bytes = BASE64_STANDARD.decode(value.as_str()?).ok()?;
        Some((file.clone(), String::from_utf8(bytes).ok()?))
    });
    texts.collect()
}

fn is_owned(object: &Value, vm: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let same = |owner: &Value, field: &str| owner[field] == vm["metadata"][field];
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["kind"] == VM.name() && same(owner, "name") && same(owner, "uid"))
}

fn credentials(vm: &Value) -> &[Value] {
    let all = vm["spec"]["template"]["spec"]["accessCredentials"].as_array();
    all.map(Vec::as_slice).unwrap_or_default()
}

fn secret_of(credential: &Value) -> Option<&str> {
    // An invalid name would be printed, and become part of a path.
    credential["source"]["secret"]["secretName"].as_str().filter(|text| name(text).is_ok())
}

/// Secrets with SSH keys that a VM refers to.
#[derive(Debug, PartialEq, Eq)]
struct Secrets<'a> {
    /// Secrets of the user, whose keys the guest agent writes while the guest runs.
    guest_agent: Vec<&'a str>,
    /// Secrets that cloud-init reads when the guest boots, for its default user.
    cloud_init: Vec<&'a str>,
}

impl<'a> Secrets<'a> {
    fn of(vm: &'a Value, user: &str) -> Secrets<'a> {
        let mut secrets = Secrets { guest_agent: Vec::new(), cloud_init: Vec::new() };
        for key in credentials(vm).iter().map(|one| &one["sshPublicKey"]) {
            let Some(secret) = secret_of(key) else { continue };
            let way = &key["propagationMethod"];
            let users = way["qemuGuestAgent"]["users"].as_array().into_iter().flatten();
            if users.into_iter().any(|known| known == user) {
                secrets.guest_agent.push(secret);
            } else if way.get("noCloud").is_some() || way.get("configDrive").is_some() {
                secrets.cloud_init.push(secret);
            }
        }
        secrets
    }

    /// Secrets that the command can change. Upstream supports the guest agent's alone; cloud-init's are used
    /// on request.
    fn wanted(&self, is_any: bool) -> Vec<&'a str> {
        match is_any {
            true => [self.guest_agent.as_slice(), &self.cloud_init].concat(),
            false => self.guest_agent.clone(),
        }
    }

    /// Prints when the guest gets a change.
    fn note(&self, secret: &str) {
        if self.cloud_init.contains(&secret) && !self.guest_agent.contains(&secret) {
            ui::say(&format!(
                "coracle: cloud-init reads Secret {secret} at the next start, for its own user"
            ));
        }
    }
}

/// The Secret of the flag, or the only one.
fn one_of<'a>(named: Option<&str>, all: &[&'a str], none: &str) -> Result<&'a str> {
    let refused = |what: &str| Err(Error::new(ErrorKind::NotFound, what));
    match (all, named) {
        ([], None) => refused(none),
        ([one], None) => Ok(one),
        (_, None) => {
            let what = "multiple secrets specified, use option --secret to specify which secret to modify";
            Err(Error::new(ErrorKind::Usage, what).with_hint(format!("there are {}", all.join(", "))))
        }
        (_, Some(name)) => match all.iter().find(|known| **known == name) {
            Some(known) => Ok(known),
            None => refused(&format!("secret {name} was not assigned")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &str, way: &Value) -> Value {
        json!({"sshPublicKey": {"source": {"secret": {"secretName": secret}}, "propagationMethod": way}})
    }

    fn vm() -> Value {
        let all = [
            key("a", &json!({"qemuGuestAgent": {"users": ["me", "you"]}})),
            key("b", &json!({"qemuGuestAgent": {"users": ["you"]}})),
            key("c", &json!({"noCloud": {}})),
            json!({"userPassword": {"source": {"secret": {"secretName": "p"}}}}),
        ];
        json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"template": {"spec": {"accessCredentials": all}}},
        })
    }

    #[test]
    fn secrets_are_those_of_the_user() {
        let vm = vm();
        let mine = Secrets::of(&vm, "me");
        assert_eq!((mine.wanted(false), mine.wanted(true)), (vec!["a"], vec!["a", "c"]));
        assert_eq!(Secrets::of(&vm, "you").wanted(false), ["a", "b"]);
        assert_eq!(Secrets::of(&json!({}), "me").wanted(true), Vec::<&str>::new());
        assert_eq!(one_of(None, &["a"], "none").unwrap(), "a");
        assert_eq!(one_of(Some("b"), &["a", "b"], "none").unwrap(), "b");
        for (named, all, wanted) in [
            (None, &[][..], "none"),
            (None, &["a", "b"], "use option --secret"),
            (Some("c"), &["a"], "secret c was not assigned"),
        ] {
            assert!(one_of(named, all, "none").unwrap_err().to_string().contains(wanted));
        }
    }

    #[test]
    fn what_is_not_the_name_of_a_secret_is_passed_over() {
        let way = json!({"qemuGuestAgent": {"users": ["me"]}});
        let all = ["a\u{1b}[2J", "..", "a/b", "", "good"].map(|secret| key(secret, &way));
        let vm = json!({"spec": {"template": {"spec": {"accessCredentials": all}}}});
        assert_eq!(Secrets::of(&vm, "me").wanted(true), ["good"]);
    }

    #[test]
    fn a_credential_more_leaves_the_others() {
        let changes = with_credential(&vm(), "new", "me");
        assert_eq!(changes["metadata"]["resourceVersion"], "7");
        let all = changes["spec"]["template"]["spec"]["accessCredentials"].as_array().unwrap();
        assert_eq!((all.len(), &all[2]), (5, &key("c", &json!({"noCloud": {}}))));
        assert_eq!(all[4], key("new", &json!({"qemuGuestAgent": {"users": ["me"]}})));
    }

    #[test]
    fn a_key_is_taken_out_and_nothing_else() {
        let texts =
            [("one", "ssh-rsa A me\n\n ssh-rsa B you\n"), ("two", "ssh-rsa A"), ("three", "ssh-rsa B")];
        let data = texts.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let changes = without(&data, "ssh-rsa A");
        assert_eq!(
            Value::from(changes),
            json!({"one": BASE64_STANDARD.encode(" ssh-rsa B you"), "two": null})
        );
    }

    #[test]
    fn a_key_is_its_type_and_its_base64_word() {
        let texts =
            [("one", "ssh-rsa AB\nssh-rsa AC me\ncommand=\"a \\\" ssh-rsa A\",no-pty ssh-rsa A\t you")];
        let data = texts.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        for (key, rest) in [
            (
                "ssh-rsa AC other words",
                Some("ssh-rsa AB\ncommand=\"a \\\" ssh-rsa A\",no-pty ssh-rsa A\t you"),
            ),
            ("ssh-rsa A", Some("ssh-rsa AB\nssh-rsa AC me")),
            ("ssh-rsa AB\nssh-rsa A\nssh-rsa AC", None),
        ] {
            let wanted = rest.map(|rest| BASE64_STANDARD.encode(rest));
            assert_eq!(Value::from(without(&data, key)), json!({"one": wanted}), "{key}");
        }
        for other in ["ssh-ed25519 AB", "ssh-rsa", "ssh-", "s", ""] {
            assert!(without(&data, other).is_empty(), "{other}");
        }
        assert_eq!(key_of("# ssh-rsa A"), None);
        assert_eq!(
            key_of("restrict,from=\"a b\" sk-ssh-ed25519@openssh.com A"),
            Some(("sk-ssh-ed25519@openssh.com", "A"))
        );
    }

    #[test]
    fn a_secret_belongs_to_the_vm_that_owns_it() {
        let owned = |kind: &str, uid: &str| {
            let owner = json!({"kind": kind, "name": "web", "uid": uid});
            is_owned(&json!({"metadata": {"ownerReferences": [owner]}}), &vm())
        };
        assert!(owned("VirtualMachine", "u"));
        assert!(!owned("VirtualMachine", "v") && !owned("Pod", "u") && !is_owned(&json!({}), &vm()));
    }

    #[test]
    fn a_private_key_is_not_sent() {
        let read = |value: &str| KeyArgs { file: None, value: Some(value.to_owned()) }.read();
        assert_eq!(read(" ssh-rsa A\n").unwrap(), "ssh-rsa A");
        for refused in ["-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-rsa", "# ssh-rsa A", " "] {
            assert!(read(refused).unwrap_err().to_string().contains(".pub"), "{refused}");
        }
        assert!(
            KeyArgs { file: None, value: None }
                .read()
                .unwrap_err()
                .to_string()
                .contains("--file, or --value")
        );
    }
}
