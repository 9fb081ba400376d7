//! Completeness of the policies. Their CEL expressions are tested against a real API server
//! (`tests/e2e/trust.rs`).

mod api;
mod handler;

use crate::objects;
use crate::tests::options;
use cluster_model::launcher::VOLUMES;
use cluster_model::metadata::RESERVED;
use cluster_model::objects::rights::{Right, all_rights};
use cluster_model::objects::{FINALIZER, FOUND_BY, Kind, LAUNCHER, OF_VM, Program};
use serde_json::{Value, json};

fn policies() -> Vec<Value> {
    objects(&options()).into_iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy").collect()
}

pub(super) fn policy(name: &str) -> Value {
    policies().into_iter().find(|policy| policy["metadata"]["name"] == name).unwrap()
}

/// All CEL expressions of a policy.
fn expressions(policy: &Value) -> String {
    let fields = ["matchConditions", "variables", "validations"];
    let all = fields.iter().flat_map(|field| policy["spec"][field].as_array().into_iter().flatten());
    all.map(|one| one["expression"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// A write right, with the reason why no policy restricts it.
type Unbound = (Right, &'static str);

/// Each write right of an account is restricted by a policy about that account, or is in the list of
/// exceptions.
fn bound(account: &str, rights: &[Right], unbound: &[Unbound]) {
    let user = format!("system:serviceaccount:kubevirt:{account}");
    let binds = |policy: &Value| {
        let conditions = policy["spec"]["matchConditions"].as_array().unwrap();
        conditions.iter().any(|one| one["expression"] == format!("request.userInfo.username == \"{user}\""))
    };
    let of: Vec<Value> = policies().into_iter().filter(binds).collect();
    let is_bound = |(kind, part, verb): Right| {
        let resource = part.map_or(kind.plural().to_owned(), |part| format!("{}/{part}", kind.plural()));
        let operation = match verb {
            "create" => "CREATE",
            "delete" => "DELETE",
            _ => "UPDATE",
        };
        let has = |list: &Value, word: &str| list.as_array().unwrap().iter().any(|one| one == word);
        of.iter()
            .flat_map(|policy| policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap())
            .any(|rule| {
                has(&rule["apiGroups"], kind.group())
                    && has(&rule["resources"], &resource)
                    && has(&rule["operations"], operation)
            })
    };
    // Creating a review stores nothing.
    let writes = |&(kind, _, verb): &Right| {
        !["get", "list", "watch"].contains(&verb) && !kind.name().ends_with("Review")
    };
    for right in rights.iter().copied().filter(writes) {
        let said = unbound.iter().any(|(other, _)| *other == right);
        assert_ne!(is_bound(right), said, "{account} {right:?}: bound by a policy, or said why not");
    }
    for (right, _) in unbound {
        assert!(rights.contains(right), "{account} has no right {right:?}");
    }
}

#[test]
fn every_right_to_write_is_bound_or_it_is_said_why_not() {
    let rights = |program| all_rights(program).collect::<Vec<_>>();
    bound("kubevirt-handler", &rights(Program::Handler), &[]);
    bound("kubevirt-apiserver", &rights(Program::Api), &[]);
    bound("cdi-uploadproxy", &rights(Program::Proxy), &[]);
    let whole = "it is what virt-controller is there for";
    let named = "bound by resourceNames; the API server asks no policy about webhooks";
    let mut unbound: Vec<Unbound> = Vec::new();
    for (kind, verbs) in [
        (Kind::VirtualMachine, &["create", "delete", "patch"][..]),
        (Kind::VirtualMachineInstance, &["create", "delete", "patch"]),
        (Kind::VirtualMachineInstanceMigration, &["create", "delete", "patch"]),
        (Kind::VirtualMachineInstanceReplicaSet, &["delete"]),
        (Kind::VirtualMachinePool, &["delete"]),
        (Kind::KubeVirt, &["create", "patch"]),
        (Kind::DataVolume, &["create"]),
        (Kind::StorageProfile, &["create", "delete"]),
        (Kind::CDI, &["create"]),
        (Kind::CDIConfig, &["create", "patch"]),
        (Kind::Event, &["create"]),
        (Kind::ConfigMap, &["delete"]),
    ] {
        unbound.extend(verbs.iter().map(|&verb| ((kind, None, verb), whole)));
    }
    for kind in [Kind::MutatingWebhookConfiguration, Kind::ValidatingWebhookConfiguration] {
        unbound.extend(["create", "delete", "patch"].map(|verb| ((kind, None, verb), named)));
    }
    unbound.push(((Kind::APIService, None, "delete"), "bound by resourceNames"));
    for kind in [
        Kind::VirtualMachine,
        Kind::VirtualMachineInstanceMigration,
        Kind::VirtualMachineInstanceReplicaSet,
        Kind::VirtualMachinePool,
        Kind::KubeVirt,
        Kind::DataVolume,
        Kind::StorageProfile,
    ] {
        unbound.push(((kind, Some("status"), "patch"), whole));
    }
    for kind in [
        Kind::VirtualMachine,
        Kind::VirtualMachineInstance,
        Kind::VirtualMachineInstanceReplicaSet,
        Kind::VirtualMachinePool,
        Kind::DataVolume,
        Kind::DataImportCron,
        Kind::PersistentVolumeClaim,
    ] {
        unbound.push((
            (kind, Some("finalizers"), "update"),
            "it is no path: only who makes an owner wait is asked for it",
        ));
    }
    bound("kubevirt-controller", &rights(Program::Controller), &unbound);
}

#[test]
fn of_a_cdi_object_only_what_is_ours_is_changed() {
    let said = expressions(&policy("kubevirt-controller-cdis"));
    for field in ["spec", "labels", "annotations", "ownerReferences"] {
        assert!(said.contains(&format!(".?{field}.orValue(null) == ")), "{field}: {said}");
    }
    assert!(!said.contains("finalizers") && !said.contains("status"), "{said}");
}

/// A policy that cannot be evaluated refuses, and each has a binding that denies.
#[test]
fn every_policy_holds_and_fails_closed() {
    let all = policies();
    assert!(!all.is_empty());
    for policy in &all {
        let name = &policy["metadata"]["name"];
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
        assert!(policy["spec"]["matchConditions"].is_array(), "{name} is about everybody");
        for validation in policy["spec"]["validations"].as_array().unwrap() {
            let message = validation["message"].as_str().unwrap();
            assert!(
                !message.is_empty() && !message.contains('\n') && message.len() < 1024,
                "{name}: {message}"
            );
        }
        let binding = objects(&options()).into_iter().find(|object| {
            object["kind"] == "ValidatingAdmissionPolicyBinding" && object["metadata"]["name"] == *name
        });
        let spec = json!({"policyName": name, "validationActions": ["Deny"]});
        assert_eq!(binding.unwrap()["spec"], spec, "{name}");
    }
}

/// An APIService receives requests in place of the API server. `resourceNames` do not restrict its creation.
#[test]
fn virt_controller_leads_subresources_to_virt_api_and_no_other_request_anywhere() {
    let policy = policy("kubevirt-controller-apiservices");
    let rule = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["apiGroups"], json!(["apiregistration.k8s.io"]));
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
    let said = expressions(&policy);
    for words in [
        "object.metadata.name in [\"v1.subresources.kubevirt.io\",\"v1alpha3.subresources.kubevirt.io\",\
         \"v1beta1.upload.cdi.kubevirt.io\",\"v1alpha1.upload.cdi.kubevirt.io\"]",
        "object.spec.?service.?name.orValue('') == \"virt-api\"",
        "object.spec.?service.?namespace.orValue('') == \"kubevirt\"",
        "!object.spec.?insecureSkipTLSVerify.orValue(false)",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
}

/// virt-controller may write Secrets in all namespaces by its role. The policy restricts that to the Secrets
/// of upload pods: a deletion is checked on the old object, a change on both.
#[test]
fn virt_controller_writes_no_secret_of_a_tenant() {
    let policy = policy("kubevirt-controller-secrets");
    let rule = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["resources"], json!(["secrets"]));
    assert_eq!(rule["operations"], json!(["CREATE", "UPDATE", "DELETE"]));
    let form = |object: &str| {
        format!(
            "(({object}.metadata.name.startsWith(\"cdi-upload-\")) && \
             {object}.metadata.?labels[?\"cdi.kubevirt.io\"].orValue('') == \"cdi-upload-server\" || \
             ({object}.metadata.name.startsWith(\"clone-source-\") || {object}.metadata.name.startsWith(\"clone-client-\")) && \
             {object}.metadata.?labels[?\"cdi.kubevirt.io\"].orValue('') == \"cdi-clone-source\") && \
             {object}.?type.orValue('') == \"Opaque\""
        )
    };
    let upload = format!(
        "(request.operation == 'DELETE' || {}) && (request.operation == 'CREATE' || {})",
        form("object"),
        form("oldObject")
    );
    assert_eq!(policy["spec"]["variables"], json!([{"name": "upload", "expression": upload}]));
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let names = validations[0]["expression"].as_str().unwrap();
    assert!(names.starts_with("variables.upload || request.operation != 'DELETE' && "), "{names}");
    for own in ["request.namespace == \"kubevirt\"", "\"kubevirt-ca\"", "\"cdi-api-signing-key\""] {
        assert!(names.contains(own), "{own} is not in {names}");
    }
    // A Secret of another type would request the token of an account.
    let types = validations[1]["expression"].as_str().unwrap();
    assert!(types.contains("== \"cdi-api-signing-key\" ? \"Opaque\" : 'kubernetes.io/tls'"), "{types}");
    // The other policies about virt-controller do not permit a Secret by its name alone.
    assert!(!expressions(&self::policy("kubevirt-controller-objects")).contains("secrets"));
}

/// A Service could receive the traffic of any pods, or of addresses outside.
#[test]
fn virt_controller_makes_services_of_upload_pods_only() {
    let said = expressions(&policy("kubevirt-controller-services"));
    for words in [
        "object.metadata.name.startsWith(\"cdi-upload-\")",
        "oldObject.metadata.name.startsWith(\"cdi-upload-\")",
        "object.spec.?clusterIP.orValue('') == 'None'",
        "object.spec.?selector.orValue({}).all(key, key == \"service\")",
        "object.spec.?selector[?\"service\"].orValue('') == object.metadata.name",
        "owner.kind == \"PersistentVolumeClaim\"",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
}

/// The guest runs on it since a live migration, or has run on it until then.
#[test]
fn virt_controller_deletes_no_pvc_but_those_of_live_migrations_that_have_not_arrived() {
    let policy = policy("kubevirt-controller-claims");
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let about = |words: &str| {
        let found = validations.iter().find(|one| one["message"].as_str().unwrap().contains(words));
        found.unwrap()["expression"].as_str().unwrap()
    };
    let label =
        |object: &str| format!("{object}.metadata.?labels[?\"kubevirt.io/migrationJobUID\"].orValue('')");
    let from =
        |object: &str| format!("{object}.metadata.?annotations[?\"coracle.io/moved-from\"].orValue('')");
    let is_new = |object: &str| format!("{} != '' && {} != ''", label(object), from(object));
    assert!(about("deletes only PVCs").ends_with(&format!(" || {}", is_new("oldObject"))));
    // It cannot give the label to a PVC that exists, nor the annotation to one that has the label.
    let kept = format!(
        "request.operation != 'UPDATE' || {} in ['', {old}] && ({old} == '' || {} == {})",
        label("object"),
        from("object"),
        from("oldObject"),
        old = label("oldObject"),
    );
    assert_eq!(about("marks no PVC as one of a live migration"), kept);
    // A PVC that a VM itself has named says whose disk it has.
    let noted = about("changes only annotations of CDI and of live migrations");
    for (name, _) in cluster_model::claim_moves::origin_notes(&Default::default(), None) {
        assert!(noted.contains(&format!("\"{name}\"")), "{name}: {noted}");
    }
    let made = about("makes the PVCs of DataVolumes only");
    assert!(
        made.contains(&is_new("object")) && made.contains(&format!("owner.uid == {}", label("object"))),
        "{made}"
    );
    let owners = about("gives a PVC that has no controller");
    assert!(owners.contains(&format!("{} && oldObject.metadata", is_new("oldObject"))), "{owners}");
    assert!(owners.contains("owner.kind in [\"VirtualMachine\",\"VirtualMachineInstance\"]"), "{owners}");
}

/// The garbage collector deletes a PVC whose only owner does not exist. So an owner is only added to a PVC
/// that permits it, and the account cannot set that permission itself.
#[test]
fn virt_controller_takes_only_a_pvc_that_says_so_and_does_not_say_so_itself() {
    let policy = policy("kubevirt-controller-claims");
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let about = |words: &str| {
        let found = validations.iter().find(|one| one["message"].as_str().unwrap().contains(words));
        found.unwrap()["expression"].as_str().unwrap()
    };
    let note = |object: &str, name: &str| {
        format!("{object}.metadata.?annotations[?\"cdi.kubevirt.io/{name}\"].orValue('')")
    };
    let populated =
        |object: &str| format!("{object}.spec.?dataSourceRef.?apiGroup.orValue('') == \"cdi.kubevirt.io\"");
    // A clone that follows its DataSource again notes another source.
    let annotations = about("changes only annotations of CDI");
    assert_eq!(annotations.matches("|| key == \"k8s.io/CloneRequest\" ||").count(), 2, "{annotations}");
    // The old object counts: a permission that is added together with the owner is ignored.
    let may_be_taken = format!(
        "({} == 'true' || {} == oldObject.metadata.name && !({}))",
        note("oldObject", "allowClaimAdoption"),
        note("oldObject", "storage.populatedFor"),
        populated("oldObject"),
    );
    let owners = about("gives a PVC that has no controller");
    let same =
        "object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([])";
    assert!(
        owners.starts_with(&format!("request.operation != 'UPDATE' || {same} || "))
            && owners.contains(&format!(" || {may_be_taken} && ")),
        "{owners}"
    );
    // An owner is removed together with the annotation that recorded it.
    let noted = note("oldObject", "storage.adoptedBy");
    assert!(
        owners.contains(&format!("{noted} != '' && ")) && owners.contains(&format!("owner.uid == {noted}")),
        "{owners}"
    );
    let comes = about("records which DataVolume adopts a PVC");
    assert!(
        comes.contains("object.metadata.?ownerReferences") && comes.contains("!oldObject.metadata"),
        "{comes}"
    );
    let marks = about("never allows the adoption of a PVC");
    let kept = |name: &str| format!("{} == {}", note("object", name), note("oldObject", name));
    let begins = format!(
        "request.operation != 'UPDATE' || {} && ({} || {} == object.metadata.name && (",
        kept("allowClaimAdoption"),
        kept("storage.populatedFor"),
        note("object", "storage.populatedFor"),
    );
    assert!(marks.starts_with(&begins), "{marks}");
    assert!(marks.ends_with(&format!("|| {}))", populated("object"))), "{marks}");
}

/// A DataVolume belongs to the user: other programs do not change its spec.
#[test]
fn virt_controller_changes_nothing_of_a_data_volume_but_its_finalizer() {
    let said = expressions(&policy("kubevirt-controller-datavolumes"));
    for kept in ["spec", "labels", "annotations", "ownerReferences"] {
        assert!(said.contains(&format!(".?{kept}.orValue(null) == ")), "{kept}: {said}");
    }
    assert!(
        said.contains("name == \"cdi.kubevirt.io/adoption\" || name in oldObject.metadata.?finalizers"),
        "{said}"
    );
}

/// Changing the reclaim policy of a volume can delete a tenant's disk. So it changes only together with the
/// hand-over, in the same update, and back to the former policy.
#[test]
fn virt_controller_changes_a_reclaim_policy_only_with_the_hand_over_and_back() {
    let said = expressions(&policy("kubevirt-controller-volumes"));
    let policy = |object: &str| format!("{object}.spec.?persistentVolumeReclaimPolicy.orValue('')");
    let note = |object: &str| {
        format!(
            "{object}.metadata.?annotations[?\"cdi.kubevirt.io/storage.populator.reclaimPolicy\"].orValue('')"
        )
    };
    let (new, old, noted, was_noted) =
        (policy("object"), policy("oldObject"), note("object"), note("oldObject"));
    for words in [
        "object.spec.?claimRef.orValue(null) == oldObject.spec.?claimRef.orValue(null) ? (".to_owned(),
        format!("? ({new} == {old} && {noted} == {was_noted} || "),
        format!(
            "{was_noted} != '' && {noted} == '' && {new} == {was_noted} && ({old} == 'Retain' || {old} == {new}))"
        ),
        format!(": ({new} == 'Retain' && ({old} == 'Retain' ? {noted} == {was_noted} : {noted} == {old}))"),
    ] {
        assert!(said.contains(&words), "{words} is not in {said}");
    }
}

/// A pod that serves a disk does not write to it, neither as a file system nor as a device.
#[test]
fn pods_of_exports_and_clones_read_their_pvcs_only() {
    let policy = policy("kubevirt-controller-pods");
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let reads = validations.iter().find(|one| one["message"].as_str().unwrap().contains("mounted read-only"));
    let reads = reads.unwrap()["expression"].as_str().unwrap();
    let shows = [cluster_model::worker::EXPORTER, cluster_model::clones::SOURCE]
        .map(|prefix| format!("object.metadata.name.startsWith(\"{prefix}\")"));
    assert!(reads.starts_with(&format!("!({}) || ", shows.join(" || "))), "{reads}");
    // On the volume, which devices are taken from, and on each mount.
    for words in [
        "!has(volume.persistentVolumeClaim) || volume.persistentVolumeClaim.?readOnly.orValue(false)",
        "mount.?readOnly.orValue(false) || !(mount.name in variables.kept)",
    ] {
        assert!(reads.contains(words), "{words} is not in {reads}");
    }
}

/// A container that a webhook injects into a launcher pod gets no device of the VMI's ResourceClaims.
#[test]
fn containers_of_others_have_no_device() {
    let policy = policy("kubevirt-controller-pods");
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let is_it = |one: &&Value| one["message"].as_str().unwrap().contains("devices of ResourceClaims");
    let shows = validations.iter().find(is_it).unwrap()["expression"].as_str().unwrap();
    for words in ["one.?volumeDevices", "one.?resources.?claims"] {
        assert!(shows.contains(&format!("{words}.orValue([]).size() == 0 && ")), "{words} is not in {shows}");
    }
}

/// A token is never written to an existing DataVolume, not even one that virt-api has signed.
#[test]
fn a_clone_token_is_never_written_afterwards() {
    let policy = policy("kubevirt-clone-tokens");
    let rule = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!((&rule["resources"], &rule["operations"]), (&json!(["datavolumes"]), &json!(["UPDATE"])));
    let token = |object: &str| {
        format!("{object}.metadata.?annotations[?\"cdi.kubevirt.io/storage.clone.token\"].orValue('')")
    };
    let [is, was] = ["object", "oldObject"].map(token);
    assert_eq!(policy["spec"]["matchConditions"][0]["expression"], format!("{is} != {was}"));
    assert_eq!(policy["spec"]["validations"][0]["expression"], format!("{is} == ''"));
    assert!(!policy.to_string().contains("userInfo"), "it holds for everybody");
}

/// Finalizers, labels and forced deletions, on which fencing depends, are protected from all users.
#[test]
fn fencing_is_held() {
    let finalizers = expressions(&policy("kubevirt-fencing-finalizers"));
    for finalizer in [FINALIZER, OF_VM] {
        assert!(finalizers.contains(finalizer), "{finalizer}");
    }
    let pods = policy("kubevirt-fencing-pods");
    assert!(FOUND_BY.iter().all(|label| expressions(&pods).contains(label)));
    assert!(expressions(&pods).contains("kubevirt.io/migrationJobUID"));
    assert_eq!(
        pods["spec"]["matchConstraints"]["objectSelector"]["matchLabels"],
        json!({"kubevirt.io": "virt-launcher"})
    );
    // An update of a pod's status can change its labels too.
    let rules = pods["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
    let status = rules.iter().find(|rule| rule["resources"] == json!(["pods/status"])).unwrap();
    assert_eq!(status["operations"], json!(["UPDATE"]));
    for name in ["kubevirt-fencing-pods", "kubevirt-fencing-evictions"] {
        assert!(expressions(&policy(name)).contains("gracePeriodSeconds.orValue(-1) == 0"), "{name}");
    }
}

/// Setting the annotation that ends fencing needs the right, on a new object too.
#[test]
fn only_who_may_end_fencing_writes_the_word_for_it() {
    let policy = policy("kubevirt-fencing-word");
    let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
    let both = json!(["CREATE", "UPDATE"]);
    assert_eq!(rules[0]["resources"], json!(["virtualmachines", "virtualmachineinstances"]));
    assert_eq!(rules[0]["operations"], both);
    let is_new = "object.metadata.?annotations[?\"kubevirt.io/fencing\"].orValue('') == \"off\"";
    assert!(policy["spec"]["matchConditions"].to_string().contains(&is_new.replace('"', "\\\"")));
    assert_eq!(policy["spec"]["validations"][0]["expression"], "variables.may");
    // The policy on pods matches by label, and covers their status.
    let pods = expressions(&self::policy("kubevirt-fencing-pods"));
    assert!(pods.contains(&format!("variables.may || !({is_new})")), "{pods}");
}

/// A VMI that is created with PVCs that it has not migrated to would be taken for one that has arrived there.
#[test]
fn no_vmi_is_created_with_a_state_that_decides_about_its_disks_or_its_node() {
    let said = policy("kubevirt-fencing-status")["spec"]["validations"].to_string().replace('\\', "");
    let fields = "[\"nodeName\",\"activePods\",\"migrationState\",\"migratedVolumes\",";
    assert!(said.contains(fields), "{said}");
}

/// Users and tools look for upstream's wording.
#[test]
fn reserved_labels_are_refused_in_the_words_of_the_webhook() {
    let policy = policy("kubevirt-fencing-status");
    let said = policy["spec"]["validations"].to_string();
    let words = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited: ";
    assert!(said.contains(&format!("{words}{}", RESERVED.join(", "))), "{said}");
}

/// A holder of virt-controller's account could create a VMI, or a launcher-like pod, in the namespace of an
/// operator's account. Its token is mounted only if that account was opened in its namespace. None of our
/// roles opens one.
#[test]
fn virt_controller_gives_no_token_of_an_account_that_nobody_opened() {
    let policy = policy("kubevirt-controller-pods");
    let validations = policy["spec"]["validations"].as_array().unwrap();
    let opened = validations.last().unwrap();
    assert_eq!(
        opened["expression"],
        "variables.tokens.size() == 0 || authorizer.group('').resource('serviceaccounts').namespace(request.namespace)\
         .name(object.spec.?serviceAccountName.orValue('default')).check(\"use\").allowed()"
    );
    let said = opened["message"].as_str().unwrap();
    for words in [
        "Role",
        "RoleBinding",
        "verb use on serviceaccounts",
        "account kubevirt-controller of the namespace kubevirt",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // The policy counts a token without an audience.
    let tokens = policy["spec"]["variables"].as_array().unwrap().iter().find(|one| one["name"] == "tokens");
    assert!(tokens.unwrap()["expression"].as_str().unwrap().contains("?audience.orValue('') == ''"));
    let opens = |rule: &Value| {
        let has = |list: &str, word: &str| {
            rule[list].as_array().into_iter().flatten().any(|one| one == word || one == "*")
        };
        has("apiGroups", "")
            && has("resources", "serviceaccounts")
            && has("verbs", super::controller::OF_TOKENS)
    };
    for object in objects(&options()) {
        assert!(
            !object["rules"].as_array().into_iter().flatten().any(opens),
            "{}",
            object["metadata"]["name"]
        );
    }
}

/// The Role in the document is the one that the policy requires.
#[test]
fn the_document_has_the_role_that_opens_an_account() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/storage.md");
    let text = std::fs::read_to_string(file).unwrap();
    let example = text.split("```yaml\n").find(|block| block.contains("kind: RoleBinding")).unwrap();
    let verbs = format!("verbs: [{}]", super::controller::OF_TOKENS);
    for words in
        ["resources: [serviceaccounts]", verbs.as_str(), "name: kubevirt-controller", "namespace: kubevirt"]
    {
        assert!(example.contains(words), "{file}: {words}");
    }
}

/// The document lists what else a launcher pod may contain, so that administrators need not learn it from a
/// refused pod.
#[test]
fn the_document_says_what_webhooks_may_put_into_launchers() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/accounts.md");
    let text = std::fs::read_to_string(file).unwrap();
    for audience in super::controller::AUDIENCES {
        assert!(text.contains(&format!("`{audience}`")), "{file}: {audience}");
    }
    for kind in VOLUMES {
        assert!(text.contains(&format!("`{kind}`")), "{file}: {kind}");
    }
}

/// A pod that was orphaned (`--cascade=orphan`) has no owner any more, and virt-controller still deletes it.
#[test]
fn a_pod_that_lost_its_owner_is_still_virt_controllers_to_delete() {
    let touched = expressions(&policy("kubevirt-controller-own-pods"));
    assert!(!touched.contains("ownerReferences"), "{touched}");
    let (label, value) = LAUNCHER;
    let is_launcher = format!(
        "oldObject.metadata.?labels[?\"{label}\"].orValue('') == \"{value}\" && \
         oldObject.metadata.name.startsWith(\"{}\")",
        cluster_model::objects::names::LAUNCHER
    );
    assert!(touched.contains(&is_launcher), "{touched}");
    // A new pod must have its owner. A polling pod is owned by a DataImportCron instead of a PVC.
    let made = expressions(&policy("kubevirt-controller-pods"));
    assert!(
        made.contains("owner.kind == \"DataImportCron\"") && made.contains("startsWith(\"poller-\")"),
        "{made}"
    );
    assert!(expressions(&policy("kubevirt-controller-pods")).contains("ownerReferences"));
}

/// The status of a worker pod is the kubelet's, and its labels say whose work it does.
#[test]
fn of_a_worker_pod_virt_controller_changes_the_permit_alone() {
    let touched = expressions(&policy("kubevirt-controller-own-pods"));
    for part in [
        "object.?status.orValue(null) == oldObject.?status.orValue(null)",
        "object.metadata.?labels.orValue(null) == oldObject.metadata.?labels.orValue(null)",
        "key == \"cdi.kubevirt.io/storage.pod.permit\" || key in oldObject.metadata.?annotations.orValue({})",
    ] {
        assert!(touched.contains(part), "{touched}");
    }
}
