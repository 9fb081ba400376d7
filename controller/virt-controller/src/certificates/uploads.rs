//! The certificates of uploads: two chains, so that nothing that a tenant's pod has is believed by another one.
//!
//! ```text
//!  Secret cdi-uploadserver-signer ───────── signs ─► a Secret for each upload pod ──► the pod shows it
//!     └► ConfigMap …-signer-bundle ─► cdi-uploadproxy believes it          (cluster_model::issue::ForPod)
//!  Secret cdi-uploadserver-client-signer ── signs ─► Secret cdi-uploadserver-client-cert ──► cdi-uploadproxy shows it
//!     └► ConfigMap …-client-signer-bundle ─► put beside a pod's certificate: the pod believes it
//! ```
//!
//! **How long a clone is served.** Both ends get their certificates at once ([`ready_for_clone`]), each with the authorities of the other
//! as they are then: so they hold as long as these authorities do, a day at least.
//! **How long a pod is served.** An upload pod is made with what there is ([`certificate_span`]): its certificate, and the authorities of its client as
//! they are then. Both chains are replaced in the life of a pod; [`Span::until`] is before either makes the pod useless.
//! **Terms** are CDI's, and not those of the KubeVirt object: an authority 48 h, renewed after 24 h; a client's certificate 24 h,
//! renewed after 12 h.

use super::chain::{Leaf, UPLOAD_CLIENTS, UPLOAD_SERVERS};
use super::terms::Term;
use super::{BEHIND, find_secret, saturating_add, saturating_sub, truncate_to_seconds};
use cluster_model::issue::Usage;
use cluster_model::objects::{Certificate, World};
use cluster_model::plan::Plan;
use cluster_model::uploads::{CLIENT_CERTIFICATE, CLIENT_NAME};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

/// Validity of an upload pod's certificate that is created now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Timestamp,
    /// End of the certificate's validity. The pod must have ended before.
    pub(crate) until: Timestamp,
}

/// The authorities, their publication, and the client certificate of cdi-uploadproxy.
pub(super) fn decide(world: &World, now: Timestamp, plan: &mut Plan) {
    if let Some(authority) = UPLOAD_SERVERS.authority(world, Term::SIGNER, now, plan) {
        UPLOAD_SERVERS.publish(world, &authority, now, plan);
    }
    if let Some(authority) = UPLOAD_CLIENTS.authority(world, Term::SIGNER, now, plan) {
        UPLOAD_CLIENTS.publish(world, &authority, now, plan);
        UPLOAD_CLIENTS.leaf(world, client(), &authority, Term::LEAF, now, plan);
    }
}

/// Validity of an upload pod's certificate that is created now. `None` while the authorities, their bundles
/// or the client's certificate are missing, or are too new to be known everywhere.
pub(crate) fn certificate_span(world: &World, now: Timestamp) -> Option<Span> {
    let (signer, clients) = authorities(world, now)?;
    // The next authority of clients, which a pod of today does not know, signs no earlier.
    let next = saturating_add(Term::SIGNER.renew(clients).max(now), UPLOAD_CLIENTS.spread);
    Some(span(signer, signer.until.min(next), now))
}

/// Validity of the certificates of both ends of a clone that are created now. `None` while none can be created.
pub(crate) fn ready_for_clone(world: &World, now: Timestamp) -> Option<Span> {
    let (signer, clients) = authorities(world, now)?;
    Some(span(signer, signer.until.min(clients.until), now))
}

fn span(signer: &Certificate, until: Timestamp, now: Timestamp) -> Span {
    Span {
        from: truncate_to_seconds(saturating_sub(now, BEHIND)).max(signer.from),
        until: truncate_to_seconds(until),
    }
}

/// The authorities that sign for servers and for clients now. `None` until each is published for long enough.
fn authorities(world: &World, now: Timestamp) -> Option<(&Certificate, &Certificate)> {
    let signer = UPLOAD_SERVERS.current_authority(world, now)?;
    if now < UPLOAD_SERVERS.spread_until(world, signer, now) {
        return None;
    }
    let clients = UPLOAD_CLIENTS.current_authority(world, now)?;
    let known = UPLOAD_CLIENTS.published_authorities(world, now);
    let shown = find_secret(world, CLIENT_CERTIFICATE).1?;
    let (is_told, client) = (known.iter().any(|other| other.der == clients.der), client());
    if !is_told || !known.iter().any(|authority| client.is_right(shown, authority, now)) {
        return None;
    }
    Some((signer, clients))
}

/// The authorities by one of which the certificate of an upload pod is signed.
pub(crate) fn servers(world: &World, now: Timestamp) -> Vec<CertificateDer<'static>> {
    let signer = UPLOAD_SERVERS.current_authority(world, now).cloned();
    let known = UPLOAD_SERVERS.published_authorities(world, now).into_iter();
    known.chain(signer).map(|certificate| certificate.der).collect()
}

/// The client certificate of cdi-uploadproxy. Upload pods accept only this name.
fn client() -> Leaf {
    Leaf {
        secret: CLIENT_CERTIFICATE,
        name: CLIENT_NAME.to_owned(),
        hosts: Vec::new(),
        usage: Usage::Client,
        has_paths: false,
    }
}
