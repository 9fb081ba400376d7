//! A file without a name: it is gone with its last holder, whatever happens to the process.

use rustix::fs::{CWD, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;

/// Makes one in `folder`.
pub fn nameless(folder: &Path) -> io::Result<File> {
    never_named(folder).or_else(|_| named_for_a_moment(folder))
}

/// Whether one in `folder` never has a name, not even for a moment.
pub fn can_be_nameless(folder: &Path) -> bool {
    never_named(folder).is_ok()
}

fn never_named(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?))
}

/// For file systems without O_TMPFILE; also gives the better error where nothing can be made.
fn named_for_a_moment(folder: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut tries = 0;
    loop {
        let path = folder.join(format!(".coracle-spool-{}-{tries}", std::process::id()));
        match options.open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_no_name_on_any_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let made = [nameless(folder.path()).unwrap(), named_for_a_moment(folder.path()).unwrap()];
        let _either_way = can_be_nameless(folder.path());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(made);
        assert_eq!(nameless(Path::new("/nonexistent/folder")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
