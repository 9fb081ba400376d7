//! A template with the values of its instance type and of its preference. Pure; a VM is not changed.
//!
//! ```text
//!  template ─ opened: a disk for each volume, the default interface, the tablet   (so that preferences reach them)
//!           ─ sizes: the instance type, or every field that the VM sets too        ─► Conflict, all of them
//!           ─ preferences, devices: what is still open
//! ```
//!
//! **Guarantees.** A value of the VM stays. A field that both the VM and the instance type set is a conflict,
//! and nothing
//! is expanded. Expanding without either returns the template unchanged.

mod devices;
mod preferences;
mod sizes;
mod topology;

use crate::defaults::Binding;
use crate::instancetype::{InstancetypeSpec, PreferenceSpec};
use crate::vm::Template;
use std::fmt;

/// A field that both the VM and the instance type set, or vCPUs that the preference cannot spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Path of the field from the root of the VM.
    pub field: String,
    /// Human-readable message, in the words of upstream.
    pub message: String,
}

/// Most fields in one message. Annotations may be many.
const TOLD: usize = 32;

impl Conflict {
    /// The conflict of a field that both set.
    fn of(field: String) -> Conflict {
        let message = format!("VM field(s) {field} conflicts with selected instance type");
        Conflict { field, message }
    }

    /// The message for all conflicts together.
    pub fn sentence(conflicts: &[Conflict]) -> String {
        match conflicts {
            [one] => one.message.clone(),
            many => {
                let fields: Vec<&str> = many.iter().take(TOLD).map(|one| one.field.as_str()).collect();
                format!("VM field(s) {} conflicts with selected instance type", fields.join(", "))
            }
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The template with the values of both. `at`: path of its spec in the VM. `binding`: binding of the default
/// interface; `None` where the defaults of the VMI add that interface.
pub fn expand(
    template: &Template,
    instancetype: Option<&InstancetypeSpec>,
    preference: Option<&PreferenceSpec>,
    at: &str,
    binding: Option<Binding>,
) -> Result<Template, Vec<Conflict>> {
    let mut made = template.clone();
    if instancetype.is_none() && preference.is_none() {
        return Ok(made);
    }
    if let Some(preference) = preference {
        devices::open(preference, &mut made.spec, binding);
    }
    if let Some(instancetype) = instancetype {
        let conflicts = sizes::apply(instancetype, preference, &mut made, at);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    if let Some(preference) = preference {
        preferences::apply(preference, &mut made);
    }
    Ok(made)
}

#[cfg(test)]
mod tests;
