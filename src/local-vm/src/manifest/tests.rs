//! Tests of whole manifests: their objects, and the report of faults.

use super::*;
use crate::error::ErrorKind;

fn read_text(text: &str) -> Objects {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vm.yaml");
    std::fs::write(&path, text).unwrap();
    read(&[path.display().to_string()]).unwrap()
}

/// The findings as a person reads them, without the folder.
fn told(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| finding.to_string().split_once("vm.yaml:").unwrap().1.to_owned()).collect()
}

const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
spec:
  runStrategy: Always
  template:
    metadata:
      labels: {app: web}
    spec:
      domain:
        memory: {guest: 1Gi}
        devices:
          disks:
          - name: root
            disk: {bus: virtio}
      volumes:
      - name: root
        dataVolume: {name: web-root}
  dataVolumeTemplates:
  - metadata: {name: web-root}
    spec:
      storage: {resources: {requests: {storage: 10Gi}}}
      source:
        http: {url: 'http://server/disk.qcow2'}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: ssh-ed25519 AAAA}
";

#[test]
fn a_vm_is_what_its_template_says() {
    let objects = read_text(VM);
    assert_eq!((told(&objects.faults), told(&objects.warnings)), (vec![], vec![]));
    let vmi = &objects.vmis[0];
    assert_eq!(vmi.object.metadata.name.as_deref(), Some("web"));
    assert_eq!(vmi.object.metadata.labels["app"], "web");
    assert!(objects.data_volumes["web-root"].object.spec.source.as_ref().unwrap().http.is_some());
    assert_eq!(objects.data_volumes["web-root"].object.spec.size().unwrap().bytes(), Some(10 << 30));
    assert_eq!(objects.secrets["keys"].object.string_data["key"], "ssh-ed25519 AAAA");
    let finding = vmi.origin.finding("spec.domain.devices.disks[0].disk.bus", "x");
    assert_eq!(
        (finding.line, finding.field.as_str()),
        (16, "spec.template.spec.domain.devices.disks[0].disk.bus")
    );
    assert_eq!(vmi.origin.finding("metadata.name", "x").line, 4);
}

#[test]
fn what_a_cluster_alone_can_fill_is_refused() {
    let http = "http: {url: 'http://server/disk.qcow2'}";
    let archive = VM.replace("      source:", "      contentType: archive\n      source:");
    for (text, fault) in [
        (VM.replace(http, "upload: {}"), "25: spec.source.upload: not supported yet"),
        (archive, "24: spec.contentType: not supported yet"),
    ] {
        let faults = told(&read_text(&text).faults);
        assert!(faults.len() == 1 && faults[0].starts_with(fault), "{faults:#?}");
    }
}

#[test]
fn every_fault_is_told_with_its_line_and_what_is_not_known_is_only_a_warning() {
    let text = VM
        .replace("{guest: 1Gi}", "{guest: much}")
        .replace("{bus: virtio}", "{bus: virtio, colour: red}")
        .replace("http: {url: 'http://server/disk.qcow2'}", "vddk: {url: 'http://server/disk.qcow2'}")
        .replace("metadata: {name: keys}", "metadata: {name: Keys}")
        + "---\nkind: Service\napiVersion: v1\n---\nkind: Pod\n";
    let objects = read_text(&text);
    let faults = told(&objects.faults);
    assert_eq!(faults.len(), 4, "{faults:#?}");
    assert!(faults[0].starts_with("12: spec.template.spec.domain.memory.guest: must be"), "{faults:#?}");
    assert!(faults[1].starts_with("25: spec.source.vddk: not supported yet"), "{faults:#?}");
    assert!(faults[2].starts_with("29: metadata.name: \"Keys\" is not a valid name"), "{faults:#?}");
    assert!(faults[3].starts_with("35: apiVersion: "), "{faults:#?}");
    let unknown = "16: spec.template.spec.domain.devices.disks[0].disk.colour: this field is not known, and has no effect";
    let kind = "32: kind: Service of v1 is not used here, and was left out";
    assert_eq!(told(&objects.warnings), [unknown, kind]);

    let text = VM.replace("{bus: virtio}", "{bus: virtio, colour: red}").replace("http: {", "vddk: {");
    let objects = read_text(&text);
    assert_eq!(
        told(&objects.faults),
        [
            "25: spec.source.vddk: not supported yet\n    with coracle run a disk comes from http, s3, gcs, registry or blank"
        ]
    );
    assert_eq!(told(&objects.warnings), [unknown]);
    let e = refusal("vm.yaml", objects.faults);
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().starts_with("vm.yaml has one fault:\n  "), "{e}");
}

