//! Table of provisioners: access modes and volume modes, best first, the best way to clone, and their
//! smallest volume.
//!
//! ```text
//!  StorageClass ── provisioner ──────────────► rows ── variant ──► Provisioner
//!               └─ parameters ──► variant ─────────────┘
//! ```
//!
//! The rows hold the same facts as upstream's table (`doc/storageprofile.md` of CDI, and the documents of the
//! drivers), and two provisioners that neither of them has. A driver creates volumes of several kinds (a
//! device, a directory of an NFS server). The variant tells them apart, by the parameters of the class.

use cluster_model::objects::StorageClass;

const GIB: u64 = 1 << 30;

/// An access mode and a volume mode that a volume can have together.
pub(super) type Modes = (&'static str, &'static str);

const RWX_BLOCK: Modes = ("ReadWriteMany", "Block");
const RWX_FILE: Modes = ("ReadWriteMany", "Filesystem");
const RWO_BLOCK: Modes = ("ReadWriteOnce", "Block");
const RWO_FILE: Modes = ("ReadWriteOnce", "Filesystem");
const ROX_BLOCK: Modes = ("ReadOnlyMany", "Block");
const ROX_FILE: Modes = ("ReadOnlyMany", "Filesystem");

const DEVICES_OF_A_NODE: &[Modes] = &[RWO_BLOCK, RWO_FILE];
const SHARED_DEVICES: &[Modes] = &[RWX_BLOCK, RWO_BLOCK, RWO_FILE];
const READ_BY_MANY: &[Modes] = &[RWX_BLOCK, RWO_BLOCK, RWO_FILE, ROX_BLOCK];
const READ_BY_MANY_AS_FILES: &[Modes] = &[RWX_BLOCK, RWO_BLOCK, RWO_FILE, ROX_BLOCK, ROX_FILE];
const SHARED_FILES: &[Modes] = &[RWX_FILE, RWO_FILE];
const SHARED_FILES_READ_BY_MANY: &[Modes] = &[RWX_FILE, RWO_FILE, ROX_FILE];
const EVERYTHING: &[Modes] = &[RWX_BLOCK, RWX_FILE, RWO_BLOCK, RWO_FILE];

/// Modes that every provisioner of volumes supports; the default for unknown ones.
pub(super) const LEAST: &[Modes] = &[RWO_FILE];

/// Best way to clone disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clones {
    /// From byte to byte.
    Copy,
    /// By the CSI driver.
    Csi,
    /// By a snapshot, which needs a VolumeSnapshotClass.
    Snapshot,
}

/// Row of a provisioner, or of one variant of its volumes.
#[derive(Debug)]
pub(super) struct Provisioner {
    provisioner: &'static str,
    variant: &'static str,
    /// Modes in order of preference; empty if no volumes for disks are created.
    pub(super) modes: &'static [Modes],
    /// Best way to clone disks, if known.
    pub(super) clones: Option<Clones>,
    /// A DataImportCron keeps images as snapshots: many clones of one snapshot are quicker than of one PVC.
    pub(super) keeps_snapshots: bool,
    /// Bytes of the smallest volume; 0 if not known.
    pub(super) smallest: u64,
}

/// Result of the lookup of a StorageClass.
#[derive(Debug)]
pub(super) enum Knowledge {
    /// The row was found.
    Of(&'static Provisioner),
    /// The provisioner is in no row.
    Nothing,
    /// The provisioner is in the table, but not the variant of these parameters.
    NotByParameters,
}

impl Provisioner {
    const fn new(provisioner: &'static str, modes: &'static [Modes]) -> Provisioner {
        Provisioner { provisioner, variant: "", modes, clones: None, keeps_snapshots: false, smallest: 0 }
    }

    const fn variant(self, variant: &'static str) -> Provisioner {
        Provisioner { variant, ..self }
    }

    const fn clones(self, clones: Clones) -> Provisioner {
        Provisioner { clones: Some(clones), ..self }
    }

    const fn keeps_snapshots(self) -> Provisioner {
        Provisioner { keeps_snapshots: true, ..self }
    }

