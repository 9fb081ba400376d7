//! Details of one VM: facts of its objects, the reason why it waits, and its events.

use super::answer::Refusal;
use super::route::VmName;
use super::row::{Row, VmPart, VmiPart, strategy, text};
use crate::virt::client::Cluster;
use crate::virt::json::list;
use crate::virt::why::event::Event;
use crate::virt::why::{fetch, find};
use cluster_model::objects::Kind;
use futures_util::future::join;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Maximum number of events beside the reason why a VM waits.
const FIRST: usize = 12;
/// Maximum number of events in the list of all events.
const MOST: usize = 500;

/// The details of a VM by its objects.
pub(super) async fn vm(cluster: &Cluster, place: &VmName) -> Result<Value, Refusal> {
    let VmName { namespace, name } = place;
    let read = async |kind: Kind| {
        let found = cluster.find(&kind.object(namespace, name)).await;
        found.map_err(|e| {
            Refusal::from(e.into_error(&format!("cannot read {kind} {name} in namespace {namespace}")))
        })
    };
    let (vm, vmi) = join(read(Kind::VirtualMachine), read(Kind::VirtualMachineInstance)).await;
    let (vm, vmi) = (vm?, vmi?);
    if vm.is_none() && vmi.is_none() {
        let sentence = format!("VM {name} in namespace {namespace} does not exist any more");
        return Err(Refusal::new(http::StatusCode::NOT_FOUND, sentence));
    }
    Ok(shown(place, vm.as_ref(), vmi.as_ref()))
}

fn shown(place: &VmName, vm: Option<&Value>, vmi: Option<&Value>) -> Value {
    let parts = (vm.map(VmPart::from_object), vmi.map(VmiPart::from_object));
    let row = Row::new(&place.namespace, &place.name, parts.0.as_ref(), parts.1.as_ref());
    let spec = vmi
        .and_then(|vmi| vmi.pointer("/spec"))
        .or(vm.and_then(|vm| vm.pointer("/spec/template/spec")))
        .unwrap_or(&Value::Null);
    let told = [conditions("VM", vm), conditions("VMI", vmi)].concat();
    json!({
        "row": row,
        "facts": facts(vm, vmi, spec),
        "volumes": list(spec, "/volumes").map(|volume| of_volume(volume, spec)).collect::<Vec<_>>(),
        "conditions": told,
    })
}

