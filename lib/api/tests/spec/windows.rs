//! The manifest of docs/how-to/windows.md is what a cluster takes, and has what the document says.

use api::defaults::{DefaultsContext, apply, vmi_of};
use api::machine::{Boot, Hyperv, Machine, Settings, Tpm};
use api::vm::VirtualMachine;
use serde_json::json;

#[test]
fn the_manifest_of_the_document_is_a_windows_guest() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/windows.md");
    let text = std::fs::read_to_string(path).unwrap();
    let manifest = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let object = api::yaml::value(manifest).unwrap();
    let vm: VirtualMachine = api::wire::read(object).unwrap();
    let mut vmi = vmi_of(&vm).unwrap();
    vmi.metadata.namespace = Some("n".to_owned());
    assert_eq!(api::wire::unknown(&vmi).len(), 0);
    apply(&mut vmi, &DefaultsContext::new("5d307ca9-b3ef-428c-8861-06e72d69f223"));
    let machine = Machine::check(&vmi, &Settings::of_cluster(&json!({}))).unwrap();
    assert!(matches!(machine.firmware.boot, Boot::Efi { secure: true, persistent: true }));
    assert_eq!(machine.tpm, Some(Tpm { persistent: true }));
    let Hyperv::These(these) = &machine.features.hyperv else { panic!("no enlightenments") };
    assert!(these.synictimer.is_some_and(|timer| timer.direct) && these.spinlocks == Some(8191));
}