    const fn smallest(self, smallest: u64) -> Provisioner {
        Provisioner { smallest, ..self }
    }

    /// True if the provisioner creates no volumes for disks.
    pub(super) const fn makes_none(&self) -> bool {
        self.modes.is_empty()
    }
}

const ROWS: &[Provisioner] = &[
    // Directories and devices of one node.
    Provisioner::new("kubevirt.io.hostpath-provisioner", LEAST),
    Provisioner::new("kubevirt.io/hostpath-provisioner", LEAST),
    Provisioner::new("k8s.io/minikube-hostpath", LEAST),
    Provisioner::new("rancher.io/local-path", LEAST),
    Provisioner::new("directpv-min-io", LEAST),
    Provisioner::new("topolvm.cybozu.com", DEVICES_OF_A_NODE).clones(Clones::Copy),
    Provisioner::new("topolvm.io", DEVICES_OF_A_NODE).clones(Clones::Copy),
    // File servers.
    Provisioner::new("nfs.csi.k8s.io", &[RWX_FILE]),
    Provisioner::new("k8s-sigs.io/nfs-subdir-external-provisioner", &[RWX_FILE]),
    Provisioner::new("manila.csi.openstack.org", &[RWX_FILE]),
    Provisioner::new("efs.csi.aws.com", SHARED_FILES),
    Provisioner::new("kubernetes.io/azure-file", &[RWX_FILE]),
    Provisioner::new("file.csi.azure.com", &[RWX_FILE]),
    Provisioner::new("cephfs.csi.ceph.com", SHARED_FILES).clones(Clones::Csi),
    Provisioner::new("rook-ceph.cephfs.csi.ceph.com", SHARED_FILES),
    Provisioner::new("openshift-storage.cephfs.csi.ceph.com", SHARED_FILES).clones(Clones::Csi),
    Provisioner::new("spectrumscale.csi.ibm.com", SHARED_FILES).clones(Clones::Csi),
    Provisioner::new("csi-isilon.dellemc.com", SHARED_FILES_READ_BY_MANY).clones(Clones::Csi),
    // Ceph's block devices.
    Provisioner::new("kubernetes.io/rbd", SHARED_DEVICES),
    Provisioner::new("rbd.csi.ceph.com", SHARED_DEVICES),
    Provisioner::new("rook-ceph.rbd.csi.ceph.com", SHARED_DEVICES).clones(Clones::Csi).keeps_snapshots(),
    Provisioner::new("openshift-storage.rbd.csi.ceph.com", SHARED_DEVICES)
        .clones(Clones::Csi)
        .keeps_snapshots(),
    // Disks of clouds.
    Provisioner::new("kubernetes.io/aws-ebs", &[RWO_BLOCK]),
    Provisioner::new("ebs.csi.aws.com", &[RWO_BLOCK]),
    Provisioner::new("ebs.csi.aws.com", &[RWO_BLOCK]).variant("io1").smallest(4 * GIB),
    Provisioner::new("ebs.csi.aws.com", SHARED_DEVICES).variant("io2").smallest(4 * GIB),
    Provisioner::new("ebs.csi.aws.com", &[RWO_BLOCK]).variant("gp").smallest(GIB),
    Provisioner::new("kubernetes.io/azure-disk", &[RWO_BLOCK]),
    Provisioner::new("disk.csi.azure.com", &[RWO_BLOCK]),
    Provisioner::new("kubernetes.io/gce-pd", &[RWO_BLOCK]),
    Provisioner::new("pd.csi.storage.gke.io", DEVICES_OF_A_NODE).clones(Clones::Snapshot).keeps_snapshots(),
    Provisioner::new("pd.csi.storage.gke.io", SHARED_DEVICES)
        .variant("hyperdisk")
        .clones(Clones::Snapshot)
        .keeps_snapshots()
        .smallest(4 * GIB),
    Provisioner::new("blockvolume.csi.oraclecloud.com", SHARED_DEVICES),
    Provisioner::new("cinder.csi.openstack.org", DEVICES_OF_A_NODE),
    Provisioner::new("csi.ovirt.org", DEVICES_OF_A_NODE),
    Provisioner::new("csi.vsphere.vmware.com", DEVICES_OF_A_NODE),
    Provisioner::new("csi.vsphere.vmware.com", &[RWX_FILE, RWO_BLOCK, RWO_FILE]).variant("nfs"),
    // Arrays, and storage that nodes have together.
    Provisioner::new("linstor.csi.linbit.com", READ_BY_MANY_AS_FILES),
    Provisioner::new("driver.longhorn.io", &[RWO_BLOCK]),
    Provisioner::new("driver.longhorn.io", &[RWX_BLOCK, RWO_BLOCK]).variant("migratable"),
    Provisioner::new("driver.longhorn.io", SHARED_FILES).variant("nfs"),
    Provisioner::new("driver.longhorn.io", LEAST).variant("fs"),
    Provisioner::new("kubesan.gitlab.io", &[RWX_BLOCK, ROX_BLOCK, RWO_BLOCK, RWO_FILE]).clones(Clones::Csi),
    Provisioner::new("kubernetes.io/storageos", LEAST),
    Provisioner::new("storageos", LEAST),
    Provisioner::new("kubernetes.io/portworx-volume", EVERYTHING),
    Provisioner::new("kubernetes.io/portworx-volume", SHARED_FILES).variant("nfs"),
    Provisioner::new("pxd.portworx.com", EVERYTHING).clones(Clones::Csi),
    Provisioner::new("pxd.portworx.com", SHARED_FILES).variant("nfs").clones(Clones::Csi),
    Provisioner::new("pxd.portworx.com", SHARED_DEVICES).variant("pure_block"),
    Provisioner::new("pxd.portworx.com", SHARED_FILES).variant("pure_fa_file"),
    Provisioner::new("csi.trident.netapp.io", SHARED_FILES)
        .variant("ontap-nas")
        .clones(Clones::Snapshot)
        .keeps_snapshots(),
    Provisioner::new("csi.trident.netapp.io", &[RWX_BLOCK])
        .variant("ontap-san")
        .clones(Clones::Snapshot)
        .keeps_snapshots(),
    Provisioner::new("csi.trident.netapp.io", SHARED_FILES)
        .variant("gcnv-flex")
        .clones(Clones::Snapshot)
        .keeps_snapshots()
        .smallest(GIB),
    Provisioner::new("infinibox-csi-driver", SHARED_DEVICES).variant("san").clones(Clones::Csi),
    Provisioner::new("infinibox-csi-driver", SHARED_FILES).variant("nfs").clones(Clones::Csi),
    Provisioner::new("hspc.csi.hitachi.com", SHARED_DEVICES).clones(Clones::Csi),
    Provisioner::new("csi.hpe.com", SHARED_DEVICES).clones(Clones::Csi),
    Provisioner::new("block.csi.ibm.com", SHARED_DEVICES).clones(Clones::Csi),
    Provisioner::new("csi.huawei.com", READ_BY_MANY_AS_FILES),
    Provisioner::new("csi.huawei.com", SHARED_FILES_READ_BY_MANY).variant("nfs"),
    Provisioner::new("csi-unity.dellemc.com", READ_BY_MANY_AS_FILES),
    Provisioner::new("csi-unity.dellemc.com", SHARED_FILES_READ_BY_MANY).variant("nfs"),
    Provisioner::new("csi-vxflexos.dellemc.com", READ_BY_MANY_AS_FILES).clones(Clones::Csi),
    Provisioner::new("csi-vxflexos.dellemc.com", SHARED_FILES_READ_BY_MANY).variant("nfs"),
    Provisioner::new("csi-powermax.dellemc.com", READ_BY_MANY).clones(Clones::Csi),
    Provisioner::new("csi-powermax.dellemc.com", SHARED_FILES_READ_BY_MANY).variant("nfs"),
    Provisioner::new("csi-powerstore.dellemc.com", READ_BY_MANY).clones(Clones::Copy),
    Provisioner::new("csi-powerstore.dellemc.com", SHARED_FILES_READ_BY_MANY).variant("nfs"),
    // Object buckets and snapshots of others: classes of these make no volumes.
    Provisioner::new("openshift-storage.noobaa.io/obc", &[]),
    Provisioner::new("openshift-storage.ceph.rook.io/bucket", &[]),
    Provisioner::new("rook-ceph.ceph.rook.io/bucket", &[]),
    Provisioner::new("stork-snapshot", &[]),
];

/// Looks up the row of a StorageClass.
pub(super) fn look_up(class: &StorageClass) -> Knowledge {
    let mut rows = ROWS.iter().filter(|row| row.provisioner == class.provisioner).peekable();
    if rows.peek().is_none() {
        return Knowledge::Nothing;
    }
    let variant = variant(class);
    rows.find(|row| row.variant == variant).map_or(Knowledge::NotByParameters, Knowledge::Of)
}

/// Variant of the provisioner's volumes, by the parameters of a class.
fn variant(class: &StorageClass) -> &'static str {
    let said = |name: &str| class.parameters.get(name).map_or("", String::as_str);
    let file_system = said("csi.storage.k8s.io/fstype");
    let either = |is_so: bool, variant: &'static str| if is_so { variant } else { "" };
    match class.provisioner.as_str() {
        "ebs.csi.aws.com" => match said("type") {
            "io1" => "io1",
            "io2" => "io2",
            "gp2" | "gp3" => "gp",
            _ => "",
        },
        "pd.csi.storage.gke.io" => {
            let balanced = ["hyperdisk-balanced", "hyperdisk-balanced-high-availability"];
            either(balanced.contains(&said("type")), "hyperdisk")
        }
        "csi.vsphere.vmware.com" => either(file_system.to_ascii_lowercase().contains("nfs"), "nfs"),
        "csi-unity.dellemc.com" | "csi.huawei.com" => {
            either(said("protocol").eq_ignore_ascii_case("nfs"), "nfs")
        }
        "csi-vxflexos.dellemc.com" | "csi-powermax.dellemc.com" | "csi-powerstore.dellemc.com" => {
            either(file_system.eq_ignore_ascii_case("nfs"), "nfs")
        }
        "driver.longhorn.io" if said("migratable") == "true" => "migratable",
        "driver.longhorn.io" if !said("nfsOptions").is_empty() => "nfs",
        "driver.longhorn.io" => either(!said("fsType").is_empty(), "fs"),
        "kubernetes.io/portworx-volume" => either(is_portworx_nfs(class), "nfs"),
        "pxd.portworx.com" => match said("backend") {
            "pure_block" => "pure_block",
            "pure_fa_file" => "pure_fa_file",
            backend => either(backend.is_empty() && is_portworx_nfs(class), "nfs"),
        },
        "csi.trident.netapp.io" => match said("backendType") {
            backend if backend.starts_with("ontap-nas") => "ontap-nas",
            backend if backend.starts_with("ontap-san") => "ontap-san",
            "google-cloud-netapp-volumes" => {
                let mut wanted = said("selector").split([';', ',']).map(str::trim);
                either(wanted.any(|one| one == "performance=flex"), "gcnv-flex")
            }
            _ => "",
        },
        "infinibox-csi-driver" => match said("storage_protocol") {
            "iscsi" | "fc" | "nvme" => "san",
            "nfs" | "nfs_treeq" => "nfs",
            _ => "",
        },
        _ => "",
    }
}

