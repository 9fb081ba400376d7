//! CustomResourceDefinitions: the registration of our kinds with an API server.
//!
//! ```text
//! object!, string_enum! ──► schema ─┐
//! KINDS: names, columns, … ───┴─► all(): one definition for each kind ──► manifests/crds/*.yaml (compared by a test)
//! ```
//!
//! Pure: this module does not contact an API server; the installer applies the result of [`all`]. Three rules
//! hold for all of them. Unknown fields are kept, on every level. An unknown word is never refused, since the
//! check of a VMI gives better messages and a newer version has more words. Each definition stays so small
//! that `kubectl apply` can store it in an annotation.

mod kinds;

pub use kinds::KINDS;

use crate::instancetype;
use crate::wire::Schema;
use serde_json::{Value, json};

/// A kind with a CustomResourceDefinition.
#[derive(Clone, Copy, Debug)]
pub struct CustomResource {
    pub group: &'static str,
    pub kind: &'static str,
    /// Cluster-scoped: the objects are in no namespace.
    pub is_of_cluster: bool,
    /// Shown by `kubectl get all`.
    pub is_in_all: bool,
    /// Plural name, as it stands in paths.
    pub plural: &'static str,
    /// Singular name, for `kubectl`.
    pub singular: &'static str,
    /// Short names for the command line.
    pub short: &'static [&'static str],
    /// Label of the definition, by which installers find it.
    pub label: &'static str,
    /// Stored version, with the whole schema.
    pub version: &'static str,
    /// Served version for old manifests; its schema keeps every field and checks none.
    pub old_version: Option<&'static str>,
    /// Warning of the API server for each use of the stored version, if the kind is deprecated.
    pub deprecated: Option<&'static str>,
    pub subresources: Subresources,
    /// Columns of `kubectl get`.
    pub columns: &'static [Column],
    /// Schema of the objects.
    pub schema: fn() -> Schema,
}

/// Subresources of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresources {
    /// None: a client that may write the object may write its status. A webhook validates both.
    None,
    /// Only `status`, as a subresource.
    Status,
    /// `status`, and `scale` for the number of replicas.
    StatusAndScale,
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Title of the column.
    pub name: &'static str,
    /// Type of the value: `string`, `integer` or `date`.
    pub form: &'static str,
    /// JSONPath of the value in the object.
    pub path: &'static str,
    /// Shown with `-o wide` only.
    pub wide: bool,
    /// Description, where the name is not enough.
    pub description: &'static str,
}

/// CustomResourceDefinitions of all kinds.
pub fn all() -> Vec<Value> {
    KINDS.iter().map(CustomResource::definition).collect()
}

impl CustomResource {
    /// Name of the definition.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The CustomResourceDefinition of the kind.
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
        // The API server drops empty fields, and the written definition must equal the stored one.
        let names = &mut definition["spec"]["names"];
        if !self.short.is_empty() {
            names["shortNames"] = json!(self.short);
        }
        if self.is_in_all {
            names["categories"] = json!(["all"]);
        }
        definition
    }

    /// Versions that are served for old manifests: most kinds have one at most.
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

    /// Schema of a whole object. It must not describe the metadata, the kind or the API version: the API
    /// server has its own schema of those.
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
