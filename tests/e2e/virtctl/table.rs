//! What each verb printed: a table, from which `docs/reference/virtctl-output.md` is made.
//!
//! ```text
//!  a story ─► rows ─► E2E_KEPT/virtctl/STORY ─► all that are there: E2E_KEPT/virtctl.md
//!                                                  └ once no story is missing: is it docs/reference/virtctl-output.md?
//! ```
//!
//! A story's rows are those of its last run that ended well; `tests/e2e/run` begins with none. The document is compared when
//! it is there; `UPDATE_GOLDEN=1` writes it, once no story is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use tests::cluster::kept;
use tests::coracle::Ran;

/// All the stories that have rows.
const STORIES: &[&str] = &[
    "version",
    "rights",
    "start",
    "force",
    "manual",
    "pause",
    "reboot",
    "console",
    "screen",
    "ports",
    "waiting",
    "expand",
    "refused",
    "agent",
    "login",
    "same",
    "udp",
    "top",
    "credentials",
];

/// Beside docs/reference/virtctl.md, which is about our own verbs.
const DOCUMENT: &str = "docs/reference/virtctl-output.md";

const HEAD: &str = "# What virtctl prints

KubeVirt's own client, virtctl 1.7.0, unmodified, and a cluster with Coracle. Each row is one command, its exit code and its
output. `web` is a VM of the smallest guest; NAMESPACE, FILE and PORT stand for what differs from run to run. Rows of one
command differ by the state of the VM.

The stories of `tests/e2e/virtctl.rs` write this table, and fail when virtctl prints something else.

| verb | exit code | printed |
|---|---|---|
";

/// Of stories that end at the same time, one after the other writes.
static ALONE: Mutex<()> = Mutex::new(());

/// The rows of a story; they are kept when it has ended well.
#[derive(Debug)]
pub(super) struct Table {
    story: &'static str,
    /// What differs from run to run, and what it is called instead.
    names: Vec<(String, &'static str)>,
    rows: BTreeSet<String>,
}

impl Table {
    pub(super) fn of(story: &'static str) -> Table {
        assert!(STORIES.contains(&story), "{story} is not in STORIES");
        Table { story, names: Vec::new(), rows: BTreeSet::new() }
    }

    /// In the table this text is called so.
    pub(super) fn calls(&mut self, text: impl Into<String>, name: &'static str) {
        self.names.push((text.into(), name));
    }

    /// What a verb printed, both streams.
    pub(super) fn add(&mut self, args: &[&str], ran: &Ran) {
        self.say(args, ran.code, &format!("{}\n{}", String::from_utf8_lossy(&ran.out), ran.err));
    }

    /// The same in words of our own: of an output that is too long, or of today alone.
    pub(super) fn say(&mut self, args: &[&str], code: i32, printed: &str) {
        self.rows.insert(row(&self.names, args, code, printed));
    }

    fn keep(&self) {
        let _alone = ALONE.lock();
        let folder = kept("virtctl").unwrap();
        let own: Vec<&str> = self.rows.iter().map(String::as_str).collect();
        fs::write(folder.join(self.story), own.join("\n")).unwrap();
        let parts: Vec<String> =
            STORIES.iter().filter_map(|story| fs::read_to_string(folder.join(story)).ok()).collect();
        let rows: BTreeSet<&str> = parts.iter().flat_map(|part| part.lines()).collect();
        let table: String = rows.iter().flat_map(|row| [*row, "\n"]).collect();
        let whole = format!("{HEAD}{table}");
        fs::write(folder.with_extension("md"), &whole).unwrap();
        compare(&whole, &own, parts.len() == STORIES.len());
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.keep();
        }
    }
}

/// The document, if there is one, has the rows of this story; and no others, once all stories have told theirs.
fn compare(whole: &str, own: &[&str], is_whole: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENT);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        if is_whole {
            fs::write(path, whole).unwrap();
        }
        return;
    }
    let Ok(found) = fs::read_to_string(path) else { return };
    let missing: Vec<_> = own.iter().filter(|row| !found.lines().any(|line| line == **row)).collect();
    let hint = "is not what virtctl prints: `UPDATE_GOLDEN=1 make e2e` writes it anew";
    assert!(missing.is_empty(), "{DOCUMENT} {hint}; without {missing:#?}");
    assert!(!is_whole || found == whole, "{DOCUMENT} {hint}; it should be:\n{whole}");
}

/// A row, which says the same tomorrow.
fn row(names: &[(String, &str)], args: &[&str], code: i32, printed: &str) -> String {
    let named =
        |text: &str| names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from.as_str(), to));
    let lines: Vec<String> =
        named(&without_warning(printed)).lines().filter(|line| is_told(line)).map(code_span).collect();
    format!("| {} | {code} | {} |", code_span(&named(&args.join(" "))), lines.join("<br>"))
}

/// A line that is not virtctl's log.
fn is_told(line: &str) -> bool {
    !(line.trim().is_empty() || line.starts_with('{') && line.contains("\"timestamp\":"))
}

/// Without what virtctl says after every error to a server of another version: the row of `version` says that.
fn without_warning(text: &str) -> String {
    let Some((before, warning)) = text.split_once("You are using a client virtctl version that is different")
    else {
        return text.to_owned();
    };
    let after = warning.split_once("Server Version: ").and_then(|(_, rest)| rest.split_once('\n'));
    format!("{before}{}", after.map_or("", |(_, after)| after))
}

fn code_span(text: &str) -> String {
    format!("`{}`", text.trim().replace('`', "'").replace('|', "\\|"))
}

#[test]
fn a_row_says_the_same_tomorrow() {
    let printed = "{\"component\":\"virtctl\",\"timestamp\":\"2026\"}\nYou are using a client virtctl version that is \
                   different from the KubeVirt version running in the cluster\nClient Version: v1.7.0\nServer Version: \
                   v1.9.0\n\nno a|b in vm-7-1\n\nat all";
    let names = [("vm-7-1".to_owned(), "NAMESPACE")];
    assert_eq!(
        row(&names, &["start", "-n", "vm-7-1"], 1, printed),
        r"| `start -n NAMESPACE` | 1 | `no a\|b in NAMESPACE`<br>`at all` |"
    );
}