/// True if volumes of the class are mounted from a file server of Portworx, by the options that its documents want for VMs.
fn is_portworx_nfs(class: &StorageClass) -> bool {
    let options = class.parameters.get("sharedv4_mount_options").map_or("", String::as_str);
    ["vers=3.0", "nolock"].iter().all(|wanted| options.split(',').any(|option| option == *wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn known(provisioner: &str, parameters: &[(&str, &str)]) -> Knowledge {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        look_up(&StorageClass {
            provisioner: provisioner.to_owned(),
            parameters: parameters.collect(),
            ..StorageClass::default()
        })
    }

    fn modes(provisioner: &str, parameters: &[(&str, &str)]) -> &'static [Modes] {
        match known(provisioner, parameters) {
            Knowledge::Of(row) => row.modes,
            other => panic!("{provisioner} with {parameters:?}: {other:?}"),
        }
    }

    #[test]
    fn no_two_rows_are_about_the_same_volumes() {
        let names: BTreeSet<_> = ROWS.iter().map(|row| (row.provisioner, row.variant)).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    /// The facts of the contract.
    #[test]
    fn what_a_provisioner_can_do_is_what_upstream_says() {
        for rbd in ["kubernetes.io/rbd", "rbd.csi.ceph.com", "rook-ceph.rbd.csi.ceph.com"] {
            assert_eq!(modes(rbd, &[]), [RWX_BLOCK, RWO_BLOCK, RWO_FILE], "{rbd}");
        }
        assert_eq!(modes("cephfs.csi.ceph.com", &[]), [RWX_FILE, RWO_FILE]);
        for server in ["nfs.csi.k8s.io", "file.csi.azure.com"] {
            assert_eq!(modes(server, &[]), [RWX_FILE], "{server}");
        }
        for cloud in ["ebs.csi.aws.com", "disk.csi.azure.com", "driver.longhorn.io"] {
            assert_eq!(modes(cloud, &[]), [RWO_BLOCK], "{cloud}");
        }
        for both in ["pd.csi.storage.gke.io", "topolvm.io", "csi.vsphere.vmware.com"] {
            assert_eq!(modes(both, &[]), [RWO_BLOCK, RWO_FILE], "{both}");
        }
        for directory in ["k8s.io/minikube-hostpath", "directpv-min-io", "rancher.io/local-path"] {
            assert_eq!(modes(directory, &[]), [RWO_FILE], "{directory}");
        }
    }

    #[test]
    fn parameters_say_what_is_made() {
        let longhorn = |name, value| modes("driver.longhorn.io", &[(name, value)]);
        assert_eq!(longhorn("migratable", "true"), [RWX_BLOCK, RWO_BLOCK]);
        assert_eq!(longhorn("migratable", "false"), [RWO_BLOCK]);
        assert_eq!(longhorn("fsType", "ext4"), [RWO_FILE]);
        assert_eq!(longhorn("nfsOptions", "vers=4.2"), [RWX_FILE, RWO_FILE]);
        let nfs = [("csi.storage.k8s.io/fstype", "NFS")];
        assert_eq!(modes("csi-powermax.dellemc.com", &nfs)[0], RWX_FILE);
        assert_eq!(modes("csi-powermax.dellemc.com", &[])[0], RWX_BLOCK);
        let options = |text| modes("pxd.portworx.com", &[("sharedv4_mount_options", text)]);
        assert_eq!(options("vers=3.0,nolock"), [RWX_FILE, RWO_FILE]);
        assert_eq!(options("vers=3.0,lock"), EVERYTHING);
        let trident = |backend| modes("csi.trident.netapp.io", &[("backendType", backend)]);
        assert_eq!(trident("ontap-nas-economy"), [RWX_FILE, RWO_FILE]);
        assert_eq!(trident("ontap-san"), [RWX_BLOCK]);
        let selector = |text| {
            known(
                "csi.trident.netapp.io",
                &[("backendType", "google-cloud-netapp-volumes"), ("selector", text)],
            )
        };
        assert!(matches!(selector("a=b; performance=flex"), Knowledge::Of(_)));
        assert!(matches!(selector("performance=standard"), Knowledge::NotByParameters));
    }

    #[test]
    fn nothing_is_guessed() {
        assert!(matches!(known("example.com/volumes", &[]), Knowledge::Nothing));
        for driver in ["csi.trident.netapp.io", "infinibox-csi-driver"] {
            assert!(matches!(known(driver, &[]), Knowledge::NotByParameters), "{driver}");
        }
    }
}
