//! The installation, while VMs are there.

use crate::tiny;
use tests::cluster::Space;

#[test]
fn an_installation_stays_while_vms_do_if_it_is_told_to() {
    let Some(space) = Space::new("stays") else { return };
    let strategy = |word: &str| {
        let patch = format!(r#"{{"spec":{{"uninstallStrategy":{word}}}}}"#);
        space.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", &patch]);
    };
    // Only tried: it is judged like the real thing, and nothing goes.
    let goes = || space.try_run(&["delete", "-n", "kubevirt", "kubevirt", "kubevirt", "--dry-run=server"]);
    space.apply(&tiny("web", "Halted"));
    strategy(r#""BlockUninstallIfWorkloadsExist""#);
    let refused = goes();
    strategy("null");
    let said = "since there are still Virtual Machines present";
    assert!(refused.code != 0 && refused.err.contains(said), "{}", refused.err);
    goes().ok();
}
