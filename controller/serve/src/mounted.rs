//! Files of Secrets and ConfigMaps that the kubelet mounts. They are read at the start of the program and
//! when they change, so that a new key or certificate needs no restart.
//!
//! ```text
//!  kubelet ── replaces the folder by a rename ──► files ── every PERIOD ─► contents ── differ ─► take()
//! ```
//!
//! A missing file (an optional Secret) is not an error: it is waited for. A file that cannot be used is
//! logged once, and the earlier contents stay in use. A rename may come between the reads of two files of one
//! Secret. A certificate with the key of another is then refused, and read again later.

use cluster_client::error::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two reads of the files. The kubelet delivers a change after a minute.
const PERIOD: Duration = Duration::from_secs(1);
/// Largest file: the limit of the API server for an object.
const LARGEST: u64 = 1 << 20;

/// Calls `take` with the contents of these files whenever all exist and differ from the last contents. Never
/// returns.
pub async fn follow<const N: usize>(paths: [PathBuf; N], take: impl Fn(&[Vec<u8>; N]) -> Result<()>) {
    let name = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut known = None;
    let mut told = String::new();
    loop {
        let read = paths.clone();
        match aside(move || read_all(&read)).await {
            Ok(Some(now)) if known.as_ref() != Some(&now) => match take(&now) {
                Ok(()) => {
                    tracing::info!("{name}: taken");
                    (known, told) = (Some(now), String::new());
                }
                Err(error) => tell(&mut told, &name, &error),
            },
            Ok(_) => {}
            Err(error) => tell(&mut told, &name, &error),
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Logs an error, unless it was the last one logged.
fn tell(told: &mut String, name: &str, error: &Error) {
    let why = error.chain();
    if *told != why {
        tracing::warn!("cannot use {name}, keeping the earlier contents: {why}");
        *told = why;
    }
}

/// Contents of all files; `None` while one of them is missing.
fn read_all<const N: usize>(paths: &[PathBuf; N]) -> Result<Option<[Vec<u8>; N]>> {
    let mut all = [const { Vec::new() }; N];
    for (contents, path) in all.iter_mut().zip(paths) {
        match read(path)? {
            Some(bytes) => *contents = bytes,
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

#[expect(clippy::disallowed_methods, reason = "a file of our own pod, on a thread of its own")]
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let failed = |e| Error::setup(format!("cannot read {}", path.display()), e);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        let what = format!("{} has more than {LARGEST} bytes, the limit of a Secret", path.display());
        return Err(Error::new(ErrorKind::Setup, what));
    }
    Ok(Some(bytes))
}

#[expect(
    clippy::disallowed_methods,
    reason = "one at a time for each set of files, of which a program has few"
)]
async fn aside<T: Send + 'static>(does: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(does).await;
    done.unwrap_or_else(|e| Err(Error::setup("the task that reads mounted files broke off", e)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::watch;

    /// Like the kubelet: a new folder, and a link that is replaced by a rename.
    fn mount(folder: &Path, version: &str, files: [&str; 2]) {
        let data = folder.join(version);
        std::fs::create_dir(&data).unwrap();
        for (name, text) in ["a", "b"].iter().zip(files) {
            std::fs::write(data.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(&data, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    }

    #[tokio::test]
    async fn files_are_taken_when_all_are_there_and_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join("..data").join(name));
        let (taken, mut seen) = watch::channel(Vec::<String>::new());
        tokio::spawn(follow(paths, move |all| {
            let text = String::from_utf8(all.concat()).unwrap();
            let fits = text != "wrong";
            taken.send_modify(|list| list.push(text));
            fits.then_some(()).ok_or_else(|| Error::new(ErrorKind::Setup, "they do not fit"))
        }));
        for (number, (files, text)) in
            [(["one", "1"], "one1"), (["wro", "ng"], "wrong"), (["two", "2"], "two2")].into_iter().enumerate()
        {
            mount(folder.path(), &number.to_string(), files);
            let waited = seen.wait_for(|list| list.last().is_some_and(|last| last == text));
            tokio::time::timeout(Duration::from_secs(60), waited).await.unwrap().unwrap();
        }
        // Accepted contents are not passed again; refused ones are, as long as they stay.
        let list = seen.borrow().clone();
        let count = |text: &str| list.iter().filter(|one| *one == text).count();
        assert_eq!((count("one1"), count("two2")), (1, 1), "{list:?}");
    }

    #[test]
    fn one_that_is_missing_is_waited_for_and_one_without_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_all(&[folder.path().join("a")]).unwrap().is_none());
        let what = read(Path::new("/dev/zero")).unwrap_err().chain();
        assert!(what.contains("/dev/zero has more than 1048576 bytes"), "{what}");
    }
}
