//! Access to the directories of a filesystem: list one, find a path, read a small file.

use super::peek::Peek;

/// Limit of bytes that are read of one directory.
pub(crate) const MOST_DIR: u64 = 256 << 10;

/// A named entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry<N> {
    pub(crate) name: String,
    pub(crate) node: N,
}

/// A filesystem whose directories can be read. `None` means that the read failed or the structure is invalid.
/// If the read failed, the [`Peek`] has the reason.
pub(crate) trait Tree {
    /// Reference to a file or a directory.
    type Node: Clone;

    fn peek(&self) -> &Peek<'_>;

    fn root(&self) -> Option<Self::Node>;

    /// The entries of a directory, up to [`MOST_DIR`] bytes. `None` if it is not a directory.
    fn list(&self, dir: &Self::Node) -> Option<Vec<Entry<Self::Node>>>;

    /// The first `most` bytes of a file. `None` if it is not an ordinary file.
    fn read(&self, file: &Self::Node, most: usize) -> Option<Vec<u8>>;

    /// True if names are case-sensitive.
    fn exact(&self) -> bool;

    /// Finds the node at a path such as `etc/cloud`. Links are not followed.
    fn find(&self, path: &str) -> Option<Self::Node> {
        let same = |a: &str, b: &str| if self.exact() { a == b } else { a.eq_ignore_ascii_case(b) };
        path.split('/').try_fold(self.root()?, |dir, name| {
            self.list(&dir)?.into_iter().find(|e| same(&e.name, name)).map(|e| e.node)
        })
    }

    /// Reads a small file as text.
    fn text(&self, path: &str, most: usize) -> Option<String> {
        let file = self.find(path)?;
        self.read(&file, most).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }
}
