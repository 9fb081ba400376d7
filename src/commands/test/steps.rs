//! Script of `coracle test`: its steps, and their results as JUnit XML. Pure.
//!
//! ```toml
//! [[step]]
//! expect = "login:"            # wait until the console says so
//! [[step]]
//! send = "root\n"              # type
//! [[step]]
//! run = "uname -r"             # type a command, wait for its exit code
//! contains = "6."
//! [[step]]
//! exec = ["systemctl", "is-system-running"]    # by the guest agent
//! exit = 0
//! [[step]]
//! screenshot = "desktop.png"
//! [[step]]
//! end = true                   # wait until the VM has switched itself off
//! ```

use super::transcript::Transcript;
use crate::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// The script as its TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[serde(default)]
    step: Vec<StepToml>,
}

/// A step's TOML: exactly one action.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepToml {
    name: Option<String>,
    expect: Option<String>,
    send: Option<String>,
    run: Option<String>,
    exec: Option<Vec<String>>,
    screenshot: Option<PathBuf>,
    end: Option<bool>,
    exit: Option<i32>,
    contains: Option<String>,
    timeout: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Name in reports: the user's, or one made from the action.
    pub(crate) name: String,
    pub(crate) action: Action,
    /// Timeout of this step. Unset: the rest of the script's time.
    pub(crate) timeout: Option<Duration>,
}

/// Action of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Waits until this text is on the console.
    Expect(String),
    /// Waits until the guest agent answers or the console shows a login prompt.
    Up,
    /// Types a text on the console.
    Send(String),
    /// Types a command, and waits for its exit code.
    Run { command: String, exit: i32, contains: Option<String> },
    /// Runs a program by the guest agent.
    Exec { command: Vec<String>, exit: i32, contains: Option<String> },
    /// Saves a screenshot as PNG.
    Screenshot(PathBuf),
    /// Waits until the VM has ended without a failure.
    End,
}

/// Parses the TOML of a script.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>> {
    let script: Script =
        toml::from_str(text).map_err(|e| Error::refused(format!("this is not a script of steps: {e}")))?;
    if script.step.is_empty() {
        return Err(Error::refused("a script has at least one [[step]]"));
    }
    script.step.into_iter().enumerate().map(|(i, step)| step.read(i + 1)).collect()
}

impl StepToml {
    fn read(self, number: usize) -> Result<Step> {
        let wrong = |what: &str| Error::refused(format!("step {number}: {what}"));
        let exit = self.exit.unwrap_or(0);
        let mut actions = vec![];
        let said = |name: &str, text: &str| format!("{name} {}", text.escape_debug());
        let mut name = String::new();
        let mut add = |called: String, action| {
            name = called;
            actions.push(action);
        };
        if let Some(text) = self.expect {
            if text.is_empty() {
                return Err(wrong("expect is empty, and would always match"));
            }
            add(said("expect", &text), Action::Expect(text));
        }
        if let Some(text) = self.send {
            add(said("send", &text), Action::Send(text));
        }
        let judges = self.run.is_some() || self.exec.is_some();
        if let Some(command) = self.run {
            if command.contains('\n') {
                return Err(wrong("run is one line; use send for more"));
            }
            add(said("run", &command), Action::Run { command, exit, contains: self.contains.clone() });
        }
        if let Some(command) = self.exec {
            if command.is_empty() {
                return Err(wrong("exec names no program"));
            }
            add(
                format!("exec {}", command.join(" ")),
                Action::Exec { command, exit, contains: self.contains.clone() },
            );
        }
        if let Some(path) = self.screenshot {
            add(format!("screenshot {}", path.display()), Action::Screenshot(path));
        }
        match self.end {
            Some(true) => add("end".into(), Action::End),
            Some(false) => return Err(wrong("end is true or left out")),
            None => {}
        }
        if !judges && (self.exit.is_some() || self.contains.is_some()) {
            return Err(wrong("exit and contains belong to run and exec"));
        }
        let Ok([action]) = <[Action; 1]>::try_from(actions) else {
            return Err(wrong("a step has exactly one of expect, send, run, exec, screenshot and end"));
        };
        let timeout = self.timeout.map(Duration::from_secs);
        Ok(Step { name: self.name.unwrap_or(name), action, timeout })
    }
}

/// The line that makes a shell run a command and print its exit code, and the mark in front of the code. The
/// echo of the typed line does not contain the mark.
pub(crate) fn typed(command: &str, number: usize) -> (String, String) {
    (format!("{command}; coracle=$?; {}", again(number)), format!("coracle-{number}="))
}

