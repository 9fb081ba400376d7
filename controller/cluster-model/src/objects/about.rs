//! The declaration that the file of a kind makes.

use super::store::Objects;
use super::{Key, World};
use jiff::Timestamp;
use serde_json::Value;

/// Everything that is declared of one kind of objects.
#[derive(Clone, Copy)]
pub struct About {
    /// Group and version, as an object says it.
    pub api_version: &'static str,
    /// The kind's name, as an object says it.
    pub name: &'static str,
    /// The plural in paths and roles.
    pub plural: &'static str,
    /// Only objects in the namespace of the installation are read or written, but for those of [`Use::elsewhere`].
    pub is_of_installation: bool,
    /// What virt-controller does with objects of the kind.
    pub controller: Use,
    /// What virt-api does with them.
    pub api: Use,
    /// What virt-handler does with them.
    pub handler: Use,
    /// What cdi-uploadproxy does with them.
    pub proxy: Use,
    /// The store of the World that keeps them.
    pub kept: Option<StoreOf>,
    /// Reads an object of a kind without a store; whether that changed the World.
    pub read: fn(&mut World, &Value) -> bool,
    /// Called after an object was put into its store.
    pub put: fn(&mut World, &Key, Timestamp),
    /// Called after an object was removed from its store.
    pub removed: fn(&mut World, &Key),
    /// Keys of the objects whose decision can change with an object of the kind.
    pub touches: fn(&World, &Key) -> Vec<Key>,
    /// Keys to decide on once all objects of the kind are known, even where there are none.
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
    /// All programs.
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

/// What one program does with objects of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Selections of objects that the program lists and watches; each takes `list` and `watch`. A list without a name is
    /// taken for all objects of the kind, so that there is at most one such selection.
    pub follows: &'static [Selector],
    /// Verbs beside these two, of the object or of a subresource.
    pub verbs: &'static [(Option<&'static str>, &'static [&'static str])],
    /// Names of the only objects that the program may touch; no name where it may touch all. Roles carry these names as
    /// `resourceNames`, and each name is followed by itself. The API server does not compare them with an object that is
    /// created: `install`'s admission policies do.
    pub names: &'static [&'static str],
    /// Objects of the cluster's own that the program follows too, each by its name. They are no part of the derived rights:
    /// the cluster has a role for each, to which `install` binds the program.
    pub elsewhere: &'static [Elsewhere],
    /// Objects that the program writes in every namespace, of a kind that is else of the installation.
    pub beyond: Option<Beyond>,
}

/// Objects outside of the installation, of a kind that is else of the installation, by the beginning of their names. RBAC
/// knows no beginnings: the role permits the verbs on all objects, and `install`'s admission policies bind what is written.
/// Nothing is read there.
#[derive(Clone, Copy, Debug)]
pub struct Beyond {
    /// How the names of the objects begin, each by one of these.
    pub prefixes: &'static [&'static str],
    /// The verbs, of the object.
    pub verbs: &'static [&'static str],
}

/// An object of the cluster's own, outside of the installation.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere {
    /// The object's namespace.
    pub namespace: &'static str,
    /// The object's name.
    pub name: &'static str,
    /// The Role in that namespace that permits to follow the object. Every cluster has it.
    pub role: &'static str,
}

/// A selection of the objects of a kind. `{node}` stands for the name of the node that the program runs on.
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    /// A label selector.
    pub labels: Option<&'static str>,
    /// A field selector.
    pub fields: Option<&'static str>,
    /// Only objects in the namespace of the installation.
    pub is_home: bool,
}

/// Where a program runs.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// The name of the node.
    pub node: String,
    /// The namespace of the installation.
    pub namespace: String,
}

/// A store of the World.
#[derive(Clone, Copy)]
pub struct StoreOf {
    pub(super) of: fn(&World) -> &dyn Objects,
    pub(super) of_mut: fn(&mut World) -> &mut dyn Objects,
}

impl Use {
    /// The program never asks for objects of the kind.
    pub const NONE: Use = Use { follows: &[], verbs: &[], names: &[], elsewhere: &[], beyond: None };

    /// The program creates objects that are questions: the API server answers, and keeps nothing.
    pub const ASKS: Use = Use { verbs: &[(None, &["create"])], ..Use::NONE };
}

impl Selector {
    /// All objects.
    pub const ALL: Selector = Selector { labels: None, fields: None, is_home: false };
    /// Those in the namespace of the installation.
    pub const HOME: Selector = Selector { is_home: true, ..Selector::ALL };
}

impl About {
    /// A kind that nothing is said of yet but its API names.
    pub const fn named(api_version: &'static str, name: &'static str, plural: &'static str) -> About {
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

    /// A kind whose objects are questions of all programs; the API server keeps none.
    pub const fn question(api_version: &'static str, name: &'static str, plural: &'static str) -> About {
        About {
            controller: Use::ASKS,
            api: Use::ASKS,
            handler: Use::ASKS,
            proxy: Use::ASKS,
            ..About::named(api_version, name, plural)
        }
    }

    /// The same of a kind with another name.
    pub const fn called(self, name: &'static str, plural: &'static str) -> About {
        About { name, plural, ..self }
    }

    /// What a program does with objects of the kind.
    pub const fn of(&self, program: Program) -> &Use {
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
