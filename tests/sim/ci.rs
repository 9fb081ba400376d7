//! The examples for CI work: the action of this repository, and the jobs in README.md and
//! docs/how-to/build-in-ci.md, are run against a registry that requires a login.
//!
//! ```text
//!   ```yaml in a document ──► with: of the action ──► defaults and run: of action.yml ──┐
//!                        └──► run:, script: ────────────────────────────────────────────┴──► bash ──► registry
//! ```
//!
//! The YAML parser supports only the syntax of these files. Other syntax fails the test, so that nothing is
//! skipped silently.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

use ::tests::coracle::Ran;
use ::tests::place::Place;
use ::tests::registry::{Registry, Serve};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ACTION: &str = ".github/actions/build-image";
const DOCUMENTS: &[&str] = &["README.md", "docs/how-to/build-in-ci.md"];
/// "me:s3cret"
const LOGIN: &str = "bWU6czNjcmV0";

type Words = BTreeMap<String, String>;

#[test]
fn every_job_in_the_documents_leaves_a_right_image() {
    for document in DOCUMENTS {
        let jobs = yaml_blocks(&fs::read_to_string(root().join(document)).unwrap());
        let with_action = jobs.iter().filter(|job| job.contains(ACTION)).count();
        let with_script = jobs.iter().filter(|job| job.contains("script:")).count();
        assert_eq!(
            (with_action, with_script),
            (1, 1),
            "{document}: one job with the action, one with a script"
        );
        for job in &jobs {
            let runner = Runner::new();
            let mut digest = String::new();
            if job.contains(ACTION) {
                // The action before it has logged in.
                runner.log_in();
                digest = runner.act(&with_of(job));
            }
            for command in commands(job) {
                let command = command.replace("${{ steps.image.outputs.digest }}", &digest);
                runner.bash(&command, &Words::new()).ok();
            }
            runner.verify("team/debian:12");
        }
    }
}

