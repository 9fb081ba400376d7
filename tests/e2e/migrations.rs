//! Live migration: the rights of the two nodes, by their tokens alone.

use super::trust::{Bearer, Elsewhere, refused, vm};

#[test]
fn source_and_target_of_a_migration_write_their_own_fields() {
    let Some((space, node)) = vm("migration-rights") else { return };
    let elsewhere = Elsewhere::new(&space);
    let (own, other) = (Bearer::agent(&space, &node), Bearer::agent(&space, &elsewhere.1));
    let taken = format!(r#"{{"status":{{"nodeName":"{}"}}}}"#, elsewhere.1);
    let migration = format!(
        r#"{{"status":{{"migrationState":{{"migrationUid":"m","sourceNode":"{node}","targetNode":"{}"}}}}}}"#,
        elsewhere.1
    );
    refused(&own.patches("vmi/web", &migration), "its own fields of a VMI's migration");
    Bearer::of(&space, "kubevirt-controller", &[]).patches("vmi/web", &migration).ok();
    other.patches("vmi/web", r#"{"status":{"migrationState":{"targetNodeAddress":"192.0.2.7"}}}"#).ok();
    own.patches("vmi/web", r#"{"status":{"migrationState":{"mode":"PreCopy"}}}"#).ok();
    for (change, said) in [
        (r#"{"status":{"guestOSInfo":{"name":"told"}}}"#, "changes only its own fields"),
        (r#"{"status":{"migrationState":{"mode":"PostCopy"}}}"#, "its own fields of a VMI's migration"),
        (r#"{"status":{"migrationState":{"sourceNode":"a"}}}"#, "its own fields of a VMI's migration"),
        (r#"{"status":{"migrationState":null}}"#, "changes only the VMIs of its own node"),
        (taken.as_str(), "changes only its own fields"),
    ] {
        refused(&other.patches("vmi/web", change), said);
    }
    refused(
        &own.patches("vmi/web", r#"{"status":{"migrationState":{"targetNodeAddress":"192.0.2.8"}}}"#),
        "its own fields of a VMI's migration",
    );
    Bearer::of(&space, "kubevirt-controller", &[])
        .patches("vmi/web", r#"{"status":{"migrationState":null}}"#)
        .ok();
}
