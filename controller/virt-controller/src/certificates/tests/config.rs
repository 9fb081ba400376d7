//! The CDIConfig.

use super::*;
use api::cdi::CONFIG;

#[test]
fn clients_are_told_where_the_proxy_is_and_whom_to_believe() {
    let mut sim = installed(&json!({}));
    settle(&mut sim);
    let key = Key::new(Kind::CDIConfig, "", CONFIG);
    let bundle =
        |sim: &Sim| sim.get(&Key::new(Kind::ConfigMap, "kubevirt", AUTHORITY))["data"]["ca-bundle"].clone();
    let overhead = json!({"global": "0.06"});
    assert_eq!(
        sim.get(&key)["status"],
        json!({"uploadProxyCA": bundle(&sim), "filesystemOverhead": &overhead})
    );
    // What others have written stays, and what is wished is taken.
    sim.change(&key, json!({"spec": {"uploadProxyURLOverride": "https://upload.example"}}));
    sim.change(&key, json!({"status": {"preallocation": true}}));
    sim.advance(60);
    sim.vanish(&Key::new(Kind::Secret, "kubevirt", AUTHORITY));
    settle(&mut sim);
    let expected = json!({
        "uploadProxyURL": "https://upload.example", "uploadProxyCA": bundle(&sim), "filesystemOverhead": overhead,
        "preallocation": true,
    });
    assert_eq!(sim.get(&key)["status"], expected);
    sim.change(&key, json!({"spec": {"uploadProxyURLOverride": null}}));
    settle(&mut sim);
    assert!(sim.get(&key)["status"]["uploadProxyURL"].is_null());
    // It is made again where somebody deletes it.
    sim.vanish(&key);
    settle(&mut sim);
    assert!(sim.objects.contains_key(&key));
}
