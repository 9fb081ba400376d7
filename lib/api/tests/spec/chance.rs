//! Objects by chance: hostile ones, and ones without a fault.

use crate::inventory::{Inventory, Kind};
use api::defaults::{Binding, DefaultsContext, apply};
use api::machine::Machine;
use api::quantity::Quantity;
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// Whatever stands in the fields: the check answers, the defaults are idempotent, and what they leave is readable.
    #[test]
    fn hostile_objects_are_answered(decisions in prop::collection::vec(any::<u8>(), 0..1500)) {
        let mut decide = Decisions(decisions.into_iter());
        let spec = hostile(&Inventory::read(), &Kind::Struct("VirtualMachineInstanceSpec".into()), &mut decide);
        let object = json!({"metadata": {"name": "one"}, "spec": spec});
        // Faults of form come first; what is left without the fields that have them is judged too.
        let mut faults = Vec::new();
        let vmi = VirtualMachineInstance::read(object, &api::wire::Path::root(), &mut faults).unwrap();
        judged(&vmi)?;
        let mut once = vmi.clone();
        apply(&mut once, &DefaultsContext::new(UUID));
        let mut twice = once.clone();
        apply(&mut twice, &DefaultsContext::new(UUID));
        prop_assert_eq!(&once, &twice);
        judged(&once)?;
        let again: VirtualMachineInstance = api::wire::read(once.write()).unwrap();
        prop_assert_eq!(Machine::check_again(&again), Machine::check_again(&once));
    }

    /// A manifest without a fault makes a [`Machine`] once the defaults have been applied, in full and as it is written.
    #[test]
    fn sound_objects_pass_the_check(decisions in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decide = Decisions(decisions.into_iter());
        let object = sound(&mut decide);
        let mut vmi: VirtualMachineInstance = api::wire::read(object.clone()).unwrap();
        let binding = if decide.yes() { Binding::Bridge } else { Binding::Masquerade };
        let given = DefaultsContext { binding, socket_ratio: decide.yes().then_some(4), ..DefaultsContext::new(UUID) };
        apply(&mut vmi, &given);
        let machine = Machine::check_again(&vmi);
        prop_assert!(machine.is_ok(), "{:#?} of {object:#}", machine.err());
        let machine = machine.unwrap();
        prop_assert_eq!(machine.disks.len(), vmi.spec.volumes.len());
        prop_assert_eq!(machine.interfaces.len(), vmi.spec.networks.len());
        let again: VirtualMachineInstance = api::wire::read(vmi.write()).unwrap();
        prop_assert_eq!(Machine::check_again(&again).unwrap(), machine);
    }

    /// Against one division of whole numbers.
    #[test]
    fn a_quantity_is_what_it_says(
        sign in prop::sample::select(vec!["", "+", "-"]),
        whole in "[0-9]{0,5}",
        fraction in prop::option::of("[0-9]{0,4}"),
        unit in prop::sample::select(UNITS.to_vec()),
    ) {
        let point = fraction.as_ref().map(|digits| format!(".{digits}")).unwrap_or_default();
        let text = format!("{sign}{whole}{point}{}", unit.0);
        let digits = format!("{whole}{}", fraction.as_deref().unwrap_or_default());
        let read = Quantity::parse(&text);
        if digits.is_empty() {
            prop_assert!(read.is_err(), "{text}");
        } else {
            let (_, times, by) = unit;
            let divisor = by * 10_i128.pow(fraction.unwrap_or_default().len() as u32);
            let product = digits.parse::<i128>().unwrap() * times * 1_000_000_000;
            let up = i128::from(product % divisor != 0);
            let nanos = (product / divisor + up) * if sign == "-" { -1 } else { 1 };
            let read = read.unwrap();
            prop_assert_eq!((read.nanos(), read.as_str()), (nanos, text.as_str()));
            let bytes = u64::try_from(nanos.div_euclid(1_000_000_000) + i128::from(nanos % 1_000_000_000 != 0));
            prop_assert_eq!(read.bytes(), bytes.ok().filter(|_| nanos >= 0));
        }
    }

    #[test]
    fn any_text_is_a_quantity_or_none(text in ".*", odd in "[+-]?[0-9.]{0,60}[eEKMGTPinumk+0-9-]{0,8}") {
        for text in [text, odd] {
            if let Ok(quantity) = Quantity::parse(&text) {
                prop_assert_eq!(quantity.as_str(), text.as_str());
            }
        }
    }
}

