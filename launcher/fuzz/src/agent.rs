//! Properties that must hold for any answers of the guest agent.

use api::launcher::Exec;
use launcher::hypervisor::fake::Fake;
use launcher::hypervisor::{About, DomainState, Error, ErrorKind, Hypervisor, Result, Tell};
use launcher::vm::guest::Guest;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

/// The length limit of a text from the guest agent that is passed on.
const LONGEST: usize = 4096 * 4;
/// The limit of a program's output, with the note that it was cut; a byte that is not UTF-8 becomes three.
const OUTPUT: usize = (1 << 20) * 3 + 64;

/// Answers, one per line. The guest agent gives them in this order, again and again.
pub(crate) fn agent(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let answers: Vec<String> = text.lines().map(str::to_owned).collect();
    if answers.is_empty() {
        return;
    }
    let agent = Agent { answers, next: Mutex::new(0), fake: Fake::default() };
    let guest = Guest { hypervisor: &agent, name: "a_b" };
    let _ = (guest.ping(), guest.freeze(), guest.thaw(), guest.is_frozen());
    agent.again();
    let word = "a word that no answer has in it: 8c1f";
    let refused = [guest.set_keys("me", &["ssh-rsa A".into()]), guest.set_password("me", word)];
    for e in refused.into_iter().filter_map(std::result::Result::err) {
        assert!(e.to_string().len() <= LONGEST && !e.to_string().contains(word), "{e}");
    }
    agent.again();
    if let Ok(info) = guest.info() {
        // JSON has no infinity.
        serde_json::to_value(&info).expect("facts are JSON");
        let texts = [&info.agent_version, &info.hostname, &info.timezone].into_iter().flatten();
        let interfaces =
            info.interfaces.iter().flat_map(|found| found.ips.iter().chain(&found.mac).chain([&found.name]));
        assert!(texts.chain(interfaces).all(|text| text.len() <= LONGEST), "an endless text");
        assert!(
            info.os.iter().all(|(key, value)| key.len() <= LONGEST && value.len() <= LONGEST),
            "an endless text"
        );
        assert!(info.interfaces.len() <= 1024 && info.os.len() <= 1024, "things without end");
        assert!(info.interfaces.iter().all(|found| found.ips.len() <= 1024), "addresses without end");
    }
    agent.again();
    if let Ok(users) = guest.users() {
        assert!(users.len() <= 1024 && users.iter().all(|user| user.name.len() <= LONGEST));
        // JSON has no infinity.
        serde_json::to_value(&users).expect("users are JSON");
    }
    agent.again();
    if let Ok(found) = guest.filesystems() {
        assert!(
            found.len() <= 1024
                && found.iter().all(|one| one.mountpoint.len() <= LONGEST && one.kind.len() <= LONGEST)
        );
    }
    agent.again();
    let exec =
        Exec { command: "/bin/x".into(), args: vec!["a".into()], input: Some("in".into()), timeout: Some(0) };
    match guest.exec(&exec) {
        Ok(done) => assert!(done.stdout.len() <= OUTPUT && done.stderr.len() <= OUTPUT, "output without end"),
        Err(e) => assert!(e.to_string().len() <= LONGEST, "an endless failure"),
    }
}

/// A hypervisor whose guest has a guest agent, and nothing else.
struct Agent {
    answers: Vec<String>,
    next: Mutex<usize>,
    fake: Fake,
}

impl Agent {
    /// From the first answer again, so that every command gets each answer.
    fn again(&self) {
        *self.next.lock().expect("nobody panics with it") = 0;
    }
}

impl Hypervisor for Agent {
    fn agent(&self, _: &str, command: &str, _: Duration) -> Result<String> {
        serde_json::from_str::<serde_json::Value>(command).expect("a command is JSON");
        let mut next = self.next.lock().expect("nobody panics with it");
        let answer = &self.answers[*next % self.answers.len()];
        *next += 1;
        match answer.as_str() {
            // A guest without a guest agent, for this command.
            "-" => Err(Error::new(ErrorKind::NoAgent, "ask", "it does not answer")),
            answer => Ok(answer.to_owned()),
        }
    }

    fn about(&self) -> Result<About> {
        self.fake.about()
    }

    fn has_iothread_mapping(&self) -> Result<bool> {
        self.fake.has_iothread_mapping()
    }

    fn watch(&self, name: &str, tell: Tell) -> Result<()> {
        self.fake.watch(name, tell)
    }

    fn define(&self, xml: &str) -> Result<()> {
        self.fake.define(xml)
    }

    fn undefine(&self, name: &str) -> Result<()> {
        self.fake.undefine(name)
    }

    fn start(&self, name: &str) -> Result<()> {
        self.fake.start(name)
    }

    fn line(&self, name: &str) -> Result<Option<OwnedFd>> {
        self.fake.line(name)
    }

    fn keep_file(&self, name: &str, label: &str, file: BorrowedFd<'_>) -> Result<()> {
        self.fake.keep_file(name, label, file)
    }

    fn state(&self, name: &str) -> Result<DomainState> {
        self.fake.state(name)
    }

    fn shutdown(&self, name: &str) -> Result<()> {
        self.fake.shutdown(name)
    }

    fn destroy(&self, name: &str) -> Result<()> {
        self.fake.destroy(name)
    }

    fn reboot(&self, name: &str) -> Result<()> {
        self.fake.reboot(name)
    }

    fn reset(&self, name: &str) -> Result<()> {
        self.fake.reset(name)
    }

    fn pause(&self, name: &str) -> Result<()> {
        self.fake.pause(name)
    }

    fn resume(&self, name: &str) -> Result<()> {
        self.fake.resume(name)
    }

    fn change_media(&self, name: &str, disk: &str) -> Result<()> {
        self.fake.change_media(name, disk)
    }

    fn change_link(&self, name: &str, interface: &str) -> Result<()> {
        self.fake.change_link(name, interface)
    }

    fn stats(&self, name: &str) -> Result<api::launcher::Stats> {
        self.fake.stats(name)
    }

    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()> {
        self.fake.screenshot(name, into)
    }
}
