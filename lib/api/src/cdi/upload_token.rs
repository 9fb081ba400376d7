//! `UploadTokenRequest` of `upload.cdi.kubevirt.io`. virt-api answers with a token and does not store the
//! object.

use crate::meta::ObjectMeta;
use crate::object;

/// The group of an UploadTokenRequest.
pub const UPLOAD_GROUP: &str = "upload.cdi.kubevirt.io";
/// Versions of UploadTokenRequest; both have the same fields.
pub const UPLOAD_VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

object! {
    /// UploadTokenRequest: asks for a token that permits the upload to one PersistentVolumeClaim.
    pub struct UploadTokenRequest {
        /// API version of this object: `upload.cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `UploadTokenRequest`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the request. The PVC is in the same namespace.
        pub metadata: ObjectMeta = "metadata",
        /// PersistentVolumeClaim that the token is for.
        pub spec: UploadTokenRequestSpec = "spec",
        /// Token, in the answer to the request.
        pub status: Option<UploadTokenRequestStatus> = "status",
    }
}

object! {
    /// PersistentVolumeClaim that the token is for.
    pub struct UploadTokenRequestSpec {
        /// Name of the PVC. The PVC may be created later.
        pub pvc_name: String = "pvcName",
    }
}

object! {
    /// Token, in the answer to the request.
    pub struct UploadTokenRequestStatus {
        /// JSON Web Token for the upload proxy, valid for 5 minutes.
        pub token: Option<String> = "token",
    }
}
