//! ResourceClaims of the launcher pod (dynamic resource allocation) that bring devices to the VMI.

/// A ResourceClaim of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Name of the claim in the VMI and in the pod.
    pub name: String,
    pub source: Source,
}

/// Origin of a ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An existing one, by its name in the namespace of the VMI (`resourceClaimName`).
    Existing(String),
    /// A claim that Kubernetes creates for the pod from this template (`resourceClaimTemplateName`).
    Template(String),
}

/// Most ResourceClaims of a VMI.
pub const MOST: usize = 32;
