//! The form of a worker pod, which moves the bytes of a disk: virt-controller makes pods by it, and the admission policies of
//! the installation hold virt-controller to it.

/// The label of all worker pods, by which virt-controller follows them.
pub const WORKER: (&str, &str) = ("kubevirt.io", "cdi-worker");
/// The label by which upstream's tools find them.
pub const APP: (&str, &str) = ("app", "containerized-data-importer");
/// The label that says what a worker pod does, and its value for an import.
pub const WORK: (&str, &str) = ("cdi.kubevirt.io", "importer");
/// How the names of worker pods begin.
pub const IMPORTER: &str = "importer-";
/// The container of an import.
pub const CONTAINER: &str = "importer";
/// How the names of export pods begin.
pub const EXPORTER: &str = "exporter-";
/// The value of the label `cdi.kubevirt.io` of an export pod, and its container.
pub const EXPORT: &str = "exporter";
/// The annotation of a worker pod that counts the pods before it that did not end their work.
pub const ATTEMPT: &str = "cdi.kubevirt.io/storage.pod.attempt";
/// The port at which a worker says what it does.
pub const PORT: u16 = 8443;
/// Where a worker says what it does.
pub const REPORT: &str = "/v1/report";
/// Where a worker finds the file system of its PVC.
pub const FOLDER: &str = "/data";
/// The disk in the file system of a PVC.
pub const DISK: &str = "/data/disk.img";
/// Where a worker finds the device of its PVC.
pub const DEVICE: &str = "/dev/cdi-block-volume";
/// Where a worker finds its Secrets, each in a folder of its name.
pub const SECRETS: &str = "/etc/cdi/secrets";
/// Where a worker finds its ConfigMaps with certificates, each in a folder of its name.
pub const CERTIFICATES: &str = "/etc/cdi/certs";
/// The ConfigMap of the installation whose files tell importer pods about registries: mirrors, and certificates that they name.
pub const REGISTRIES: &str = "coracle-registries";
/// The variable of a worker's environment with the certificates of the proxy (PEM), and the variable that names the file which
/// the worker writes them to, behind the system's, and where programs look for whom they trust.
pub const AUTHORITIES: &str = "CDI_PROXY_CA";
/// See [`AUTHORITIES`].
pub const TRUST: (&str, &str) = ("SSL_CERT_FILE", "/tmp/authorities.pem");
/// Where a worker finds an image that the node has pulled and mounted, and the volume of its pod that is mounted there.
pub const IMAGE: (&str, &str) = ("/image", "cdi-image-vol");
/// The annotation of an importer pod with a sum of what it was told about registries.
pub const TOLD: &str = "cdi.kubevirt.io/storage.pod.registries";
