//! Rewrites the sources of a crate so that one build holds every mutant, each behind a switch.
//!
//! ```text
//! mutants --source CRATE --copy CRATE --dropped FILE --out FILE PATH...
//! ```
//!
//! Reads the crate at `--source`, finds the sites of mutants in the files below each PATH (relative to the crate) and writes
//! these files into `--copy`. A mutant is on in a process whose environment variable `MUTANT` has its number. `--dropped` lists
//! the keys of mutants to leave out, since they do not compile. `--out` gets a JSON document with the mutants, and per file the
//! ranges of the new text that a compiler error may lie in; also the names of all files that were written, and the crate roots.
//! A number is of one document alone; a key stays while the code does.

mod files;
mod rewrite;
mod sites;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::rewrite::Rewritten;
use crate::sites::Site;

/// Module that each crate root gets at its end: the switches.
const SWITCHES: &str = include_str!("switches.rs");
/// Letters of an original or a mutation in a report.
const LONGEST: usize = 160;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let dropped = match fs::read_to_string(&arguments.dropped) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => HashSet::new(),
    };
    let mut numbered = Numbered { dropped, mutants: Vec::new() };
    let builders = builders(&arguments.source)?;
    let (mut texts, mut ranges, mut switched) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for (file, roots) in files::of(&arguments.source, &arguments.paths)? {
        let text = fs::read_to_string(arguments.source.join(&file))?;
        let name = file.to_string_lossy().into_owned();
        let sites =
            numbered.keep(&name, &text, sites::of(&text, &builders).map_err(|e| format!("{name}: {e}"))?);
        if sites.is_empty() {
            texts.insert(file, text);
            continue;
        }
        let Rewritten { text, ranges: of_file } = rewrite::of(&text, &sites);
        texts.insert(file, text);
        ranges.insert(name, of_file);
        switched.extend(roots);
    }
    for root in &switched {
        if !texts.contains_key(root) {
            texts.insert(root.clone(), fs::read_to_string(arguments.source.join(root))?);
        }
        let text = texts.get_mut(root).expect("the text of each root was read");
        text.push_str(&format!("\n#[doc(hidden)]\nmod __mutants {{\n{SWITCHES}}}\n"));
    }
    for (file, text) in &texts {
        write_if_changed(&arguments.copy.join(file), text)?;
    }
    println!("{} mutants in {} files", numbered.mutants.len(), ranges.len());
    let files: Vec<&PathBuf> = texts.keys().collect();
    let document =
        json!({ "mutants": numbered.mutants, "ranges": ranges, "files": files, "roots": switched });
    fs::write(&arguments.out, document.to_string())?;
    Ok(())
}

/// Names of the builder methods of a crate.
fn builders(source: &Path) -> Result<HashSet<String>, Box<dyn Error>> {
    let mut names = HashSet::new();
    for file in files::of(source, &[PathBuf::from("src")])?.keys() {
        names.extend(sites::builders(&syn::parse_file(&fs::read_to_string(source.join(file))?)?));
    }
    Ok(names)
}

/// The command line.
struct Arguments {
    source: PathBuf,
    copy: PathBuf,
    dropped: PathBuf,
    out: PathBuf,
    paths: Vec<PathBuf>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut options, mut paths) = (HashMap::new(), Vec::new());
        while let Some(word) = words.next() {
            match word.strip_prefix("--") {
                Some(option) => drop(options.insert(option.to_owned(), words.next().unwrap_or_default())),
                None => paths.push(PathBuf::from(word)),
            }
        }
        let mut option =
            |name: &str| options.remove(name).map(PathBuf::from).ok_or(format!("--{name} is missing"));
        Ok(Self {
            source: option("source")?,
            copy: option("copy")?,
            dropped: option("dropped")?,
            out: option("out")?,
            paths,
        })
    }
}

/// Mutants of all files, in the order of their numbers, which begin at 1.
struct Numbered {
    dropped: HashSet<String>,
    mutants: Vec<Value>,
}

impl Numbered {
    /// Gives each mutant of a file its key and, unless it is dropped, its number. Sites that have none left are left out.
    fn keep(&mut self, file: &str, text: &str, mut sites: Vec<Site>) -> Vec<Site> {
        let mut same: HashMap<String, u32> = HashMap::new();
        for site in &mut sites {
            let before = shortened(&text[site.range.clone()]);
            let line = text[..site.range.start].matches('\n').count() + 1;
            for mutant in &mut site.mutants {
                let after = shortened(&mutant.text);
                let key = format!("{file}|{}|{}|{before}|{after}", site.function, mutant.kind);
                let count = same.entry(key.clone()).or_default();
                *count += 1;
                mutant.key = format!("{key}|{count}");
                if self.dropped.contains(&mutant.key) {
                    continue;
                }
                mutant.number = self.mutants.len() as u32 + 1;
                self.mutants.push(json!({
                    "number": mutant.number, "key": mutant.key, "file": file, "line": line,
                    "function": site.function, "kind": mutant.kind, "before": before, "after": after,
                }));
            }
            site.mutants.retain(|mutant| mutant.number != 0);
        }
        sites.retain(|site| !site.mutants.is_empty());
        sites
    }
}

/// A text on one line, with a bound on its length.
fn shortened(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 3).chain("...".chars()).collect(),
        false => text,
    }
}

/// The modification time of an unchanged file stays, so that cargo does not build it again.
fn write_if_changed(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().expect("a file of a crate is in a folder"))?;
    Ok(fs::write(path, text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: u8, b: u8) -> u8 { g(a + b, a + b) }\n";

    fn numbered(dropped: &[&str]) -> (Vec<Site>, Vec<Value>) {
        let dropped = dropped.iter().map(|key| (*key).to_owned()).collect();
        let mut numbered = Numbered { dropped, mutants: Vec::new() };
        let sites = numbered.keep("src/f.rs", SOURCE, sites::of(SOURCE, &HashSet::new()).unwrap());
        (sites, numbered.mutants)
    }

    #[test]
    fn equal_mutants_of_a_function_have_keys_of_their_own() {
        let (_, mutants) = numbered(&[]);
        let keys: Vec<&str> = mutants.iter().filter_map(|mutant| mutant["key"].as_str()).collect();
        assert_eq!(
            keys[2..],
            ["src/f.rs|f|operator|a + b|a - b|1", "src/f.rs|f|operator|a + b|a - b|2"],
            "{keys:?}"
        );
        let numbers: Vec<u64> = mutants.iter().filter_map(|mutant| mutant["number"].as_u64()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
    }

    #[test]
    fn a_dropped_mutant_has_no_number_and_the_others_keep_their_keys() {
        let (sites, mutants) = numbered(&["src/f.rs|f|operator|a + b|a - b|1"]);
        assert_eq!((sites.len(), mutants.len()), (2, 3));
        assert_eq!(mutants[2]["key"], "src/f.rs|f|operator|a + b|a - b|2");
    }

    #[test]
    fn a_missing_option_is_named() {
        let words = ["--source", "a", "--copy", "b", "--out", "c", "src"].map(str::to_owned);
        assert_eq!(Arguments::parse(words.into_iter()).err().as_deref(), Some("--dropped is missing"));
    }
}
