//! ResourceClaims of the launcher pod (dynamic resource allocation), of which the VMI has devices.

/// A ResourceClaim of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClaim {
    /// The name by which devices of the VMI, and the pod, know it.
    pub name: String,
    pub source: Source,
}

/// Origin of a ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An existing one, by its name in the namespace of the VMI (`resourceClaimName`).
    There(String),
    /// One that Kubernetes creates for the pod, from a template of this name (`resourceClaimTemplateName`).
    Template(String),
}

/// ResourceClaims that a VMI may have.
pub const MOST: usize = 32;
