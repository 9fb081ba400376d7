//! Spellings of flags that people know from other programs, and that clap would read otherwise.
//!
//! | typed | parsed |
//! |---|---|
//! | `convert -O qcow2 -c SRC DST`, as qemu-img has it | `-c=zlib`: clap would take SRC for the codec |
//! | `exec -t 30 NAME …`, as older versions had it | `--timeout 30`: `-t` asks for a terminal, as docker has it |

use std::ffi::OsString;
use std::path::Path;

/// First words of a value that is meant as a codec, also of one that is then refused.
const CODECS: [&str; 13] =
    ["zlib", "zstd", "zst", "deflate", "gzip", "gz", "lz4", "lzo", "lzma", "xz", "bzip2", "brotli", "none"];

/// Flags of `convert` without a value, that may stand in one word with `c`.
const BEFORE: [char; 3] = ['p', 'q', 'v'];

/// The command line with these spellings replaced.
pub(crate) fn completed(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let line: Vec<OsString> = line.into_iter().collect();
    let verb = line.iter().skip(1).position(|word| !word.to_string_lossy().starts_with('-'));
    let Some(verb) = verb.map(|verb| verb + 1) else { return line };
    match line[verb].to_str() {
        Some("convert") => with_codec(line),
        Some("exec") => with_timeout(line, verb),
        _ => line,
    }
}

/// Replaces `-t SECONDS` in front of the name of the VM.
fn with_timeout(mut line: Vec<OsString>, verb: usize) -> Vec<OsString> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut at = verb + 1;
    while let Some(word) = line.get(at).map(|word| word.to_string_lossy().into_owned()) {
        let next = line.get(at + 1).map(|next| next.to_string_lossy().into_owned());
        match word.as_str() {
            "-t" if next.is_some_and(|next| is_number(&next)) && line.len() > at + 2 => {
                line[at] = "--timeout".into();
                at += 1;
            }
            "--timeout" | "--root" => at += 1,
            word if word == "--" || !word.starts_with('-') => break,
            word => {
                let seconds = word.strip_prefix("-t").map(|rest| rest.trim_start_matches('='));
                if let Some(seconds) = seconds.filter(|seconds| is_number(seconds)) {
                    line[at] = format!("--timeout={seconds}").into();
                }
            }
        }
        at += 1;
    }
    line
}

/// Writes a codec behind a bare `-c`.
fn with_codec(line: Vec<OsString>) -> Vec<OsString> {
    let mut done = Vec::with_capacity(line.len());
    let mut words = line.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            done.push(word);
            done.extend(words);
            return done;
        }
        let text = word.to_string_lossy().into_owned();
        let has_value = |next: Option<&OsString>| next.is_some_and(|next| is_codec(&next.to_string_lossy()));
        match bare(&text) {
            Some("") if has_value(words.peek()) => done.push(word),
            Some(rest) => {
                done.push(format!("{}=zlib", text.strip_suffix(rest).unwrap_or(&text)).into());
                done.extend((!rest.is_empty()).then(|| format!("-{rest}").into()));
            }
            None => done.push(word),
        }
    }
    done
}

/// Letters of the word behind `c`, if the word has the flag without a value in the same word.
fn bare(word: &str) -> Option<&str> {
    if word == "--compress" {
        return Some("");
    }
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let (before, rest) = letters.split_once('c')?;
    let is_flags = before.chars().all(|letter| BEFORE.contains(&letter));
    let is_end = rest.chars().next().is_none_or(|next| BEFORE.contains(&next) || ['O', 'f'].contains(&next));
    (is_flags && is_end).then_some(rest)
}

fn is_codec(word: &str) -> bool {
    let name = word.split(':').next().unwrap_or(word);
    ["zlib", "zstd"].contains(&name) || (CODECS.contains(&name) && !Path::new(word).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_typed() {
        for (line, wanted) in [
            ("convert -c a.img b.qcow2", "convert -c=zlib a.img b.qcow2"),
            ("convert a.img -c b.qcow2", "convert a.img -c=zlib b.qcow2"),
            ("convert a.img b.qcow2 -c", "convert a.img b.qcow2 -c=zlib"),
            ("convert -c -O qcow2 a b", "convert -c=zlib -O qcow2 a b"),
            ("convert -p -O qcow2 -c os:12 b", "convert -p -O qcow2 -c=zlib os:12 b"),
            ("convert -pc a b.qcow2", "convert -pc=zlib a b.qcow2"),
            ("convert -cp a b.qcow2", "convert -c=zlib -p a b.qcow2"),
            ("convert -pcO qcow2 a b", "convert -pc=zlib -O qcow2 a b"),
            ("convert --compress a.img b.qcow2", "convert --compress=zlib a.img b.qcow2"),
            ("-v convert -c a b.qcow2", "-v convert -c=zlib a b.qcow2"),
            ("convert -c zstd a b.qcow2", "convert -c zstd a b.qcow2"),
            ("convert -c zstd:9 a b.qcow2", "convert -c zstd:9 a b.qcow2"),
            ("convert -czstd a b.qcow2", "convert -czstd a b.qcow2"),
            ("convert -c=zstd a b.qcow2", "convert -c=zstd a b.qcow2"),
            ("convert --compress=zstd a b.qcow2", "convert --compress=zstd a b.qcow2"),
            ("convert -c lz4:3 a b.qcow2", "convert -c lz4:3 a b.qcow2"),
            ("convert --plan --cacert x a b", "convert --plan --cacert x a b"),
            ("convert -- -c b", "convert -- -c b"),
            ("build -t os -c x", "build -t os -c x"),
            ("exec vm -- sh -c ls", "exec vm -- sh -c ls"),
            ("exec -t 30 vm ls", "exec --timeout 30 vm ls"),
            ("exec -t30 vm ls", "exec --timeout=30 vm ls"),
            ("exec --root h -t 30 vm -- ls", "exec --root h --timeout 30 vm -- ls"),
            ("exec -it vm -- sh", "exec -it vm -- sh"),
            ("exec -t vm sleep -t 5", "exec -t vm sleep -t 5"),
            ("exec vm sleep -t 5 x", "exec vm sleep -t 5 x"),
        ] {
            let words = |line: &str| -> Vec<OsString> {
                std::iter::once("coracle").chain(line.split(' ')).map(Into::into).collect()
            };
            assert_eq!(completed(words(line)), words(wanted), "{line}");
        }
    }
}
