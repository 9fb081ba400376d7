//! docs/reference/vm-reasons.md lists no word that our programs never write; and a reason that they tell, by an event or while a
//! VMI waits, stands on a page that lists reasons. A reason that is a variable where it is told is not seen here.

use super::{assert_none, files, is_rust, root, short};
use std::collections::BTreeMap;
use std::fs;

/// The page whose tables begin with words of our programs.
const PAGE: &str = "docs/reference/vm-reasons.md";
/// The pages that list reasons: of VMs, of disks, of exports.
const PAGES: &[&str] = &[PAGE, "docs/reference/reasons.md", "docs/reference/exports.md"];
/// Programs whose words reach VMs and VMIs: virt-handler repeats those of the launcher.
const PROGRAMS: &[&str] = &["controller/", "lib/api/", "launcher/src/"];
/// Parts of the names of files that are in no program.
const TESTS: &[&str] = &["/fuzz/", "/histories", "/kit/", "/scenarios", "/sim", "/tests/", "tests.rs"];
/// Calls whose argument before the last is a reason; and how a constant of one begins.
const CALLS: &[&str] = &[
    ".record_event(",
    ".event(",
    ".condition(",
    ".wait(",
    ".wait_without_pod(",
    "Event::normal(",
    "Event::warning(",
    "VmProblem::new(",
];
const CONSTANT: &str = "const REASON: &str = \"";

#[test]
fn the_words_of_the_page_are_those_of_the_programs() {
    let (programs, page, mut wrong) = (programs(), read(PAGE), Vec::new());
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let words: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(words.len() > 100, "{PAGE} lists {} words; are its tables written otherwise now?", words.len());
    for word in words {
        let literal = format!("\"{word}\"");
        if !programs.iter().any(|(code, _)| code.contains(&literal)) {
            wrong.push(format!("{PAGE}: no program writes `{word}`"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn a_reason_that_is_told_stands_on_a_page() {
    let pages: String = PAGES.iter().map(|page| read(page)).collect();
    let (mut told, mut wrong) = (BTreeMap::new(), Vec::new());
    for (code, name) in programs() {
        told.extend(reasons(&code).into_iter().map(|reason| (reason.to_owned(), name.clone())));
    }
    assert!(told.len() > 30, "{} reasons are told; are the calls called otherwise now?", told.len());
    for (reason, name) in &told {
        if !pages.contains(&format!("`{reason}`")) {
            wrong.push(format!("{name}: '{reason}' stands on none of {}", PAGES.join(", ")));
        }
    }
    assert_none(&wrong);
}

/// The reasons that a file tells by their words, or by a constant of the same file.
fn reasons(code: &str) -> Vec<&str> {
    let calls = CALLS.iter().flat_map(|call| code.split(*call).skip(1));
    let told = calls.filter_map(|rest| arguments(rest).into_iter().nth_back(1));
    let words = told.flat_map(|argument| match code.split_once(&format!("const {argument}: &str = \"")) {
        Some((_, rest)) => rest.split('"').take(1).collect::<Vec<_>>(),
        None => argument.split('"').skip(1).step_by(2).collect(),
    });
    let constants = code.split(CONSTANT).skip(1).filter_map(|rest| rest.split('"').next());
    let is_word = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric());
    words.chain(constants).filter(|word| word.starts_with(char::is_uppercase) && is_word(word)).collect()
}

/// The arguments of a call, by what stands behind its opening bracket.
fn arguments(rest: &str) -> Vec<&str> {
    let (mut found, mut from, mut depth, mut is_text) = (Vec::new(), 0, 0_usize, false);
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if is_text => _ = letters.next(),
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '[' | '{' => depth += 1,
            ',' | ')' | ']' | '}' if depth == 0 => {
                found.push(rest[from..at].trim());
                from = at + 1;
                if letter != ',' {
                    break;
                }
            }
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    // If each argument has its own line, a comma follows the last one.
    found.retain(|argument| !argument.is_empty());
    found
}

/// The code of our programs, without its tests, and the names of the files.
fn programs() -> Vec<(String, String)> {
    let is_test = |name: &str| TESTS.iter().any(|part| name.contains(part));
    let is_program = |name: &str| PROGRAMS.iter().any(|folder| name.starts_with(folder)) && !is_test(name);
    let names = files().into_iter().filter(|file| is_rust(file)).map(|file| short(&file));
    let code = |name: &str| read(name).split("\nmod tests {").next().unwrap_or_default().to_owned();
    names.filter(|name| is_program(name)).map(|name| (code(&name), name)).collect()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

mod tests {
    #[test]
    fn a_reason_is_found_on_one_line_and_on_many() {
        let code = r#"
            const WHY: &str = "PodNameTaken";
            plan.record_event(Kind::Node, meta(a, b), true, "TooLarge", format!("a, {b}"));
            self.record_event(
                true,
                "FailedStart",
                message,
            );
            self.record_event(true, WHY, "it says \"a (b, c\"");
            self.record_event(page, "a_metric", "another");
            outcome.wait("InvalidSpec", &why);
        "#;
        assert_eq!(super::reasons(code), ["TooLarge", "FailedStart", "PodNameTaken", "InvalidSpec"]);
    }
}
