//! What an API server must be told of our objects before it takes them: CustomResourceDefinitions.
//!
//! ```text
//! object!, words! ──► schema ─┐
//! KINDS: names, columns, … ───┴─► all(): one definition for each kind ──► manifests/crds/*.yaml (compared by a test)
//! ```
//!
//! Pure: nobody here asks an API server. Whoever installs applies what [`all`] gives. Three rules hold for all of them:
//! what is not known is kept, on every level; a word is never refused, since the check of a VMI knows better
//! sentences and a newer version more words; and each stays so small that `kubectl apply` can note it in an annotation.

mod kinds;

pub use kinds::KINDS;

use crate::instancetype;
use crate::wire::Schema;
use serde_json::{Value, json};

/// A kind of objects.
#[derive(Clone, Copy, Debug)]
pub struct CustomResource {
    /// Its group.
    pub group: &'static str,
    /// Its name.
    pub kind: &'static str,
    /// Its objects are in no namespace.
    pub is_of_cluster: bool,
    /// `kubectl get all` shows it.
    pub is_in_all: bool,
    /// The name of many, as it stands in paths.
    pub plural: &'static str,
    /// The name of one, for people.
    pub singular: &'static str,
    /// Names for who types much.
    pub short: &'static [&'static str],
    /// The label of its definition, by which installations are found.
    pub label: &'static str,
    /// The version that is stored, with the whole schema.
    pub version: &'static str,
    /// A version that is served for old manifests; all it does is to keep what it is given.
    pub old_version: Option<&'static str>,
    /// What the API server tells whoever uses the stored version, of a kind that is deprecated.
    pub deprecated: Option<&'static str>,
    /// What is written beside its objects.
    pub subresources: Subresources,
    /// What `kubectl get` shows.
    pub columns: &'static [Column],
    /// What its objects look like.
    pub schema: fn() -> Schema,
}

/// What is written beside an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresources {
    /// Nothing: whoever may write the object may write its status, and a webhook stands before it.
    None,
    /// Its status.
    Status,
    /// Its status, and how many there are to be.
    StatusAndScale,
}

/// What `kubectl get` shows of an object.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The head of the column.
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub form: &'static str,
    /// Where in the object it stands.
    pub path: &'static str,
    /// Shown with `-o wide` only.
    pub wide: bool,
    /// What it tells, where the name does not say it.
    pub description: &'static str,
}

/// The definition of every kind.
pub fn all() -> Vec<Value> {
    KINDS.iter().map(CustomResource::definition).collect()
}

impl CustomResource {
    /// The name of its definition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Its definition.
    pub fn definition(&self) -> Value {
        let mut versions = vec![self.served(self.version, true)];
        if let Some(warning) = self.deprecated {
            versions[0]["deprecated"] = json!(true);
            versions[0]["deprecationWarning"] = json!(warning);
        }
        for old in self.old_versions() {
            let mut version = self.served(old, false);
            version["deprecated"] = json!(true);
            version["deprecationWarning"] =
                json!(format!("{}/{old} is deprecated: use {}/{}", self.group, self.group, self.version));
            versions.push(version);
        }
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name(), "labels": {self.label: ""}},
            "spec": {
                "group": self.group,
                "scope": if self.is_of_cluster { "Cluster" } else { "Namespaced" },
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.singular,
                },
                "versions": versions,
            },
        });
        // The API server drops what is empty, and what was written is to be what it keeps.
        let names = &mut definition["spec"]["names"];
        if !self.short.is_empty() {
            names["shortNames"] = json!(self.short);
        }
        if self.is_in_all {
            names["categories"] = json!(["all"]);
        }
        definition
    }

    /// All versions that are served for old manifests: most kinds have one at most.
    fn old_versions(&self) -> Vec<&'static str> {
        let older = instancetype::OLD_VERSIONS.into_iter().filter(|_| self.group == instancetype::GROUP);
        let older = older.filter(|older| Some(*older) != self.old_version);
        self.old_version.into_iter().chain(older).collect()
    }

    fn served(&self, name: &str, stored: bool) -> Value {
        let schema = if stored { self.root() } else { Schema::object("").into_value() };
        let mut version = json!({
            "name": name,
            "served": true,
            "storage": stored,
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": self.columns.iter().map(Column::definition).collect::<Vec<_>>(),
        });
        let scale = json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        });
        match self.subresources {
            Subresources::None => {}
            Subresources::Status => version["subresources"] = json!({"status": {}}),
            Subresources::StatusAndScale => version["subresources"] = json!({"status": {}, "scale": scale}),
        }
        version
    }

    /// The schema of a whole object. Of its metadata nothing may be said: they are the server's own, and so
    /// is what kind it is.
    fn root(&self) -> Value {
        let mut schema = (self.schema)().into_value();
        schema["properties"]["metadata"] = json!({"type": "object"});
        for name in ["apiVersion", "kind"] {
            if let Some(field) = schema["properties"][name].as_object_mut() {
                field.remove("nullable");
            }
        }
        schema
    }
}

impl Column {
    fn definition(&self) -> Value {
        let mut column = json!({"name": self.name, "type": self.form, "jsonPath": self.path});
        if self.wide {
            column["priority"] = json!(1);
        }
        if !self.description.is_empty() {
            column["description"] = json!(self.description);
        }
        column
    }
}
