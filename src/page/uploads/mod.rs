//! Uploads of disk files in the browser: each is a task of this program, which works as `coracle virt
//! image-upload` does.
//!
//! ```text
//!  POST  /api/disk                  the first bytes of the file ─► inspect: format, size of the disk
//!  POST  /api/uploads/NS/NAME       Begin ─► a task: DataVolume, pod, bytes, disk       GET /api/uploads: progress of all
//!  PATCH /api/uploads/NS/NAME       bytes at Upload-Offset ─► virt::upload::BrowserUpload ─► the upload proxy, by tus 1.0
//!  DELETE                           ends the task, and forgets it
//! ```
//!
//! A PATCH is that of tus: 204 with the next offset, or 409 with the expected one. The page has to read the
//! expected offset (`wants`), which goes back if the upload pod has lost bytes.
//!
//! **Guarantees.** One upload for a DataVolume, [`MOST`] in all. No byte of a file is stored here, and its
//! name is used in messages alone. An upload continues when the page is reloaded or closed; it then waits for
//! a page that has the file. It ends with the program.

mod begin;
mod entry;
mod inspect;

pub(super) use begin::Begin;
pub(super) use inspect::inspect_file;

use super::answer::{self, Body, Refusal};
use super::route::VmName;
use crate::virt::client::Cluster;
use crate::virt::upload::{Cut, ProxySettings};
use entry::Entry;
use http::{HeaderMap, HeaderName, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of uploads, running or ended.
const MOST: usize = 32;
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
/// Content type of a PATCH.
const PART: &str = "application/offset+octet-stream";

/// The uploads of this page.
pub(super) struct Uploads {
    at: ProxySettings,
    /// Uploads by namespace and name of the DataVolume.
    all: Mutex<BTreeMap<(String, String), Entry>>,
}

impl Uploads {
    /// An empty list, for uploads to this upload proxy.
    pub(super) fn new(at: ProxySettings) -> Uploads {
        Uploads { at, all: Mutex::default() }
    }

    /// Progress of all uploads as JSON.
    pub(super) fn shown(&self) -> Value {
        let all = self.all();
        json!(all.iter().map(|((namespace, name), entry)| entry.shown(namespace, name)).collect::<Vec<_>>())
    }

    /// Starts an upload. If the same file is being uploaded already, that upload goes on.
    pub(super) fn begin(&self, cluster: &Cluster, place: &VmName, begin: Begin) -> Result<(), Refusal> {
        let mut all = self.all();
        let key = key(place);
        let there = all.get(&key).filter(|there| !there.has_ended());
        if let Some(there) = there {
            if there.is_of(&begin) {
                return Ok(());
            }
            let sentence = format!(
                "{} is being uploaded to DataVolume {} in namespace {}: choose another name, or cancel that upload",
                there.file(),
                place.name,
                place.namespace
            );
            return Err(Refusal::new(StatusCode::CONFLICT, sentence));
        }
        if all.len() >= MOST && !all.contains_key(&key) {
            let over = all.iter().find(|(_, entry)| entry.has_ended()).map(|(key, _)| key.clone());
            let Some(over) = over else {
                let sentence = format!("{MOST} uploads are under way: wait until one of them has ended");
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, sentence));
            };
            all.remove(&over);
        }
        let cluster = cluster.within(&place.namespace);
        all.insert(key, Entry::begin(cluster, place.name.clone(), begin, self.at.clone()));
        Ok(())
    }

    /// Receives a part of an upload's file.
    pub(super) async fn take(
        &self,
        place: &VmName,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let says = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &HeaderName| says(name).and_then(|text| text.parse::<u64>().ok());
        let bad = |sentence: &str| Refusal::new(StatusCode::BAD_REQUEST, sentence);
        if says(&header::CONTENT_TYPE) != Some(PART) {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("a part of a file is {PART}"),
            ));
        }
        let offset = number(&OFFSET).ok_or_else(|| bad("a part of a file needs the header Upload-Offset"))?;
        let length = number(&header::CONTENT_LENGTH)
            .ok_or_else(|| bad("a part of a file needs the header Content-Length"))?;
        let (browser, told) = {
            let all = self.all();
            let entry = all.get(&key(place)).filter(|entry| !entry.has_ended());
            entry.map(Entry::receiver).ok_or_else(|| absent(place))?
        };
        if offset.checked_add(length).is_none_or(|end| end > browser.size()) {
            return Err(bad("this part is longer than what is left of the file"));
        }
        match browser.receive(offset, body, || told.moves()).await {
            Ok(next) => Ok(answer::at(StatusCode::NO_CONTENT, &OFFSET, next)),
            Err(Cut::Elsewhere(next)) => Ok(answer::at(StatusCode::CONFLICT, &OFFSET, next)),
            Err(Cut::NotNow) => {
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the upload takes no bytes yet; try again"))
            }
            Err(Cut::Other) => {
                Err(Refusal::new(StatusCode::CONFLICT, "another page has begun to send this file"))
            }
            Err(Cut::Left(why)) => Err(bad(&why)),
        }
    }

    /// Cancels an upload, and removes it from the list.
    pub(super) fn forget(&self, place: &VmName) -> Result<(), Refusal> {
        let entry = self.all().remove(&key(place)).ok_or_else(|| absent(place))?;
        entry.end();
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, String), Entry>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(place: &VmName) -> (String, String) {
    (place.namespace.clone(), place.name.clone())
}

fn absent(place: &VmName) -> Refusal {
    let VmName { namespace, name } = place;
    let sentence = format!("no upload to DataVolume {name} in namespace {namespace} is under way");
    Refusal::new(StatusCode::NOT_FOUND, sentence)
}
