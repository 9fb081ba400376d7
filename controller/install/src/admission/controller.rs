//! virt-controller: its widest write rights, restricted to its own writes.
//!
//! | right | bound |
//! |---|---|
//! | create `pods` | launchers: owned by a VMI, off the node's namespaces, in the form of [`cluster_model::launcher`]; workers: owned by a PVC, or, without a PVC, by a DataImportCron that they poll for, in that form, with nothing of the node's but an image that it pulls for an import, and those of exports and clones only reading ([`cluster_model::worker`]) |
//! | create `pods/eviction` | launchers, by their names |
//! | delete `pods`, patch `pods/status` | launchers by label and name, owned or left behind, and workers; of a launcher's status only the conditions, of a worker pod only the annotation with its permit |
//! | create, patch, delete `persistentvolumeclaims`, patch `persistentvolumes` | those of DataVolumes, and see [`super::claims`]; afterwards annotations of CDI and of live migrations |
//! | create, patch `datasources` | those of DataImportCrons, which reference PVCs of their namespace; of all others the status, which is not a subresource |
//! | patch `dataimportcrons` | their status, which is not a subresource, and the annotation of the newest digest |
//! | patch `cdis` | finalizers and status, which is not a subresource |
//! | delete, patch `datavolumes` | imports of DataImportCrons, by their label; the finalizer of one that takes a PVC |
//! | patch `nodes` | the labels that VMIs may be scheduled there, and of which frequencies of the time stamp counter |
//! | create, delete `controllerrevisions` | those of VMs, by their names, and of pools, by their owner; it makes those of instance types and preferences, by their label, for VMs alone |
//! | create `configmaps`, `leases` | the names that it declares ([`names`]) |
//! | write `secrets`, `services` | see [`super::uploads`] |
//! | create, patch `apiservices` | the names that it declares; they reference the Service of virt-api with its CA bundle |
//!
//! **The form of a launcher's pod** follows the constants that virt-controller uses
//! ([`cluster_model::launcher`]): user and group 107, no escalation, all capabilities dropped but
//! [`CAPABILITIES`], volumes of the kinds [`VOLUMES`], no further groups. The API server evaluates it after
//! mutating webhooks of other programs, whose containers and volumes may also have:
//!
//! | of others | accepted | why |
//! |---|---|---|
//! | a container as another user | one that mounts no folder of the node, no PVC, and no device, also not of a ResourceClaim; it drops all capabilities, or is not root | sidecars of a mesh |
//! | capabilities | [`OF_THE_NETWORK`], in such a container | a mesh redirects the pod's traffic (`istio-init`, `linkerd-init`) |
//! | a token in a `projected` volume | for one of [`AUDIENCES`], which the API server does not accept | a mesh's certificates |
//!
//! **Tokens of service accounts**, which the API server accepts, are in launchers whose VMI has a
//! `serviceAccount` volume: in a `projected` volume, mounted only in containers with a launcher's user and
//! rights, and never in the namespaces of Kubernetes and of KubeVirt, whose accounts may do more than a
//! tenant. The pod does not prove that a VMI requests it, since a holder of virt-controller's account can
//! create VMIs too, and the account of an operator in some namespace may control the whole cluster. So the
//! account itself must be opened: virt-controller needs the verb [`OF_TOKENS`] on it, which our roles do not
//! have, and which an administrator gives by a Role and a RoleBinding of the namespace.
//!
//! Other injections by a webhook (privileged sidecars, CSI volumes, tokens for clouds) are refused: exempt
//! the label `kubevirt.io=virt-launcher` from that webhook.
//!
//! **Caveats.** The image of a container that sees a folder of the node may give its user more groups
//! (`/etc/group`), unless `supplementalGroupsPolicy: Strict` is set (from Kubernetes 1.33 on). A holder of
//! this account can still create VMIs anywhere, and launcher-like pods with any image and with Secrets of
//! their namespace, and can direct the API server's webhook calls to any server (webhook configurations are
//! exempt from policies, by the API server's own rule). This is as much as a cluster administrator.

