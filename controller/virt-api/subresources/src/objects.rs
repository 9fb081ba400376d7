//! VMs, VMIs and migrations at the API server: reads, and changes by requests.

use crate::evacuation::{EvacuateCancelOptions, cancel};
use crate::lifecycle::Changes;
use crate::migration::{MigrateOptions, migration};
use crate::refusal::{Refusal, Result, Subject};
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use cluster_client::error::{Error, ErrorKind};
use cluster_client::{Server as _, Writer};
use cluster_model::objects::rights::Right;
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

/// Number of attempts when the object is changed meanwhile.
const TRIES: usize = 8;
/// Name of virt-api in managed fields.
const COMPONENT: &str = "virt-api";

/// Rights that requests of this API need, in addition to access reviews.
pub const RIGHTS: [Right; 11] = [
    (Kind::ControllerRevision, None, "get"),
    (Kind::VirtualMachine, None, "get"),
    (Kind::VirtualMachine, None, "patch"),
    (Kind::VirtualMachine, Some("status"), "patch"),
    (Kind::VirtualMachineClusterInstancetype, None, "get"),
    (Kind::VirtualMachineClusterPreference, None, "get"),
    (Kind::VirtualMachineInstance, None, "get"),
    (Kind::VirtualMachineInstance, None, "patch"),
    (Kind::VirtualMachineInstanceMigration, None, "create"),
    (Kind::VirtualMachineInstancetype, None, "get"),
    (Kind::VirtualMachinePreference, None, "get"),
];

/// Reads and changes VMs and VMIs.
pub(crate) struct Objects {
    writer: Writer,
    /// Writer of dry runs: the API server checks a change without making it.
    dry: Writer,
}

/// A VM and its VMI.
pub(crate) struct VmWithVmi {
    pub(crate) vm: VirtualMachine,
    pub(crate) vmi: Option<VirtualMachineInstance>,
}

impl Objects {
    pub(crate) fn new(client: kube::Client) -> Objects {
        let writer = Writer::new(client, COMPONENT);
        Objects { dry: writer.clone().dry(), writer }
    }

    pub(crate) async fn vm(&self, namespace: &str, name: &str) -> Result<VirtualMachine> {
        let found = self.read(Kind::VirtualMachine, namespace, name).await?;
        found.ok_or_else(|| Refusal::not_found(Subject { kind: "virtualmachine", name }))
    }

    pub(crate) async fn vmi(&self, namespace: &str, name: &str) -> Result<VirtualMachineInstance> {
        let found = self.read(Kind::VirtualMachineInstance, namespace, name).await?;
        found.ok_or_else(|| Refusal::not_found(Subject { kind: "virtualmachineinstance", name }))
    }

    /// Reads a VM, and its VMI if it exists.
    pub(crate) async fn both(&self, namespace: &str, name: &str) -> Result<VmWithVmi> {
        let (vm, vmi) = tokio::join!(
            self.vm(namespace, name),
            self.read::<VirtualMachineInstance>(Kind::VirtualMachineInstance, namespace, name)
        );
        Ok(VmWithVmi { vm: vm?, vmi: vmi? })
    }

    /// Reads an object as JSON.
    pub(crate) async fn found(&self, key: &Key) -> Result<Option<Value>> {
        self.writer.find(key).await.map_err(|error| failed(&error))
    }

    async fn read<T: Wire>(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<T>> {
        let found = self.found(&Key::new(kind, namespace, name)).await?;
        // Fields that cannot be read are of no use for the decision.
        Ok(found.and_then(|object| api::wire::read_in_part(object, &mut Vec::new())))
    }

    /// Changes a VM as `decide` says. After a conflict, `decide` is called again with the new state.
    pub(crate) async fn change(
        &self,
        namespace: &str,
        name: &str,
        dry_run: &[String],
        decide: impl Fn(&VmWithVmi) -> Result<Changes>,
    ) -> Result<()> {
        let writer = self.writer(dry_run)?;
        for _ in 0..TRIES {
            let found = self.both(namespace, name).await?;
            let changes = decide(&found)?;
            match write(writer, namespace, name, &found, changes).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(failed(&error)),
                Ok(()) => return Ok(()),
            }
        }
        Err(changed_meanwhile(Subject { kind: "virtualmachine", name }))
    }

