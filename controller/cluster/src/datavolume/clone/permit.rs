//! Who may clone a PVC of another namespace: whoever may create `datavolumes/source` there. virt-api asks the API server when a
//! DataVolume is made, and signs that it was answered yes; here that is verified.
//!
//! ```text
//!  the webhook stood when the DataVolume was made?      else anybody could have written the annotation
//!  a key of ours has signed the token?                  ConfigMap cdi-api-signing-key
//!  of this source and this target, made in its time?    serve::token::verify_clone
//! ```
//!
//! virt-api signs for whoever reaches it, and a review may be made up. So a token counts only in a DataVolume that the API server
//! showed to virt-api when it was made: there the webhook has taken away what its maker wrote, and an admission policy of the
//! installation lets nobody write the annotation afterwards.

use super::super::Round;
use super::Stop;
use jiff::{SignedDuration, Timestamp};
use kubernetes::clones::{CLONE_TOKEN, RIGHT};
use kubernetes::objects::{MUTATOR, World};
use kubernetes::uploads::{PUBLIC_KEY, SIGNING_KEY};
use serve::token::{Cloned, PublicKey, public_keys, verify_clone};

/// How long after a webhook was made every API server asks it.
const SPREAD: SignedDuration = SignedDuration::from_secs(10);
/// Why a clone waits whose maker has shown no right.
const DENIED: &str = "CloneNotPermitted";

impl Round<'_> {
    /// Whoever made the DataVolume may clone the PVC of this namespace and name.
    pub(super) fn permitted(&self, namespace: &str, name: &str) -> Result<(), Stop> {
        let meta = &self.volume.metadata;
        let own = meta.namespace.as_deref().unwrap_or_default();
        if namespace == own {
            return Ok(());
        }
        let (group, plural, part) = RIGHT;
        let denied = |why: String| {
            Stop::waits(
                DENIED,
                format!(
                    "a PVC of the namespace {namespace} is cloned for whoever may create {plural}/{part} ({group}) there, and \
                     {why}: delete the DataVolume, and let somebody who has that right make it again"
                ),
            )
        };
        let made = time(meta.creation_timestamp.as_deref());
        let (Some(made), true) = (made, made.is_some_and(|made| is_asked(self.world, made))) else {
            return denied("the webhook of virt-api was not there when this DataVolume was made".to_owned());
        };
        let Some(token) = meta.annotations.get(CLONE_TOKEN) else {
            return denied(format!("this DataVolume has no token of virt-api that says so ({CLONE_TOKEN})"));
        };
        let Some(keys) = keys(self.world) else {
            let message = "the public keys of clone tokens (ConfigMap cdi-api-signing-key) are not there yet";
            return Stop::waits(DENIED, message);
        };
        let clone = Cloned {
            source: (namespace, name),
            target: (own, meta.name.as_deref().unwrap_or_default()),
            generated: meta.generate_name.as_deref().unwrap_or_default(),
        };
        match verify_clone(&keys, token, clone, made) {
            Ok(()) => Ok(()),
            Err(_) => denied(format!("the token of this DataVolume ({CLONE_TOKEN}) is not for this clone")),
        }
    }
}

/// virt-api's webhook was asked about what was made at a time.
fn is_asked(world: &World, made: Timestamp) -> bool {
    let hook = world.mutating_webhooks.get("", MUTATOR);
    let since = hook.and_then(|hook| time(hook.meta.creation_timestamp.as_deref()));
    let since = since.and_then(|since| since.checked_add(SPREAD).ok());
    since.is_some_and(|since| since <= made)
}

fn time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn keys(world: &World) -> Option<Vec<PublicKey>> {
    let map = world.config_maps.get(&world.facts.namespace, SIGNING_KEY)?;
    public_keys(map.object["data"][PUBLIC_KEY].as_str()?.as_bytes()).ok()
}
