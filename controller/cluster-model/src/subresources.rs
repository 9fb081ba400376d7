//! The aggregated API `subresources.kubevirt.io`: the table of the subresources of VMs and
//! VMIs.
//!
//! ```text
//!  SUBRESOURCES ─┬─► virt-api: the action of a path ([`find`]); the APIResourceList from `is_listed`
//!                └─► install: the rules of the roles view, edit, admin, migrate and default
//! ```
//!
//! **Permissions** are those of upstream's ClusterRoles
//! (`pkg/virt-operator/resource/generate/rbac/cluster.go`, v1.9):
//!
//! | role | subresources |
//! |---|---|
//! | `kubevirt.io:view` | `is_for_viewers`: reads of the object and of the guest agent; `expand-vm-spec`, which stores nothing |
//! | `kubevirt.io:edit` | `is_for_editors`: these, consoles, ports, and actions on a VM; `evacuate/cancel` too |
//! | `kubevirt.io:admin` | `is_for_admins`: these, and `vnc/screenshot` |
//! | `kubevirt.io:migrate` | `migrate` alone, which neither `edit` nor `admin` has |
//! | `kubevirt.io:default` | `version` and `guestfs`, for all users who are authenticated |
//! | none | `vsock`, `backup`, `redefine-checkpoint`, `healthz`, profilers: an administrator of the cluster has them by `*` |
//!
//! Two things differ. `virtualmachineinstances/stats` is ours: the numbers that upstream exports to
//! Prometheus only, for users who may view the VMI. And a role names the first word of a longer path too
//! ([`Subresource::granted`]): without `virtualmachineinstances/sev`, the API server refuses
//! `sev/fetchcertchain` before it reaches virt-api.
//!
//! **Absent:** the handlers, which are in virt-api.

use crate::objects::Kind;

/// API group of the aggregated API.
pub const GROUP: &str = "subresources.kubevirt.io";
/// The versions of the group, the preferred one first; all serve the same.
pub const VERSIONS: [&str; 2] = ["v1", "v1alpha3"];
/// The fields of a VM's spec that virt-api changes for a user: to start a VM and to stop it.
pub const VM_SPEC_FIELDS: [&str; 2] = ["runStrategy", "running"];
/// The fields of a VM's status that virt-api changes for a user: requests to virt-controller, and the pause
/// after starts that failed, which ends with a request.
pub const VM_STATUS_FIELDS: [&str; 2] = ["stateChangeRequests", "startFailure"];
/// The fields of a VMI's spec that virt-api changes for a user: a stop or a restart may leave the guest less
/// time.
pub const VMI_SPEC_FIELDS: [&str; 1] = ["terminationGracePeriodSeconds"];
/// The field of a VMI's status that virt-api changes: the node that the VMI must leave. An eviction of the
/// launcher pod sets it (`evictionStrategy: External`), and `evacuate/cancel` clears it.
pub const EVACUATION: &str = "evacuationNodeName";
/// The fields of a VMI's status that virt-api changes.
pub const VMI_STATUS_FIELDS: [&str; 1] = [EVACUATION];

/// Beginning of the names of migrations that virt-api creates for a user.
pub const MIGRATION_PREFIX: &str = "kubevirt-migrate-vm-";
/// The fields of the spec of such a migration.
pub const MIGRATION_SPEC_FIELDS: [&str; 2] = ["addedNodeSelector", "vmiName"];

/// An entry of the table of subresources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The kind whose path the subresource is in.
    pub parent: Parent,
    /// The path behind the name of the object; behind the version, or the namespace, where it stands in no
    /// object's path.
    pub path: &'static str,
    /// The method of a request.
    pub method: Method,
    /// Named in the APIResourceList. Upstream serves some that it does not name there.
    pub is_listed: bool,
    /// Permitted by the role `kubevirt.io:view`.
    pub is_for_viewers: bool,
    /// Permitted by the role `kubevirt.io:edit`.
    pub is_for_editors: bool,
    /// Permitted by the role `kubevirt.io:admin`.
    pub is_for_admins: bool,
    /// The action of a request.
    pub action: Action,
}

/// The kind whose path a subresource is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    VirtualMachine,
    VirtualMachineInstance,
    /// No object: the path follows the version, or a namespace ([`Subresource::is_namespaced`]).
    Group,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Put,
}

/// The action of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    Restart,
    Migrate,
    ExpandSpec,
    AddVolume,
    RemoveVolume,
    MemoryDump,
    RemoveMemoryDump,
    EvacuateCancel,
    ObjectGraph,
    PortForward,
    Pause,
    Unpause,
    Freeze,
    Unfreeze,
    Reset,
    SoftReboot,
    Backup,
    RedefineCheckpoint,
    Console,
    Vnc,
    Screenshot,
    UsbRedir,
    Vsock,
    GuestOsInfo,
    UserList,
    FilesystemList,
    Stats,
    SevFetchCertChain,
    SevQueryLaunchMeasurement,
    SevSetupSession,
    SevInjectLaunchSecret,
    ExpandVmSpec,
    Version,
    Guestfs,
    Healthz,
    StartProfiler,
    StopProfiler,
    DumpProfiler,
}

