//! A document as its examples.

/// Languages of blocks that hold no command: drawings, file contents, code that other tests compile.
const NOT_COMMANDS: &[&str] = &["text", "json", "toml", "yaml", "xml", "rust", "diff"];

/// A line that does not occur in any document.
const END_OF_FILE: &str = "END OF FILE";

/// A line of a document, and what is wrong there.
pub(crate) type Fault = (usize, String);

/// The examples of a document.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Commands that make the files of web servers.
    pub(crate) outside: Vec<Example>,
    pub(crate) examples: Vec<Example>,
}

/// One command of a document, with what it should print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A command that the reader sees.
    Command,
    /// A block that is written into a file.
    File,
    /// A command of `<!-- setup` or `<!-- outside`.
    Hidden,
}

/// A block or a comment of a document, or a line of its prose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Prose(&'a str),
    /// The lines of `<!-- setup` or `<!-- outside`.
    Comment(&'a str, Vec<&'a str>),
    /// What stands behind the fence, and the lines.
    Block(&'a str, Vec<&'a str>),
}

/// The pieces of a document, with the numbers of their first lines.
pub(crate) fn pieces(content: &str) -> Result<Vec<(usize, Piece<'_>)>, Fault> {
    let mut found = Vec::new();
    let mut lines = content.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        let text = line.trim_start();
        let (end, is_comment) = if ["<!-- setup", "<!-- outside"].contains(&line) {
            ("-->", true)
        } else if text.starts_with("```") {
            (&text[..text.len() - text.trim_start_matches('`').len()], false)
        } else {
            found.push((number, Piece::Prose(line)));
            continue;
        };
        let mut inner = Vec::new();
        loop {
            match lines.next() {
                None => return Err((number, "the block has no end".to_owned())),
                Some((_, line)) if line.trim() == end => break,
                Some((_, line)) => inner.push(line),
            }
        }
        found
            .push((number, if is_comment { Piece::Comment(line, inner) } else { Piece::Block(line, inner) }));
    }
    Ok(found)
}

impl Page {
    pub(crate) fn parse(content: &str) -> Result<Page, Fault> {
        let mut page = Page::default();
        for (number, piece) in pieces(content)? {
            match piece {
                Piece::Prose(_) => {}
                Piece::Comment(head, lines) => {
                    let commands = lines.iter().zip(number + 1..);
                    let commands = commands.map(|(line, number)| Example::new(number, line, Kind::Hidden));
                    if head == "<!-- outside" {
                        page.outside.extend(commands);
                    } else {
                        page.examples.extend(commands);
                    }
                }
                Piece::Block("```console", lines) => page.examples.extend(commands(number, &lines)?),
                Piece::Block(head, lines) => {
                    let info = head.trim_start().trim_start_matches('`');
                    let no_run = info.strip_prefix("console no-run: ").is_some_and(|why| !why.is_empty());
                    match file_of(head) {
                        Some(name) => {
                            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                            let command = format!("cat >{name} <<'{END_OF_FILE}'\n{text}{END_OF_FILE}");
                            page.examples.push(Example::new(number, &command, Kind::File));
                        }
                        None if no_run || NOT_COMMANDS.contains(&info) => {}
                        None => return Err((number, format!("'{head}' is neither run nor says why not"))),
                    }
                }
            }
        }
        Ok(page)
    }

    /// Commands that change the reader's folder unseen.
    pub(crate) fn hidden(&self) -> Option<Fault> {
        let first = self.examples.iter().find(|example| example.kind == Kind::Hidden)?;
        let fault =
            "a hidden set-up of the reader's folder: show it, or make files of web servers by <!-- outside";
        Some((first.line, fault.to_owned()))
    }
}

impl Example {
    fn new(line: usize, command: &str, kind: Kind) -> Example {
        Example { line, command: command.to_owned(), output: Vec::new(), kind }
    }
}

/// The name of the file into which a block is written.
pub(crate) fn file_of(head: &str) -> Option<&str> {
    let (language, name) = head.strip_prefix("```")?.split_once(' ')?;
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let stem = name.strip_suffix(language)?.strip_suffix('.')?;
    let is_file = ["yaml", "json"].contains(&language) && !stem.is_empty() && stem.chars().all(is_plain);
    is_file.then_some(name)
}

fn commands(head: usize, lines: &[&str]) -> Result<Vec<Example>, Fault> {
    let mut found: Vec<Example> = Vec::new();
    for (line, number) in lines.iter().zip(head + 1..) {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), found.last_mut()) {
            (Some(command), ..) => found.push(Example::new(number, command, Kind::Command)),
            (None, Some(more), Some(last)) if last.output.is_empty() => {
                last.command.push('\n');
                last.command.push_str(more);
            }
            (None, _, Some(last)) => last.output.push((*line).to_owned()),
            _ => return Err((number, "output before any command".to_owned())),
        }
    }
    Ok(found)
}

mod tests {
    use super::*;

    #[test]
    fn a_block_either_runs_or_says_why_not() {
        let parse = Page::parse;
        assert!(parse("```sh\nmake\n```\n").is_err());
        assert!(parse("```\nmake\n```\n").is_err());
        assert!(parse("```console no-run: \n$ make\n```\n").is_err());
        assert!(parse("```console\n$ make\n").is_err());
        assert!(parse("```console\noutput\n$ make\n```\n").is_err());
        assert_eq!(parse("```console no-run: needs a cluster\n$ make\n```\n"), Ok(Page::default()));
        assert!(parse("```yaml a b.yaml\na: 1\n```\n").is_err());
        assert!(parse("```yaml a.json\na: 1\n```\n").is_err());
        assert_eq!(parse("````text\n```console\n$ false\n```\n````\n"), Ok(Page::default()));
    }

    #[test]
    fn only_the_outside_may_be_hidden() {
        let page = |document: &str| Page::parse(document).expect("parses");
        let hidden = page("# A\n\n<!-- setup\ntruncate -s 1M disk.img\n-->\n").hidden();
        assert_eq!(hidden.expect("a fault").0, 4);
        assert_eq!(page("<!-- outside\ntruncate -s 1M disk.img\n-->\n").hidden(), None);
        assert_eq!(page("```yaml a.yaml\na: 1\n```\n```console\n$ cat a.yaml\n```\n").hidden(), None);
    }
}
