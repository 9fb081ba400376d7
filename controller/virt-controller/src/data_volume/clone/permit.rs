//! The right to clone a PVC of another namespace: the right to create `datavolumes/source` there. virt-api
//! asks the API server when a DataVolume is created, and signs a token if the answer is yes. The token is
//! verified here.
//!
//! ```text
//!  the webhook existed when the DataVolume was created? otherwise any client could have written the annotation
//!  a key of ours has signed the token?                  ConfigMap cdi-api-signing-key
//!  for this source and target, created in its time?     serve::token::verify_clone
//!  or for the DataSource that the DataVolume names?     it points to this PVC now, and the PVC is of the DataSource's own namespace
//! ```
//!
//! **A DataSource that pointed to nothing** when the DataVolume was created: the author of the DataVolume may
//! clone every PVC of the namespace of the DataSource. The DataSource is resolved again before each source
//! pod. So overwriting its name on the PVC gains nothing, and neither does pointing the DataSource to another
//! namespace.
//!
//! **Labels.** A VM may take its instance type from the source of its disk. In another namespace that is read
//! only if the disk is a clone of it, and the right to it is verified as for a source pod ([`far_clone`]).
//!
//! virt-api answers only on the paths of the webhook configurations, but every client that may read those
//! knows the paths, so a review may be forged. So a token counts only in a DataVolume that the API server
//! showed to virt-api when it was created. The webhook then removes the annotation if the author wrote it,
//! and an admission policy of the installation denies later changes of it. The configuration with that
//! webhook has only webhooks about kinds of CDI. It is deleted while another CDI operator is present, whose
//! webhooks would keep a forged token. So its creation time says since when virt-api was asked.

use super::super::request::Request;
use super::Stop;
use crate::data_source;
use api::data_volume::DataVolume;
use cluster_model::clones::{CLONE_TOKEN, RIGHT};
use cluster_model::objects::{CDI_MUTATOR, World};
use cluster_model::uploads::{PUBLIC_KEY, SIGNING_KEY};
use cluster_model::webhooks::{Question, has_webhook};
use jiff::{SignedDuration, Timestamp};
use serve::token::{CloneSourceKind, Cloned, PublicKey, TokenError, public_keys, verify_clone_of};

/// The time after which every API server calls a new webhook.
const SPREAD: SignedDuration = SignedDuration::from_secs(10);
/// Reason of a clone whose creator has shown no right.
const DENIED: &str = "CloneNotPermitted";
/// Reason of a clone that has waited until the key of its token was removed.
const FORGOTTEN: &str = "CloneTokenExpired";

/// Checks that the creator of the DataVolume may clone the PVC of this namespace and name.
pub(super) fn check_permission(request: &Request<'_>, namespace: &str, name: &str) -> Result<(), Stop> {
    let meta = request.meta();
    let own = meta.namespace.as_deref().unwrap_or_default();
    if namespace == own {
        return Ok(());
    }
    let (group, plural, part) = RIGHT;
    let denied = |why: String| {
        Stop::wait(
            DENIED,
            format!(
                "cloning a PVC of the namespace {namespace} needs the right to create {plural}/{part} ({group}) \
                 there, and {why}: delete the DataVolume, and let a user who has that right create it again"
            ),
        )
    };
    let made = time(meta.creation_timestamp.as_deref());
    let (Some(made), true) = (made, made.is_some_and(|made| is_asked(request.world, made))) else {
        return denied("the webhook of virt-api did not exist when this DataVolume was created".to_owned());
    };
    let Some(token) = meta.annotations.get(CLONE_TOKEN) else {
        return denied(format!("this DataVolume has no token of virt-api for it ({CLONE_TOKEN})"));
    };
    let Some(keys) = keys(request.world) else {
        let message = "the public keys of clone tokens (ConfigMap cdi-api-signing-key) do not exist yet";
        return Stop::wait(DENIED, message);
    };
    match verify_token(request, CloneSourceKind::Claim, (namespace, name), &keys, token, made) {
        Ok(()) => Ok(()),
        Err(TokenError::BadSignature) => Err(forgotten()),
        Err(_) => match far_source(request).filter(|(home, _)| *home == namespace) {
            Some(source)
                if verify_token(request, CloneSourceKind::DataSource, source, &keys, token, made).is_ok() =>
            {
                match points_to(request.world, source, name) {
                    true => Ok(()),
                    false => denied(format!(
                        "DataSource {}/{}, which the token of this DataVolume ({CLONE_TOKEN}) is for, does not point \
                         to this PVC",
                        source.0, source.1
                    )),
                }
            }
            _ => denied(format!("the token of this DataVolume ({CLONE_TOKEN}) is not for this clone")),
        },
    }
}