const VM: Parent = Parent::VirtualMachine;
const VMI: Parent = Parent::VirtualMachineInstance;

/// All subresources that virt-api serves.
pub const SUBRESOURCES: &[Subresource] = &[
    put(VM, "start", Action::Start).listed().for_editors(),
    put(VM, "stop", Action::Stop).listed().for_editors(),
    put(VM, "restart", Action::Restart).listed().for_editors(),
    put(VM, "migrate", Action::Migrate).listed(),
    put(VM, "addvolume", Action::AddVolume).for_editors(),
    put(VM, "removevolume", Action::RemoveVolume).for_editors(),
    put(VM, "memorydump", Action::MemoryDump).for_editors(),
    put(VM, "removememorydump", Action::RemoveMemoryDump).for_editors(),
    put(VM, "evacuate/cancel", Action::EvacuateCancel).listed().for_editors(),
    get(VM, "expand-spec", Action::ExpandSpec).listed().for_viewers(),
    get(VM, "objectgraph", Action::ObjectGraph).listed().for_viewers(),
    get(VM, "portforward", Action::PortForward).for_editors(),
    put(VMI, "pause", Action::Pause).listed().for_editors(),
    put(VMI, "unpause", Action::Unpause).listed().for_editors(),
    put(VMI, "freeze", Action::Freeze).listed().for_editors(),
    put(VMI, "unfreeze", Action::Unfreeze).listed().for_editors(),
    put(VMI, "reset", Action::Reset).listed().for_editors(),
    put(VMI, "softreboot", Action::SoftReboot).listed().for_editors(),
    put(VMI, "addvolume", Action::AddVolume).listed().for_editors(),
    put(VMI, "removevolume", Action::RemoveVolume).listed().for_editors(),
    put(VMI, "sev/setupsession", Action::SevSetupSession).listed().for_editors(),
    put(VMI, "sev/injectlaunchsecret", Action::SevInjectLaunchSecret).listed().for_editors(),
    put(VMI, "backup", Action::Backup).listed(),
    put(VMI, "redefine-checkpoint", Action::RedefineCheckpoint).listed(),
    put(VMI, "evacuate/cancel", Action::EvacuateCancel).listed().for_editors(),
    get(VMI, "guestosinfo", Action::GuestOsInfo).listed().for_viewers(),
    get(VMI, "userlist", Action::UserList).listed().for_viewers(),
    get(VMI, "filesystemlist", Action::FilesystemList).listed().for_viewers(),
    get(VMI, "stats", Action::Stats).listed().for_viewers(),
    get(VMI, "objectgraph", Action::ObjectGraph).listed().for_viewers(),
    get(VMI, "sev/fetchcertchain", Action::SevFetchCertChain).listed().for_viewers(),
    get(VMI, "sev/querylaunchmeasurement", Action::SevQueryLaunchMeasurement).listed().for_viewers(),
    get(VMI, "vnc/screenshot", Action::Screenshot).listed().for_admins(),
    get(VMI, "console", Action::Console).listed().for_editors(),
    get(VMI, "vnc", Action::Vnc).listed().for_editors(),
    get(VMI, "usbredir", Action::UsbRedir).for_editors(),
    get(VMI, "vsock", Action::Vsock),
    get(VMI, "portforward", Action::PortForward).listed().for_editors(),
    put(Parent::Group, "expand-vm-spec", Action::ExpandVmSpec).listed().for_viewers(),
    get(Parent::Group, "version", Action::Version),
    get(Parent::Group, "guestfs", Action::Guestfs),
    get(Parent::Group, "healthz", Action::Healthz),
    get(Parent::Group, "start-cluster-profiler", Action::StartProfiler),
    get(Parent::Group, "stop-cluster-profiler", Action::StopProfiler),
    get(Parent::Group, "dump-cluster-profiler", Action::DumpProfiler),
];

/// The subresource of a path, and the rest of the path: `8080/tcp` of `portforward/8080/tcp`. The rest is
/// empty for all others.
pub fn find(parent: Parent, path: &str) -> Option<(&'static Subresource, &str)> {
    SUBRESOURCES.iter().filter(|one| one.parent == parent).find_map(|one| Some((one, one.strip_path(path)?)))
}

