//! Folder of generated files, which overwrites files of its own alone.

use crate::error::{Error, ErrorKind, Result};
use crate::output_file;
use local_vm::manifest;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Mark in every generated file, by which a later run knows that it may replace the file.
pub(super) const MARK: &str = "Written by coracle manifests";

/// A file: its path in the folder, with `/`, and its content.
pub(super) type File = (String, String);

/// A YAML file with the mark.
pub(super) fn marked(path: impl Into<String>, yaml: &str) -> File {
    (path.into(), format!("# {MARK}\n{yaml}"))
}

/// The objects as YAML files below `parent`, one for each kind and name: Roles of that name in two namespaces
/// share a file.
pub(super) fn split(parent: &str, objects: &[Value]) -> Vec<File> {
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for object in objects {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let name = format!("{}-{}", word(&object["kind"]), word(&object["metadata"]["name"]));
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '-' };
        let path = format!("{parent}/{}.yaml", name.chars().map(plain).collect::<String>());
        match groups.iter_mut().find(|(there, _)| *there == path) {
            Some((_, group)) => group.push(object.clone()),
            None => groups.push((path, vec![object.clone()])),
        }
    }
    groups.into_iter().map(|(path, group)| marked(path, &manifest::text(&group))).collect()
}

/// Writes the files. A folder that is not empty must have the first file with the mark. Marked files below
/// `parent` that are no longer generated are removed; files without the mark stay, and are never replaced.
pub(super) fn write(folder: &Path, parent: &str, files: &[File]) -> Result<()> {
    let failed = |what: &str, path: &Path, e| Error::io(format!("cannot {what} {}", path.display()), e);
    let main = files.first().map_or("", |(path, _)| path);
    let is_new = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => true,
        Err(e) => return Err(failed("read the folder", folder, e)),
    };
    if !is_new && !is_ours(&folder.join(main)) {
        let what = format!(
            "{} is not empty, and has no {main} of this program: name a new folder",
            folder.display()
        );
        return Err(Error::new(ErrorKind::Usage, what));
    }
    for (path, _) in files {
        let path = folder.join(path);
        if path.symlink_metadata().is_ok() && !is_ours(&path) {
            let what = format!(
                "{} was not written by this program, and is not replaced: move it away",
                path.display()
            );
            return Err(Error::new(ErrorKind::Usage, what));
        }
    }
    let old = folder.join(parent);
    fs::create_dir_all(folder).map_err(|e| failed("make the folder", folder, e))?;
    for (path, content) in files {
        // The first file is written before all others, so that an interrupted run can be repeated.
        let path = folder.join(path);
        output_file::write(&path, content.as_bytes())?;
        fs::create_dir_all(&old).map_err(|e| failed("make the folder", &old, e))?;
    }
    for entry in fs::read_dir(&old).map_err(|e| failed("read the folder", &old, e))? {
        let path = entry.map_err(|e| failed("read the folder", &old, e))?.path();
        let is_made = files.iter().any(|(made, _)| folder.join(made) == path);
        if !is_made && is_ours(&path) {
            fs::remove_file(&path).map_err(|e| failed("remove", &path, e))?;
        }
    }
    Ok(())
}

/// True for a file with the mark.
fn is_ours(path: &Path) -> bool {
    path.is_file() && fs::read_to_string(path).is_ok_and(|content| content.contains(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_folder_of_somebody_else_stays_as_it_is() {
        let folder = folder();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let error = write(folder.path(), "objects", &[marked("main.yaml", "a: 1\n")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("is not empty"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_somebody_else_is_not_replaced_and_not_removed() {
        let folder = folder();
        let files = [marked("main.yaml", "a: 1\n"), marked("objects/b.yaml", "b: 1\n")];
        write(folder.path(), "objects", &files).unwrap();
        fs::write(folder.path().join("objects/own.yaml"), "mine").unwrap();
        write(folder.path(), "objects", &files).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("objects/own.yaml")).unwrap(), "mine");
        fs::write(folder.path().join("objects/b.yaml"), "mine").unwrap();
        let error = write(folder.path(), "objects", &files).unwrap_err();
        assert!(error.to_string().contains("objects/b.yaml was not written by this program"), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join("objects/b.yaml")).unwrap(), "mine");
    }

    #[test]
    fn an_earlier_run_is_replaced_and_leaves_nothing() {
        let folder = folder();
        let before = [marked("main.yaml", "a: 1\n"), marked("objects/old.yaml", "b: 1\n")];
        write(folder.path(), "objects", &before).unwrap();
        let after = [marked("main.yaml", "a: 2\n"), marked("objects/new.yaml", "b: 2\n")];
        write(folder.path(), "objects", &after).unwrap();
        assert!(!folder.path().join("objects/old.yaml").exists());
        for (path, content) in after {
            assert_eq!(fs::read_to_string(folder.path().join(path)).unwrap(), content);
        }
    }

    #[test]
    fn objects_of_one_kind_and_name_share_a_file() {
        let role = |space: &str| json!({"kind": "Role", "metadata": {"name": "a:b", "namespace": space}});
        let files = split("objects", &[role("x"), role("y")]);
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].0, "objects/role-a-b.yaml");
        assert_eq!(api::yaml::parse(&files[0].1).unwrap().len(), 2);
    }
}
