//! Consistency of authorization and action: the reviewed path is the one that is acted on.

use crate::client::head;
use crate::scene::{ANN, SEGMENTS, SUBRESOURCES, Scene, VM};
use serde_json::json;

/// An ambiguous path is refused without a review, and nothing is done.
#[tokio::test]
async fn a_path_with_two_meanings_has_none() {
    let scene = Scene::begin().await;
    scene.halts();
    let vms = format!("{SUBRESOURCES}/virtualmachines");
    for path in [
        format!("{vms}/web%2fstart"),
        format!("{vms}/web%2Fstart"),
        format!("{vms}/we%62/start"),
        format!("{vms}/web/st%61rt"),
        format!("{vms}/web%00/start"),
        format!("{vms}/web/start%20"),
        format!("{vms}/web/../web/start"),
        format!("{vms}/other/../web/start"),
        format!("{vms}/web/./start"),
        format!("{vms}/web/start/."),
        format!("{vms}/web/start/.."),
        format!("{vms}/web/%2e%2e/web/start"),
        format!("{vms}/web/expand-spec/../start"),
        format!("{vms}/web//start"),
        format!("{vms}//web/start"),
        format!("/{vms}/web/start"),
        format!("/.{vms}/web/start"),
        format!("{vms}/web/start/"),
        format!("{vms}/web/start;a=b"),
        format!("{vms}/web;a=b/start"),
        format!("{vms}/web/Start"),
        format!("{vms}/WEB/start"),
        format!("{vms}/web\\start"),
        format!("{vms}/../virtualmachines/web/start"),
        format!("{SUBRESOURCES}/../n/virtualmachines/web/start"),
        "/apis/subresources.kubevirt.io/v1/namespaces/n%2fvirtualmachines/web/start".to_owned(),
        "/apis/subresources.kubevirt.io/v1/namespaces//virtualmachines/web/start".to_owned(),
        "/apis/subresources.kubevirt.io/v1/virtualmachines/web/start".to_owned(),
        "/apis/subresources.kubevirt.io/V1/namespaces/n/virtualmachines/web/start".to_owned(),
        "/apis/subresources.kubevirt.io/v1/../v1/namespaces/n/virtualmachines/web/start".to_owned(),
        "/apis/subresources.kubevirt.io.example/v1/namespaces/n/virtualmachines/web/start".to_owned(),
        "/APIS/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/web/start".to_owned(),
        "/openapi/v3/apis/../../apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/web/start"
            .to_owned(),
        "/healthz/../apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/web/start".to_owned(),
    ] {
        let answer = scene.says(&head("PUT", &path, ANN, "")).await;
        assert!([400, 404].contains(&answer.status), "{path}: {answer:?}");
        assert!(scene.api.reviews().is_empty(), "{path}: somebody was asked about it");
    }
    assert!(scene.api.patched().is_empty());
    assert_eq!(scene.api.object(VM).unwrap()["spec"]["runStrategy"], "Halted");
    scene.start("paths with two meanings").await;
}

/// A host in the target, a query, or headers that override the method or the path do not change the action.
#[tokio::test]
async fn what_is_done_is_what_was_asked_about() {
    let scene = Scene::begin().await;
    let start = format!("{SUBRESOURCES}/virtualmachines/web/start");
    let about = json!({
        "group": "subresources.kubevirt.io", "version": "v1", "verb": "update", "namespace": "n",
        "resource": "virtualmachines", "subresource": "start", "name": "web",
    });
    let elsewhere = "X-HTTP-Method-Override: GET\r\nX-HTTP-Method: DELETE\r\nX-Original-URL: /a\r\n\
        X-Rewrite-URL: /a\r\nX-Forwarded-Prefix: /a\r\nX-Forwarded-Host: a\r\n";
    for (target, more) in [
        (start.clone(), ""),
        (start.clone(), elsewhere),
        (format!("http://elsewhere.example{start}"), ""),
        (format!("https://root@elsewhere.example:1{start}"), ""),
        (format!("{start}?namespace=kube-system&name=other&subresource=stop"), ""),
        (format!("{start}?/../../other/stop"), ""),
    ] {
        scene.halts();
        let answer = scene.says(&head("PUT", &target, ANN, more)).await;
        assert_eq!(answer.status, 202, "{target}: {answer:?}");
        let reviews = scene.api.reviews();
        assert_eq!((reviews.len(), &reviews[0]["resourceAttributes"]), (1, &about), "{target}");
        assert!(scene.api.patched().iter().all(|path| path.starts_with(VM)), "{target}");
        assert_eq!(scene.api.object(VM).unwrap()["spec"]["runStrategy"], "Always", "{target}");
    }
    // Other methods are reviewed with their own verb, and do nothing here.
    scene.halts();
    for (method, verb) in [("GET", "get"), ("POST", "create"), ("PATCH", "patch"), ("DELETE", "delete")] {
        let answer = scene.says(&head(method, &start, ANN, elsewhere)).await;
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
        assert_eq!(scene.api.reviews()[0]["resourceAttributes"]["verb"], verb);
    }
    for method in ["OPTIONS", "TRACE", "put", "PUTS", "X"] {
        assert_eq!(scene.says(&head(method, &start, ANN, "")).await.status, 405, "{method}");
    }
    for target in ["*", "n:443", "http://elsewhere.example", "start"] {
        for method in ["OPTIONS", "CONNECT"] {
            let (answer, _) = scene.sends(head(method, target, ANN, "").as_bytes()).await;
            assert!(answer.is_none_or(|answer| (400..500).contains(&answer.status)), "{method} {target}");
        }
    }
    assert!(scene.api.reviews().is_empty() && scene.api.patched().is_empty());
}

