//! Subresources that are not served yet, and alternatives; `docs/reference/subresources.md` is made from this
//! list.

use cluster_model::subresources::{Action, Subresource};

/// Alternative to a subresource that is not served; `None` for a served one.
pub(crate) fn instead(subresource: &Subresource) -> Option<&'static str> {
    Some(match subresource.action {
        Action::AddVolume | Action::RemoveVolume => {
            "volumes cannot be attached to a running VM yet; change spec.template and restart the VM"
        }
        Action::MemoryDump | Action::RemoveMemoryDump => "guest memory cannot be written to a PVC yet",
        Action::Backup | Action::RedefineCheckpoint => {
            "incremental backups do not work yet; copy the PVC of the stopped VM"
        }
        Action::Vsock => {
            "connections to VSOCK are not relayed yet; connect on the node of the VMI, or use a port of the guest (portforward)"
        }
        Action::SevFetchCertChain
        | Action::SevQueryLaunchMeasurement
        | Action::SevSetupSession
        | Action::SevInjectLaunchSecret => "no VM runs with AMD SEV",
        Action::Guestfs => "there is no libguestfs image; mount the PVC in a pod of your own",
        Action::ObjectGraph => "read the owner references of the objects instead",
        Action::StartProfiler | Action::StopProfiler | Action::DumpProfiler => {
            "programs here have no profiler; read /metrics"
        }
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test reads a document")]
mod tests {
    use super::*;
    use cluster_model::subresources::SUBRESOURCES;
    use std::fmt::Write as _;
    use std::path::Path;

    /// The table in the document.
    fn table() -> String {
        let mut table = "| request | roles | |\n|---|---|---|\n".to_owned();
        for one in SUBRESOURCES {
            // `tests/e2e/rights.rs` compares these with the installed roles.
            let roles = match (one.is_for_viewers, one.is_for_editors, one.action) {
                (true, ..) => "view, edit, admin",
                (_, true, _) => "edit, admin",
                _ if one.is_for_admins => "admin",
                (.., Action::Migrate) => "migrate",
                (.., Action::Version | Action::Guestfs) => "default",
                _ => "",
            };
            let said =
                instead(one).map_or("served".to_owned(), |instead| format!("refused (501): {instead}"));
            writeln!(table, "| `{} {}` | {roles} | {said} |", one.method.name(), one.resource()).unwrap();
        }
        table
    }

    #[test]
    fn the_document_says_what_is_served_and_what_to_do_instead_of_the_rest() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/subresources.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let begin = text.find("| request | roles | |").expect("the table");
        let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 1);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{}{}{}", &text[..begin], table(), &text[end..])).unwrap();
            return;
        }
        assert_eq!(&text[begin..end], table(), "UPDATE_GOLDEN=1 writes it anew");
    }
}