impl Parent {
    /// The plural in paths and roles; `None` without an object.
    pub const fn plural(self) -> Option<&'static str> {
        match self {
            Parent::VirtualMachine => Some(Kind::VirtualMachine.plural()),
            Parent::VirtualMachineInstance => Some(Kind::VirtualMachineInstance.plural()),
            Parent::Group => None,
        }
    }
}

impl Method {
    /// The method's name in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
        }
    }

    /// The verb in roles, for a request with the name of an object.
    pub const fn verb(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Put => "update",
        }
    }
}

impl Subresource {
    /// The resource, as the APIResourceList and reviews name it: `virtualmachines/start`, `expand-vm-spec`.
    pub fn resource(&self) -> String {
        self.resource_name(self.path)
    }

    /// The resources that a role must name to permit the subresource. The API server authorizes each request
    /// before it forwards it to virt-api, and takes only the first path segment after the object's name as
    /// the subresource. virt-api takes the whole path.
    pub fn granted(&self) -> impl Iterator<Item = String> + use<> {
        let first = self.path.split_once('/').map(|(first, _)| self.resource_name(first));
        first.into_iter().chain([self.resource()])
    }

    /// True if the path is in a namespace. Paths of the group itself are not, except `expand-vm-spec`.
    pub const fn is_namespaced(&self) -> bool {
        !matches!(self.parent, Parent::Group) || matches!(self.action, Action::ExpandVmSpec)
    }

    fn resource_name(&self, path: &str) -> String {
        match self.parent.plural() {
            Some(plural) => format!("{plural}/{path}"),
            None => path.to_owned(),
        }
    }

    /// The rest of a path that starts with this subresource: the port to forward, and the protocol if there
    /// is one.
    fn strip_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(self.path)?;
        if self.action != Action::PortForward {
            return rest.is_empty().then_some(rest);
        }
        let rest = rest.strip_prefix('/')?;
        let parts: Vec<&str> = rest.split('/').collect();
        (parts.len() <= 2 && parts.iter().all(|part| !part.is_empty())).then_some(rest)
    }

    const fn listed(self) -> Subresource {
        Subresource { is_listed: true, ..self }
    }

    const fn for_admins(self) -> Subresource {
        Subresource { is_for_admins: true, ..self }
    }

    /// Administrators have all subresources of editors.
    const fn for_editors(self) -> Subresource {
        Subresource { is_for_editors: true, ..self.for_admins() }
    }

    /// Editors have all subresources of viewers.
    const fn for_viewers(self) -> Subresource {
        Subresource { is_for_viewers: true, ..self.for_editors() }
    }
}

const fn get(parent: Parent, path: &'static str, action: Action) -> Subresource {
    of_method(Method::Get, parent, path, action)
}

const fn put(parent: Parent, path: &'static str, action: Action) -> Subresource {
    of_method(Method::Put, parent, path, action)
}

