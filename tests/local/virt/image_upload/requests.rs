//! Requests to the API server and the proxy when nothing hinders the upload, and when the target cannot be
//! used.

use super::*;

const LINE: &str = "dv d --size=1Gi --image-path=disk.img";

#[test]
fn a_data_volume_is_created_filled_and_waited_for_as_virtctl_does() {
    let story = Story::new(upstream());
    let ran = story.run(LINE).ok();
    let url = story.proxy.url();
    assert_eq!(
        out(&ran),
        format!(
            "PVC blue/d not found \n\
             DataVolume blue/d created\n\
             Uploading data to {url}\n\
             Uploading data completed successfully, waiting for processing to complete, you can hit ctrl-c without interrupting the progress\n\
             Processing completed successfully\n\
             Uploading disk.img completed successfully\n"
        )
    );
    let asked = story.server().asked();
    let made = body(&asked, &format!("POST {DVS}"));
    assert_eq!(
        made["spec"],
        json!({
            "source": {"upload": {}}, "contentType": "kubevirt",
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        })
    );
    assert_eq!(made["metadata"], json!({"name": "d", "namespace": "blue"}));
    let wanted = body(&asked, &format!("POST {TOKENS}"));
    assert_eq!(wanted["spec"], json!({"pvcName": "d"}));
    assert_eq!(wanted["metadata"], json!({"generateName": "token-for-virtctl-", "namespace": "blue"}));
    let requests: Vec<_> = asked.iter().map(|one| one.split(" {").next().unwrap()).collect();
    assert_eq!(
        requests,
        [
            format!("GET {PVC}"),
            format!("POST {DVS}"),
            format!("GET {DV}"),
            format!("GET {CONFIG}"),
            format!("POST {TOKENS}"),
            format!("GET {PVC}"),
        ]
    );
    let asked = ["POST /v1beta1/upload-tus", "HEAD /v1beta1/upload-async", "POST /v1beta1/upload-async"];
    assert_eq!(story.proxy.asked(), asked);
    story.has_the_disk();
}

#[test]
fn a_server_without_the_early_path_is_sent_to_by_the_older_one() {
    let story = Story::new(Manners::default());
    story.run(&format!("{LINE} --uploadproxy-url={}", story.proxy.url())).ok();
    let asked = ["POST /v1beta1/upload-tus", "HEAD /v1beta1/upload-async", "POST /v1beta1/upload"];
    assert_eq!(story.proxy.asked(), asked);
    assert!(!story.asked().contains(&format!("GET {CONFIG}")), "the address was said");
    story.has_the_disk();
    // An address with a path is used as it is.
    let story = Story::new(ours());
    story.run(&format!("{LINE} --uploadproxy-url={}/v1beta1/upload-async", story.proxy.url())).ok();
    assert_eq!(story.proxy.asked(), ["HEAD /v1beta1/upload-async", "POST /v1beta1/upload-async"]);
    story.has_the_disk();
}

