//! Errors of a domain that cannot be defined on this host.

use super::xml::Unsayable;
use api::machine::PciAddress;
use thiserror::Error;

/// Reason why a domain cannot be defined. Each message is for the author of the VM, except
/// [`DomainError::Unplaced`], which is for the caller.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DomainError {
    /// A field asks for a feature that this host, or this combination, does not have.
    #[error("{field}: {why}")]
    Refused {
        /// The field, as a path from the object's root.
        field: String,
        why: String,
    },
    /// Two devices ask for the same PCI address.
    #[error("{second} asks for the PCI address {address}, which {first} has; {free}")]
    Taken {
        /// The address that both devices ask for.
        address: PciAddress,
        /// The device that has the address.
        first: String,
        /// The device that asks for the address of `first`.
        second: String,
        /// Free addresses, for the message.
        free: String,
    },
    /// More devices of a kind than the machine type or controller supports.
    #[error("too many {what}: at most {limit} fit on {on}")]
    NoRoom {
        /// Name of the devices, in the plural.
        what: &'static str,
        limit: usize,
        /// Machine type or controller.
        on: &'static str,
    },
    /// The location of a part of the VM on this host is missing.
    #[error("the location of {what} on this host is missing")]
    Unplaced { what: String },
    /// A text holds a character that XML cannot express.
    #[error("{place}: the character {character:?} cannot be written to libvirt's XML; remove it")]
    Character {
        /// The element or attribute with the text.
        place: String,
        character: char,
    },
}

impl DomainError {
    pub(super) fn refused(field: impl Into<String>, why: impl Into<String>) -> DomainError {
        DomainError::Refused { field: field.into(), why: why.into() }
    }

    pub(super) fn unplaced(what: impl Into<String>) -> DomainError {
        DomainError::Unplaced { what: what.into() }
    }
}

impl From<Unsayable> for DomainError {
    fn from(Unsayable { place, character }: Unsayable) -> DomainError {
        DomainError::Character { place, character }
    }
}
