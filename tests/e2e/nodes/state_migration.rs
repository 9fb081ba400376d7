//! A VM with a TPM and EFI variables that are kept goes to another node: the guest has both there, and so has the next one.

use super::migration::{console_there, ends_as, migration};
use super::on_two_nodes;
use crate::tpm::{KEY, VARIABLE, found, with_tpm};
use tests::cluster::Space;
use tests::serial::Serial;

#[test]
fn a_tpm_and_efi_variables_that_are_kept_go_along() {
    let Some(space) = on_two_nodes("state") else { return };
    space.apply(&with_tpm(true).replace("name: sealed", "name: web"));
    let mut console = space.console_when_ready("web");
    let (key, nothing) = found(&mut console);
    assert_eq!(nothing, "");
    // A variable that is there is written by nobody again: the kernel keeps it from that.
    let writes = |console: &mut Serial, variable: &str| {
        let line = format!("printf '\\7\\0\\0\\0kept' >{variable}; tail -c +5 {variable}");
        assert_eq!(console.runs(&line), "kept");
    };
    writes(&mut console, VARIABLE);
    let first = claims(&space);
    assert_eq!(first.len(), 1, "{first:?}");
    space.has("vmi/web", "LiveMigratable", "True");
    for hop in ["first", "second"] {
        let from = space.get("vmi/web", ".status.nodeName");
        space.apply(&migration(hop));
        ends_as(&space, hop, "Succeeded");
        assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
        console = console_there(&space);
        console.keys_are(b"\n");
        assert_eq!(console.runs(KEY), key, "{hop}: another TPM");
        assert_eq!(console.runs(&format!("tail -c +5 {VARIABLE}")), "kept", "{hop}");
    }
    // What the guest writes behind the move is kept, too.
    let late = VARIABLE.replace("Word", "Late");
    writes(&mut console, &late);
    let new = claims(&space);
    assert_eq!(new.len(), 3, "{new:?}");
    // The next guest, also where those of before are gone.
    for claim in &first {
        space.run(&["delete", claim, "--wait=false"]);
    }
    let uid = space.get("vmi/web", ".metadata.uid");
    space.run(&["delete", "pod", &space.pod_of("web")]);
    space.another("vmi/web", &uid);
    let mut console = space.console_when_ready("web");
    assert_eq!(found(&mut console), (key, "kept".to_owned()));
    assert_eq!(console.runs(&format!("tail -c +5 {late}")), "kept");
    console.power_off();
}

/// PVCs of the state of the VM.
fn claims(space: &Space) -> Vec<String> {
    let found = space.run(&["get", "pvc", "-l", "persistent-state-for=web", "-o", "name"]);
    found.lines().map(str::to_owned).collect()
}