#[test]
fn a_pvc_is_created_with_all_that_was_said_and_an_archive_does_not_go_by_tus() {
    let story = Story::new(ours());
    let ready = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.ready": "true"}}});
    story.server().answers_once(&format!("GET {PVC}"), 404, "{}");
    story.server().answers_once(&format!("GET {PVC}"), 200, ready.to_string());
    story.server().has("/apis/storage.k8s.io/v1/storageclasses/fast", &json!({}));
    let line = "pvc d --size=1Gi --archive-path=disk.img --storage-class=fast --access-mode=ReadWriteMany \
                --force-bind --default-instancetype=t --default-preference=p --volume-mode=filesystem";
    let ran = story.run(line).ok();
    assert!(out(&ran).contains("PersistentVolumeClaim blue/d created\n"), "{}", out(&ran));
    let asked = story.server().asked();
    assert_eq!(asked[1], "GET /apis/storage.k8s.io/v1/storageclasses/fast");
    let made = body(&asked, &format!("POST {PVCS}"));
    assert_eq!(
        made["metadata"]["annotations"],
        json!({
            "cdi.kubevirt.io/storage.upload.target": "",
            "cdi.kubevirt.io/storage.contentType": "archive",
            "cdi.kubevirt.io/storage.bind.immediate.requested": "",
        })
    );
    assert_eq!(
        made["metadata"]["labels"],
        json!({
            "cdi.kubevirt.io/applyStorageProfile": "true",
            "instancetype.kubevirt.io/default-instancetype": "t",
            "instancetype.kubevirt.io/default-preference": "p",
        })
    );
    assert_eq!(
        made["spec"],
        json!({
            "accessModes": ["ReadWriteMany"], "storageClassName": "fast", "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Gi"}},
        })
    );
    assert_eq!(story.proxy.asked(), ["HEAD /v1beta1/upload-async", "POST /v1beta1/upload-async"]);
    story.has_the_disk();
}

#[test]
fn a_pvc_that_exists_is_marked_and_filled() {
    let story = Story::new(upstream());
    let there = json!({"metadata": {"name": "d", "resourceVersion": "7"}, "spec": {"x": 1}});
    let ready = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.ready": "true"}}});
    story.server().answers_once(&format!("GET {PVC}"), 200, there.to_string());
    story.server().answers_once(&format!("GET {PVC}"), 200, ready.to_string());
    story.server().answers(&format!("PUT {PVC}"), 200, "{}");
    let ran = story.run("pvc d --no-create --image-path=disk.img").ok();
    assert!(out(&ran).starts_with("Using existing PVC blue/d\nUploading data to "), "{}", out(&ran));
    let put = body(&story.server().asked(), &format!("PUT {PVC}"));
    let annotations = json!({"cdi.kubevirt.io/storage.upload.target": ""});
    let wanted = json!({
        "metadata": {"name": "d", "resourceVersion": "7", "annotations": annotations}, "spec": {"x": 1},
    });
    assert_eq!(put, wanted);
    story.has_the_disk();
}

#[test]
fn a_place_that_is_not_to_be_had_is_told_before_a_byte_is_sent() {
    let story = Story::new(upstream());
    let server = story.server();
    let ran = story.run("dv d --no-create --image-path=disk.img").refused(4, "cannot upload to DataVolume d");
    assert_eq!(out(&ran), "PVC blue/d not found \n");
    story
        .run("dv d --archive-path=disk.img")
        .refused(2, "when creating a resource, the size must be specified");
    story.run("dv d --size=1Gi --image-path=none.img").refused(4, "none.img is neither a file here");
    let ran = story.run(&format!("{LINE} --storage-class=none"));
    ran.refused(4, "cannot create DataVolume d in namespace blue: ");
    assert!(!story.asked().iter().any(|one| one.starts_with("POST")), "nothing is created");

    let target = |more: Value| {
        let mut annotations = json!({"cdi.kubevirt.io/storage.upload.target": ""});
        annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "d", "annotations": annotations}, "status": {"phase": "Bound"}})
    };
    server.has(PVC, &filled());
    story.run(LINE).refused(1, "PVC d already successfully imported/cloned/updated");
    server.has(PVC, &json!({"metadata": {"name": "d"}}));
    story.run(LINE).refused(1, "PVC d not available for upload");
    server.has(PVC, &target(json!({})));
    story.run("dv d --archive-path=disk.img").refused(1, "PVC d doesn't have archive contentType annotation");
    let populated = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.usePopulator": "true"}}});
    server.has(DV, &populated);
    story.run(LINE).refused(1, "PVC d already successfully populated");
    let mut pending = target(json!({}));
    pending["status"]["phase"] = json!("Pending");
    server.has(PVC, &pending);
    story.run(LINE).refused(1, "Unable to get PVC Prime name from PVC blue/d");
    pending["metadata"]["annotations"]["cdi.kubevirt.io/storage.populator.pvcPrime"] = json!("prime-x");
    server.has(PVC, &pending);
    story.run(LINE).refused(4, "Unable to get PVC Prime blue/d");
    server.forgets(DV);
    story.run(LINE).refused(4, "No DataVolume is associated with the existing PVC blue/d");
    server.has(PVC, &target(json!({
        "cdi.kubevirt.io/storage.deleteAfterCompletion": "true", "cdi.kubevirt.io/storage.pod.phase": "Succeeded",
    })));
    story
        .run(LINE)
        .refused(1, "DataVolume already garbage-collected: Assuming PVC blue/d is successfully populated");
    assert!(story.proxy.asked().is_empty());
}

