//! Actions that start, stop or pause a VM, as `coracle virt` has them. The subresource of virt-api decides.

use super::answer::Refusal;
use super::route::VmName;
use crate::virt::client::Cluster;
use cluster_model::objects::Kind;
use serde_json::json;

/// An action on a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Start,
    Stop,
    Restart,
    Pause,
    Unpause,
    SoftReboot,
}

const ALL: [Verb; 6] = [Verb::Start, Verb::Stop, Verb::Restart, Verb::Pause, Verb::Unpause, Verb::SoftReboot];

impl Verb {
    /// The verb with this name.
    pub(super) fn of(word: &str) -> Option<Verb> {
        ALL.into_iter().find(|verb| verb.word() == word)
    }

    /// Name of the verb in paths and messages.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verb::Start => "start",
            Verb::Stop => "stop",
            Verb::Restart => "restart",
            Verb::Pause => "pause",
            Verb::Unpause => "unpause",
            Verb::SoftReboot => "soft-reboot",
        }
    }

    /// Kind of the object, and name of its subresource.
    fn target(self) -> (Kind, &'static str) {
        match self {
            Verb::Start | Verb::Stop | Verb::Restart => (Kind::VirtualMachine, self.word()),
            Verb::Pause | Verb::Unpause => (Kind::VirtualMachineInstance, self.word()),
            Verb::SoftReboot => (Kind::VirtualMachineInstance, "softreboot"),
        }
    }

    /// Sends the request to virt-api.
    pub(super) async fn ask(self, cluster: &Cluster, place: &VmName) -> Result<(), Refusal> {
        let VmName { namespace, name } = place;
        let (kind, part) = self.target();
        let options = json!({});
        // softreboot takes no options.
        let body = (self != Verb::SoftReboot).then_some(&options);
        let asked = cluster.put(&kind.part(namespace, name, part), body).await;
        asked.map_err(|failure| {
            failure
                .into_error(&format!("cannot {} {kind} {name} in namespace {namespace}", self.word()))
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_those_of_virt_api() {
        for verb in ALL {
            assert_eq!(Verb::of(verb.word()), Some(verb));
        }
        assert_eq!(Verb::of("reset"), None);
        assert_eq!(Verb::Stop.target(), (Kind::VirtualMachine, "stop"));
        assert_eq!(Verb::SoftReboot.target(), (Kind::VirtualMachineInstance, "softreboot"));
    }
}
