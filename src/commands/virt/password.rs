//! Password of `credentials set-password`, from a file or standard input. The arguments of a command are
//! visible to every user of the computer, and kept in a shell's history; `--password` exists since virtctl
//! has it.

use crate::error::{Error, ErrorKind, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a password in bytes.
const LONGEST: u64 = 4 << 10;

#[derive(Debug, clap::Args)]
pub(super) struct PasswordArg {
    /// Password of the user, which other users of this computer can see
    /// meanwhile
    #[arg(short, long, value_name = "PASSWORD", required_unless_present = "password_file")]
    password: Option<String>,

    /// File with the password of the user; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,
}

impl PasswordArg {
    /// The password, from the flag, a file or standard input.
    pub(super) fn read(&self) -> Result<String> {
        match (&self.password, &self.password_file) {
            (Some(password), _) => Ok(password.clone()),
            (None, Some(path)) if path == Path::new("-") => line("standard input", std::io::stdin().lock()),
            (None, Some(path)) => {
                let shown = path.display().to_string();
                let cannot = |e| Error::io(format!("cannot read --password-file {shown}"), e);
                line(&shown, std::fs::File::open(path).map_err(cannot)?)
            }
            (None, None) => Err(usage("one of --password, or --password-file must be specified")),
        }
    }
}

/// The only line of a text. Messages never contain it.
fn line(from: &str, text: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    let read = text.take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("cannot read the password from {from}"), e))?;
    if bytes.len() as u64 > LONGEST {
        return Err(usage(format!("{from} has more than {LONGEST} bytes: a password is shorter")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| usage(format!("the password in {from} is not text in UTF-8")))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    // The guest agent's command takes one line, and launchers refuse a password with two.
    match line.contains(char::is_control) {
        true => Err(usage(format!("{from} has more than one line, or a control character in its line"))
            .with_hint("write the password alone, in a line")),
        false if line.is_empty() => Err(usage(format!("{from} is empty: it must hold the password"))),
        false => Ok(line.to_owned()),
    }
}

fn usage(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_line_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        for (text, password) in [("secret", "secret"), (" se cret \n", " se cret "), ("größe\r\n", "größe")]
        {
            std::fs::write(&file, text).unwrap();
            let arg = PasswordArg { password: None, password_file: Some(file.clone()) };
            assert_eq!(arg.read().unwrap(), password);
        }
        let arg = PasswordArg { password: Some("x".into()), password_file: None };
        assert_eq!(arg.read().unwrap(), "x");
        assert!(
            PasswordArg { password: None, password_file: Some(folder.path().join("no")) }.read().is_err()
        );
    }

    #[test]
    fn what_is_no_password_is_refused_and_not_repeated() {
        let large = "topsecret".repeat(1000);
        for (text, why) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"topsecret\nother\n", "more than one line"),
            (b"topsecret\0", "a control character"),
            (b"topsecret\xff", "not text"),
            (large.as_bytes(), "more than 4096 bytes"),
        ] {
            let said = line("standard input", text).unwrap_err().to_string();
            assert!(said.contains(why) && !said.contains("topsecret"), "{said}");
        }
    }
}