#[test]
fn a_proxy_that_nobody_announces_is_to_be_named() {
    let story = Story::new(upstream());
    for config in [None, Some(json!({"status": {"uploadProxyURL": ""}}))] {
        match config {
            None => story.server().forgets(CONFIG),
            Some(config) => story.server().has(CONFIG, &config),
        }
        story.run(LINE).refused(4, "uploadproxy URL not found; say --uploadproxy-url=https://HOST:PORT");
    }
    story.server().has(CONFIG, &json!({"status": {"uploadProxyURL": story.proxy.url()}}));
    story.run(LINE).ok();
    story.has_the_disk();
}

#[test]
fn a_data_source_is_made_or_led_to_the_pvc() {
    let story = Story::new(upstream());
    let line = format!("{LINE} --datasource --default-preference=p");
    let ran = story.run(&line).ok();
    assert!(out(&ran).contains("Created a new DataSource blue/d\n"), "{}", out(&ran));
    let made = body(&story.server().asked(), &format!("POST {DATA_SOURCES}"));
    assert_eq!(made["spec"], json!({"source": {"pvc": {"name": "d", "namespace": "blue"}}}));
    assert_eq!(made["metadata"]["labels"], json!({"instancetype.kubevirt.io/default-preference": "p"}));

    let story = Story::new(upstream());
    let there = json!({"metadata": {"labels": {"l": "m"}}, "spec": {"source": {"pvc": {"name": "old"}}}});
    story.server().has(DATA_SOURCE, &there);
    story.server().answers(&format!("PATCH {DATA_SOURCE}"), 200, "{}");
    let ran = story.run(&line).ok();
    assert!(out(&ran).contains("Updated an existing DataSource blue/d\n"), "{}", out(&ran));
    let labels = json!({"l": "m", "instancetype.kubevirt.io/default-preference": "p"});
    assert_eq!(
        body(&story.server().asked(), &format!("PATCH {DATA_SOURCE}")),
        json!([
            {"op": "replace", "path": "/metadata/labels", "value": labels},
            {"op": "replace", "path": "/spec/source/pvc", "value": {"name": "d", "namespace": "blue"}},
        ])
    );
}

#[test]
fn flags_of_yesterday_are_understood_and_named() {
    let story = Story::new(upstream());
    let ready = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.ready": "true"}}});
    story.server().answers_once(&format!("GET {PVC}"), 404, "{}");
    story.server().answers_once(&format!("GET {PVC}"), 200, ready.to_string());
    let ran = story.run("--pvc-name=d --pvc-size=1Gi --block-volume --image-path=disk.img").ok();
    for said in [
        "Flag --pvc-name has been deprecated, specify the name as the second argument instead.\n",
        "Flag --pvc-size has been deprecated, use --size instead.\n",
        "Flag --block-volume has been deprecated, specify volume mode (filesystem/block) with --volume-mode instead.\n",
    ] {
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    let made = body(&story.server().asked(), &format!("POST {PVCS}"));
    assert_eq!(made["spec"]["volumeMode"], "Block");
    story.run("dv d").refused(2, "either image-path or archive-path must be provided");
}
