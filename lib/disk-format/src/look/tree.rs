//! Directories of a filesystem, as far as a look needs them: list one, find a path, read a small file.

use super::peek::Peek;

/// The most bytes of one directory that are read.
pub(crate) const MOST_DIR: u64 = 256 << 10;

/// Something with a name in a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry<N> {
    pub(crate) name: String,
    pub(crate) node: N,
}

/// A filesystem whose directories can be read. `None` means that it could not be read, or is not what it should be;
/// why, if it was the reading, is in the [`Peek`].
pub(crate) trait Tree {
    /// What stands for a file or a directory.
    type Node: Clone;

    fn peek(&self) -> &Peek<'_>;

    /// The root directory.
    fn root(&self) -> Option<Self::Node>;

    /// What a directory holds, as far as [`MOST_DIR`] goes. `None` for anything that is no directory.
    fn list(&self, dir: &Self::Node) -> Option<Vec<Entry<Self::Node>>>;

    /// The first `most` bytes of a file. `None` for anything that is no ordinary file.
    fn read(&self, file: &Self::Node, most: usize) -> Option<Vec<u8>>;

    /// Whether names differ by case.
    fn exact(&self) -> bool;

    /// The node at a path such as `etc/cloud`. Links are not followed.
    fn find(&self, path: &str) -> Option<Self::Node> {
        let same = |a: &str, b: &str| if self.exact() { a == b } else { a.eq_ignore_ascii_case(b) };
        path.split('/').try_fold(self.root()?, |dir, name| {
            self.list(&dir)?.into_iter().find(|e| same(&e.name, name)).map(|e| e.node)
        })
    }

    /// A small file as text.
    fn text(&self, path: &str, most: usize) -> Option<String> {
        let file = self.find(path)?;
        self.read(&file, most).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
