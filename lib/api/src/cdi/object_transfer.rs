//! `ObjectTransfer`: the move of a DataVolume or a PVC to another name or namespace. Deprecated upstream.

use crate::cdi::Condition;
use crate::meta::ObjectMeta;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// ObjectTransfer: moves a DataVolume or a PVC to another name or namespace. Deprecated, use a clone.
    pub struct ObjectTransfer {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `ObjectTransfer`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the ObjectTransfer: name, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Source and target of the transfer. Immutable.
        pub spec: ObjectTransferSpec = "spec",
        /// Observed state of the transfer, written by the control plane.
        pub status: Option<ObjectTransferStatus> = "status",
    }
}

object! {
    /// Source and target of the transfer. Immutable.
    pub struct ObjectTransferSpec {
        /// DataVolume or PersistentVolumeClaim that is transferred.
        pub source: TransferSource = "source",
        /// Name and namespace after the transfer; one of them at least.
        pub target: TransferTarget = "target",
        /// Name of the ObjectTransfer that this one is a part of. Unset: none.
        pub parent_name: Option<String> = "parentName",
    }
}

object! {
    /// DataVolume or PersistentVolumeClaim that is transferred.
    pub struct TransferSource {
        /// API version of the transferred object.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of the transferred object: `DataVolume` or `PersistentVolumeClaim`.
        pub kind: String = "kind",
        /// Namespace of the transferred object.
        pub namespace: String = "namespace",
        /// Name of the transferred object.
        pub name: String = "name",
        /// Annotations that the object must have before the transfer.
        pub required_annotations: BTreeMap<String, String> = "requiredAnnotations",
    }
}

object! {
    /// Name and namespace after the transfer; one of them at least.
    pub struct TransferTarget {
        /// Namespace after the transfer. Unset: that of the source.
        pub namespace: Option<String> = "namespace",
        /// Name after the transfer. Unset: that of the source.
        pub name: Option<String> = "name",
    }
}

object! {
    /// Observed state of a transfer.
    pub struct ObjectTransferStatus {
        /// Intermediate results of the transfer, for the control plane.
        pub data: BTreeMap<String, String> = "data",
        /// Phase of the transfer; empty at first.
        pub phase: Option<TransferPhase> = "phase",
        /// Conditions of the transfer: `Complete`.
        pub conditions: Vec<Condition> = "conditions",
    }
}

string_enum! {
    /// Phase of a transfer; empty at first.
    pub enum TransferPhase {
        Pending = "Pending",
        Running = "Running",
        Complete = "Complete",
        Error = "Error",
    }
}
