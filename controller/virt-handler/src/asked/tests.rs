//! Requests of virt-api and other clients over real TLS: authentication, forwarding, and the limits that a
//! launcher can exhaust.

use super::played::{Scene, VIRT_API};
use super::*;
use api::launcher::{Answer, Exec, Format, Freeze, Request};
use launcher_client::{Access, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;

/// Far more time than any step takes.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn only_virt_api_is_answered() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    let others = [None, Some("virt-handler.kubevirt.svc"), Some("virt-api.other.svc"), Some("virt-api")];
    for shows in others {
        let said = scene.ask(shows, "web", "web").state().await.unwrap_err();
        assert_eq!(said.status(), Some(401), "{shows:?}: {said}");
    }
    assert_eq!(scene.ask(Some(VIRT_API), "web", "web").state().await.unwrap().number, 7);
}

#[tokio::test]
async fn what_is_on_the_list_is_passed_on_with_its_refusals() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    let web = scene.virt_api("web");
    assert_eq!(web.request(&Request::Pause).await.unwrap(), Answer::Queued);
    web.freeze(&Freeze { thaw_after_ms: Some(7) }).await.unwrap();
    let said = web.freeze(&Freeze::default()).await.unwrap_err();
    assert_eq!(said.to_string(), "no time is passed on", "the body is the launcher's to judge");
    assert_eq!(web.screenshot().await.unwrap(), b"a picture");
    assert_eq!(web.screenshot_awake().await.unwrap(), b"a picture of a screen that is awake");
    let said = web.vnc(Access::Alone).await.unwrap_err();
    assert_eq!((said.status(), said.to_string().as_str()), (Some(409), "not now (wait)"));
    assert_eq!(said.refusal().unwrap().hint.as_deref(), Some("wait"));
    // A launcher cannot send refusals that look like virt-handler's own about virt-api.
    assert_eq!(web.users().await.unwrap_err().status(), Some(502));
    let exec = Exec { command: "id".into(), args: Vec::new(), input: None, timeout: None };
    assert_eq!(web.exec(&exec, LONG).await.unwrap_err().status(), Some(404));
    assert_eq!(web.info().await.unwrap_err().status(), Some(404));
    assert_eq!(web.watch().await.unwrap_err().status(), Some(404));
    let insert = |path: String| Request::Insert { disk: "cd".into(), path: path.into(), format: Format::Raw };
    for request in [Request::Destroy, Request::Shutdown { grace: None }, insert("/x".into())] {
        assert_eq!(web.request(&request).await.unwrap_err().status(), Some(403), "{request:?}");
    }
    assert_eq!(web.request(&insert("x".repeat(5000))).await.unwrap_err().status(), Some(413));
}

#[tokio::test]
async fn a_vmi_that_is_not_here_has_no_launcher_nor_has_the_one_before_it() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    for (name, uid) in [("web", "another"), ("other", "web")] {
        let said = scene.ask(Some(VIRT_API), name, uid).state().await.unwrap_err();
        let why = format!("the launcher of n/{name} is not on this node (or not yet)");
        assert_eq!((said.kind(), said.status()), (ErrorKind::NotFound, Some(404)));
        assert_eq!(said.to_string(), why);
    }
}

#[tokio::test]
async fn a_stream_goes_both_ways_and_a_vmi_has_so_many() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    scene.launcher("other", false);
    let web = scene.virt_api("web");
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(web.console(Access::Write).await.unwrap());
    }
    let ninth = web.console(Access::Write).await.unwrap_err();
    assert_eq!(ninth.status(), Some(429));
    assert!(ninth.to_string().contains(&format!("{STREAMS} streams of n/web are open already")), "{ninth}");
    open.push(scene.virt_api("other").console(Access::Write).await.unwrap());
    let mut stream = open.swap_remove(0);
    let mut said = [0; 11];
    stream.write_all(b"root").await.unwrap();
    stream.flush().await.unwrap();
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"login: root");
    // One direction ends first.
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "that was all");
    let again = async {
        while web.console(Access::Write).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, again).await.expect("its place stays taken");
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_launcher_that_opens_no_stream_holds_a_few_places_of_its_own_vmi() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    let taken = scene.launcher("silent", true);
    let silent = scene.virt_api("silent");
    let mut waiting = JoinSet::new();
    for _ in 0..OPENING {
        let silent = silent.clone();
        waiting.spawn(async move { silent.console(Access::Write).await.map(drop) });
    }
    until("not all are passed on", || taken.load(Ordering::SeqCst) == OPENING).await;
    let said = silent.vnc(Access::Read).await.unwrap_err();
    assert_eq!(said.status(), Some(429));
    let why = format!("{OPENING} streams of n/silent wait for the launcher to answer already; try again");
    assert_eq!(said.to_string(), why);
    // An answered request frees its place for the next.
    let (web, mut open) = (scene.virt_api("web"), Vec::new());
    for _ in 0..=OPENING {
        open.push(web.console(Access::Write).await.unwrap());
    }
}

#[tokio::test]
async fn pictures_that_trickle_leave_a_place_for_that_of_another_vmi() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    let mut asking = JoinSet::new();
    let read = scene.trickles(&["slow", "slower"]);
    for name in ["slow", "slower"] {
        let slow = scene.virt_api(name);
        // After the end of one request, the next is sent, whatever its result.
        asking.spawn(async move {
            loop {
                drop(slow.screenshot().await);
            }
        });
    }
    until("one waits for the other", || read.load(Ordering::SeqCst) == 2).await;
    assert_eq!(scene.virt_api("web").screenshot().await.unwrap(), b"a picture");
}

#[tokio::test]
async fn a_launcher_that_says_nothing_holds_up_its_own_vmi_alone() {
    let mut scene = Scene::begin().await;
    scene.launcher("web", false);
    let taken = scene.launcher("silent", true);
    let silent = scene.virt_api("silent");
    let mut waiting = JoinSet::new();
    for _ in 0..REQUESTS {
        let silent = silent.clone();
        waiting.spawn(async move { silent.screenshot().await.map(drop) });
    }
    // One waits for the screenshot; the others are told so.
    for _ in 1..REQUESTS {
        let said = waiting.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(said.status(), Some(429), "{said}");
    }
    for _ in 1..REQUESTS {
        let silent = silent.clone();
        waiting.spawn(async move { silent.state().await.map(drop) });
    }
    until("not all are passed on", || taken.load(Ordering::SeqCst) >= REQUESTS).await;
    let said = silent.state().await.unwrap_err();
    assert_eq!(said.status(), Some(429));
    assert!(
        said.to_string().contains(&format!("{REQUESTS} requests about n/silent are under way")),
        "{said}"
    );
    let web = scene.virt_api("web");
    assert_eq!(web.state().await.unwrap().number, 7);
    assert_eq!(web.screenshot().await.unwrap(), b"a picture");
}