#[test]
fn an_unknown_run_strategy_is_refused_with_the_known_ones() {
    let text = VM.replace("runStrategy: Always", "runStrategy: Allways");
    let faults = told(&read_text(&text).faults);
    let said = "spec.runStrategy: Invalid RunStrategy (Allways); did you mean Always? The known values are ";
    assert!(faults.len() == 1 && faults[0].contains(said), "{faults:#?}");
}

#[test]
fn a_list_is_its_items() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: a\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: a\n";
    let objects = read_text(text);
    assert!(objects.config_maps.contains_key("a"));
    let faults = told(&objects.faults);
    assert!(
        faults[0].starts_with("11: metadata.name: another object of this kind is called \"a\""),
        "{faults:?}"
    );
}

#[test]
fn one_of_several_vms_is_chosen_by_its_name() {
    let vmi = |name: &str| {
        format!(
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {{name: {name}}}\nspec: {{domain: {{}}}}\n---\n"
        )
    };
    let objects = read_text(&(vmi("a") + &vmi("b")));
    assert_eq!(told(&objects.faults), Vec::<String>::new());
    let e = objects.choose("vm.yaml", &Selection::Only).unwrap_err();
    assert!(e.to_string().contains("2 VMs: a, b; choose one with --name"), "{e}");
    assert_eq!(objects.choose("vm.yaml", &Selection::Named("b".into())).unwrap().len(), 1);
    assert_eq!(objects.choose("vm.yaml", &Selection::All).unwrap().len(), 2);
    assert!(objects.choose("vm.yaml", &Selection::Named("c".into())).is_err());
    let none = read_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert_eq!(none.choose("vm.yaml", &Selection::Only).unwrap_err().kind(), ErrorKind::Refused);
}

/// A VM without a size, and its documents behind it.
fn sized(matchers: &str, beside: &str) -> Objects {
    let vm = VM.replace("        memory: {guest: 1Gi}\n", "").replace("  runStrategy: Always\n", matchers);
    read_text(&format!("{vm}---\n{beside}"))
}

#[test]
fn a_vm_has_the_size_of_an_instance_type_of_the_manifest_or_of_ours() {
    let memory = |objects: &Objects| {
        assert_eq!(told(&objects.faults), [""; 0]);
        let domain = &objects.vmis[0].object.spec.domain;
        (
            domain.memory.as_ref().unwrap().guest.as_ref().unwrap().to_string(),
            domain.cpu.clone().unwrap().sockets,
        )
    };
    let own = "apiVersion: instancetype.kubevirt.io/v1beta1\nkind: VirtualMachineInstancetype\n\
               metadata: {name: small}\nspec: {cpu: {guest: 3}, memory: {guest: 96Mi}}\n";
    let found = sized("  instancetype: {name: small, kind: virtualmachineinstancetype}\n", own);
    assert_eq!(memory(&found), ("96Mi".to_owned(), Some(3)));
    let ours = sized("  instancetype: {name: u1.medium}\n  preference: {name: fedora}\n", own);
    assert_eq!(memory(&ours), ("4Gi".to_owned(), Some(1)));
    let labelled = VM.replace("  runStrategy: Always\n", "  instancetype: {inferFromVolume: root}\n");
    let labelled = labelled.replace("        memory: {guest: 1Gi}\n", "").replace(
        "- metadata: {name: web-root}",
        "- metadata: {name: web-root, labels: {instancetype.kubevirt.io/default-instancetype: u1.small}}",
    );
    assert_eq!(memory(&read_text(&labelled)), ("2Gi".to_owned(), Some(1)));
}

#[test]
fn what_does_not_fit_is_told_with_its_line() {
    let faults = |matchers: &str| told(&sized(matchers, "kind: List\napiVersion: v1\nitems: []\n").faults);
    let gone = faults("  instancetype: {name: gone}\n");
    assert!(
        gone[0].contains("spec.instancetype: Failure to find instancetype:")
            && gone[0].contains("\"gone\" not found"),
        "{gone:?}"
    );
    let revised = faults("  instancetype: {name: u1.small, revisionName: a}\n");
    assert!(revised[0].contains("spec.instancetype.revisionName"), "{revised:?}");
    let small = faults("  instancetype: {name: u1.nano}\n  preference: {name: windows.11}\n");
    assert!(small[0].contains("failure checking preference requirements"), "{small:?}");
    let both = read_text(&VM.replace("  runStrategy: Always\n", "  instancetype: {name: u1.nano}\n"));
    assert!(
        told(&both.faults)[0].contains("memory.guest conflicts with selected instance type"),
        "{:?}",
        both.faults
    );
}
