//! The VMI of a new VirtualMachineInstanceMigration and its other migrations, as the API server has them now, for
//! the decision ([`super::rules::migration`]).
//!
//! ```text
//!  review ─► a turn ─► get the VMI ─────────────────────────► list its migrations, by their label ─► judge
//!                         └─ none, or ended: get the VM ──┘
//!                                                  └─ none: nothing is listed
//! ```
//!
//! **Guarantees.** If one of the two cannot be read, the migration is deferred, not admitted. A flood of reviews
//! does not flood the API server ([`super::review_queue`]).

use super::review_queue::ReviewQueue;
use super::rules::migration::{ActiveMigration, MigrationFacts, has_ended, is_active};
use api::migration::VirtualMachineInstanceMigration;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use api::wire::{self, Wire};
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::{Server, Writer};
use cluster_model::objects::{Key, Kind, MIGRATED_VMI, names};
use serde_json::Value;
use serve::transport::Peer;

/// Name of virt-api in managed fields.
const COMPONENT: &str = "virt-api";

/// Reads what the admission of a migration depends on.
pub(super) struct Migrations {
    server: Writer,
    queue: ReviewQueue,
}

impl Migrations {
    pub(super) fn new(client: kube::Client) -> Migrations {
        Migrations { server: Writer::new(client, COMPONENT), queue: ReviewQueue::new() }
    }

    /// The facts about this VMI.
    pub(super) async fn facts(&self, vmi: &Key, peer: Peer) -> Result<MigrationFacts> {
        let doing = format!("read VMI {}/{} and its migrations", vmi.namespace, vmi.name);
        self.queue.run(peer, &vmi.namespace, &doing, Box::pin(self.look(vmi))).await
    }

    async fn look(&self, key: &Key) -> Result<MigrationFacts> {
        let vmi = match self.server.find(key).await? {
            // Fields that cannot be read are of no use for the decision.
            Some(object) => Some(read::<VirtualMachineInstance>(object, key)?),
            None => None,
        };
        let has_guest = vmi.as_ref().is_some_and(|vmi| !has_ended(vmi));
        let vm = Key { kind: Kind::VirtualMachine, ..key.clone() };
        let found = if has_guest { None } else { self.server.find(&vm).await? };
        let vm = found.map(|object| read::<VirtualMachine>(object, &vm)).transpose()?;
        let active = if has_guest || vm.is_some() { self.active(key).await? } else { None };
        Ok(MigrationFacts { vmi, vm, active })
    }

    /// A migration of the VMI that has not ended.
    async fn active(&self, vmi: &Key) -> Result<Option<ActiveMigration>> {
        let selector = format!("{MIGRATED_VMI}={}", names::label(&vmi.name));
        let place = (Kind::VirtualMachineInstanceMigration, &*vmi.namespace);
        let unknown = format!("whether a migration of VMI {} has not ended", vmi.name);
        self.server.find_in_pages(place, &selector, &unknown, |found| found.iter().find_map(active)).await
    }
}

fn read<T: Wire>(object: Value, key: &Key) -> Result<Box<T>> {
    let read = wire::read_in_part::<T>(object, &mut Vec::new());
    let unreadable = || Error::new(ErrorKind::Refused, format!("{key} cannot be read"));
    read.map(Box::new).ok_or_else(unreadable)
}

