//! Validation of the kinds of CDI, with upstream's messages byte for byte.
//!
//! ```text
//!  DataVolume ─────────────────────────────► spec ─┬─► target    pvc or storage: size, access modes
//!  DataImportCron ── template, schedule ────► spec ┘   source    one source, and its fields ◄── VolumeImportSource
//!  VolumeUploadSource                                  its content type
//!  ObjectTransfer                                      refused, deprecated upstream
//!  CDI, CDIConfig                                      warnings, and the check before deletion
//!  PVC, labelled applyStorageProfile       claim         defaults
//!  PVC and DataVolume, annotated           claim         requested exports
//! ```
//!
//! As upstream, only the first fault is reported, since later ones could be consequences of it. A spec is
//! immutable. An object whose spec is unchanged may always be written, even if it would be refused today. In
//! addition to upstream's rules, features that we will never support are refused by name ([`unserved`]).
//! Features not supported *yet* are not refused here: the DataVolume is stored, and a condition reports it.
//!
//! **Absent:** requests to the API server. So an existing PVC of the DataVolume's name is not detected here.

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

/// Maximum length of an object's name.
const NAME: usize = 253;
/// Maximum length of the name of an object that other names derive from.
const LABEL: usize = 63;

/// The answer about an object: readable, its spec unchanged on an update, then the result of `faults`.
fn judged<T: Wire>(
    request: &Request,
    stays: impl FnOnce(&T, &T) -> bool,
    refusal: (&str, &str),
    faults: impl FnOnce(&T) -> Result<(), Vec<Fault>>,
) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    // An invalid object may still be labelled and deleted.
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

/// A list with one fault.
fn wrong(field: impl std::fmt::Display, message: impl Into<String>) -> Vec<Fault> {
    vec![Fault::new(field, Reason::Invalid, message)]
}

/// Checks that a name is short enough for the names derived from it.
fn name_fits(name: Option<&str>, most: usize) -> Result<(), Vec<Fault>> {
    match name.is_some_and(|name| name.len() > most) {
        // Upstream names no field here.
        true => Err(wrong("", format!("Name cannot be longer than {most} characters"))),
        false => Ok(()),
    }
}