/// A unit, what it multiplies by, and what it divides by.
const UNITS: [(&str, i128, i128); 20] = [
    ("n", 1, 1_000_000_000),
    ("u", 1, 1_000_000),
    ("m", 1, 1_000),
    ("", 1, 1),
    ("k", 1_000, 1),
    ("M", 1_000_000, 1),
    ("G", 1_000_000_000, 1),
    ("T", 1_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000, 1),
    ("Ki", 1 << 10, 1),
    ("Mi", 1 << 20, 1),
    ("Gi", 1 << 30, 1),
    ("Ti", 1 << 40, 1),
    ("Pi", 1 << 50, 1),
    ("Ei", 1 << 60, 1),
    ("e2", 100, 1),
    ("E+3", 1_000, 1),
    ("e-2", 1, 100),
    ("E-12", 1, 1_000_000_000_000),
];

/// The check answers, and each fault says where and what.
fn judged(vmi: &VirtualMachineInstance) -> Result<(), TestCaseError> {
    match Machine::check_again(vmi) {
        Ok(machine) => {
            prop_assert!(machine.memory.guest >= 1 << 20);
            prop_assert!(machine.cpu.count() >= 1);
            prop_assert!(machine.disks.iter().all(|disk| !disk.name.contains(['/', '.', '\0'])));
        }
        Err(faults) => {
            prop_assert!(!faults.is_empty());
            prop_assert!(faults.iter().all(|fault| !fault.field.is_empty() && !fault.message.is_empty()));
        }
    }
    Ok(())
}

/// Bytes that decide; when they have run out, the least is chosen.
struct Decisions(std::vec::IntoIter<u8>);

