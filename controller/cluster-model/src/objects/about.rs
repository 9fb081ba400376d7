//! The declaration of a kind, made in the kind's file.

use super::store::Objects;
use super::{Key, World};
use jiff::Timestamp;
use serde_json::Value;

/// Declaration of one kind of objects.
#[derive(Clone, Copy)]
pub struct About {
    /// Group and version, as in an object's `apiVersion`.
    pub api_version: &'static str,
    /// Name of the kind, as in an object's `kind`.
    pub name: &'static str,
    /// The plural in paths and roles.
    pub plural: &'static str,
    /// Only objects in the namespace of the installation are read or written, except those in
    /// [`Use::elsewhere`].
    pub is_of_installation: bool,
    pub controller: Use,
    pub api: Use,
    pub handler: Use,
    pub proxy: Use,
    /// The store of the World for the kind.
    pub kept: Option<StoreOf>,
    /// Reads an object of a kind without a store. Returns true if that changed the World.
    pub read: fn(&mut World, &Value) -> bool,
    /// Called after an object was put into its store.
    pub put: fn(&mut World, &Key, Timestamp),
    /// Called after an object was removed from its store.
    pub removed: fn(&mut World, &Key),
    /// Keys of the objects whose decision can change with an object of the kind.
    pub touches: fn(&World, &Key) -> Vec<Key>,
    /// Keys to decide on once all objects of the kind are known, even if there are none.
    pub listed: fn(&World) -> Vec<Key>,
}

/// Programs that have an account at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    Controller,
    Api,
    Handler,
    Proxy,
}

impl Program {
    pub const ALL: [Program; 4] = [Program::Controller, Program::Api, Program::Handler, Program::Proxy];

    /// The name of the program's service account.
    pub const fn account(self) -> &'static str {
        match self {
            Program::Controller => "kubevirt-controller",
            Program::Api => "kubevirt-apiserver",
            Program::Handler => "kubevirt-handler",
            Program::Proxy => "cdi-uploadproxy",
        }
    }
}

/// Use of a kind by one program.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Selections of objects that the program lists and watches; each requires `list` and `watch`. Several
    /// unnamed selections of a kind are followed as one (`cluster_client::union`).
    pub follows: &'static [Selector],
    /// Verbs other than these two, on the object or on a subresource.
    pub verbs: &'static [(Option<&'static str>, &'static [&'static str])],
    /// Names of the only objects that the program may access; empty for all. Roles carry these names as
    /// `resourceNames`, and each name has its own watch. The API server does not check them on `create`:
    /// `install`'s admission policies do.
    pub names: &'static [&'static str],
    /// Objects in namespaces of the cluster that the program follows too, each by its name. They are not part
    /// of the derived rights: the cluster has a role for each, to which `install` binds the program.
    pub elsewhere: &'static [ClusterObject],
    /// Objects that the program writes in every namespace, although the kind is otherwise restricted to the
    /// installation.
    pub beyond: Option<WritableByPrefix>,
}

/// Objects in other namespaces that the program may write, matched by name prefix, although the kind is
/// otherwise restricted to the installation. RBAC has no prefixes: the role permits the verbs on all objects,
/// and `install`'s admission policies restrict the names. Nothing is read there.
#[derive(Clone, Copy, Debug)]
pub struct WritableByPrefix {
    /// Name prefixes of the objects.
    pub prefixes: &'static [&'static str],
    /// Verbs on the object.
    pub verbs: &'static [&'static str],
}

/// An object of the cluster, outside of the installation.
#[derive(Clone, Copy, Debug)]
pub struct ClusterObject {
    pub namespace: &'static str,
    pub name: &'static str,
    /// The Role in that namespace that permits reading the object. Every cluster has it.
    pub role: &'static str,
}

/// A selection of the objects of a kind. `{node}` stands for the name of the node that the program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    pub labels: Option<&'static str>,
    pub fields: Option<&'static str>,
    /// Only objects in the namespace of the installation.
    pub is_home: bool,
}

/// Location of a program in the cluster.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// Name of the node.
    pub node: String,
    /// Namespace of the installation.
    pub namespace: String,
}

/// A store of the World.
#[derive(Clone, Copy)]
pub struct StoreOf {
    pub(super) of: fn(&World) -> &dyn Objects,
    pub(super) of_mut: fn(&mut World) -> &mut dyn Objects,
}

impl Use {
    /// The program makes no requests about the kind.
    pub const NONE: Use = Use { follows: &[], verbs: &[], names: &[], elsewhere: &[], beyond: None };

    /// The program creates review objects: the API server answers in the response and stores nothing.
    pub const ASKS: Use = Use { verbs: &[(None, &["create"])], ..Use::NONE };
}

impl Selector {
    pub const ALL: Selector = Selector { labels: None, fields: None, is_home: false };
    /// Objects in the namespace of the installation.
    pub const HOME: Selector = Selector { is_home: true, ..Selector::ALL };
}

impl About {
    /// A declaration with the API names only.
    pub const fn new(api_version: &'static str, name: &'static str, plural: &'static str) -> About {
        About {
            api_version,
            name,
            plural,
            is_of_installation: false,
            controller: Use::NONE,
            api: Use::NONE,
            handler: Use::NONE,
            proxy: Use::NONE,
            kept: None,
            read: |_, _| false,
            put: |_, _, _| {},
            removed: |_, _| {},
            touches: |_, _| Vec::new(),
            listed: |_| Vec::new(),
        }
    }

    /// A kind of review objects, used by all programs. The API server stores none of them.
    pub const fn review(api_version: &'static str, name: &'static str, plural: &'static str) -> About {
        About {
            controller: Use::ASKS,
            api: Use::ASKS,
            handler: Use::ASKS,
            proxy: Use::ASKS,
            ..About::new(api_version, name, plural)
        }
    }

    /// The same declaration for a kind with another name.
    pub const fn renamed(self, name: &'static str, plural: &'static str) -> About {
        About { name, plural, ..self }
    }

    /// Use of the kind by a program.
    pub const fn use_by(&self, program: Program) -> &Use {
        match program {
            Program::Controller => &self.controller,
            Program::Api => &self.api,
            Program::Handler => &self.handler,
            Program::Proxy => &self.proxy,
        }
    }
}

/// The store of a kind, by the name of the World's field.
macro_rules! kept {
    ($field:ident) => {
        Some($crate::objects::about::StoreOf { of: |world| &world.$field, of_mut: |world| &mut world.$field })
    };
}
pub(super) use kept;
