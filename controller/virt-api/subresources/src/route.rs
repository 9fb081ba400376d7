//! The parsed path of a request:
//! `/apis/subresources.kubevirt.io/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`.

use crate::refusal::{Refusal, Result, Subject};
use cluster_model::objects::names::is_name;
use cluster_model::subresources::{GROUP, Parent, Subresource, VERSIONS, find};

/// A request for a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) version: &'a str,
    /// Namespace; empty for a path of the group itself.
    pub(crate) namespace: &'a str,
    /// Name of the object; empty without one.
    pub(crate) name: &'a str,
    pub(crate) subresource: &'static Subresource,
    /// Port to forward, and its protocol.
    pub(crate) rest: &'a str,
}

impl<'a> Route<'a> {
    /// The route of a path below the group, or a refusal with 404.
    pub(crate) fn of(path: &'a str) -> Result<Route<'a>> {
        read(path).ok_or_else(Refusal::no_such_path)
    }

    /// Resource with subresource, as in messages.
    pub(crate) fn resource(&self) -> String {
        self.subresource.resource()
    }

    /// The part of the API in messages.
    pub(crate) fn subject_of_api(&self) -> String {
        format!("the subresource {}", self.resource())
    }

    /// The resource in a SubjectAccessReview.
    pub(crate) fn of_resource(&self) -> &'static str {
        self.subresource.parent.plural().unwrap_or(self.subresource.path)
    }

    /// The subresource in a SubjectAccessReview.
    pub(crate) fn of_subresource(&self) -> &'static str {
        if self.subresource.parent == Parent::Group { "" } else { self.subresource.path }
    }

    /// The object in messages.
    pub(crate) fn subject(&self) -> Subject<'a> {
        let kind = match self.subresource.parent {
            Parent::VirtualMachine => "virtualmachine",
            Parent::VirtualMachineInstance | Parent::Group => "virtualmachineinstance",
        };
        Subject { kind, name: self.name }
    }
}

fn read(path: &str) -> Option<Route<'_>> {
    let path = path.strip_prefix("/apis/")?.strip_prefix(GROUP)?.strip_prefix('/')?;
    let (version, path) = path.split_once('/')?;
    if !VERSIONS.contains(&version) {
        return None;
    }
    let Some(path) = path.strip_prefix("namespaces/") else {
        let (subresource, rest) = find(Parent::Group, path).filter(|(found, _)| !found.is_namespaced())?;
        return Some(Route { version, namespace: "", name: "", subresource, rest });
    };
    let (namespace, path) = path.split_once('/')?;
    is_name(namespace).then_some(())?;
    if let Some((subresource, rest)) = find(Parent::Group, path) {
        return subresource.is_namespaced().then_some(Route {
            version,
            namespace,
            name: "",
            subresource,
            rest,
        });
    }
    let (plural, path) = path.split_once('/')?;
    let of = [Parent::VirtualMachine, Parent::VirtualMachineInstance]
        .into_iter()
        .find(|of| of.plural() == Some(plural))?;
    let (name, path) = path.split_once('/')?;
    is_name(name).then_some(())?;
    let (subresource, rest) = find(of, path)?;
    Some(Route { version, namespace, name, subresource, rest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::subresources::Action;

    #[test]
    fn a_path_is_read_whole_or_not_at_all() {
        let base = "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachineinstances/web.1";
        let path = format!("{base}/vnc/screenshot");
        let route = Route::of(&path).unwrap();
        assert_eq!((route.namespace, route.name, route.rest), ("n", "web.1", ""));
        assert_eq!(route.subresource.action, Action::Screenshot);
        assert_eq!(
            (route.of_resource(), route.of_subresource()),
            ("virtualmachineinstances", "vnc/screenshot")
        );
        let path = format!("{base}/portforward/22/tcp");
        let route = Route::of(&path).unwrap();
        assert_eq!((route.of_subresource(), route.rest), ("portforward", "22/tcp"));
        let route = Route::of("/apis/subresources.kubevirt.io/v1alpha3/version").unwrap();
        assert_eq!((route.namespace, route.of_resource(), route.of_subresource()), ("", "version", ""));
        let route = Route::of("/apis/subresources.kubevirt.io/v1/namespaces/n/expand-vm-spec").unwrap();
        assert_eq!((route.namespace, route.name, route.of_resource()), ("n", "", "expand-vm-spec"));
    }

    #[test]
    fn what_is_no_name_is_no_path() {
        for path in [
            "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/../start",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/a%2Fb/start",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines//start",
            "/apis/subresources.kubevirt.io/v1/namespaces/n?x/virtualmachines/web/start",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/web/start/",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/-web/start",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/pods/web/start",
            "/apis/subresources.kubevirt.io/v2/version",
            "/apis/subresources.kubevirt.io/v1/expand-vm-spec",
            "/apis/subresources.kubevirt.io/v1/namespaces/n/version",
            "/apis/kubevirt.io/v1/version",
        ] {
            assert_eq!(Route::of(path).unwrap_err().status, 404, "{path}");
        }
    }
}