    /// Cancels the evacuation of a VMI. A missing VMI counts as success.
    pub(crate) async fn cancel_evacuation(
        &self,
        namespace: &str,
        name: &str,
        options: &EvacuateCancelOptions,
    ) -> Result<()> {
        let writer = self.writer(&options.dry_run)?;
        let key = Key::new(Kind::VirtualMachineInstance, namespace, name);
        for _ in 0..TRIES {
            let vmi = self.read::<VirtualMachineInstance>(key.kind, namespace, name).await?;
            let Some(vmi) = vmi else { return Ok(()) };
            let Some(change) = cancel(&vmi, options)? else { return Ok(()) };
            let change = guarded(change, vmi.metadata.resource_version.as_deref());
            match writer.patch(&key, &change, None).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(()),
                Err(error) => return Err(failed(&error)),
                Ok(_) => return Ok(()),
            }
        }
        Err(changed_meanwhile(Subject { kind: "virtualmachineinstance", name }))
    }

    /// Creates the migration of a VM. A refusal by a webhook, for example of virt-api itself, is passed on as a
    /// conflict.
    pub(crate) async fn migrate(&self, namespace: &str, name: &str, options: &MigrateOptions) -> Result<()> {
        let writer = self.writer(&options.dry_run)?;
        let found = self.both(namespace, name).await?;
        let object = migration(found.vmi.as_ref(), name, options)?;
        let key = Key::new(Kind::VirtualMachineInstanceMigration, namespace, "(new)");
        match writer.create(&key, &object).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Refused | ErrorKind::Conflict) => {
                Err(Refusal::conflict(Subject { kind: "virtualmachine", name }, &error.chain()))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    /// The writer for these `dryRun` options.
    fn writer(&self, dry_run: &[String]) -> Result<&Writer> {
        match dry_run {
            [] => Ok(&self.writer),
            [all] if all == "All" => Ok(&self.dry),
            _ => Err(Refusal::bad_request(format!("dryRun may be [\"All\"], not {dry_run:?}"))),
        }
    }
}