#[test]
fn the_action_does_what_each_of_its_inputs_says() {
    let runner = Runner::new();
    runner.log_in();
    let words = [
        ("disk", "debian.qcow2"),
        ("image", "registry.example/a:1\ndocker://registry.example/b:1\noci:layout:1\n"),
        ("layer", "gzip"),
        ("format", "raw"),
        ("arch", "arm64"),
        ("append-arch", "true"),
        ("labels", "one=1\ntwo=2 words; $(false)\n"),
    ];
    let digest = runner.act(&words.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    for image in ["a:1", "b:1"] {
        runner.verify(image);
        let config = runner.skopeo(&format!("inspect --config --raw docker://{}/{image}", runner.address));
        assert!(
            config.contains(r#""two":"2 words; $(false)""#) && config.contains(r#""one":"1""#),
            "{config}"
        );
        assert!(config.contains(r#""architecture":"arm64""#), "{config}");
        let raw = runner.skopeo(&format!("inspect --raw docker://{}/{image}", runner.address));
        assert!(raw.contains("image.index"), "the image of one architecture of several: {raw}");
    }
    assert!(runner.place.path("layout/index.json").exists());
    assert!(digest.starts_with("sha256:"), "{digest}");
}

#[test]
fn a_disk_that_is_not_there_fails_the_job() {
    let runner = Runner::new();
    runner.log_in();
    let words = [("disk", "nothing.qcow2"), ("image", "registry.example/a:1")];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    runner.steps(&words).refused(4, "nothing.qcow2");
}

/// A folder, a registry that wants a login, and what GitHub gives to a step.
struct Runner {
    place: Place,
    _registry: Registry,
    address: String,
}

impl Runner {
    fn new() -> Runner {
        let place = Place::empty(env!("CARGO_BIN_EXE_coracle"));
        place.shell("qemu-img create -q -f qcow2 debian.qcow2 64M; mkdir temp");
        let registry = Registry::serve(&Serve { basic: Some(("me", "s3cret")), ..Serve::default() });
        let address = registry.address();
        Runner { place, _registry: registry, address }
    }

    fn login(&self) -> String {
        format!(r#"{{"auths":{{"{}":{{"auth":"{LOGIN}"}}}}}}"#, self.address)
    }

    fn log_in(&self) {
        fs::create_dir_all(self.place.path(".docker")).unwrap();
        fs::write(self.place.path(".docker/config.json"), self.login()).unwrap();
    }

    /// Runs the action with these inputs; its digest.
    fn act(&self, with: &Words) -> String {
        self.steps(with).ok();
        let outputs = fs::read_to_string(self.place.path("output")).unwrap();
        let digest = outputs.lines().find_map(|line| line.strip_prefix("digest="));
        digest.unwrap_or_else(|| panic!("no digest in {outputs:?}")).to_owned()
    }

    /// Runs the steps of the action until one fails.
    fn steps(&self, with: &Words) -> Ran {
        let action = fs::read_to_string(root().join(ACTION).join("action.yml")).unwrap();
        let env = inputs_as_env(&action, with);
        let steps = commands(&action);
        assert_eq!(steps.len(), 2, "the program is found or built, then it is run");
        let mut ran = steps.iter().map(|step| self.bash(step, &env));
        let first = ran.next().unwrap();
        if first.code == 0 { ran.next().unwrap() } else { first }
    }

    /// A step, in the shell that GitHub runs it in.
    fn bash(&self, script: &str, env: &Words) -> Ran {
        assert!(
            !script.contains("${{"),
            "words of others stand in a script, not in its environment: {script}"
        );
        let here = |text: &str| text.replace("registry.example", &self.address);
        let program = Path::new(env!("CARGO_BIN_EXE_coracle")).parent().unwrap().display().to_string();
        let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &here(script)]);
        command.current_dir(self.place.folder()).env_clear();
        command.env("PATH", path).env("HOME", self.place.folder()).env("LC_ALL", "C.UTF-8");
        command.env("DOCKER_AUTH_CONFIG", self.login());
        command.env("GITHUB_ACTION_PATH", root().join(ACTION)).env("RUNNER_TEMP", self.place.path("temp"));
        command.env("GITHUB_OUTPUT", self.place.path("output")).env("GITHUB_PATH", self.place.path("path"));
        command.envs(env.iter().map(|(name, value)| (name, here(value))));
        Ran::of(command.output().unwrap())
    }

    fn verify(&self, image: &str) {
        self.log_in();
        self.place.run(&["verify", &format!("docker://{}/{image}", self.address)]).ok();
    }

    fn skopeo(&self, words: &str) -> String {
        let login = self.place.path(".docker/config.json");
        let line =
            format!("skopeo --override-arch arm64 {words} --tls-verify=false --authfile {}", login.display());
        String::from_utf8(self.place.shell(&line)).unwrap()
    }
}

fn yaml_blocks(document: &str) -> Vec<String> {
    let blocks = document.split("```yaml\n").skip(1);
    blocks.map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// The scripts after `run:` and `script:`, in order.
fn commands(yaml: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<&str> = yaml.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let key = line.trim_start().trim_start_matches("- ");
        if key == "run: |" {
            found.push(deeper(&lines, at).join("\n"));
        } else if let Some(command) = key.strip_prefix("run: ") {
            found.push(command.to_owned());
        } else if key == "script:" {
            let items = deeper(&lines, at);
            found.extend(items.iter().map(|item| item.strip_prefix("- ").unwrap().to_owned()));
        }
    }
    found
}

/// The inputs of the step that uses the action.
fn with_of(job: &str) -> Words {
    let lines: Vec<&str> = job.lines().collect();
    let uses = lines.iter().position(|line| line.contains(ACTION)).unwrap();
    let with = uses + lines[uses..].iter().position(|line| line.trim_start().starts_with("with:")).unwrap();
    let inline = lines[with].trim_start().strip_prefix("with:").unwrap().trim();
    let pairs: Vec<String> = match inline.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(pairs) => pairs.split(", ").map(str::to_owned).collect(),
        None => deeper(&lines, with),
    };
    let pair = |pair: &String| {
        let (name, value) = pair.trim().split_once(": ").unwrap_or_else(|| panic!("{pair:?} is no pair"));
        (name.to_owned(), value.trim_matches('"').to_owned())
    };
    pairs.iter().map(pair).collect()
}

/// The environment that the action's script gets for these inputs: every one declared, every one used.
fn inputs_as_env(action: &str, with: &Words) -> Words {
    let lines: Vec<&str> = action.lines().collect();
    let inputs = deeper(&lines, lines.iter().position(|line| *line == "inputs:").unwrap());
    let mut values = Words::new();
    let mut name = String::new();
    for line in &inputs {
        match line.trim_start().split_once(':') {
            None if line.is_empty() => {}
            Some((key, "")) => key.clone_into(&mut name),
            Some(("default", value)) => {
                values.insert(name.clone(), value.trim().trim_matches('"').to_owned());
            }
            Some(("required", " true")) => {
                let given = with.get(&name).unwrap_or_else(|| panic!("the input {name} must be given"));
                values.insert(name.clone(), given.clone());
            }
            Some(("description", _)) => {}
            _ => panic!("not understood: {line}"),
        }
    }
    for (name, value) in with {
        assert!(values.insert(name.clone(), value.clone()).is_some(), "the action has no input {name}");
    }
    let env = lines.iter().filter_map(|line| line.trim().split_once(": ${{ inputs."));
    let env: Words =
        env.map(|(key, rest)| (key.to_owned(), rest.trim_end_matches(" }}").to_owned())).collect();
    let used: Vec<&String> = env.values().collect();
    assert!(values.keys().all(|name| used.contains(&name)), "an input without use: {values:?} {used:?}");
    let of = |name: &String| values.get(name).unwrap_or_else(|| panic!("no input is called {name}")).clone();
    env.iter().map(|(key, name)| (key.clone(), of(name))).collect()
}

/// The lines under a key, without its indentation.
fn deeper(lines: &[&str], at: usize) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(lines[at]) + if lines[at].trim_start().starts_with("- ") { 2 } else { 0 };
    let under: Vec<&str> = lines[at + 1..]
        .iter()
        .take_while(|line| line.trim().is_empty() || indent(line) > own)
        .copied()
        .collect();
    let most =
        under.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    under.iter().map(|line| line.get(most..).unwrap_or_default().to_owned()).collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