use super::{Policy, Rule, differ_only, is_user, literal, rule, same};
use crate::InstallOptions;
use api::cdi::annotations::{DESIRED_DIGEST, IMPORT_CRON};
use api::instancetype::MatcherKind;
use cluster_model::accounts::Accounts;
use cluster_model::clones::SOURCE;
use cluster_model::launcher::{CAPABILITIES, USER, VOLUMES};
use cluster_model::objects::rights::names;
use cluster_model::objects::{Kind, LAUNCHER, Program, REVISION, SCHEDULABLE, TSC_SCHEDULING, object_labels};
use cluster_model::polls::POLLER;
use cluster_model::servers::SERVICE;
use cluster_model::uploads::UPLOADER;
use cluster_model::worker::{EXPORTER, IMAGE, IMPORTER, PERMIT, WORKER};

/// Capabilities of a sidecar, which affect only the pod's own network.
const OF_THE_NETWORK: [&str; 2] = ["NET_ADMIN", "NET_RAW"];
/// Permitted audiences of tokens in a pod: the certificate authorities of meshes.
pub(super) const AUDIENCES: [&str; 2] = ["istio-ca", "identity.l5d.io"];
/// The verb that virt-controller needs on a service account whose token it mounts into a launcher pod.
pub(super) const OF_TOKENS: &str = "use";

