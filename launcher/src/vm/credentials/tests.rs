//! What is asked of a guest agent, and what is said of it.

use super::*;
use crate::hypervisor::fake::Fake;
use crate::vm::{Parts, drive};
use api::machine::KeyDelivery;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const KEYS: &str = "guest-ssh-add-authorized-keys";
const WORD: &str = "guest-set-user-password";

fn write(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// Two Secrets with keys, one with passwords.
fn secrets(place: &Path) -> AgentCredentials {
    write(&place.join("a"), &[("one", "ssh-ed25519 A me\n# old\n"), ("two", "ssh-rsa B\n")]);
    write(&place.join("b"), &[("x", "ssh-ed25519 A me\nssh-rsa C\n")]);
    write(&place.join("p"), &[("root", " hunter2\n"), ("none", "\n")]);
    let keys = |secret: &str, users: &[&str]| Credential::SshKeys {
        secret: secret.into(),
        delivery: KeyDelivery::Agent { users: users.iter().map(|user| (*user).to_owned()).collect() },
    };
    let credentials =
        vec![keys("a", &["me", "you"]), keys("b", &["me"]), Credential::Passwords { secret: "p".into() }];
    let secrets = ["a", "b", "p"].map(|name| (name.to_owned(), place.join(name))).into();
    AgentCredentials { credentials, resolved: Resolved { secrets, ..Resolved::default() } }
}

fn wish(wanted: &AgentCredentials) -> Result<DesiredCredentials> {
    DesiredCredentials::read(&wanted.credentials, &wanted.resolved)
}

fn willing() -> Fake {
    let fake = Fake::default();
    for command in [KEYS, WORD] {
        fake.agent_says(command, r#"{"return":{}}"#);
    }
    fake.agent_says("guest-fsfreeze-status", r#"{"return":"thawed"}"#);
    fake
}

/// The commands that change something, in order.
fn asked(fake: &Fake) -> Vec<String> {
    let all = fake.conversation().into_iter();
    all.filter_map(|said| said.strip_prefix("agent a_b ").map(str::to_owned))
        .filter(|command| !["guest-fsfreeze-status", "guest-info"].contains(&command.as_str()))
        .collect()
}

#[test]
fn a_user_has_the_keys_of_all_secrets_that_name_them() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    let wish = wish(&wanted).unwrap();
    assert_eq!(wish.keys["me"], ["ssh-ed25519 A me", "ssh-rsa B", "ssh-rsa C"]);
    assert_eq!(wish.keys["you"], ["ssh-ed25519 A me", "ssh-rsa B"]);
    assert_eq!(wish.passwords.len(), 1, "an empty one is none");
    assert_eq!(wish.passwords["root"].0, "hunter2");
    assert!(!format!("{wish:?}").contains("hunter2"), "{wish:?}");
}

#[test]
fn a_password_of_two_lines_is_refused_and_not_repeated() {
    for text in ["hunter2\nroot:hunter3", "hunter2\u{0}", "hunter2\rx"] {
        let place = tempfile::tempdir().unwrap();
        let wanted = secrets(place.path());
        write(&place.path().join("p"), &[("me", text)]);
        let error = wish(&wanted).unwrap_err().chain();
        assert!(
            error.contains("the key \"me\" of the secret \"p\" holds a password with a line break"),
            "{error}"
        );
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[test]
fn everything_is_handed_over_once_and_again_when_a_secret_changes_or_time_has_passed() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    let fake = willing();
    let guest = Guest { hypervisor: &fake, name: "a_b" };
    let now = Instant::now();
    let (done, told) = round(&guest, &wanted, None, now);
    assert!(told.unwrap().synchronized);
    assert_eq!(asked(&fake), [KEYS, KEYS, WORD]);
    let (done, told) = round(&guest, &wanted, done, now + RESYNC / 2);
    assert!(told.is_none() && asked(&fake).len() == 3, "nothing has changed");
    fs::remove_file(place.path().join("a/two")).unwrap();
    let (done, told) = round(&guest, &wanted, done, now + RESYNC / 2);
    assert!(told.unwrap().synchronized && asked(&fake).len() == 6, "a key is gone");
    let (done, _) = round(&guest, &wanted, done, now + RESYNC);
    assert_eq!(asked(&fake).len(), 6, "not yet");
    let (done, told) = round(&guest, &wanted, done, now + RESYNC * 2);
    assert!(told.unwrap().synchronized && asked(&fake).len() == 9, "time has passed");
    // What is frozen is left alone, and what was said of it stays.
    fake.agent_says("guest-fsfreeze-status", r#"{"return":"frozen"}"#);
    let (done, told) = round(&guest, &wanted, done, now + RESYNC * 4);
    assert!(done.is_some() && told.is_none() && asked(&fake).len() == 9);
}

#[test]
fn what_fails_is_said_for_each_user_and_tried_again() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    let fake = willing();
    fake.agent_says(KEYS, r#"{"error":{"desc":"failed to lookup user"}}"#);
    let guest = Guest { hypervisor: &fake, name: "a_b" };
    let (done, told) = round(&guest, &wanted, None, Instant::now());
    let told = told.unwrap();
    assert_eq!((told.synchronized, told.reason.as_str()), (false, AGENT_FAILED));
    for user in ["me", "you"] {
        let says = format!("Error encountered writing ssh pub key access credentials for user [{user}]: ");
        assert!(told.message.contains(&says), "{}", told.message);
    }
    assert!(told.message.contains("failed to lookup user") && done.is_none());
    assert_eq!(asked(&fake).len(), 3, "the password is set all the same");

    // One that does not answer is not asked for the others.
    let fake = Fake::default();
    let guest = Guest { hypervisor: &fake, name: "a_b" };
    let (_, told) = round(&guest, &wanted, None, Instant::now());
    assert!(!told.unwrap().synchronized);
    assert_eq!(asked(&fake), [KEYS]);
}

#[test]
fn words_of_a_guest_without_end_are_cut() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    let fake = willing();
    let long = json!({"error": {"desc": "x".repeat(1 << 20)}}).to_string();
    for command in [KEYS, WORD] {
        fake.agent_says(command, &long);
    }
    let (_, told) = round(&Guest { hypervisor: &fake, name: "a_b" }, &wanted, None, Instant::now());
    assert!(told.unwrap().message.chars().count() <= TOLD.1 + 20);
}

#[test]
fn a_secret_that_is_gone_is_named() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    fs::remove_dir_all(place.path().join("b")).unwrap();
    let fake = willing();
    let (_, told) = round(&Guest { hypervisor: &fake, name: "a_b" }, &wanted, None, Instant::now());
    let told = told.unwrap();
    assert_eq!((told.synchronized, told.reason.as_str()), (false, SECRET_NOT_READABLE));
    assert!(asked(&fake).is_empty(), "half of the keys would lock somebody out");
}

fn vmi() -> Value {
    let keys = json!({"secret": {"secretName": "a"}});
    json!({
        "metadata": {"name": "b", "namespace": "a"},
        "spec": {
            "accessCredentials": [
                {"sshPublicKey": {"source": keys, "propagationMethod": {"qemuGuestAgent": {"users": ["me"]}}}},
            ],
            "domain": {
                "memory": {"guest": "64Mi"}, "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"autoattachPodInterface": false},
            },
        },
    })
}

/// The whole way: a VM whose guest agent comes, and a Secret that changes while it runs.
#[tokio::test]
async fn the_state_says_what_the_guest_has() {
    let folder = tempfile::Builder::new().prefix("c").tempdir_in("/tmp").unwrap();
    let root = Root::open(&folder.path().join("r"), folder.path()).unwrap();
    let wanted = secrets(&folder.path().join("s"));
    let fake = Arc::new(willing());
    let parts =
        Parts { hypervisor: fake.clone(), root, lines: crate::console::lines().0, clock: crate::clock::now };
    let (handle, driver) = drive(parts).unwrap();
    tokio::spawn(driver);
    tokio::spawn(run(handle.clone(), Duration::from_millis(20)));
    handle.sync(Sync { vmi: vmi(), generation: 1, resolved: wanted.resolved.clone() }).await.unwrap();
    let until = |wanted: fn(&Credentials) -> bool| {
        let mut state = handle.state();
        async move {
            let is = |state: &State| state.credentials.as_ref().is_some_and(wanted);
            tokio::time::timeout(Duration::from_secs(60), state.wait_for(is)).await.unwrap().unwrap().clone()
        }
    };
    until(|told| told.reason == AGENT_OFFLINE && told.message == "Guest agent is offline").await;
    fake.happen("a_b", &crate::hypervisor::Event::Agent(true));
    until(|told| told.synchronized).await;
    assert_eq!(asked(&fake), [KEYS]);
    // Nobody asks one that stands still.
    fake.happen("a_b", &crate::hypervisor::Event::Paused(crate::hypervisor::Pause::Asked));
    handle.state().wait_for(|state| state.life == Life::Paused).await.unwrap();
    // What was begun before may still read.
    sleep(Duration::from_millis(200)).await;
    write(&folder.path().join("s/a"), &[("two", "ssh-rsa E")]);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(asked(&fake), [KEYS]);
    fake.happen("a_b", &crate::hypervisor::Event::Resumed);
    tokio::time::timeout(Duration::from_secs(60), async {
        while asked(&fake).len() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    // The next answer is the one to the changed Secret.
    fake.agent_says(KEYS, r#"{"error":{"desc":"disk full"}}"#);
    write(&folder.path().join("s/a"), &[("three", "ssh-rsa D")]);
    until(|told| told.message.contains("disk full")).await;
    fake.happen("a_b", &crate::hypervisor::Event::Ended(crate::hypervisor::End::Shutdown));
    let ended = handle.state().wait_for(|state| state.life.is_final()).await.unwrap().clone();
    assert!(!serde_json::to_string(&ended).unwrap().contains("ssh-rsa"), "no key is in the state");
}

/// Guest agents before QEMU 5.2 have no command for keys.
#[test]
fn an_old_guest_agent_writes_keys_by_a_program_of_the_user() {
    let place = tempfile::tempdir().unwrap();
    let wanted = secrets(place.path());
    let fake = willing();
    let commands = |names: &[&str]| {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name, "enabled": true})).collect();
        json!({"return": {"supported_commands": all}}).to_string()
    };
    let run = ["guest-exec", "guest-exec-status"];
    fake.agent_says("guest-info", &commands(&run));
    fake.agent_says("guest-exec", r#"{"return":{"pid":7}}"#);
    fake.agent_says("guest-exec-status", r#"{"return":{"exited":true,"exitcode":0}}"#);
    let guest = Guest { hypervisor: &fake, name: "a_b" };
    let (_, told) = round(&guest, &wanted, None, Instant::now());
    assert!(told.unwrap().synchronized);
    assert_eq!(asked(&fake), [run[0], run[1], run[0], run[1], WORD]);
    let first =
        fake.agent_commands().into_iter().find(|command| command.contains(r#""guest-exec""#)).unwrap();
    let arguments = serde_json::from_str::<Value>(&first).unwrap()["arguments"].clone();
    assert_eq!(arguments["path"], "su");
    // As that user, in a file that only that user reads, and never through what stands under the final name.
    let script = "umask 077 && mkdir -p ~/.ssh && cat >~/.ssh/authorized_keys.new && mv -f ~/.ssh/authorized_keys.new ~/.ssh/authorized_keys";
    assert_eq!(arguments["arg"], json!(["-s", "/bin/sh", "-c", script, "me"]));
    let input = "c3NoLWVkMjU1MTkgQSBtZQpzc2gtcnNhIEIKc3NoLXJzYSBDCg==";
    assert_eq!(arguments["input-data"], input, "ssh-ed25519 A me, ssh-rsa B, ssh-rsa C");

    fake.agent_says(
        "guest-exec-status",
        r#"{"return":{"exited":true,"exitcode":1,"err-data":"bm8gdXNlcg=="}}"#,
    );
    let (_, told) = round(&guest, &wanted, None, Instant::now());
    assert!(told.unwrap().message.contains("exit code 1: no user"));
    // An option of su is no user, and nothing is asked.
    let before = asked(&fake).len();
    assert!(guest.write_keys("-c", &[]).unwrap_err().to_string().contains("no user has such a name"));
    assert_eq!(asked(&fake).len(), before);
    // One that has the command is asked for it, and so is one that has neither.
    for names in [&[KEYS, run[0], run[1]][..], &[]] {
        let fake = willing();
        fake.agent_says("guest-info", &commands(names));
        round(&Guest { hypervisor: &fake, name: "a_b" }, &wanted, None, Instant::now());
        assert_eq!(asked(&fake), [KEYS, KEYS, WORD]);
    }
}

#[test]
fn keys_replace_what_is_there_and_passwords_are_encoded() {
    let fake = willing();
    let guest = Guest { hypervisor: &fake, name: "a_b" };
    guest.set_keys("me", &["ssh-rsa A".to_owned()]).unwrap();
    guest.set_password("me", "hunter2").unwrap();
    let commands: Vec<Value> =
        fake.agent_commands().iter().map(|command| serde_json::from_str(command).unwrap()).collect();
    assert_eq!(
        commands,
        [
            json!({"execute": KEYS, "arguments": {"username": "me", "keys": ["ssh-rsa A"], "reset": true}}),
            json!({"execute": WORD, "arguments": {"username": "me", "password": "aHVudGVyMg==", "crypted": false}}),
        ]
    );
}
