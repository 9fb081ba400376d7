//! MigrationPolicy: settings for the live migrations of some VMIs.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::meta::ObjectMeta;
use api::migration_policy::MigrationPolicy;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(migration_policies),
    // A change takes effect with the next hand-over, so it touches no other object.
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    ..About::new(api::migration_policy::API_VERSION, "MigrationPolicy", "migrationpolicies")
};

impl StoredObject for MigrationPolicy {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
