//! The KubeVirt object: its uniqueness, its settings, and the check before its deletion.

use super::{AdmissionResponse, Operation, Request, RequestContext, components, settings, unknown};
use api::fault::{Fault, Reason};
use api::kubevirt::served::unserved;
use api::kubevirt::{CertConfig, Configuration, DomainAttachment, KubeVirt, REPLICAS, UninstallStrategy};
use api::vmi::EvictionStrategy;
use api::wire;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bindings of interfaces on the pod network.
const BINDINGS: [&str; 2] = ["bridge", "masquerade"];

/// Validates the KubeVirt object.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    let home = context.accounts.namespace();
    if request.is_leaving() || update && request.old["spec"] == request.object["spec"] {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let object = wire::read_in_part::<KubeVirt>(request.object.clone(), &mut faults);
    let Some(object) = object.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let own = (request.namespace.clone(), text(&object.metadata.name));
    // An object in another namespace has no effect, and does not stand against that of the installation.
    let is_other = |other: &&(String, String)| other.0 == home && **other != own;
    if !update && own.0 != home {
        let message = format!("virt-controller reads the KubeVirt object of the namespace {home} alone");
        let fault = Fault::new("metadata.namespace", Reason::Invalid, message);
        faults.push(fault.hint(format!("create it in the namespace {home}")));
    } else if let Some((namespace, name)) = context.installations.iter().find(is_other).filter(|_| !update) {
        let message = format!("KubeVirt is already created: {namespace}/{name}; a cluster has one");
        faults.push(Fault::new("metadata.name", Reason::Duplicate, message));
    }
    if let Some(UninstallStrategy::Other(word)) = &object.spec.uninstall_strategy {
        let known = "RemoveWorkloads or BlockUninstallIfWorkloadsExist";
        faults.push(word_of("spec.uninstallStrategy", word, known));
    }
    certificates(&object, &mut faults);
    updates(&object, &mut faults);
    components::judge(&object.spec, &mut faults);
    let replicas = object.spec.infra.as_ref().and_then(|infra| infra.replicas);
    if let Some(number) = replicas.filter(|&number| !REPLICAS.contains(&number.into())) {
        let (least, most) = REPLICAS.into_inner();
        let message = format!("must be from {least} to {most}, not {number}");
        faults.push(Fault::new("spec.infra.replicas", Reason::Invalid, message));
    }
    if let Some(said) = &object.spec.configuration {
        configuration(said, &mut faults);
        settings::judge(said, &mut faults);
    }
    let mut warnings: Vec<String> = unserved(&request.object).iter().map(ToString::to_string).collect();
    warnings.extend(object.spec.configuration.as_ref().map(settings::notes).unwrap_or_default());
    warnings.extend(unknown::warnings(&object));
    if own.0 != home {
        warnings.insert(
            0,
            format!("this object has no effect: virt-controller reads that of the namespace {home} alone"),
        );
    }
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// Validates the deletion of the installation.
pub(super) fn deletion(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let Some(kind) = context.left else { return AdmissionResponse::yes() };
    // The end of an object in another namespace is not the end of the installation.
    if !blocks(request) || request.namespace != context.accounts.namespace() {
        return AdmissionResponse::yes();
    }
    stays(&format!(
        ", since there are still {kind} present. Either delete all KubeVirt related workloads or change the uninstall \
         strategy before uninstalling KubeVirt."
    ))
}

/// Denial for a deletion whose check failed. It must be a denial: without an answer of this webhook the
/// deletion would be carried out.
pub fn check_failed(why: &str) -> AdmissionResponse {
    stays(&format!(": {why}"))
}

/// The denial of a deletion, with the end of its message.
fn stays(why: &str) -> AdmissionResponse {
    let message = format!("Rejecting the uninstall request{why}");
    AdmissionResponse::no(vec![Fault::new("spec.uninstallStrategy", Reason::Invalid, message)])
}

/// True if the installation must stay while there are VMs.
pub(super) fn blocks(request: &Request) -> bool {
    request.old["spec"]["uninstallStrategy"] == UninstallStrategy::BlockUninstallIfWorkloadsExist.as_str()
}

fn word_of(at: &str, word: &str, known: &str) -> Fault {
    Fault::new(at, Reason::NotSupported, format!("{at} is set with an unrecognized option: {word}"))
        .hint(known)
}

fn configuration(said: &Configuration, faults: &mut Vec<Fault>) {
    const AT: &str = "spec.configuration";
    if let Some(EvictionStrategy::Other(word)) = &said.eviction_strategy {
        faults.push(word_of(
            &format!("{AT}.evictionStrategy"),
            word,
            "None, LiveMigrate, LiveMigrateIfPossible or External",
        ));
    }
    let binding = said.network.as_ref().and_then(|network| network.default_network_interface.as_deref());
    if let Some(word) = binding.filter(|word| !word.is_empty() && !BINDINGS.contains(word)) {
        faults.push(word_of(&format!("{AT}.network.defaultNetworkInterface"), word, "bridge or masquerade"));
    }
    for (name, plugin) in said.network.iter().flat_map(|network| &network.binding) {
        let at = format!("{AT}.network.binding.{name}");
        if let Some(DomainAttachment::Other(word)) = &plugin.domain_attachment_type {
            faults.push(word_of(&format!("{at}.domainAttachmentType"), word, "tap or managedTap"));
        }
        let definition = plugin.network_attachment_definition.as_deref().unwrap_or_default();
        if definition.matches('/').count() > 1 {
            let at = format!("{at}.networkAttachmentDefinition");
            let message = format!("must be NAME or NAMESPACE/NAME, not {definition:?}");
            faults.push(Fault::new(at, Reason::Invalid, message));
        }
    }
    if let Some(policy) = said.image_pull_policy.as_deref()
        && !["", "Always", "IfNotPresent", "Never"].contains(&policy)
    {
        faults.push(word_of(&format!("{AT}.imagePullPolicy"), policy, "Always, IfNotPresent or Never"));
    }
    if let Some(ratio) = said.additional_guest_memory_overhead_ratio.as_deref()
        && !ratio.parse().is_ok_and(|ratio: f64| (0.0..=100.0).contains(&ratio))
    {
        let at = format!("{AT}.additionalGuestMemoryOverheadRatio");
        faults.push(Fault::new(
            at,
            Reason::Invalid,
            format!("must be a number from 0 to 100, not {ratio:?}"),
        ));
    }
    let developer = said.developer_configuration.as_ref();
    let numbers = [
        ("memoryOvercommit", developer.and_then(|developer| developer.memory_overcommit)),
        ("cpuAllocationRatio", developer.and_then(|developer| developer.cpu_allocation_ratio)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number.filter(|&number| number <= 0) {
            let at = format!("{AT}.developerConfiguration.{name}");
            faults.push(Fault::new(at, Reason::Invalid, format!("must be greater than 0, not {number}")));
        }
    }
}

/// Validates the eviction of VMIs of an older version.
fn updates(object: &KubeVirt, faults: &mut Vec<Fault>) {
    let Some(said) = &object.spec.workload_update_strategy else { return };
    if let Some(number) = said.batch_eviction_size.filter(|&number| number < 0) {
        let message = format!("must be 0, which evicts none, or greater, not {number}");
        faults.push(Fault::new("spec.workloadUpdateStrategy.batchEvictionSize", Reason::Invalid, message));
    }
}

/// Validates the rotation of certificates: each is renewed before it expires, and does not outlive its CA.
fn certificates(object: &KubeVirt, faults: &mut Vec<Fault>) {
    const AT: &str = "spec.certificateRotateStrategy.selfSigned";
    let strategy = object.spec.certificate_rotate_strategy.as_ref();
    let Some(said) = strategy.and_then(|strategy| strategy.self_signed.as_ref()) else { return };
    let mut lengths: BTreeMap<&str, Duration> = BTreeMap::new();
    for (name, config) in [("ca", &said.ca), ("server", &said.server)] {
        let Some(CertConfig { duration, renew_before, other: _ }) = config else { continue };
        let span = |span: &Option<api::duration::Duration>| {
            span.as_ref().map(|span| span.to_std().unwrap_or_default())
        };
        let (duration, before) = (span(duration), span(renew_before));
        if let Some(length) = duration {
            lengths.insert(name, length);
            if length < LEAST {
                let message = format!("must be at least {} minutes", LEAST.as_secs() / 60);
                faults.push(Fault::new(format!("{AT}.{name}.duration"), Reason::Invalid, message));
            }
        }
        if let (Some(length), Some(before)) = (duration, before)
            && before >= length
        {
            let message = format!("must be shorter than {AT}.{name}.duration");
            faults.push(Fault::new(format!("{AT}.{name}.renewBefore"), Reason::Invalid, message));
        }
    }
    if let (Some(ca), Some(server)) = (lengths.get("ca"), lengths.get("server"))
        && server > ca
    {
        let message = format!("must be no longer than {AT}.ca.duration");
        faults.push(Fault::new(format!("{AT}.server.duration"), Reason::Invalid, message));
    }
}

/// Minimum lifetime of a certificate: a shorter one would expire while it is being distributed.
const LEAST: Duration = Duration::from_secs(10 * 60);
