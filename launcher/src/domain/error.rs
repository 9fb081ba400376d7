//! Why a machine cannot be drawn.

use super::xml::Unsayable;
use api::machine::PciAddress;
use thiserror::Error;

/// Why a machine cannot be drawn. Each is a sentence for whoever wrote the machine, except [`DrawError::Unplaced`], which
/// is for whoever called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DrawError {
    /// A field asks for what cannot be had here.
    #[error("{field}: {why}")]
    Refused {
        /// The field, as a path from the object's root.
        field: String,
        /// A sentence.
        why: String,
    },
    /// Two devices want the same place on the PCI bus.
    #[error("{second} asks for the PCI address {address}, which {first} has; {free}")]
    Taken {
        /// The address.
        address: Pci,
        /// Who has it.
        first: String,
        /// Who asks for it.
        second: String,
        /// Where there is room.
        free: &'static str,
    },
    /// There are more devices of a kind than fit.
    #[error("{what} are more than the {limit} that fit on {board}")]
    NoRoom {
        /// The devices.
        what: &'static str,
        /// How many fit.
        limit: usize,
        /// The board.
        board: &'static str,
    },
    /// The host does not say where a part of the machine is.
    #[error("nobody said where {what} is on this host")]
    Unplaced {
        /// The part.
        what: String,
    },
    /// A text holds a character that cannot be written.
    #[error("{place}: the character {character:?} cannot be part of a machine")]
    Character {
        /// Where it stands in the drawing.
        place: String,
        /// The character.
        character: char,
    },
}

/// A PCI address as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pci(pub PciAddress);

impl std::fmt::Display for Pci {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PciAddress { domain, bus, slot, function } = self.0;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    }
}

impl DrawError {
    pub(super) fn refused(field: impl Into<String>, why: impl Into<String>) -> DrawError {
        DrawError::Refused { field: field.into(), why: why.into() }
    }

    pub(super) fn unplaced(what: impl Into<String>) -> DrawError {
        DrawError::Unplaced { what: what.into() }
    }
}

impl From<Unsayable> for DrawError {
    fn from(Unsayable { place, character }: Unsayable) -> DrawError {
        DrawError::Character { place, character }
    }
}
