//! Upload of a disk from the browser to a DataVolume: dropped or chosen, stalled, resumed after a reload and
//! after a broken connection to the cluster; and its error messages.

use crate::Page;
use crate::browser::Browser;
use crate::server::{ApiServer, status};
use serde_json::json;
use std::path::PathBuf;
use tests::http::pattern;
use tests::upload_proxy::{Manners, UploadProxy};

const PVC: &str = "/api/v1/namespaces/blue/persistentvolumeclaims/disk";
const DVS: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes";
const DV: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes/disk";
const CONFIG: &str = "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config";
const TOKENS: &str = "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/blue/uploadtokenrequests";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// Size of the disk; the sockets between here and the upload proxy buffer some 20 MiB.
const SIZE: usize = 80 << 20;
const MIB: u64 = 1 << 20;
const POST: &str = "POST /v1beta1/upload-tus";
const HEAD: &str = "HEAD /v1beta1/upload-tus/0123.abc";

fn patch(offset: u64) -> String {
    format!("PATCH /v1beta1/upload-tus/0123.abc @{offset}")
}

/// A page about a cluster that takes an upload of a DataVolume `disk`, its upload proxy, and a file for it.
struct Story {
    page: Page,
    proxy: UploadProxy,
    disk: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Story {
    fn new() -> Story {
        let proxy = UploadProxy::start(Manners { tus: true, early: true, ..Manners::default() });
        let page = Page::of(3, &[]);
        let server = &page.server;
        answers(server, DV, &json!({"metadata": {"name": "disk"}, "status": {"phase": "UploadReady"}}));
        answers(server, CONFIG, &json!({"spec": {"uploadProxyURLOverride": proxy.url()}}));
        answers(server, CLASSES, &json!({"items": [{"metadata": {"name": "fast"}}], "metadata": {}}));
        server.answers(&format!("POST {DVS}"), 201, "{}");
        server.answers(&format!("POST {TOKENS}"), 201, r#"{"status": {"token": "t"}}"#);
        let whole = server.clone();
        proxy.when_whole(move || {
            let annotations = json!({"cdi.kubevirt.io/storage.pod.phase": "Succeeded"});
            answers(&whole, PVC, &json!({"metadata": {"name": "disk", "annotations": annotations}}));
        });
        let disk = pattern(SIZE);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Disk.img"), &disk).unwrap();
        Story { page, proxy, disk, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("Disk.img")
    }

    #[track_caller]
    fn has_the_disk(&self) {
        let uploads = self.proxy.uploads();
        assert!(uploads.len() == 1 && uploads[0] == self.disk, "{} uploads", uploads.len());
    }
}

fn answers(server: &ApiServer, path: &str, object: &serde_json::Value) {
    server.answers(&format!("GET {path}"), 200, &object.to_string());
}

/// Expression that is true if the upload's progress is between these bytes.
fn stands(from: u64, to: u64) -> String {
    let part = format!("(document.querySelector('#uploads progress')?.value ?? 0) * {SIZE}");
    format!("{part} > {from} && {part} < {to}")
}

fn enter(browser: &mut Browser) {
    browser.key("Enter", "Enter", 13, 0, "\r");
}

#[test]
fn a_disk_that_is_dropped_is_uploaded_and_outlives_the_page() {
    let Some(mut browser) = Browser::start() else { return };
    let story = Story::new();
    story.proxy.holds(8 * MIB);
    browser.size(1280, 800, false);
    browser.prefers("light");
    browser.open(&story.page.address());
    browser.says("#link", "Live");
    browser.drops("#list table", &story.file());
    browser.says("#new-says", "raw, a disk of 80Mi");
    browser.until("document.querySelector('#new-name').value === 'disk' && document.querySelector('#new-size').value === '80Mi'");
    browser.until("[...document.querySelectorAll('#new-class option')].some((o) => o.value === 'fast')");
    browser.picture("upload-form");
    // The name is chosen already: Enter is enough.
    enter(&mut browser);
    browser.says("#uploads", "Disk.img → DataVolume disk in blue");
    browser.says("#uploads", "Uploading");
    browser.until(&stands(8 * MIB - 1, 70 * MIB));
    browser.says("#uploads .far", "of 80 MiB");
    browser.picture("upload-light");
    browser.prefers("dark");
    browser.picture("upload-dark");
    let made = story.page.server.asked();
    assert_eq!(made, [format!("POST {DVS}"), format!("POST {TOKENS}")]);

    // A reloaded page shows the upload, and resumes it when the file is chosen again.
    browser.call("Page.reload", &json!({}));
    browser.says("#uploads", "Disk.img → DataVolume disk in blue");
    browser.says("#uploads", "Waits for the file");
    browser.says("#uploads", "or drop it here.");
    // Another file of that name is another upload.
    let other = story.folder.path().join("other").join("Disk.img");
    std::fs::create_dir(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "another file").unwrap();
    browser.chooses("#file", &other);
    browser.says("#new-says", "raw, a disk of 1Mi");
    enter(&mut browser);
    browser.says("#new-says.bad", "Disk.img is being uploaded to DataVolume disk in namespace blue");
    browser.value("document.querySelector('#new-cancel').click()");
    browser.chooses("#file", &story.file());
    browser.until(
        "[...document.querySelectorAll('#uploads button')].some((b) => !b.hidden && b.innerText === 'Pause')",
    );
    assert!(story.proxy.uploads().is_empty());
    story.proxy.goes_on();
    browser.says("#uploads", "Done");
    browser.says("#uploads", "a VM names it in its volumes as dataVolume disk");
    browser.picture("upload-done");
    story.has_the_disk();
    // The page was closed; the connection to the cluster was not.
    assert_eq!(story.proxy.asked(), [POST, &patch(0)]);
    assert_eq!(story.proxy.taken(), SIZE as u64);
    browser.says("#said", "Upload to disk: Done");
    let dismiss =
        "[...document.querySelectorAll('#uploads button')].find((b) => b.innerText === 'Dismiss').click()";
    browser.value(dismiss);
    browser.until("document.querySelector('#uploads').hidden");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_disk_is_chosen_on_a_phone_paused_and_gone_on_with_where_the_cluster_broke_off() {
    let Some(mut browser) = Browser::start() else { return };
    let story = Story::new();
    story.proxy.holds(8 * MIB);
    story.proxy.cuts(&[12 * MIB]);
    browser.size(390, 780, true);
    browser.prefers("light");
    browser.open(&story.page.address());
    browser.says("#link", "Live");
    // By the keyboard alone.
    browser.value("document.querySelector('#upload').focus()");
    browser.call("Page.setInterceptFileChooserDialog", &json!({"enabled": true}));
    enter(&mut browser);
    browser.chooses("#file", &story.file());
    browser.says("#new-says", "raw, a disk of 80Mi");
    browser.picture("phone-upload-form");
    let wide = browser.value("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    assert!(wide <= 0, "{wide} pixels too wide");
    enter(&mut browser);
    browser.until(&stands(8 * MIB - 1, 70 * MIB));
    let press = |label: &str| {
        format!(
            "[...document.querySelectorAll('#uploads button')].find((b) => !b.hidden && b.innerText === '{label}').click()"
        )
    };
    browser.value(&press("Pause"));
    browser.says("#uploads", "Paused");
    browser.picture("phone-upload");
    story.proxy.goes_on();
    browser.value(&press("Go on"));
    browser.says("#uploads", "Done");
    story.has_the_disk();
    assert_eq!(story.proxy.asked(), [POST, &patch(0), HEAD, &patch(12 * MIB)]);
    let wide = browser.value("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    assert!(wide <= 0, "{wide} pixels too wide");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_goes_wrong_is_told_in_sentences() {
    let Some(mut browser) = Browser::start() else { return };
    let story = Story::new();
    browser.size(1280, 800, false);
    browser.open(&story.page.address());
    browser.says("#link", "Live");
    // An unsupported disk is reported before a byte is sent.
    let vmdk = story.folder.path().join("other.vmdk");
    std::fs::write(&vmdk, [&b"KDMV"[..], &[0; 1000]].concat()).unwrap();
    browser.chooses("#file", &vmdk);
    browser.says("#new-says.bad", "vmdk");
    browser.value("document.querySelector('#new-cancel').click()");
    // An object that the API server refuses.
    let no = "datavolumes.cdi.kubevirt.io is forbidden: exceeded quota";
    story.page.server.answers(&format!("POST {DVS}"), 403, &status(403, no));
    browser.chooses("#file", &story.file());
    browser.says("#new-says", "raw, a disk of 80Mi");
    browser.value("(() => { const s = document.querySelector('#new-size'); s.value = '10GB' })()");
    enter(&mut browser);
    browser.says("#new-says.bad", "10GB");
    browser.value("(() => { const s = document.querySelector('#new-size'); s.value = '80Mi' })()");
    enter(&mut browser);
    browser.says("#uploads .bad", "cannot create DataVolume disk in namespace blue: ");
    browser.says("#uploads .bad", "exceeded quota");
    browser.picture("upload-failed");
    assert!(story.proxy.asked().is_empty());
    // The same name is used a second time.
    story.page.server.answers(&format!("POST {DVS}"), 201, "{}");
    browser.chooses("#file", &story.file());
    browser.says("#new-says", "raw, a disk of 80Mi");
    enter(&mut browser);
    browser.says("#uploads", "Done");
    story.has_the_disk();
    assert_eq!(browser.complaints(), [""; 0]);
}