/// The line that makes the shell print the exit code once more, after other output has damaged the first.
pub(crate) fn again(number: usize) -> String {
    format!("echo \"coracle\"\"-{number}=$coracle.\"\n")
}

/// Result of one step of a script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// Error message of a failed step.
    pub(crate) failure: Option<String>,
}

/// Results as JUnit XML, with the output of the console.
pub(crate) fn junit(suite: &str, outcomes: &[Outcome], console: &str) -> String {
    let failures = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let took: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let head = format!(
        "name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{:.3}\"",
        escaped(suite),
        outcomes.len(),
        took.as_secs_f64()
    );
    let _ = write!(text, "<testsuites {head}>\n<testsuite {head}>\n");
    for outcome in outcomes {
        let _ = write!(
            text,
            "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escaped(suite),
            escaped(&outcome.name),
            outcome.took.as_secs_f64()
        );
        let _ = match &outcome.failure {
            Some(why) => write!(text, ">\n<failure message=\"{}\"/>\n</testcase>\n", escaped(why)),
            None => writeln!(text, "/>"),
        };
    }
    let _ = write!(text, "<system-out>{}</system-out>\n</testsuite>\n</testsuites>\n", escaped(console));
    text
}

/// Text escaped for XML, without characters that XML cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => {}
            c => out.push(c),
        }
    }
    out
}

/// Error of a step that ran into its timeout, with the last line of the console.
pub(crate) fn late(what: &str, timeout: Duration, transcript: &Transcript) -> Error {
    let last = transcript.last_line().escape_debug().to_string();
    let said =
        if last.is_empty() { "it said nothing".to_owned() } else { format!("its last line is: {last}") };
    Error::new(ErrorKind::Failed, format!("no {what} within {} s; {said}", timeout.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_step_by_step() {
        let text = "[[step]]\nexpect = \"login:\"\ntimeout = 9\n[[step]]\nsend = \"root\\n\"\nname = \"log in\"\n\
                    [[step]]\nrun = \"false\"\nexit = 1\n[[step]]\nexec = [\"true\"]\n[[step]]\nend = true\n";
        let steps = parse(text).unwrap();
        assert_eq!(steps[0].action, Action::Expect("login:".into()));
        assert_eq!(steps[0].timeout, Some(Duration::from_secs(9)));
        assert_eq!(steps[1].name, "log in");
        assert_eq!(steps[2].action, Action::Run { command: "false".into(), exit: 1, contains: None });
        assert_eq!((steps[3].name.as_str(), &steps[4].action), ("exec true", &Action::End));
    }

    #[test]
    fn what_is_wrong_with_a_script_names_the_step() {
        for (text, why) in [
            ("", "at least one"),
            ("[[step]]\n", "step 1: a step has exactly one"),
            ("[[step]]\nexpect = \"a\"\nsend = \"b\"\n", "exactly one"),
            ("[[step]]\nexpect = \"\"\n", "empty"),
            ("[[step]]\nexpect = \"a\"\nexit = 1\n", "belong to run and exec"),
            ("[[step]]\nsends = \"a\"\n", "unknown field"),
            ("[[step]]\nend = false\n", "left out"),
            ("not toml", "not a script"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.kind() == ErrorKind::Refused && e.to_string().contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn what_is_typed_does_not_hold_its_mark() {
        let (line, mark) = typed("true", 3);
        assert!(!line.contains(&mark) && mark == "coracle-3=", "{line}");
        assert!(!again(3).contains(&mark) && line.ends_with(&again(3)), "{line}");
    }

    #[test]
    fn outcomes_become_xml_whatever_the_console_said() {
        let outcome = Outcome {
            name: "expect <a>".into(),
            took: Duration::from_millis(1500),
            failure: Some("no \"a\" & b".into()),
        };
        let text = junit("os & co", &[outcome], "\x1b[0m\x00a]]>b\u{ffff}");
        assert!(
            text.contains("name=\"os &amp; co\" tests=\"1\" failures=\"1\" errors=\"0\" time=\"1.500\""),
            "{text}"
        );
        assert!(
            text.contains("name=\"expect &lt;a&gt;\"") && text.contains("no &quot;a&quot; &amp; b"),
            "{text}"
        );
        assert!(text.contains("<system-out>[0ma]]&gt;b</system-out>"), "{text}");
    }
}