impl Decisions {
    fn below(&mut self, n: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % n
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// A value of the kind, or of another.
fn hostile(inventory: &Inventory, kind: &Kind, decide: &mut Decisions) -> Value {
    if decide.below(24) == 23 {
        return [json!(null), json!("one"), json!(-1), json!([{}]), json!({"a": [1]}), json!(1e300)]
            [decide.below(6)]
        .clone();
    }
    match kind {
        Kind::Struct(name) => {
            let mut object = Map::new();
            for field in inventory.fields(name) {
                if decide.yes() {
                    object.insert(field.name.clone(), hostile(inventory, &field.kind, decide));
                }
            }
            Value::Object(object)
        }
        Kind::List(item) => (0..decide.below(4)).map(|_| hostile(inventory, item, decide)).collect(),
        Kind::Map(item) => json!({decide.of(&["", "cpu", "memory"]): hostile(inventory, item, decide)}),
        Kind::Word(words) if decide.below(8) < 7 => json!(words[decide.below(words.len())]),
        Kind::Plain(name) if name == "bool" => json!(decide.yes()),
        Kind::Plain(name) if name == "int" => {
            json!(decide.of(&[
                &0,
                &1,
                &2,
                &80,
                &512,
                &4096,
                &65_536,
                &-1,
                &i64::MAX,
                &i64::MIN,
                &4_294_967_295
            ]))
        }
        Kind::Plain(name) if name == "quantity" || name == "k8s.ResourceList" => {
            let amount =
                decide.of(&["64Mi", "1", "0", "-1", "1e30", "16Ei", "0.1", "2Gi", "7E", "", "1e-99"]);
            if name == "quantity" { json!(amount) } else { json!({decide.of(&["memory", "cpu"]): amount}) }
        }
        _ => json!(decide.of(&[
            "a",
            "b",
            "",
            "../a",
            "/",
            "a\0b",
            "é",
            "0000:81:01.0",
            "de:ad:00:00:be:af",
            "10.0.2.0/24",
            "host-passthrough",
            "pc-i440fx-7.2",
            "YQ==",
            UUID,
            "spec.template",
            "virtio",
            "2Mi",
            "1Gi",
        ])),
    }
}

/// A manifest without a fault.
fn sound(decide: &mut Decisions) -> Value {
    let mut volumes = Vec::new();
    let mut disks = Vec::new();
    for i in 0..decide.below(6) {
        let name = format!("disk-{i}");
        let sources = [
            json!({"containerDisk": {"image": "registry.example:5000/os@sha256:00", "path": "/disk/a"}}),
            json!({"emptyDisk": {"capacity": "1.5Gi"}}),
            json!({"persistentVolumeClaim": {"claimName": "claim.1", "hotpluggable": true}}),
            json!({"dataVolume": {"name": "volume"}}),
            json!({"hostDisk": {"path": "/srv/a.img", "type": "DiskOrCreate", "capacity": "1"}}),
            json!({"cloudInitNoCloud": {"userDataBase64": "Y2xvdWQ=", "networkData": "a"}}),
            json!({"cloudInitConfigDrive": {"secretRef": {"name": "s"}}}),
            json!({"secret": {"secretName": "s", "optional": true}}),
            json!({"sysprep": {"configMap": {"name": "s"}}}),
            json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "c"}}}),
        ];
        let mut volume = sources[decide.below(sources.len())].clone();
        volume["name"] = json!(name);
        volumes.push(volume);
        let targets = [
            None,
            Some(json!({})),
            Some(json!({"disk": {}})),
            Some(
                json!({"disk": {"bus": "virtio"}, "dedicatedIOThread": true, "cache": "none", "io": "native"}),
            ),
            Some(
                json!({"disk": {"bus": "scsi", "readonly": true}, "serial": "A-1", "errorPolicy": "report"}),
            ),
            Some(json!({"cdrom": {}, "bootOrder": i + 1})),
            Some(json!({"cdrom": {"bus": "usb", "tray": "open"}})),
            Some(
                json!({"disk": {"bus": "usb"}, "blockSize": {"custom": {"logical": 512, "physical": 4096}}}),
            ),
        ];
        if let Some(mut disk) = targets[decide.below(targets.len())].clone() {
            disk["name"] = json!(name);
            disks.push(disk);
        }
    }
    let mut networks = Vec::new();
    let mut interfaces = Vec::new();
    for i in 0..decide.below(4) {
        let name = format!("net_{i}");
        let (network, mut interface) = if i == 0 && decide.yes() {
            (json!({"name": name, "pod": {"vmNetworkCIDR": "192.0.2.0/29"}}), json!({"masquerade": {}}))
        } else {
            (
                json!({"name": name, "multus": {"networkName": "there/far"}}),
                json!({"bridge": {}, "state": "down"}),
            )
        };
        interface["name"] = json!(name);
        if decide.yes() {
            interface["macAddress"] = json!(format!("02-00-00-00-01-0{i}"));
            interface["model"] = json!(decide.of(&["virtio", "e1000e", "rtl8139"]));
            interface["ports"] = json!([{"port": 80, "name": "web"}, {"port": 53, "protocol": "UDP"}]);
            interface["bootOrder"] = json!(10 + i);
        }
        networks.push(network);
        interfaces.push(interface);
    }
    let memory = [
        json!({"memory": {"guest": "128Mi"}}),
        json!({"resources": {"requests": {"memory": "1M", "cpu": "100m"}}, "memory": {"guest": "1.5Gi"}}),
        json!({"resources": {"requests": {"memory": "2G", "cpu": "3"}, "limits": {"memory": "2G", "cpu": "4"}}}),
        json!({"memory": {"hugepages": {"pageSize": "2Mi"}}}),
    ];
    let boards = [
        json!({}),
        json!({"machine": {"type": "pc-i440fx-7.2"}, "rebootPolicy": "Terminate", "ioThreadsPolicy": "auto"}),
        json!({"features": {"smm": {}, "acpi": {}}, "firmware": {"bootloader": {"efi": {}}}}),
        json!({"clock": {"timezone": "Europe/Berlin", "timer": {"hpet": {"present": false}, "kvm": {}}}}),
        json!({"cpu": {"cores": 2, "model": "EPYC-Rome", "features": [{"name": "vmx", "policy": "disable"}]}}),
    ];
    let mut domain = memory[decide.below(memory.len())].clone();
    for (key, value) in boards[decide.below(boards.len())].as_object().unwrap() {
        domain[key] = value.clone();
    }
    domain["devices"] = json!({
        "disks": disks,
        "interfaces": interfaces,
        "autoattachInputDevice": decide.yes(),
        "autoattachGraphicsDevice": decide.yes(),
        "watchdog": {"name": "dog"},
    });
    json!({
        "metadata": {"name": "one.two", "namespace": "here"},
        "spec": {"domain": domain, "volumes": volumes, "networks": networks},
    })
}
