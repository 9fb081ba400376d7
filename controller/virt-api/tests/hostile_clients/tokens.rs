//! Upload tokens: a user who may create an UploadTokenRequest gets one for the named PVC, and other users get
//! none.

use crate::scene::{ANN, Scene};
use jiff::Timestamp;
use serde_json::{Value, json};
use serve::token::Verifier;

const KEY: &[u8] = include_bytes!("../../../serve/src/token/one.pem");
const PUBLIC: &[u8] = include_bytes!("../../../serve/src/token/one.pub.pem");
const REQUESTS: &str = "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/n/uploadtokenrequests";

/// A user's request with this body.
fn request(method: &str, path: &str, user: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: virt-api\r\nx-remote-user: {user}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_token_is_for_who_may_and_for_the_pvc_that_is_named() {
    let scene = Scene::begin().await;
    let wanted = json!({"metadata": {"generateName": "token-for-virtctl-", "namespace": "n"}, "spec": {"pvcName": "disk"}});
    let asks = request("POST", REQUESTS, ANN, &wanted);
    // There is no key yet.
    assert_eq!(scene.says(&asks).await.status, 503);
    scene.program.signs_by(KEY);
    let mut answer = scene.says(&asks).await;
    while answer.status == 503 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        answer = scene.says(&asks).await;
    }
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((&answer["kind"], &answer["spec"]), (&json!("UploadTokenRequest"), &wanted["spec"]));
    let verifier = Verifier::default();
    verifier.take(PUBLIC).unwrap();
    let claims = verifier.verify(answer["status"]["token"].as_str().unwrap(), Timestamp::now()).unwrap();
    assert_eq!((claims.namespace.as_str(), claims.name.as_str()), ("n", "disk"));
    // The review has the resource as in the roles.
    let reviews = scene.api.reviews();
    let attributes = &reviews.last().unwrap()["resourceAttributes"];
    assert_eq!(
        attributes,
        &json!({
            "group": "upload.cdi.kubevirt.io", "version": "v1beta1", "verb": "create", "namespace": "n",
            "resource": "uploadtokenrequests", "subresource": "", "name": "",
        })
    );
    // `kubectl apply` reads the object first, and a dry run gets no token.
    let one = format!("{REQUESTS}/a");
    let looked = scene.says(&request("GET", &one, ANN, &Value::Null)).await;
    let status: Value = serde_json::from_str(&looked.body).unwrap();
    assert_eq!(
        (looked.status, &status["reason"], &status["details"]["name"]),
        (404, &json!("NotFound"), &json!("a"))
    );
    let tried = scene.says(&request("POST", &format!("{REQUESTS}?dryRun=All"), ANN, &wanted)).await;
    assert_eq!((tried.status, tried.body.contains("token\":")), (200, false), "{}", tried.body);
    for (method, path) in
        [("GET", REQUESTS), ("DELETE", one.as_str()), ("PUT", one.as_str()), ("POST", one.as_str())]
    {
        assert_eq!(scene.says(&request(method, path, ANN, &wanted)).await.status, 405, "{method} {path}");
    }
    assert_eq!(scene.api.patched(), Vec::<String>::new(), "nothing is stored");
}

#[tokio::test]
async fn nobody_else_gets_a_token() {
    let scene = Scene::begin().await;
    scene.program.signs_by(KEY);
    let wanted = json!({"spec": {"pvcName": "disk"}});
    let asks = request("POST", REQUESTS, "eve", &wanted);
    let refused = scene.says(&asks).await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("cannot create resource \"uploadtokenrequests\""), "{}", refused.body);
    // Names in the headers of a client other than the aggregator are ignored.
    let asks = request("POST", REQUESTS, ANN, &wanted);
    let (refused, _) = scene.stranger().says(&asks).await;
    assert_eq!((refused.status, refused.body.contains("token\":")), (401, false), "{}", refused.body);
    let elsewhere = json!({"metadata": {"namespace": "other"}, "spec": {"pvcName": "disk"}});
    assert_eq!(scene.says(&request("POST", REQUESTS, ANN, &elsewhere)).await.status, 400);
}
