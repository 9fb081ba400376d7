//! `index.json`: the documents of a layout and their tags. Fields that other tools wrote and this program
//! does not know are kept. Changes happen under a lock and replace the whole file.

use super::folder::Folder;
use super::ingest::Temp;
use crate::manifest::{self, Document};
use crate::place::Reference;
use crate::{Digest, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;

/// The annotation that holds the tag.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
pub(crate) const INDEX: &str = "index.json";

/// The content of `index.json`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    schema_version: u8,
    #[serde(default)]
    pub(crate) manifests: Vec<Entry>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

/// A document in the index.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

impl Entry {
    /// The tag of the document, if it has one.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.annotations.as_ref()?.get(REF_NAME).map(String::as_str)
    }
}

impl Index {
    /// An index without documents.
    pub(crate) fn new() -> Index {
        Index { schema_version: 2, manifests: vec![], other: BTreeMap::new() }
    }

    /// Parses an index; `name` is for messages.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Index> {
        let index: Index = serde_json::from_slice(bytes)
            .map_err(|e| Error::refused(format!("{name} is not the index of an image layout")).because(e))?;
        for entry in &index.manifests {
            let digest = entry.digest.parse::<Digest>();
            digest.map_err(|e| Error::refused(format!("{name}: {e}")))?;
        }
        Ok(index)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text keys and values can be written")
    }

    /// The reference for a tag that the user gave. Without a tag the index must hold exactly one image.
    pub(crate) fn reference(&self, name: &str, tag: Option<&str>) -> Result<Reference> {
        match (tag, self.manifests.as_slice()) {
            (Some(tag), _) => Ok(Reference::Tag(tag.to_owned())),
            (None, [one]) => Ok(Reference::Digest(one.digest.parse()?)),
            (None, []) => Err(Error::new(ErrorKind::NotFound, format!("{name} holds no image"))),
            (None, _) => {
                let what =
                    format!("{name} holds several images; choose one of the tags: {}", self.tag_list());
                Err(Error::usage(what))
            }
        }
    }

    /// The entry of a tag. Two different images under one name are refused.
    pub(crate) fn find(&self, name: &str, tag: &str) -> Result<&Entry> {
        let mut found = self.manifests.iter().filter(|entry| entry.tag() == Some(tag));
        let Some(first) = found.next() else {
            let what = format!("{name} has no image {tag:?}; it has {}", self.tag_list());
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        if found.any(|entry| entry.digest != first.digest) {
            return Err(Error::refused(format!("{name} has two different images called {tag:?}")));
        }
        Ok(first)
    }

    /// Sets a tag on a document, and removes the tag from any other.
    pub(crate) fn set(&mut self, tag: &str, document: &Document) {
        let entry = Entry {
            media_type: Some(document.media_type.clone()),
            digest: document.digest.to_string(),
            size: document.bytes.len() as u64,
            annotations: Some([(REF_NAME.to_owned(), tag.to_owned())].into()),
            other: BTreeMap::new(),
        };
        self.put(tag, entry);
    }

    /// Adds the tag `to` to the document with the tag `from`.
    pub(crate) fn copy(&mut self, name: &str, from: &str, to: &str) -> Result<()> {
        let mut entry = self.find(name, from)?.clone();
        entry.annotations.get_or_insert_default().insert(REF_NAME.to_owned(), to.to_owned());
        self.put(to, entry);
        Ok(())
    }

    /// Removes a tag. True if it existed.
    pub(crate) fn remove(&mut self, tag: &str) -> bool {
        let before = self.manifests.len();
        self.manifests.retain(|entry| entry.tag() != Some(tag));
        self.manifests.len() < before
    }

    fn put(&mut self, tag: &str, entry: Entry) {
        match self.manifests.iter().position(|entry| entry.tag() == Some(tag)) {
            Some(at) => {
                self.manifests[at] = entry;
                let mut first = true;
                self.manifests.retain(|entry| entry.tag() != Some(tag) || std::mem::take(&mut first));
            }
            None => self.manifests.push(entry),
        }
    }

    /// The tags in the index, for messages.
    fn tag_list(&self) -> String {
        const SHOWN: usize = 8;
        let mut names: Vec<&str> = self.manifests.iter().filter_map(Entry::tag).collect();
        names.sort_unstable();
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        match (names.is_empty(), more) {
            (true, _) => "no named image".to_owned(),
            (false, 0) => names.join(", "),
            (false, more) => format!("{} and {more} more", names.join(", ")),
        }
    }
}

/// Reads the index of a layout.
pub(crate) fn read(top: &Folder) -> Result<Index> {
    let name = top.path().join(INDEX).display().to_string();
    match top.trusted_file(INDEX)? {
        Some((file, _)) => Index::parse(&name, &manifest::read_bounded(&name, file)?),
        None => Err(Error::refused(format!("{name} is missing: this is not a complete image layout"))),
    }
}

/// Changes the index of a layout under its lock. Readers see the old or the new file, and no change of
/// another process is lost.
pub(crate) fn change<T>(top: &Folder, change: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
    let _alone = top.lock()?;
    let mut index = match top.file(INDEX)? {
        Some(_) => read(top)?,
        None => Index::new(),
    };
    let result = change(&mut index)?;
    let bytes = index.bytes();
    if bytes.len() as u64 > manifest::DOCUMENT_MAX {
        let what = format!("{} would become too large; remove names first", top.path().join(INDEX).display());
        return Err(Error::failed(what));
    }
    write(top, INDEX, &bytes)?;
    Ok(result)
}

/// Replaces a small file of a layout atomically.
pub(crate) fn write(top: &Folder, name: &str, bytes: &[u8]) -> Result<()> {
    let temp = Temp::new(top)?;
    let written = (&*temp.file).write_all(bytes);
    written.map_err(|e| Error::io(format!("cannot write {}", temp.path()), e))?;
    temp.rename(top, name)
}
