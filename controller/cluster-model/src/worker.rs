//! Layout of worker pods, which move the bytes of a disk: virt-controller creates pods with it, and the
//! admission policies of the installation restrict virt-controller to it.

/// The label of all worker pods, by which virt-controller watches them.
pub const WORKER: (&str, &str) = ("kubevirt.io", "cdi-worker");
/// The label by which upstream's tools find worker pods.
pub const APP: (&str, &str) = ("app", "containerized-data-importer");
/// The label with the work of a worker pod, and its value for an import.
pub const WORK: (&str, &str) = ("cdi.kubevirt.io", "importer");
/// Name prefix of import pods.
pub const IMPORTER: &str = "importer-";
/// The container of an import.
pub const CONTAINER: &str = "importer";
/// Name prefix of export pods.
pub const EXPORTER: &str = "exporter-";
/// The value of the label `cdi.kubevirt.io` of an export pod, and its container.
pub const EXPORT: &str = "exporter";
/// The annotation of a worker pod that counts the pods before it that did not end their work.
pub const ATTEMPT: &str = "cdi.kubevirt.io/storage.pod.attempt";
/// The annotation of an importer pod that may write to the block device of its PVC: the uid of the pod.
/// virt-controller sets it while the disk is incomplete, since a device has no place for a mark that it is
/// complete.
pub const PERMIT: &str = "cdi.kubevirt.io/storage.pod.permit";
/// Mount path of a worker's permit, and the volume: a file with the annotation [`PERMIT`].
pub const PERMIT_FOLDER: (&str, &str) = ("/etc/permit", "cdi-permit-vol");
/// The environment variables of a worker that needs a permit: the file with it, and the uid of the pod.
pub const PERMIT_ENVIRONMENT: (&str, &str) = ("PERMIT_FILE", "POD_UID");
/// Port of a worker's report.
pub const PORT: u16 = 8443;
/// HTTP path of a worker's report.
pub const REPORT: &str = "/v1/report";
/// Mount path of the PVC's file system in a worker.
pub const FOLDER: &str = "/data";
/// The disk in the file system of a PVC.
pub const DISK: &str = "/data/disk.img";
/// Device path of the PVC in a worker.
pub const DEVICE: &str = "/dev/cdi-block-volume";
/// Mount path of Secrets in a worker, each in a folder of its name.
pub const SECRETS: &str = "/etc/cdi/secrets";
/// Mount path of ConfigMaps with certificates in a worker, each in a folder of its name.
pub const CERTIFICATES: &str = "/etc/cdi/certs";
/// The ConfigMap of the installation with the registry settings of importer pods: mirrors, and certificates
/// that they name.
pub const REGISTRIES: &str = "coracle-registries";
/// The environment variable of a worker with the CA certificates of the proxy (PEM).
pub const AUTHORITIES: &str = "CDI_PROXY_CA";
/// The environment variable that names the worker's CA bundle, and its path. The worker writes the system's
/// CAs and those in [`AUTHORITIES`] to that file.
pub const TRUST: (&str, &str) = ("SSL_CERT_FILE", "/tmp/authorities.pem");
/// Mount path of an image that the node has pulled, and the volume of the worker pod.
pub const IMAGE: (&str, &str) = ("/image", "cdi-image-vol");
/// The annotation of an importer pod with a hash of its registry settings.
pub const TOLD: &str = "cdi.kubevirt.io/storage.pod.registries";