pub(super) fn policies(options: &InstallOptions) -> [Policy; 13] {
    let base = |name, rules, validations| base(options, name, rules, validations);
    let mut made =
        base("kubevirt-controller-pods", vec![rule("", &["pods"], &["CREATE"])], launcher(options));
    made.validations.push(opened_accounts(options));
    // A dry run creates a pod once to see which fields the server keeps. Nothing is stored.
    made.variables = of_a_pod();
    made.when.push(("not-tried-out", "!request.?dryRun.orValue(false)".to_owned()));
    let touched = base(
        "kubevirt-controller-own-pods",
        vec![rule("", &["pods"], &["DELETE"]), rule("", &["pods/status"], &["UPDATE"])],
        vec![
            (
                format!(
                    "{} || {} && (request.operation == 'DELETE' || {} && {} && {} && {})",
                    is_launcher("oldObject"),
                    is_worker("oldObject"),
                    same("status"),
                    same("metadata.labels"),
                    same("metadata.finalizers"),
                    differ_only("metadata.?annotations", &format!("key == {}", literal(PERMIT))),
                ),
                "deletes launcher and worker pods only, and changes launcher pods and the permit of worker pods only",
            ),
            (
                format!("request.operation == 'DELETE' || {}", differ_only("?status", "key == 'conditions'")),
                "changes only the conditions of a pod's status",
            ),
        ],
    );
    let claims = base(
        "kubevirt-controller-claims",
        vec![rule("", &["persistentvolumeclaims"], &["CREATE", "UPDATE", "DELETE"])],
        vec![
            (
                format!(
                    "request.operation != 'CREATE' || {} || {} || {} || {}",
                    is_owned("object", Kind::DataVolume),
                    super::claims::is_prime("object"),
                    super::claims::is_state("object"),
                    super::claims::is_made_for_migration("object")
                ),
                "makes the PVCs of DataVolumes only, those that are filled in the place of others, small ones for EFI variables \
                 and TPMs of VMs, and those that live migrations copy disks into",
            ),
            (
                format!(
                    "request.operation != 'DELETE' || {} || {}",
                    super::claims::is_prime("oldObject"),
                    super::claims::is_of_migration("oldObject")
                ),
                "deletes only PVCs that were filled in the place of others, and those of live migrations that have not ended in success",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::is_noted_at_most()),
                "changes only annotations of CDI and of live migrations of a PVC, the labels of its instance type and preference, its size \
                 and its owner",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::is_let_go_at_most()),
                "marks no PVC as one of a live migration that existed before",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::grows_at_most()),
                "makes a PVC of a DataVolume larger, and changes nothing else of its spec",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::is_adopted_at_most()),
                "gives a PVC that has no controller, and that permits its adoption, to the DataVolume of its name, removes only that \
                 owner again, and changes no other",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::is_noted_with_its_owner()),
                "records which DataVolume adopts a PVC only with the update that adds it as the owner",
            ),
            (
                format!("request.operation != 'UPDATE' || {}", super::claims::is_marked_at_most()),
                "never allows the adoption of a PVC, and records for which DataVolume a PVC was filled only where a DataVolume or its dataSourceRef did so",
            ),
        ],
    );
    let sources = base(
        "kubevirt-controller-datasources",
        vec![rule("cdi.kubevirt.io", &["datasources"], &["CREATE", "UPDATE"])],
        vec![
            (
                format!("request.operation == 'CREATE' || {}", all_same(&["labels", "annotations"])),
                "changes nothing of the metadata of a DataSource",
            ),
            (
                format!(
                    "request.operation == 'UPDATE' && {} || {} && \
                     object.spec.source.?pvc.?namespace.orValue('') == object.metadata.namespace && \
                     !has(object.spec.source.snapshot) && !has(object.spec.source.dataSource)",
                    same("spec"),
                    is_import_crons("object"),
                ),
                "leads only DataSources of DataImportCrons to a PVC, of their own namespace; of others it changes only the status",
            ),
        ],
    );
    let crons = base(
        "kubevirt-controller-dataimportcrons",
        vec![rule("cdi.kubevirt.io", &["dataimportcrons"], &["UPDATE"])],
        vec![
            (
                format!("{} && {}", same("spec"), all_same(&["labels"])),
                "changes only status and annotations of a DataImportCron",
            ),
            (
                differ_only("metadata.?annotations", &format!("key == {}", literal(DESIRED_DIGEST))),
                "changes only the annotation of the newest digest of a DataImportCron",
            ),
        ],
    );
    let cdis = base(
        "kubevirt-controller-cdis",
        vec![rule("cdi.kubevirt.io", &["cdis"], &["UPDATE"])],
        vec![(
            format!(
                "{} && {}",
                same("spec"),
                ["labels", "annotations", "ownerReferences"]
                    .map(|field| same(&format!("metadata.{field}")))
                    .join(" && ")
            ),
            "changes only status and finalizers of a CDI object",
        )],
    );
    let imports = base(
        "kubevirt-controller-imports",
        vec![rule("cdi.kubevirt.io", &["datavolumes"], &["DELETE"])],
        vec![(is_import_crons("oldObject"), "deletes only DataVolumes of DataImportCrons")],
    );
    let volumes = base(
        "kubevirt-controller-datavolumes",
        vec![rule("cdi.kubevirt.io", &["datavolumes"], &["UPDATE"])],
        vec![(
            format!(
                "{} && {}",
                ["spec", "metadata.labels", "metadata.annotations", "metadata.ownerReferences"]
                    .map(same)
                    .join(" && "),
                super::claims::is_held_for_adoption_at_most(),
            ),
            "changes of a DataVolume only the finalizer that holds it while it adopts a PVC",
        )],
    );
    let nodes = base(
        "kubevirt-controller-nodes",
        vec![rule("", &["nodes"], &["UPDATE"])],
        vec![
            (
                ["spec", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"]
                    .map(same)
                    .join(" && "),
                "changes only labels of a node",
            ),
            (
                differ_only(
                    "metadata.?labels",
                    &format!(
                        "key == {} || key.startsWith({})",
                        literal(SCHEDULABLE),
                        literal(TSC_SCHEDULING)
                    ),
                ),
                "changes only whether VMIs may be scheduled to a node",
            ),
        ],
    );
    let one = "(request.operation == 'CREATE' ? object : oldObject)";
    let revisions = base(
        "kubevirt-controller-revisions",
        vec![rule("apps", &["controllerrevisions"], &["CREATE", "UPDATE", "DELETE"])],
        vec![(
            format!(
                "{one}.metadata.name.startsWith({}) || {} || request.operation == 'CREATE' && {}",
                literal(REVISION),
                is_of_pool(one),
                is_of_sizes("object")
            ),
            "makes the revisions of VMs only, of pools, and of instance types and preferences, and deletes those of VMs and pools",
        )],
    );
    let of = |kind: Kind| literal(names(Program::Controller, kind).unwrap_or_default());
    let objects = base(
        "kubevirt-controller-objects",
        vec![
            rule("", &["configmaps"], &["CREATE", "UPDATE"]),
            rule("coordination.k8s.io", &["leases"], &["CREATE", "UPDATE"]),
        ],
        vec![(
            format!(
                "object.metadata.name in (request.resource.resource == 'configmaps' ? {} : {})",
                of(Kind::ConfigMap),
                of(Kind::Lease)
            ),
            "makes and changes only objects with the names of its own",
        )],
    );
    // Another APIService would receive all users' requests for a part of the API.
    let service = "object.spec.?service";
    let services = base(
        "kubevirt-controller-apiservices",
        vec![rule("apiregistration.k8s.io", &["apiservices"], &["CREATE", "UPDATE"])],
        vec![
            (
                format!("object.metadata.name in {}", of(Kind::APIService)),
                "makes and changes only the APIServices of subresources and of upload tokens",
            ),
            (
                format!(
                    "{service}.?name.orValue('') == {} && {service}.?namespace.orValue('') == {} && \
                     !object.spec.?insecureSkipTLSVerify.orValue(false)",
                    literal(SERVICE.0),
                    literal(&options.namespace)
                ),
                "leads APIServices to virt-api only, by its certificate",
            ),
        ],
    );
    // The object of the request is the eviction, which has only the name of the pod. Only launcher pods have
    // such names.
    let evictions = base(
        "kubevirt-controller-evictions",
        vec![rule("", &["pods/eviction"], &["CREATE"])],
        vec![(
            format!(
                "request.?name.orValue('').startsWith({})",
                literal(cluster_model::objects::names::LAUNCHER)
            ),
            "evicts launcher pods only",
        )],
    );
    [
        evictions, made, touched, claims, sources, crons, cdis, imports, volumes, nodes, revisions, objects,
        services,
    ]
}