const fn of_method(method: Method, parent: Parent, path: &'static str, action: Action) -> Subresource {
    Subresource {
        parent,
        path,
        method,
        is_listed: false,
        is_for_viewers: false,
        is_for_editors: false,
        is_for_admins: false,
        action,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names in upstream's APIResourceList.
    const LISTED: [&str; 31] = [
        "expand-vm-spec",
        "virtualmachineinstances/addvolume",
        "virtualmachineinstances/backup",
        "virtualmachineinstances/console",
        "virtualmachineinstances/evacuate/cancel",
        "virtualmachineinstances/filesystemlist",
        "virtualmachineinstances/freeze",
        "virtualmachineinstances/guestosinfo",
        "virtualmachineinstances/objectgraph",
        "virtualmachineinstances/pause",
        "virtualmachineinstances/portforward",
        "virtualmachineinstances/redefine-checkpoint",
        "virtualmachineinstances/removevolume",
        "virtualmachineinstances/reset",
        "virtualmachineinstances/sev/fetchcertchain",
        "virtualmachineinstances/sev/injectlaunchsecret",
        "virtualmachineinstances/sev/querylaunchmeasurement",
        "virtualmachineinstances/sev/setupsession",
        "virtualmachineinstances/softreboot",
        "virtualmachineinstances/unfreeze",
        "virtualmachineinstances/unpause",
        "virtualmachineinstances/userlist",
        "virtualmachineinstances/vnc",
        "virtualmachineinstances/vnc/screenshot",
        "virtualmachines/evacuate/cancel",
        "virtualmachines/expand-spec",
        "virtualmachines/migrate",
        "virtualmachines/objectgraph",
        "virtualmachines/restart",
        "virtualmachines/start",
        "virtualmachines/stop",
    ];
    /// Names that upstream serves and does not list.
    const SERVED: [&str; 13] = [
        "dump-cluster-profiler",
        "guestfs",
        "healthz",
        "start-cluster-profiler",
        "stop-cluster-profiler",
        "version",
        "virtualmachineinstances/usbredir",
        "virtualmachineinstances/vsock",
        "virtualmachines/addvolume",
        "virtualmachines/memorydump",
        "virtualmachines/portforward",
        "virtualmachines/removememorydump",
        "virtualmachines/removevolume",
    ];

    /// Names that only this project has.
    const OURS: [&str; 1] = ["virtualmachineinstances/stats"];

    fn names(is: impl Fn(&Subresource) -> bool) -> BTreeSet<String> {
        SUBRESOURCES.iter().filter(|one| is(one)).map(Subresource::resource).collect()
    }

    fn texts(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_table_has_every_route_of_upstream_once_and_lists_those_that_upstream_lists_and_ours() {
        let all = names(|_| true);
        assert_eq!(all.len(), SUBRESOURCES.len(), "a path stands there twice");
        assert_eq!(names(|one| one.is_listed), &texts(&LISTED) | &texts(&OURS));
        assert_eq!(all, &(&texts(&LISTED) | &texts(&SERVED)) | &texts(&OURS));
    }

    #[test]
    fn what_is_read_is_asked_by_get_and_all_else_by_put() {
        let reads = [
            Action::ExpandSpec,
            Action::ObjectGraph,
            Action::PortForward,
            Action::GuestOsInfo,
            Action::UserList,
            Action::FilesystemList,
            Action::Stats,
            Action::SevFetchCertChain,
            Action::SevQueryLaunchMeasurement,
            Action::Screenshot,
            Action::Console,
            Action::Vnc,
            Action::UsbRedir,
            Action::Vsock,
        ];
        for one in SUBRESOURCES {
            let is_get = reads.contains(&one.action) || !one.is_namespaced();
            assert_eq!(one.method == Method::Get, is_get, "{}", one.resource());
        }
    }

    #[test]
    fn a_path_leads_to_its_subresource_and_to_no_other() {
        for one in SUBRESOURCES.iter().filter(|one| one.action != Action::PortForward) {
            assert_eq!(find(one.parent, one.path), Some((one, "")));
        }
        let rest = |path| find(VM, path).map(|(one, rest)| (one.action, rest));
        assert_eq!(rest("portforward/80"), Some((Action::PortForward, "80")));
        assert_eq!(rest("portforward/80/udp"), Some((Action::PortForward, "80/udp")));
        for path in
            ["portforward", "portforward/", "portforward/80/", "portforward/80/tcp/x", "portforwards/80"]
        {
            assert_eq!(rest(path), None, "{path}");
        }
        for (of, path) in
            [(VM, ""), (VM, "pause"), (VM, "start/"), (VM, "start/x"), (VMI, "start"), (VMI, "vnc/")]
        {
            assert_eq!(find(of, path), None, "{path}");
        }
        assert_eq!(find(VMI, "sev"), None);
    }

    /// As in upstream's roles. The first segment of a longer path grants no more than the path.
    #[test]
    fn a_viewer_reads_an_editor_acts_and_neither_migrates() {
        let viewers = texts(&[
            "expand-vm-spec",
            "virtualmachineinstances/filesystemlist",
            "virtualmachineinstances/guestosinfo",
            "virtualmachineinstances/objectgraph",
            "virtualmachineinstances/sev/fetchcertchain",
            "virtualmachineinstances/sev/querylaunchmeasurement",
            "virtualmachineinstances/stats",
            "virtualmachineinstances/userlist",
            "virtualmachines/expand-spec",
            "virtualmachines/objectgraph",
        ]);
        assert_eq!(names(|one| one.is_for_viewers), viewers);
        assert!(names(|one| one.is_for_editors).is_superset(&viewers));
        let nobody = texts(&[
            "virtualmachineinstances/backup",
            "virtualmachineinstances/redefine-checkpoint",
            "virtualmachineinstances/vsock",
            "virtualmachines/migrate",
        ]);
        assert_eq!(names(|one| one.parent != Parent::Group && !one.is_for_admins), nobody);
        let admins = texts(&["virtualmachineinstances/vnc/screenshot"]);
        assert_eq!(names(|one| one.is_for_admins && !one.is_for_editors), admins);
        for one in SUBRESOURCES {
            for name in one.granted() {
                let other = SUBRESOURCES.iter().find(|other| other.resource() == name);
                let gives_more = |other: &Subresource| {
                    one.is_for_viewers && !other.is_for_viewers
                        || one.is_for_editors && !other.is_for_editors
                        || one.is_for_admins && !other.is_for_admins
                };
                assert!(!other.is_some_and(gives_more), "{} gives {name}", one.resource());
            }
        }
        let granted: Vec<String> = SUBRESOURCES.iter().flat_map(Subresource::granted).collect();
        assert!(granted.contains(&"virtualmachineinstances/sev".to_owned()));
    }
}