/// Labelled facts, with the terms of the API. Unknown ones are left out.
fn facts(vm: Option<&Value>, vmi: Option<&Value>, spec: &Value) -> Vec<(&'static str, String)> {
    let of =
        |object: Option<&Value>, pointer: &str| object.map_or_else(String::new, |one| text(one, pointer));
    let either = |one: String, other: String| if one.is_empty() { other } else { one };
    let addresses: Vec<String> = vmi
        .into_iter()
        .flat_map(|vmi| list(vmi, "/status/interfaces"))
        .flat_map(|interface| {
            let all: Vec<String> =
                list(interface, "/ipAddresses").filter_map(Value::as_str).map(printable::line).collect();
            if all.is_empty() { vec![text(interface, "/ipAddress")] } else { all }
        })
        .filter(|address| !address.is_empty())
        .collect();
    let guest = [of(vmi, "/status/guestOSInfo/prettyName"), of(vmi, "/status/guestOSInfo/kernelRelease")];
    let made = either(of(vm, "/metadata/creationTimestamp"), of(vmi, "/metadata/creationTimestamp"));
    let all = [
        ("Run strategy", vm.map_or_else(String::new, strategy)),
        ("Phase", of(vmi, "/status/phase")),
        ("Node", of(vmi, "/status/nodeName")),
        ("Addresses", addresses.join(", ")),
        ("vCPUs", vcpus(spec)),
        ("Memory", memory(spec)),
        ("Instance type", of(vm, "/spec/instancetype/name")),
        ("Preference", of(vm, "/spec/preference/name")),
        ("Machine type", either(of(vmi, "/status/machine/type"), text(spec, "/domain/machine/type"))),
        ("Guest", guest.join(" ").trim().to_owned()),
        ("Created", made),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn vcpus(spec: &Value) -> String {
    let count = |part: &str| spec.pointer(&format!("/domain/cpu/{part}")).and_then(Value::as_u64);
    let [sockets, cores, threads] = ["sockets", "cores", "threads"].map(count);
    if [sockets, cores, threads] == [None; 3] {
        return text(spec, "/domain/resources/requests/cpu");
    }
    let [sockets, cores, threads] = [sockets, cores, threads].map(|count| count.unwrap_or(1));
    let all = sockets.saturating_mul(cores).saturating_mul(threads);
    format!("{all} (sockets {sockets}, cores {cores}, threads {threads})")
}

fn memory(spec: &Value) -> String {
    let places =
        ["/domain/memory/guest", "/domain/resources/requests/memory", "/domain/resources/limits/memory"];
    places.iter().map(|place| text(spec, place)).find(|size| !size.is_empty()).unwrap_or_default()
}

/// A volume: its name, kind and name of its source, and its device in the guest.
fn of_volume(volume: &Value, spec: &Value) -> Value {
    const NAMES: [&str; 7] = [
        "/dataVolume/name",
        "/persistentVolumeClaim/claimName",
        "/ephemeral/persistentVolumeClaim/claimName",
        "/containerDisk/image",
        "/configMap/name",
        "/secret/secretName",
        "/hostDisk/path",
    ];
    let name = text(volume, "/name");
    let source = volume.as_object().and_then(|fields| fields.keys().find(|field| *field != "name"));
    let of = NAMES.iter().map(|place| text(volume, place)).find(|name| !name.is_empty());
    let disk = list(spec, "/domain/devices/disks").find(|disk| disk["name"] == volume["name"]);
    let device = disk.map_or_else(String::new, |disk| {
        let kind =
            ["disk", "cdrom", "lun"].into_iter().find(|kind| disk.get(kind).is_some()).unwrap_or("disk");
        format!("{kind} {}", text(disk, &format!("/{kind}/bus"))).trim().to_owned()
    });
    json!({
        "name": name,
        "source": source.map(|source| printable::line(source)),
        "of": of.unwrap_or_default(),
        "device": device,
    })
}

fn conditions(of: &str, object: Option<&Value>) -> Vec<Value> {
    let all = object.into_iter().flat_map(|object| list(object, "/status/conditions"));
    let shown = |condition: &Value| {
        json!({
            "of": of,
            "type": text(condition, "/type"),
            "status": text(condition, "/status"),
            "reason": text(condition, "/reason"),
            "message": text(condition, "/message"),
            "since": text(condition, "/lastTransitionTime"),
        })
    };
    all.map(shown).collect()
}

/// The reason why a VM waits, as `coracle virt why` finds it.
pub(super) async fn why(cluster: &Cluster, place: &VmName) -> Result<Value, Refusal> {
    let facts = fetch(&cluster.within(&place.namespace), &place.name).await?;
    let finding = find(&facts, Timestamp::now());
    let words = finding
        .quotes
        .iter()
        .map(|words| json!({"who": printable::line(&words.source), "text": printable::line(&words.text)}));
    let advice =
        finding.advice.iter().map(|advice| printable::line(&advice.replace("$virt", "coracle virt")));
    Ok(json!({
        "says": printable::line(&finding.says),
        "since": finding.since.map(|since| since.to_string()),
        "words": words.collect::<Vec<_>>(),
        "advice": advice.collect::<Vec<_>>(),
        "unread": facts.unread.iter().map(|unread| printable::line(unread)).collect::<Vec<_>>(),
        "events": facts.events.iter().take(FIRST).map(of_event).collect::<Vec<_>>(),
        "more": facts.events.len().saturating_sub(FIRST),
    }))
}

/// All events of a VM, newest first.
pub(super) async fn events(cluster: &Cluster, place: &VmName) -> Result<Value, Refusal> {
    let facts = fetch(&cluster.within(&place.namespace), &place.name).await?;
    Ok(json!({
        "events": facts.events.iter().take(MOST).map(of_event).collect::<Vec<_>>(),
        "more": facts.events.len().saturating_sub(MOST),
    }))
}

fn of_event(event: &Event) -> Value {
    json!({
        "when": event.when.map(|when| when.to_string()),
        "warning": event.is_warning,
        "reason": printable::line(&event.reason),
        "object": printable::line(&format!("{} {}", event.kind, event.name)),
        "from": printable::line(&event.from),
        "message": printable::line(&event.message),
        "count": event.count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_is_shown_by_what_its_objects_say() {
        let place = VmName { namespace: "blue".to_owned(), name: "web".to_owned() };
        let vm = json!({
            "metadata": {"creationTimestamp": "2026-09-01T10:00:00Z"},
            "spec": {"runStrategy": "Always", "template": {"spec": {
                "domain": {
                    "cpu": {"sockets": 2, "cores": 3}, "memory": {"guest": "2Gi"},
                    "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": "cd", "cdrom": {}}]},
                },
                "volumes": [{"name": "root", "dataVolume": {"name": "web-root"}}, {"cloudInitNoCloud": {}, "name": "cd"}],
            }}},
            "status": {"conditions": [{"type": "Failure", "status": "True", "message": "a\u{202e}b"}]},
        });
        let shown = shown(&place, Some(&vm), None);
        assert_eq!(
            shown["facts"],
            json!([
                ["Run strategy", "Always"],
                ["vCPUs", "6 (sockets 2, cores 3, threads 1)"],
                ["Memory", "2Gi"],
                ["Created", "2026-09-01T10:00:00Z"],
            ])
        );
        assert_eq!(
            shown["volumes"],
            json!([
                {"name": "root", "source": "dataVolume", "of": "web-root", "device": "disk virtio"},
                {"name": "cd", "source": "cloudInitNoCloud", "of": "", "device": "cdrom"},
            ])
        );
        assert_eq!(
            (&shown["conditions"][0]["of"], &shown["conditions"][0]["message"]),
            (&json!("VM"), &json!("a b"))
        );
        assert_eq!(shown["row"]["name"], "web");
    }

    #[test]
    fn the_vmi_says_where_it_is() {
        let vmi = json!({
            "spec": {"domain": {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}},
            "status": {
                "phase": "Running", "nodeName": "n1", "machine": {"type": "pc-q35-7.2"},
                "interfaces": [{"ipAddress": "10.0.0.1", "ipAddresses": ["10.0.0.1", "fd00::1"]}, {"ipAddress": "10.1.0.1"}],
                "guestOSInfo": {"prettyName": "Debian GNU/Linux 12", "kernelRelease": "6.1"},
            },
        });
        let place = VmName { namespace: "blue".to_owned(), name: "web".to_owned() };
        let shown = shown(&place, None, Some(&vmi));
        assert_eq!(
            shown["facts"],
            json!([
                ["Phase", "Running"],
                ["Node", "n1"],
                ["Addresses", "10.0.0.1, fd00::1, 10.1.0.1"],
                ["vCPUs", "2"],
                ["Memory", "1Gi"],
                ["Machine type", "pc-q35-7.2"],
                ["Guest", "Debian GNU/Linux 12 6.1"],
            ])
        );
    }
}