/// A policy that restricts virt-controller only.
pub(super) fn base(
    options: &InstallOptions,
    name: &'static str,
    rules: Vec<Rule>,
    validations: Vec<(String, &str)>,
) -> Policy {
    Policy {
        name,
        rules,
        when: vec![(
            "virt-controller",
            is_user(&Accounts::new(&options.namespace).user(Program::Controller)),
        )],
        validations: (validations.into_iter())
            .map(|(expression, message)| (expression, format!("virt-controller {message}")))
            .collect(),
        ..Policy::default()
    }
}

/// True for the revision of an instance type or a preference that only VMs own: the history of another owner
/// is not extended.
fn is_of_sizes(object: &str) -> String {
    let vm = Kind::VirtualMachine;
    format!(
        "{object}.metadata.?labels[?{}].orValue('') in {} && {} && {object}.metadata.ownerReferences.all(owner, \
         owner.kind == {} && owner.apiVersion == {})",
        literal(object_labels::KIND),
        literal(MatcherKind::ALL.map(MatcherKind::kind)),
        is_owned(object, vm),
        literal(vm.name()),
        literal(vm.api_version())
    )
}

/// True for an object that only pools own.
fn is_of_pool(object: &str) -> String {
    let pool = Kind::VirtualMachinePool;
    format!(
        "({} && {object}.metadata.ownerReferences.all(owner, owner.kind == {} && owner.apiVersion == {}))",
        is_owned(object, pool),
        literal(pool.name()),
        literal(pool.api_version())
    )
}

/// True for an object that was created for a DataImportCron, by its label.
fn is_import_crons(object: &str) -> String {
    format!("{object}.metadata.?labels[?{}].orValue('') != ''", literal(IMPORT_CRON))
}

/// True if these fields of the metadata, the finalizers and the owners are unchanged.
fn all_same(fields: &[&str]) -> String {
    let fields = fields.iter().chain(&["finalizers", "ownerReferences"]);
    fields.map(|field| same(&format!("metadata.{field}"))).collect::<Vec<_>>().join(" && ")
}

/// True for a launcher pod, by its label and name, which only virt-controller sets. The owner is not
/// compared: the garbage collector removes it when a VMI is deleted with `--cascade=orphan`, and
/// virt-controller deletes such a pod after its VMI has ended.
fn is_launcher(object: &str) -> String {
    let (label, value) = LAUNCHER;
    format!(
        "{object}.metadata.?labels[?{}].orValue('') == {} && {object}.metadata.name.startsWith({})",
        literal(label),
        literal(value),
        literal(cluster_model::objects::names::LAUNCHER)
    )
}

/// True for a worker pod, by its label and a name of virt-controller's for imports, uploads, exports, clone
/// sources or polls.
fn is_worker(object: &str) -> String {
    let (label, value) = WORKER;
    let of_work = |prefix: &str| format!("{object}.metadata.name.startsWith({})", literal(prefix));
    format!(
        "{object}.metadata.?labels[?{}].orValue('') == {} && ({})",
        literal(label),
        literal(value),
        [IMPORTER, UPLOADER, EXPORTER, SOURCE, POLLER].map(of_work).join(" || ")
    )
}