/// Writes changes, each guarded by the version that was read. If a later change fails, the grace period is
/// restored, unless the VMI was changed or replaced meanwhile.
async fn write(
    writer: &Writer,
    namespace: &str,
    name: &str,
    found: &VmWithVmi,
    changes: Changes,
) -> std::result::Result<(), Error> {
    let vm = Key::new(Kind::VirtualMachine, namespace, name);
    let vmi = Key::new(Kind::VirtualMachineInstance, namespace, name);
    let with_grace = |seconds: Option<i64>| json!({"spec": {"terminationGracePeriodSeconds": seconds}});
    let mut written = None;
    if let (Some(grace), Some(is)) = (changes.grace, &found.vmi) {
        let change = guarded(with_grace(Some(grace.seconds)), is.metadata.resource_version.as_deref());
        written = Some((grace.before, version(&writer.patch(&vmi, &change, None).await?)));
    }
    let mut looked_at = found.vm.metadata.resource_version.clone();
    let steps = [(changes.status, Some("status")), (changes.spec, None)];
    for (change, part) in steps.into_iter().filter_map(|(change, part)| Some((change?, part))) {
        match writer.patch(&vm, &guarded(change, looked_at.as_deref()), part).await {
            Ok(answer) => looked_at = version(&answer),
            Err(error) => {
                if let Some((before, Some(ours))) = &written
                    && let Err(left) =
                        writer.patch(&vmi, &guarded(with_grace(*before), Some(ours)), None).await
                {
                    tracing::warn!("cannot restore the grace period of {vmi}: {}", left.chain());
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Resource version of an object in a response of the API server.
fn version(answer: &Value) -> Option<String> {
    answer["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

fn guarded(mut change: Value, version: Option<&str>) -> Value {
    if let Some(version) = version {
        change["metadata"] = json!({"resourceVersion": version});
    }
    change
}

fn changed_meanwhile(subject: Subject<'_>) -> Refusal {
    let why = format!("the object was changed by others {TRIES} times meanwhile; try again");
    Refusal::conflict(subject, &why)
}

/// The response for an error of the API server.
fn failed(error: &Error) -> Refusal {
    match error.kind() {
        ErrorKind::Unreachable => Refusal::unavailable(error.chain()),
        _ => Refusal::internal(&error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::{StartOptions, StopOptions, start, stop};
    use kit::ApiServer;
    use std::collections::BTreeSet;

    const VM: &str = "/apis/kubevirt.io/v1/namespaces/n/virtualmachines/web";
    const VMI: &str = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web";

    #[tokio::test]
    async fn a_vm_is_changed_by_the_rights_that_are_declared() {
        let server = ApiServer::default();
        server.put(
            VM,
            json!({
                "metadata": {"name": "web"},
                "spec": {"runStrategy": "Halted"},
                "status": {"startFailure": {"consecutiveFailCount": 3}},
            }),
        );
        let objects = Objects::new(server.client());
        let starts = StartOptions::default();
        objects.change("n", "web", &[], |found| start(&found.vm, found.vmi.as_ref(), &starts)).await.unwrap();
        let vm = objects.vm("n", "web").await.unwrap();
        assert_eq!(vm.run_strategy(), api::vm::RunStrategy::Always);
        assert!(vm.status.unwrap().start_failure.is_none());

        server.put(VMI, json!({"metadata": {"name": "web"}, "spec": {}, "status": {"phase": "Running"}}));
        let stops = StopOptions { grace_period: Some(0), ..StopOptions::default() };
        objects.change("n", "web", &[], |found| stop(&found.vm, found.vmi.as_ref(), &stops)).await.unwrap();
        assert_eq!(objects.vm("n", "web").await.unwrap().run_strategy(), api::vm::RunStrategy::Halted);
        assert_eq!(objects.vmi("n", "web").await.unwrap().spec.termination_grace_period_seconds, Some(0));
        objects.migrate("n", "web", &MigrateOptions::default()).await.unwrap();
        // Kinds with which a VM is shown.
        for (kind, _, _) in RIGHTS.into_iter().filter(|(kind, ..)| kind.group() != "kubevirt.io") {
            let namespace = if kind.name().contains("Cluster") { "" } else { "n" };
            assert_eq!(objects.found(&Key::new(kind, namespace, "a")).await.unwrap(), None);
        }
        assert_eq!(server.rights(), BTreeSet::from(RIGHTS));
    }

    #[tokio::test]
    async fn a_grace_period_is_taken_back_only_from_the_vmi_as_it_was_left() {
        let server = ApiServer::default();
        let written = json!({"metadata": {"resourceVersion": "8"}});
        let conflict = kit::failure(409, "Conflict", "changed");
        server.answers_once(&format!("PATCH {VMI}"), 200, written.to_string());
        server.answers_once(&format!("PATCH {VM}"), 409, &*conflict);
        server.answers_once(&format!("PATCH {VMI}"), 409, &*conflict);
        let vm = json!({"metadata": {"name": "web", "resourceVersion": "5"},
            "spec": {"runStrategy": "Always", "template": {"spec": {"domain": {}}}}});
        let vmi = json!({"metadata": {"name": "web", "resourceVersion": "7"},
            "spec": {"terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}});
        let found = VmWithVmi { vm: api::wire::read(vm).unwrap(), vmi: Some(api::wire::read(vmi).unwrap()) };
        let stops = StopOptions { grace_period: Some(0), ..StopOptions::default() };
        let changes = stop(&found.vm, found.vmi.as_ref(), &stops).unwrap();
        let error =
            write(&Writer::new(server.client(), COMPONENT), "n", "web", &found, changes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        let asked = server.asked().into_iter().map(|request| (request.path, request.body));
        let asked: Vec<(String, Value)> = asked.collect();
        let grace = |seconds: i64, version: &str| json!({"spec": {"terminationGracePeriodSeconds": seconds}, "metadata": {"resourceVersion": version}});
        assert_eq!(asked[0], (VMI.to_owned(), grace(0, "7")));
        assert_eq!(asked[1].0, VM);
        assert_eq!(asked[2], (VMI.to_owned(), grace(30, "8")));
    }

    #[tokio::test]
    async fn an_evacuation_is_cancelled_where_there_is_one() {
        let server = ApiServer::default();
        let objects = Objects::new(server.client());
        let options = EvacuateCancelOptions::default();
        objects.cancel_evacuation("n", "web", &options).await.unwrap();
        let status = json!({"nodeName": "node1", "evacuationNodeName": "node1"});
        server.put(VMI, json!({"metadata": {"name": "web"}, "spec": {}, "status": status}));
        let other = EvacuateCancelOptions { evacuation_node_name: "node2".into(), ..options.clone() };
        let refused = objects.cancel_evacuation("n", "web", &other).await.unwrap_err();
        assert_eq!(refused.status, 409);
        let odd = EvacuateCancelOptions { dry_run: vec!["Some".into()], ..options.clone() };
        assert_eq!(objects.cancel_evacuation("n", "web", &odd).await.unwrap_err().status, 400);
        objects.cancel_evacuation("n", "web", &options).await.unwrap();
        let status = objects.vmi("n", "web").await.unwrap().status.unwrap();
        assert_eq!((status.evacuation_node_name, status.node_name.as_deref()), (None, Some("node1")));
        let count = server.count();
        objects.cancel_evacuation("n", "web", &options).await.unwrap();
        assert_eq!(server.count(), count + 1, "read, and not written again");
    }

    #[tokio::test]
    async fn a_migration_is_created_once_it_is_wanted_and_its_refusal_is_told() {
        let server = ApiServer::default();
        server.put(VM, json!({"metadata": {"name": "web"}, "spec": {"runStrategy": "Always"}}));
        let objects = Objects::new(server.client());
        let options = |body: Value| serde_json::from_value::<MigrateOptions>(body).unwrap();
        let migrations = || {
            let all = server.objects().into_iter();
            all.filter(|(kind, _)| *kind == Kind::VirtualMachineInstanceMigration).count()
        };
        let stopped = objects.migrate("n", "web", &options(json!({}))).await.unwrap_err();
        assert_eq!(stopped.status, 409);
        server.put(VMI, json!({"metadata": {"name": "web"}, "spec": {}, "status": {"phase": "Running"}}));
        objects.migrate("n", "web", &options(json!({"dryRun": ["All"]}))).await.unwrap();
        assert_eq!(migrations(), 0, "it was tried out");
        let odd = objects.migrate("n", "web", &options(json!({"dryRun": ["Some"]}))).await.unwrap_err();
        assert_eq!((odd.status.as_u16(), migrations()), (400, 0));
        objects.migrate("n", "web", &options(json!({}))).await.unwrap();
        assert_eq!(migrations(), 1);
        let all = "POST /apis/kubevirt.io/v1/namespaces/n/virtualmachineinstancemigrations";
        let denied = "admission webhook \"migration-create-validator.kubevirt.io\" denied the request: in-flight migration detected.";
        for (code, reason, status) in [
            (422, "Invalid", 409),
            (403, "Forbidden", 409),
            (429, "TooManyRequests", 503),
            (404, "NotFound", 500),
        ] {
            server.answers_once(all, code, kit::failure(code, reason, denied));
            let refused = objects.migrate("n", "web", &options(json!({}))).await.unwrap_err();
            assert_eq!(refused.status, status, "{}", refused.message);
            assert!(refused.message.ends_with(denied), "{}", refused.message);
        }
        assert_eq!(migrations(), 1);
        let none = objects.migrate("n", "db", &options(json!({}))).await.unwrap_err();
        assert_eq!(none.status, 404);
    }

    #[tokio::test]
    async fn what_is_not_there_is_not_found_and_an_unknown_dry_run_is_refused() {
        let server = ApiServer::default();
        let objects = Objects::new(server.client());
        let none = objects.vm("n", "web").await.unwrap_err();
        assert_eq!(
            (none.status.as_u16(), &*none.message),
            (404, "virtualmachine.kubevirt.io \"web\" not found")
        );
        assert_eq!(objects.vmi("n", "web").await.unwrap_err().status, 404);
        let refused = objects.change("n", "web", &["Some".into()], |_| Ok(Changes::default())).await;
        assert_eq!(refused.unwrap_err().status, 400);
    }
}
