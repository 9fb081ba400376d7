//! Commands of coracle in blocks that are not run: their verbs and flags are there all the same.

use crate::page::{Fault, Piece, pieces};
use std::process::Command;

/// Lines whose verb or flag the program does not have. `--help` behind them is reached only if it has.
pub(crate) fn faults(content: &str) -> Vec<Fault> {
    let Ok(pieces) = pieces(content) else { return Vec::new() };
    let mut faults = Vec::new();
    for (number, piece) in &pieces {
        let Piece::Block(head, lines) = piece else { continue };
        let head = head.trim_start();
        if !head.starts_with("```console no-run: ") && head != "```text" {
            continue;
        }
        for (line, number) in lines.iter().zip(number + 1..) {
            let line = line.trim_start();
            let command = line.strip_prefix("$ ").unwrap_or(line);
            let command = without_substitutions(command);
            let shown: String = command.chars().take_while(|letter| !"|<>;&#…".contains(*letter)).collect();
            let words = shown.trim_end().trim_end_matches('\\');
            let verb = words.strip_prefix("coracle ").and_then(|rest| rest.split(' ').next());
            if verb
                .is_some_and(|verb| verb.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'))
            {
                faults.extend(refusal(words).map(|why| (number, format!("{words}: {why}"))));
            }
        }
    }
    faults
}

/// The command with a word in place of each `$(…)`.
fn without_substitutions(command: &str) -> String {
    let mut parts = command.split("$(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "x" + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// The error of the program, where it does not come to print its help.
fn refusal(words: &str) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_coracle");
    let script = words.replacen("coracle", &format!("'{program}'"), 1).replace('$', "x");
    let done = Command::new("bash").args(["-c", &format!("{script} --help")]).output().expect("bash runs");
    let said = String::from_utf8_lossy(&done.stderr);
    (!done.status.success()).then(|| said.lines().next().unwrap_or_default().to_owned())
}

mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_not_there_is_found() {
        let count = |block: &str| faults(&format!("```console no-run: takes long\n{block}\n```\n")).len();
        assert_eq!(count("$ coracle convert --resize 10G a.img b.img"), 0);
        assert_eq!(count("$ coracle convert --enlarge 10G a.img b.img"), 1);
        assert_eq!(count("$ coracle shrink a.img"), 1);
        assert_eq!(count("$ coracle manifests --registry r.example | kubectl apply --any -f -"), 0);
        assert_eq!(count("$ kubectl get vm --any"), 0);
        assert_eq!(
            faults("```text\ncoracle virt why web   # what it waits for\ncoracle virt reason web\n```\n")
                .len(),
            1
        );
    }
}
