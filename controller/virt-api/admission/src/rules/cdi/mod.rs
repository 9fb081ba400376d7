//! The kinds of CDI: what may be written of them, in upstream's words to the byte.
//!
//! ```text
//!  DataVolume ─────────────────────────────► spec ─┬─► target    pvc or storage: size, access modes
//!  DataImportCron ── template, schedule ────► spec ┘   source    one source, and what it says ◄── VolumeImportSource
//!  VolumeUploadSource                                  its content type
//!  ObjectTransfer                                      not served, deprecated upstream
//!  CDI, CDIConfig                                      what has no effect is warned of; goes when it may
//!  PVC, labelled applyStorageProfile       claim         what it leaves out is filled in
//!  PVC and DataVolume, annotated           claim         exports that they ask for
//! ```
//!
//! As upstream, the first thing that is wrong is told and no other: the sentences after it would be about a guess. A spec
//! does not change once it is there; an object whose spec stays may always be written, also one that is refused today.
//! Beside upstream's rules stands what no version of ours will serve ([`unserved`]), by name. What is not served *yet* is
//! not refused here: the DataVolume is kept, and a condition says it.
//!
//! **Absent:** a question to the API server. So a PVC of the DataVolume's name is not looked for here.

mod claim;
mod import_cron;
mod installation;
mod object_transfer;
mod populator;
mod source;
mod target;
mod url;
mod volume;

pub(super) use claim::complete as claim;
pub(super) use claim::judge as judge_claim;
pub(super) use import_cron::judge as import_cron;
pub(super) use installation::{blocks, deletion, settings};
pub(super) use object_transfer::judge as object_transfer;
pub(super) use populator::judge as populator;
pub(super) use source::unserved;
pub(super) use volume::judge as data_volume;

use super::{AdmissionResponse, Operation, Request, unknown};
use api::fault::{Fault, Reason};
use api::wire::{self, Wire};

/// The longest name of an object.
const NAME: usize = 253;
/// The longest name of an object that others are called after.
const LABEL: usize = 63;

/// The answer about an object: read, its spec as it was, then what `faults` says of it.
fn judged<T: Wire>(
    request: &Request,
    stays: impl FnOnce(&T, &T) -> bool,
    refusal: (&str, &str),
    faults: impl FnOnce(&T) -> Result<(), Vec<Fault>>,
) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    // What is no longer right may still be labelled, and let go.
    if request.is_leaving() || update && request.old["spec"] == request.object["spec"] {
        return AdmissionResponse::yes();
    }
    let mut wrong = Vec::new();
    let object = wire::read_in_part::<T>(request.object.clone(), &mut wrong);
    let Some(object) = object.filter(|_| wrong.is_empty()) else { return AdmissionResponse::no(wrong) };
    let warnings = unknown::warnings(&object);
    if update {
        let old = wire::read_in_part::<T>(request.old.clone(), &mut wrong);
        if old.is_some_and(|old| wrong.is_empty() && stays(&old, &object)) {
            return AdmissionResponse { warnings, ..AdmissionResponse::yes() };
        }
        let (field, message) = refusal;
        return AdmissionResponse::no(vec![Fault::new(field, Reason::Duplicate, message)]);
    }
    AdmissionResponse {
        faults: faults(&object).err().unwrap_or_default(),
        warnings,
        ..AdmissionResponse::yes()
    }
}

/// The first thing that is wrong.
fn wrong(field: impl std::fmt::Display, message: impl Into<String>) -> Vec<Fault> {
    vec![Fault::new(field, Reason::Invalid, message)]
}

/// A name is not longer than others can be called after it.
fn name_fits(name: Option<&str>, most: usize) -> Result<(), Vec<Fault>> {
    match name.is_some_and(|name| name.len() > most) {
        // Upstream names no field here.
        true => Err(wrong("", format!("Name cannot be longer than {most} characters"))),
        false => Ok(()),
    }
}