/// The DataSource of another namespace that the DataVolume names.
pub(super) fn far_source<'r>(request: &'r Request<'_>) -> Option<(&'r str, &'r str)> {
    let own = request.namespace();
    let named = request.volume.spec.source_ref.as_ref().filter(|_| request.volume.spec.source.is_none())?;
    let home = named.namespace.as_deref().filter(|home| !home.is_empty() && *home != own)?;
    Some((home, named.name.as_str()))
}

/// The token is of the DataSource that the DataVolume names: its maker may clone every PVC of the namespace of that. A key that
/// is not known any more stops the clone, whatever its source is.
pub(super) fn holds_token_of(request: &Request<'_>, source: (&str, &str)) -> Result<bool, Stop> {
    let meta = request.meta();
    let made = time(meta.creation_timestamp.as_deref()).filter(|made| is_asked(request.world, *made));
    let (Some(made), Some(token), Some(keys)) =
        (made, meta.annotations.get(CLONE_TOKEN), keys(request.world))
    else {
        return Ok(false);
    };
    match verify_token(request, CloneSourceKind::DataSource, source, &keys, token, made) {
        Err(TokenError::BadSignature) => Err(forgotten()),
        verified => Ok(verified.is_ok()),
    }
}

fn verify_token(
    request: &Request<'_>,
    named: CloneSourceKind,
    source: (&str, &str),
    keys: &[PublicKey],
    token: &str,
    made: Timestamp,
) -> Result<(), TokenError> {
    let meta = request.meta();
    let own = meta.namespace.as_deref().unwrap_or_default();
    let target = (own, meta.name.as_deref().unwrap_or_default());
    let generated = meta.generate_name.as_deref().unwrap_or_default();
    verify_clone_of(named, keys, token, Cloned { source, target, generated }, made)
}

/// A PVC of another namespace that a DataVolume is a clone of, by the right of its maker.
pub(crate) struct FarClone<'a> {
    request: Request<'a>,
    namespace: &'a str,
    name: &'a str,
}

/// The source in another namespace that a DataVolume clones, as recorded on its own PVC. `None` before there
/// is a PVC, and if the token of the DataVolume does not permit it.
pub(crate) fn far_clone<'a>(
    world: &'a World,
    volume: &'a DataVolume,
    now: Timestamp,
) -> Option<FarClone<'a>> {
    let own = volume.metadata.namespace.as_deref()?;
    let request = Request::of_volume(world, volume, now);
    let claim = request.own_claim()?;
    let (namespace, name) = claim.clone_source().filter(|(namespace, _)| *namespace != own)?;
    check_permission(&request, namespace, name).ok()?;
    Some(FarClone { request, namespace, name })
}

impl FarClone<'_> {
    /// True if this PVC is the source.
    pub(crate) fn is_of(&self, namespace: &str, name: &str) -> bool {
        (self.namespace, self.name) == (namespace, name)
    }

    /// True if the DataVolume names this DataSource, and the DataSource is in the namespace of the source or
    /// resolves to the source.
    pub(crate) fn is_by(&self, namespace: &str, name: &str) -> bool {
        let leads_here = || {
            let found = data_source::resolved(self.request.world, namespace, name).ok();
            found.and_then(|source| source.pvc.as_ref()).is_some_and(|pvc| {
                let within = if pvc.namespace.is_empty() { namespace } else { &pvc.namespace };
                self.is_of(within, &pvc.name)
            })
        };
        far_source(&self.request) == Some((namespace, name)) && (self.namespace == namespace || leads_here())
    }
}

/// The key of the token is gone, so the clone has to be created again by a user who may.
fn forgotten() -> Stop {
    let (group, plural, part) = RIGHT;
    Stop::Waits(
        FORGOTTEN,
        format!(
            "the token of this DataVolume ({CLONE_TOKEN}) was not signed with a current key of this installation: \
             keys are rotated, and the clone has waited until the key of its token was removed. Delete the \
             DataVolume, and let a user who may create {plural}/{part} ({group}) in the namespace of its source \
             create it again"
        ),
    )
}

/// True if a DataSource points to the PVC of this name in its own namespace.
fn points_to(world: &World, (home, source): (&str, &str), name: &str) -> bool {
    let pvc = data_source::resolved(world, home, source).ok().and_then(|source| source.pvc.as_ref());
    pvc.is_some_and(|pvc| pvc.name == name && (pvc.namespace.is_empty() || pvc.namespace == home))
}

/// True if virt-api's webhook was asked about objects that were created at this time.
fn is_asked(world: &World, made: Timestamp) -> bool {
    let hook = world.mutating_webhooks.get("", CDI_MUTATOR);
    let hook =
        hook.filter(|hook| has_webhook(&hook.object, Question::FillDataVolume, &world.facts.namespace));
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