/// The migration, if it has not ended. One that cannot be read counts as such.
fn active(object: &Value) -> Option<ActiveMigration> {
    let read = wire::read_in_part::<VirtualMachineInstanceMigration>(object.clone(), &mut Vec::new());
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let named = || ActiveMigration { uid: text("uid"), name: text("name") };
    read.is_none_or(|migration| is_active(&migration)).then(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evictions::tests::peer;
    use crate::live::Live;
    use crate::routes::Routes;
    use cluster_model::webhooks::Webhook;
    use http::StatusCode;
    use kit::ApiServer;
    use serde_json::json;
    use serve::health::Health;
    use std::sync::Arc;

    const VMI: &str = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web";
    const MIGRATIONS: &str = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstancemigrations";

    fn vmi(phase: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": "web"}, "spec": {}, "status": {"phase": phase}})
    }

    fn migration(name: &str, vmi: &str, phase: Option<&str>) -> (String, Value) {
        let metadata = json!({"namespace": "n", "name": name, "uid": format!("uid-{name}"), "labels": {MIGRATED_VMI: vmi}});
        let object = json!({"metadata": metadata, "spec": {"vmiName": vmi}, "status": {"phase": phase}});
        (format!("{MIGRATIONS}/{name}"), object)
    }

    fn server_with(objects: impl IntoIterator<Item = (String, Value)>) -> ApiServer {
        let server = ApiServer::default();
        objects.into_iter().for_each(|(path, object)| server.put(&path, object));
        server
    }

    /// The answer to the creation of a migration of VMI `web`, as the API server gets it.
    async fn answer(server: &ApiServer) -> Value {
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "CREATE", "namespace": "n",
                "kind": {"group": "kubevirt.io", "kind": "VirtualMachineInstanceMigration"},
                "object": {"metadata": {"generateName": "move-"}, "spec": {"vmiName": "web"}},
                "userInfo": {"username": "somebody"},
            },
        });
        let hook = Webhook::find_by_path("/migration-validate-create").unwrap();
        let answer = routes.answer_to(hook, peer(1), review.to_string(), false).await;
        let mut said: Value = serde_json::from_slice(answer.body()).unwrap();
        said["response"].take()
    }

    #[tokio::test]
    async fn a_migration_is_compared_with_the_vmi_and_the_migrations_that_are_there_now() {
        let running = || (VMI.to_owned(), vmi("Running"));
        let ended = [
            migration("a", "web", Some("Failed")),
            migration("b", "web", Some("Succeeded")),
            migration("c", "other", Some("Running")),
        ];
        let active = |uid: &str| {
            format!(
                "in-flight migration detected. Active migration job ({uid}) is currently already in progress for VMI web. Its name is {}.",
                uid.trim_start_matches("uid-")
            )
        };
        for (objects, why, requests) in [
            (vec![], Some("the VMI \"n/web\" does not exist".to_owned()), 2),
            (
                vec![(VMI.to_owned(), vmi("Failed"))],
                Some("Cannot migrate VMI in finalized state.".to_owned()),
                2,
            ),
            (vec![running()], None, 2),
            ([vec![running()], ended.to_vec()].concat(), None, 2),
            (vec![running(), migration("d", "web", Some("Pending"))], Some(active("uid-d")), 2),
            (vec![running(), migration("e", "web", None)], Some(active("uid-e")), 2),
        ] {
            let server = server_with(objects);
            let said = answer(&server).await;
            assert_eq!(said["allowed"], why.is_none(), "{said}");
            assert_eq!(said["status"]["message"].as_str().map(str::to_owned), why);
            assert_eq!(server.count(), requests, "{said}");
        }
    }

    /// More migrations than fit on a page: that of the last page counts, too.
    #[tokio::test]
    async fn all_migrations_of_a_vmi_are_looked_at_however_many_have_ended() {
        let ended = (0..300).map(|number| migration(&format!("a{number}"), "web", Some("Failed")));
        let last = migration("z", "web", Some("Running"));
        let server = server_with(ended.chain([last, (VMI.to_owned(), vmi("Running"))]));
        let said = answer(&server).await;
        assert!(said["status"]["message"].as_str().unwrap().contains("(uid-z)"), "{said}");
        assert_eq!(server.count(), 3);
    }

    #[tokio::test]
    async fn a_migration_that_cannot_be_compared_is_not_admitted_and_it_is_said_what_was_asked() {
        for (request, asked) in [
            (format!("GET {VMI}"), "cannot read VirtualMachineInstance n/web"),
            (format!("GET {MIGRATIONS}"), "cannot list VirtualMachineInstanceMigration n/(all)"),
        ] {
            let server = server_with([(VMI.to_owned(), vmi("Running"))]);
            let failure = kit::failure(500, "InternalError", "etcd is away");
            server.answers(&request, StatusCode::INTERNAL_SERVER_ERROR.as_u16(), failure);
            let said = answer(&server).await;
            let message = said["status"]["message"].as_str().unwrap();
            assert_eq!((&said["allowed"], &said["status"]["code"]), (&json!(false), &json!(429)), "{said}");
            assert!(message.contains(asked) && message.ends_with("etcd is away; try again"), "{message}");
        }
    }

    #[test]
    fn a_migration_that_cannot_be_read_counts_as_one_that_has_not_ended() {
        assert_eq!(active(&json!([])), Some(ActiveMigration::default()));
        let odd = json!({"metadata": {"uid": "u"}, "status": {"phase": "Dreaming"}});
        assert_eq!(active(&odd).map(|active| active.uid), Some("u".to_owned()));
    }
}
