//! What the words of a document must say, so that a reader who begins with it gets through.

use crate::page::{Fault, Piece, file_of, pieces};

/// Endings of files that commands take.
const ENDINGS: &[&str] = &[
    "crt", "gz", "img", "iso", "json", "pem", "qcow2", "raw", "sh", "tar", "toml", "txt", "vmdk", "xz",
    "yaml",
];

/// Reasons of blocks that are not run whose commands need the control plane.
const CLUSTER: &str = "needs a cluster";

/// The page that installs the control plane.
const INSTALL: &str = "install.md";

/// What is missing in the words of a document.
pub(crate) fn faults(name: &str, content: &str) -> Vec<Fault> {
    let Ok(pieces) = pieces(content) else { return Vec::new() };
    let mut faults = Vec::new();
    if name.starts_with("docs/") {
        faults.extend(beginning(&pieces));
    }
    faults.extend(unnamed_files(&pieces));
    faults.extend(files_from_nowhere(&pieces));
    if name.starts_with("docs/how-to/") && !name.ends_with(INSTALL) {
        faults.extend(without_installation(&pieces));
    }
    faults
}

/// A document begins with its title and a paragraph.
fn beginning(pieces: &[(usize, Piece<'_>)]) -> Option<Fault> {
    let mut shown =
        pieces.iter().filter(|(_, piece)| !matches!(piece, Piece::Prose("") | Piece::Comment(..)));
    let (title, first) = (shown.next(), shown.next());
    let is_title = matches!(title, Some((_, Piece::Prose(line))) if line.starts_with("# "));
    let is_sentence = matches!(first, Some((_, Piece::Prose(line))) if !line.starts_with(['#', '|', '<']));
    let fault = "begins without a title and a paragraph that says what the page is for";
    (!is_title || !is_sentence).then(|| (1, fault.to_owned()))
}

/// Before a block that is written into a file, the words of its section say the name.
fn unnamed_files(pieces: &[(usize, Piece<'_>)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut section = String::new();
    for (number, piece) in pieces {
        match piece {
            Piece::Prose(line) if line.starts_with('#') => section = (*line).to_owned(),
            Piece::Prose(line) => section += line,
            Piece::Block(head, _) => {
                if let Some(file) = file_of(head).filter(|file| !section.contains(&format!("`{file}`"))) {
                    faults.push((
                        *number,
                        format!("the words before this block do not say that it is `{file}`"),
                    ));
                }
            }
            Piece::Comment(..) => {}
        }
    }
    faults
}

/// A block that is not run uses files that the document makes, or says something about.
fn files_from_nowhere(pieces: &[(usize, Piece<'_>)]) -> Vec<Fault> {
    let mut known = String::new();
    for (_, piece) in pieces {
        match piece {
            Piece::Prose(line) => known += line,
            Piece::Block(head, _) => known.extend(file_of(head).map(|file| format!("`{file}`"))),
            Piece::Comment(..) => {}
        }
        known.push('\n');
    }
    let mut faults = Vec::new();
    for (number, piece) in pieces {
        let Piece::Block(head, lines) = piece else { continue };
        if !head.trim_start().starts_with("```console no-run: ") {
            continue;
        }
        let mut made: Vec<&str> = Vec::new();
        for line in lines.iter().filter_map(|line| command_of(line)) {
            for (file, is_made) in files_of(line) {
                if is_made {
                    made.push(file);
                } else if !made.contains(&file) && !known.contains(&format!("`{file}`")) {
                    faults.push((*number, format!("no word says where `{file}` comes from")));
                }
            }
        }
    }
    faults
}

fn command_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("$ ").or_else(|| line.strip_prefix("> "))
}

/// The names of files in a command, and whether the command writes them.
fn files_of(command: &str) -> Vec<(&str, bool)> {
    let words = command.split(|letter: char| letter.is_whitespace() || "=,;|()".contains(letter));
    let files =
        words.map(|word| (word.trim_start_matches('>').trim_matches(['"', '\'']), word.starts_with('>')));
    let has_ending = |file: &str| {
        let (stem, ending) = file.rsplit_once('.').unwrap_or_default();
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        !stem.is_empty() && ENDINGS.contains(&ending) && file.chars().all(is_name)
    };
    let mut found: Vec<(&str, bool)> = files.filter(|(file, _)| has_ending(file)).collect();
    for (file, is_made) in &mut found {
        *is_made |= command.contains(&format!("--output={file}"));
    }
    found
}

/// A how-to whose commands need a cluster leads to the page that installs the control plane, or to one of a first VM.
fn without_installation(pieces: &[(usize, Piece<'_>)]) -> Option<Fault> {
    let needs =
        pieces.iter().find(|(_, piece)| matches!(piece, Piece::Block(head, _) if head.contains(CLUSTER)))?;
    let leads =
        |piece: &Piece<'_>| matches!(piece, Piece::Prose(line) if line.contains(&format!("]({INSTALL}")));
    let fault = format!("commands need a cluster with the control plane, and no link leads to {INSTALL}");
    (!pieces.iter().any(|(_, piece)| leads(piece))).then_some((needs.0, fault))
}

mod tests {
    use super::*;

    fn count(content: &str) -> usize {
        faults("docs/how-to/a.md", content).len()
    }

    #[test]
    fn a_page_begins_with_a_sentence() {
        assert_eq!(count("# A\n\nThe page.\n"), 0);
        assert_eq!(count("# A\n\n## B\n\nThe page.\n"), 1);
        assert_eq!(count("# A\n\n```console\n$ true\n```\n"), 1);
        assert_eq!(count("# A\n\n| a | b |\n"), 1);
        assert_eq!(count("The page.\n"), 1);
    }

    #[test]
    fn the_words_name_the_file_of_a_block() {
        assert_eq!(count("# A\n\nWrite `a.yaml`:\n\n```yaml a.yaml\na: 1\n```\n"), 0);
        assert_eq!(count("# A\n\nWrite it:\n\n```yaml a.yaml\na: 1\n```\n"), 1);
        assert_eq!(count("# A\n\nWrite `a.yaml`:\n\n## B\n\n```yaml a.yaml\na: 1\n```\n"), 1);
    }

    #[test]
    fn a_file_comes_from_somewhere() {
        let page = |words: &str, command: &str| {
            count(&format!("# A\n\n{words}\n\n```console no-run: takes long\n{command}\n```\n"))
        };
        assert_eq!(page("With `a.yaml`:", "$ make -f a.yaml"), 0);
        assert_eq!(page("With it:", "$ make -f a.yaml"), 1);
        assert_eq!(page("With it:", "$ make --file=a.iso"), 1);
        assert_eq!(page("With it:", "$ echo >a.yaml\n$ make -f a.yaml"), 0);
        assert_eq!(page("With it:", "$ get --output=a.img.gz\n$ put a.img.gz"), 0);
        assert_eq!(page("With it:", "$ make https://disks.example/a.iso"), 0);
    }

    #[test]
    fn a_page_about_a_cluster_leads_to_the_installation() {
        let page = |words: &str| {
            count(&format!("# A\n\n{words}\n\n```console no-run: needs a cluster\n$ true\n```\n"))
        };
        assert_eq!(page("The page, once [it is there](install.md)."), 0);
        assert_eq!(page("The page."), 1);
        assert_eq!(
            faults("docs/how-to/install.md", "# A\n\nThe page.\n\n```console no-run: needs a cluster\n```\n"),
            []
        );
    }
}
