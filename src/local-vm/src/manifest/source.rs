//! Texts of a manifest: a file, several files, a folder, or standard input.

use crate::error::{Error, ErrorKind, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a text in bytes, above the limit of an API server.
const TEXT_MAX: u64 = 4 << 20;
/// Maximum number of files in a folder.
const FILES_MAX: usize = 1000;

/// A text, and the name of its source in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// A path, or `standard input`.
    pub name: String,
    pub text: String,
}

/// Texts of a file, of `-`, or of the manifests in a folder without its subfolders.
pub(crate) fn read(path: &str) -> Result<Vec<Text>> {
    if path == "-" {
        return Ok(vec![text("standard input".into(), std::io::stdin().lock())?]);
    }
    let folder = Path::new(path);
    if !folder.is_dir() {
        return Ok(vec![file(folder)?]);
    }
    let cannot = |e| Error::io(format!("cannot read the folder {path}"), e);
    let mut files: Vec<PathBuf> = vec![];
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if is_manifest(&file) && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() || files.len() > FILES_MAX {
        let count = files.len();
        let what = format!(
            "the folder {path} has {count} manifests (*.yaml, *.yml, *.json); 1 to {FILES_MAX} can be read"
        );
        return Err(Error::new(ErrorKind::Usage, what));
    }
    files.sort();
    files.iter().map(|path| file(path)).collect()
}

/// True if the file name ends as those of manifests do: yaml, yml, json.
pub fn is_manifest(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ["yaml", "yml", "json"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn file(path: &Path) -> Result<Text> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    text(name, file)
}

fn text(name: String, from: impl Read) -> Result<Text> {
    let mut bytes = vec![];
    from.take(TEXT_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    if bytes.len() as u64 > TEXT_MAX {
        let most = cdi::size::human(TEXT_MAX);
        return Err(Error::refused(format!("{name} is larger than {most}, the maximum size of a manifest")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::refused(format!("{name} is not a manifest: its text is not UTF-8")))?;
    Ok(Text { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_manifests_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.JSON", "c.txt", "d.yml"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("e.yaml")).unwrap();
        let read = read(folder.path().to_str().unwrap()).unwrap();
        let names: Vec<&str> = read.iter().map(|text| text.text.as_str()).collect();
        assert_eq!(names, ["a.JSON", "b.yaml", "d.yml"]);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, b"\xff\xfe").unwrap();
        assert_eq!(read(path.to_str().unwrap()).unwrap_err().kind(), ErrorKind::Refused);
        std::fs::File::create(&path).unwrap().set_len(TEXT_MAX + 1).unwrap();
        assert!(read(path.to_str().unwrap()).unwrap_err().to_string().contains("larger than 4 MiB"));
        assert_eq!(read("/nowhere.yaml").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(
            read(folder.path().join("none").to_str().unwrap()).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}
