//! VMIs whose launcher pod is exchanged for another one: each pod is an attempt with a keeper of its own.

use super::*;
use crate::launchers::Launchers;
use crate::vmi::keepers::Keepers;
use api::launcher::Life;

/// UID of the second pod.
const SECOND: &str = "pod-uid-2";

/// A VMI with two launchers, the second of which comes later.
struct Exchange {
    place: tempfile::TempDir,
    server: Server,
    launchers: Launchers,
    keepers: Keepers<Server>,
    input: KeeperInput,
    former: Fake,
    new: Fake,
}

impl Exchange {
    /// The VMI with its first launcher.
    fn of(object: Value, former: Fake) -> Exchange {
        let place = tempfile::tempdir().unwrap();
        let server = Server::new(object);
        let permitted = Permitted::By(Arc::new(api::machine::Settings::of_cluster(&json!({}))));
        let object = Arc::new(server.object.borrow().clone());
        let input = KeeperInput { object, pod: Some(pod()), permitted, role: Role::Guest };
        let launchers = Launchers::default();
        let node = Node {
            cluster: server.clone(),
            pods: Pods::played(place.path()),
            findings: place.path().join("none"),
            launchers: launchers.clone(),
            address: None,
        };
        let keepers = Keepers::new(Arc::new(node));
        let mut exchange = Exchange { place, server, launchers, keepers, input, former, new: Fake::new() };
        drop(exchange.former.listen(exchange.place.path()));
        exchange.keepers.want("u", Some(exchange.input.clone()));
        exchange
    }

    /// Exchanges the pod. The former launcher listens still.
    fn exchange(&mut self) {
        drop(self.new.listen_in(self.place.path(), SECOND));
        let mut pod = (*pod()).clone();
        pod.metadata.uid = SECOND.into();
        let object = Arc::new(self.server.object.borrow().clone());
        self.input = KeeperInput { object, pod: Some(Arc::new(pod)), ..self.input.clone() };
        self.keepers.want("u", Some(self.input.clone()));
    }

    /// UIDs of the pods whose launchers are connected.
    fn connected(&self) -> Vec<String> {
        self.launchers.all().into_iter().map(|entry| entry.pod.1).collect()
    }
}

#[tokio::test]
async fn a_vmi_that_did_not_start_is_handed_to_the_launcher_of_its_new_pod() {
    let former = Fake::new();
    former.starts.store(false, Ordering::Relaxed);
    let mut scene = Exchange::of(vmi(), former);
    scene.former.until_told(1).await;
    scene.exchange();
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    assert_eq!((scene.former.told().len(), scene.new.told().len()), (1, 1));
    assert_eq!(scene.connected(), [SECOND]);
}

/// The guest came with its memory: nothing is handed over.
#[tokio::test]
async fn a_guest_in_a_new_pod_is_reported_by_its_new_launcher() {
    let mut scene = Exchange::of(vmi(), Fake::new());
    let target =
        |name: &'static str| move |object: &Value| object["status"]["volumeStatus"][0]["target"] == name;
    scene.server.until("the first launcher's disk", target("vda")).await;
    scene.new.state.send_modify(|state| {
        state.targets = [("data".to_owned(), "vdb".to_owned())].into();
        (state.life, state.number) = (Life::Running, 1);
    });
    scene.exchange();
    scene.server.until("the second launcher's disk", target("vdb")).await;
    // The end of the former launcher says nothing about the guest any more.
    scene.former.is(Life::Failed);
    scene.new.is(Life::Paused);
    let is_paused = |object: &Value| object["status"]["conditions"].to_string().contains("Paused");
    scene.server.until("a pause", is_paused).await;
    assert_eq!(scene.server.status("phase"), "Running");
    assert_eq!((scene.new.told(), scene.connected()), (Vec::new(), vec![SECOND.to_owned()]));
}

#[tokio::test]
async fn a_guest_that_ran_is_not_started_again_in_a_new_pod() {
    let mut scene = Exchange::of(vmi(), Fake::new());
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    scene.exchange();
    let object = scene.server.until("an end", |object| object["status"]["phase"] == "Failed").await;
    assert!(object["status"]["conditions"].to_string().contains("the launcher began anew"), "{object}");
    assert_eq!(scene.new.told(), Vec::<Value>::new());
}

/// The object of a pod that was deleted by force goes before its launcher.
#[tokio::test]
async fn a_keeper_goes_on_with_a_launcher_whose_pod_is_no_longer_in_the_cluster() {
    let mut scene = Exchange::of(vmi(), Fake::new());
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    let object = Arc::new(scene.server.object.borrow().clone());
    scene.keepers.want("u", Some(KeeperInput { object, pod: None, ..scene.input.clone() }));
    scene.former.is(Life::Succeeded);
    scene.server.until("Succeeded", |object| object["status"]["phase"] == "Succeeded").await;
}