/// True for a worker pod that polls, by its name.
fn is_poller(object: &str) -> String {
    format!("{object}.metadata.name.startsWith({})", literal(POLLER))
}

/// True for an object that has an owner of this kind.
pub(super) fn is_owned(object: &str, kind: Kind) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == {} && \
         owner.apiVersion == {})",
        literal(kind.name()),
        literal(kind.api_version())
    )
}

/// CEL variables for the parts of a pod.
fn of_a_pod() -> Vec<(&'static str, String)> {
    let volumes = "object.spec.?volumes.orValue([])";
    let context = "one.?securityContext";
    let capabilities = format!("{context}.?capabilities");
    vec![
        ("containers", "object.spec.containers + object.spec.?initContainers.orValue([])".to_owned()),
        // Volumes of the node or of the tenant, not of the pod itself.
        (
            "kept",
            format!(
                "{volumes}.filter(volume, has(volume.hostPath) || has(volume.persistentVolumeClaim)).map(volume, volume.name)"
            ),
        ),
        // Tokens that the API server accepts.
        (
            "tokens",
            format!(
                "{volumes}.filter(volume, volume.?projected.?sources.orValue([]).exists(source, \
                 has(source.serviceAccountToken) && source.serviceAccountToken.?audience.orValue('') == '')).map(volume, \
                 volume.name)"
            ),
        ),
        // Containers that differ from those of virt-controller.
        (
            "others",
            format!(
                "variables.containers.filter(one, !({context}.?runAsUser.orValue(0) == {USER} && \
                 {context}.?runAsGroup.orValue(0) == {USER} && {context}.?runAsNonRoot.orValue(false) && \
                 {capabilities}.?drop.orValue([]).exists(each, each == 'ALL') && \
                 {capabilities}.?add.orValue([]).all(each, each in {})))",
                literal(CAPABILITIES)
            ),
        ),
    ]
}

