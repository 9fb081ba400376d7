//! Requests to change the links of a VMI's interfaces. Pure.
//!
//! A launcher may refuse to change a link, or fail to, and delays no other by that. The interface that it refused last comes
//! after all others. A request that it took is sent again only after a link has changed, and the next one only after it has
//! reported a state.

use api::launcher::{Request, State};
use api::vmi::{InterfaceState, VirtualMachineInstance};
use std::collections::BTreeMap;

/// Input of the first decision about a VMI.
pub static NO_LINK_REQUESTS: LinkRequests =
    LinkRequests { reported: BTreeMap::new(), taken: BTreeMap::new(), number: None, refused: None };

/// Requests that were sent to the launcher of a VMI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRequests {
    /// Links that the launcher reported when it took requests.
    reported: BTreeMap<String, bool>,
    /// Requests that it took, by interface.
    taken: BTreeMap<String, bool>,
    /// Number of its state when it took the last one.
    number: Option<u64>,
    /// Interface of the last request, if the launcher refused it.
    refused: Option<String>,
}

impl LinkRequests {
    /// Request for an interface whose link differs from the spec. An interface that the launcher does not report has no link
    /// to change; one that is `absent` is removed at the next start.
    pub(super) fn next(&self, vmi: &VirtualMachineInstance, state: &State) -> Option<Request> {
        if state.doing.is_some() || self.number == Some(state.number) {
            return None;
        }
        let interfaces = &vmi.spec.domain.devices.interfaces;
        let refused = interfaces.iter().position(|one| self.refused.as_ref() == Some(&one.name));
        let turn = refused.map_or(0, |refused| refused + 1);
        interfaces.iter().cycle().skip(turn).take(interfaces.len()).find_map(|interface| {
            let up = match &interface.state {
                None | Some(InterfaceState::Up) => true,
                Some(InterfaceState::Down) => false,
                Some(InterfaceState::Absent | InterfaceState::Other(_)) => return None,
            };
            let is_up = *state.links.get(&interface.name)?;
            let is_taken = self.reported == state.links && self.taken.get(&interface.name) == Some(&up);
            (is_up != up && !is_taken).then(|| Request::Link { interface: interface.name.clone(), up })
        })
    }

    /// Records a request that was sent, and whether the launcher took it.
    pub(super) fn record(&mut self, interface: &str, up: bool, state: &State, is_taken: bool) {
        self.refused = (!is_taken).then(|| interface.to_owned());
        if self.reported != state.links {
            (self.reported, self.taken) = (state.links.clone(), BTreeMap::new());
        }
        if is_taken {
            self.number = Some(state.number);
            self.taken.insert(interface.to_owned(), up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A VMI whose interfaces are all to be unplugged.
    fn vmi(interfaces: &[&str]) -> VirtualMachineInstance {
        let interface = |name: &&str| json!({"name": name, "bridge": {}, "state": "down"});
        let interfaces: Vec<_> = interfaces.iter().map(interface).collect();
        let devices = json!({"interfaces": interfaces});
        let vmi = json!({"metadata": {"name": "a"}, "spec": {"domain": {"devices": devices}}});
        api::wire::read(vmi).unwrap()
    }

    fn plugged(interfaces: &[&str]) -> State {
        let links = interfaces.iter().map(|name| ((*name).to_owned(), true)).collect();
        State { links, ..State::default() }
    }

    /// Interface of the next request, which is sent.
    fn send(
        requests: &mut LinkRequests,
        vmi: &VirtualMachineInstance,
        state: &State,
        is_taken: bool,
    ) -> Option<String> {
        let Request::Link { interface, up } = requests.next(vmi, state)? else { panic!("another request") };
        requests.record(&interface, up, state, is_taken);
        Some(interface)
    }

    #[test]
    fn links_that_are_refused_take_turns_with_all_others() {
        let (vmi, mut requests) = (vmi(&["a", "b", "c"]), LinkRequests::default());
        let mut state = plugged(&["a", "b", "c"]);
        let all: Vec<_> = (0..4).map(|_| send(&mut requests, &vmi, &state, false).unwrap()).collect();
        assert_eq!(all, ["a", "b", "c", "a"]);
        state.links.insert("b".into(), false);
        let all: Vec<_> = (0..3).map(|_| send(&mut requests, &vmi, &state, false).unwrap()).collect();
        assert_eq!(all, ["c", "a", "c"]);
    }

    #[test]
    fn a_link_that_does_not_move_delays_no_other_and_is_asked_for_once() {
        let (vmi, mut requests) = (vmi(&["stuck", "b"]), LinkRequests::default());
        let mut state = plugged(&["stuck", "b"]);
        assert_eq!(send(&mut requests, &vmi, &state, true).as_deref(), Some("stuck"));
        assert_eq!(send(&mut requests, &vmi, &state, true), None, "nothing is known of the request");
        state.number += 1;
        let busy = State { doing: Some("link".into()), ..state.clone() };
        assert_eq!(send(&mut requests, &vmi, &busy, true), None);
        assert_eq!(send(&mut requests, &vmi, &state, true).as_deref(), Some("b"));
        state.number += 1;
        assert_eq!(send(&mut requests, &vmi, &state, true), None, "all are asked for");
        state.links.insert("b".into(), false);
        assert_eq!(send(&mut requests, &vmi, &state, true).as_deref(), Some("stuck"), "a link has changed");
        state.number += 1;
        assert_eq!(send(&mut requests, &vmi, &state, true), None);
    }
}