/// A user without the right does not learn which objects exist.
#[tokio::test]
async fn who_may_not_is_answered_the_same_whatever_is_there() {
    let scene = Scene::begin().await;
    scene.halts();
    scene.runs("echo");
    let paths = [
        ("PUT", "virtualmachines/web/start", "virtualmachines/none/start"),
        ("PUT", "virtualmachines/web/migrate", "virtualmachines/none/migrate"),
        ("GET", "virtualmachineinstances/echo/console", "virtualmachineinstances/none/console"),
        ("GET", "virtualmachineinstances/echo/portforward/22", "virtualmachineinstances/none/portforward/22"),
        ("GET", "virtualmachineinstances/echo/guestosinfo", "virtualmachineinstances/none/guestosinfo"),
    ];
    for (method, there, not_there) in paths {
        let mut said = Vec::new();
        for path in [there, not_there] {
            let answer = scene.says(&head(method, &format!("{SUBRESOURCES}/{path}"), "mallory", "")).await;
            assert_eq!(answer.status, 401, "{path}: {answer:?}");
            said.push(answer.body);
        }
        assert_eq!(said[0], said[1], "{there}");
    }
    assert_eq!(scene.api.reviews().len(), paths.len() * 2);
    assert!(scene.api.patched().is_empty());
    scene.handler.has_open(0).await;
}

/// A review can be forged. It is answered only for callers that can read the webhook configurations: others
/// get no clone token, and read no preset of another namespace from the defaults.
#[tokio::test]
async fn a_review_is_answered_below_the_segment_of_the_webhook_configurations_alone() {
    let scene = Scene::begin().await;
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "CREATE", "namespace": "n", "name": "web",
            "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"},
            "object": {"metadata": {"name": "web"}, "spec": {"domain": {"devices": {}}}},
            "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
        },
    })
    .to_string();
    let about = format!(
        "content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        review.len()
    );
    let asks = async |path: &str| {
        let text = format!("POST {path} HTTP/1.1\r\nhost: virt-api\r\n{about}\r\n{review}");
        scene.stranger().says(&text).await.0
    };
    let hook = "/virtualmachineinstances-mutate";
    let other = SEGMENTS[1].replace('b', "d");
    for path in [
        hook.to_owned(),
        format!("/{other}{hook}"),
        format!("/{}{hook}", SEGMENTS[1].to_uppercase()),
        format!("/{}/{hook}", SEGMENTS[1]),
        format!("/{}/..{hook}", SEGMENTS[1]),
        format!("/-{hook}"),
    ] {
        let answer = asks(&path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("patch") && !answer.body.contains("allowed"), "{path}: {answer:?}");
    }
    for segment in SEGMENTS {
        let answer = asks(&format!("/{segment}{hook}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("\"allowed\":true"), "{answer:?}");
    }
    let log = scene.program.log();
    assert!(SEGMENTS.iter().all(|segment| !log.contains(segment)), "{log}");
    // Metrics do not reveal the segment either: their labels are the names of webhooks.
    let metrics = scene.stranger().says("GET /metrics HTTP/1.1\r\nhost: virt-api\r\n\r\n").await.0;
    assert!(SEGMENTS.iter().all(|segment| !metrics.body.contains(segment)), "{metrics:?}");
}