/// The form of a launcher pod: as virt-controller creates it, with the permitted additions by webhooks of
/// other programs.
fn launcher(options: &InstallOptions) -> Vec<(String, &'static str)> {
    let context = "one.?securityContext";
    let of_pod = "object.spec.?securityContext";
    let accounts = Program::ALL.map(Program::account);
    let kinds = [&["name"][..], &VOLUMES[..]].concat();
    vec![
        (
            format!(
                "{} && {} || {} && ({} && !({poller}) || {poller} && {})",
                is_launcher("object"),
                is_owned("object", Kind::VirtualMachineInstance),
                is_worker("object"),
                is_owned("object", Kind::PersistentVolumeClaim),
                is_owned("object", Kind::DataImportCron),
                poller = is_poller("object"),
            ),
            "makes launcher pods only, owned by their VMIs, and worker pods, owned by their PVCs, or to poll by their DataImportCrons",
        ),
        (
            format!(
                "!({}) || object.spec.?volumes.orValue([]).all(volume, !has(volume.hostPath) && \
                 (!has(volume.image) || volume.name == {} && object.metadata.name.startsWith({})))",
                is_worker("object"),
                literal(IMAGE.1),
                literal(IMPORTER)
            ),
            "makes worker pods with nothing of a node but, for an import, the image that the node pulls",
        ),
        (reads_at_most(), "makes pods of exports and of clones only with PVCs that are mounted read-only"),
        (
            format!(
                "!({}) || object.spec.?volumes.orValue([]).all(volume, !has(volume.persistentVolumeClaim))",
                is_poller("object")
            ),
            "makes pods that poll without a PVC",
        ),
        (
            "!object.spec.?hostNetwork.orValue(false) && !object.spec.?hostPID.orValue(false) && \
             !object.spec.?hostIPC.orValue(false)"
                .to_owned(),
            "makes no pods in the namespaces of a node",
        ),
        (
            format!(
                "variables.containers.all(one, !{context}.?privileged.orValue(false) && \
                 {context}.?allowPrivilegeEscalation.orValue(true) == false)"
            ),
            "makes no privileged pods, nor such as may become it",
        ),
        (
            format!(
                "variables.others.all(one, {context}.?capabilities.?add.orValue([]).all(each, each in {}) && \
                 ({context}.?capabilities.?drop.orValue([]).exists(each, each == 'ALL') || \
                 {context}.?runAsUser.orValue(0) != 0))",
                literal([&CAPABILITIES[..], &OF_THE_NETWORK[..]].concat())
            ),
            "gives no capabilities of root to a container",
        ),
        (
            "variables.others.all(one, one.?volumeDevices.orValue([]).size() == 0 && \
             one.?resources.?claims.orValue([]).size() == 0 && \
             one.?volumeMounts.orValue([]).all(mount, !(mount.name in variables.kept)))"
                .to_owned(),
            "shows folders of a node, claims and devices of ResourceClaims to containers with a launcher's user and rights only",
        ),
        (
            format!(
                "{of_pod}.?runAsUser.orValue(0) == {USER} && {of_pod}.?runAsGroup.orValue(0) == {USER} && \
                 {of_pod}.?fsGroup.orValue(0) == {USER} && {of_pod}.?runAsNonRoot.orValue(false) && \
                 {of_pod}.?supplementalGroups.orValue([]).size() == 0"
            ),
            "makes pods with a launcher's user and groups only",
        ),
        (
            format!(
                "object.spec.?volumes.orValue([]).all(volume, volume.all(key, key in {}))",
                literal(kinds)
            ),
            "makes pods with the kinds of volumes that launchers have",
        ),
        (
            format!(
                "object.spec.?automountServiceAccountToken.orValue(true) == false && \
                 object.spec.?volumes.orValue([]).all(volume, volume.?projected.?sources.orValue([]).all(source, \
                 !has(source.serviceAccountToken) || source.serviceAccountToken.?audience.orValue('') in {}))",
                literal([&AUDIENCES[..], &[""][..]].concat())
            ),
            "gives no token of a service account to a pod but by a volume, for the API server or a mesh",
        ),
        (
            format!(
                "variables.tokens.size() == 0 || {} && !request.namespace.startsWith('kube-') && request.namespace != {}",
                is_launcher("object"),
                literal(&options.namespace)
            ),
            "gives tokens for the API server to launcher pods only, and none of the accounts of Kubernetes and KubeVirt",
        ),
        (
            "variables.others.all(one, one.?volumeMounts.orValue([]).all(mount, !(mount.name in variables.tokens)))"
                .to_owned(),
            "shows tokens of service accounts to containers with a launcher's user and rights only",
        ),
        (
            format!(
                "request.namespace != {} || !(object.spec.?serviceAccountName.orValue('') in {})",
                literal(&options.namespace),
                literal(accounts)
            ),
            "gives the accounts of KubeVirt to no pod",
        ),
    ]
}

/// A launcher pod has the token of a service account only if an administrator has opened the account. The
/// message names the remedy. A pod without an account uses the `default` one.
fn opened_accounts(options: &InstallOptions) -> (String, String) {
    (
        format!(
            "variables.tokens.size() == 0 || authorizer.group('').resource('serviceaccounts').namespace(request.namespace)\
             .name(object.spec.?serviceAccountName.orValue('default')).check({}).allowed()",
            literal(OF_TOKENS)
        ),
        format!(
            "virt-controller gives the token of a service account to a launcher pod, as a serviceAccount volume of its VMI asks for, \
             only where an administrator allows it: make a Role in the namespace with the verb {OF_TOKENS} on serviceaccounts \
             (apiGroups: [\"\"], resourceNames: the account of the volume), and a RoleBinding of it to the service account {} of the \
             namespace {} (docs/how-to/storage.md)",
            Program::Controller.account(),
            options.namespace
        ),
    )
}

/// True if a pod that serves a PVC only reads it. A read-only volume is also read-only as a device.
fn reads_at_most() -> String {
    let shows = |prefix: &str| format!("object.metadata.name.startsWith({})", literal(prefix));
    format!(
        "!({}) || object.spec.?volumes.orValue([]).all(volume, !has(volume.persistentVolumeClaim) || \
         volume.persistentVolumeClaim.?readOnly.orValue(false)) && variables.containers.all(one, \
         one.?volumeMounts.orValue([]).all(mount, mount.?readOnly.orValue(false) || !(mount.name in variables.kept)))",
        [EXPORTER, SOURCE].map(shows).join(" || ")
    )
}
