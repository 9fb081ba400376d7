//! Cloud-init data of a volume.

use super::super::CloudInit;
use super::super::volume::Text;
use super::Check;
use super::volume::required_name;
use crate::meta::LocalReference;
use crate::vmi;
use crate::wire::Path;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longest inline text in bytes; a longer one must be in a Secret.
const LIMIT: usize = 2048;

/// Format of a seed.
#[derive(Clone, Copy)]
pub(super) enum Seed {
    NoCloud,
    ConfigDrive,
}

impl Seed {
    fn field(self) -> &'static str {
        match self {
            Seed::NoCloud => "cloudInitNoCloud",
            Seed::ConfigDrive => "cloudInitConfigDrive",
        }
    }
}

/// One of the two texts: the fields that it may stand in, and the words of its faults.
struct Part<'a> {
    plain: &'a Option<String>,
    base64: &'a Option<String>,
    secret: &'a Option<LocalReference>,
    base64_field: &'a str,
    secret_field: &'a str,
    only_one: &'a str,
    name: &'a str,
    advice: &'a str,
}

pub(super) fn cloud_init(
    source: &vmi::CloudInit,
    seed: Seed,
    volume: &Path,
    check: &mut Check<'_>,
) -> Option<CloudInit> {
    let vmi::CloudInit {
        secret_ref,
        user_data_base64,
        user_data,
        network_data_secret_ref,
        network_data_base64,
        network_data,
        other: _,
    } = source;
    let at = volume.child(seed.field());
    let user = Part {
        plain: user_data,
        base64: user_data_base64,
        secret: secret_ref,
        base64_field: "userDataBase64",
        secret_field: "secretRef",
        only_one: "userdatasource",
        name: "userdata",
        advice: "UserDataSecretRef",
    };
    let network = Part {
        plain: network_data,
        base64: network_data_base64,
        secret: network_data_secret_ref,
        base64_field: "networkDataBase64",
        secret_field: "networkDataSecretRef",
        only_one: "networkdata source",
        name: "networkdata",
        advice: "NetworkDataSecretRef",
    };
    let faults = check.faults.len();
    let user_data = text_of(&user, seed, &at, check);
    let network_data = text_of(&network, seed, &at, check);
    if check.faults.len() > faults {
        return None;
    }
    if user_data.is_none() && network_data.is_none() {
        check.invalid(
            &at,
            format!("{at} must have at least one userdatasource or one networkdatasource set."),
        );
    }
    Some(CloudInit { user_data, network_data })
}

fn text_of(part: &Part<'_>, seed: Seed, at: &Path, check: &mut Check<'_>) -> Option<Text> {
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (plain, base64) = (non_empty(part.plain), non_empty(part.base64));
    let secret = part.secret.as_ref().and_then(|LocalReference { name, other: _ }| non_empty(name));
    let count = [&plain, &base64, &secret].into_iter().flatten().count();
    if count > 1 {
        check.invalid(at, format!("{at} must have only one {} set.", part.only_one));
        return None;
    }
    if secret.is_some() {
        let name = required_name(&secret, &at.child(part.secret_field).child("name"), check);
        return Some(Text::Secret(name));
    }
    let bytes = match (plain, base64) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(mut text)) => {
            text.retain(|c| !matches!(c, '\r' | '\n'));
            match STANDARD.decode(text) {
                Ok(bytes) => bytes,
                Err(_) => {
                    let (field, at) = (part.base64_field, at.child(part.base64_field));
                    // The source and the field appear twice in upstream's message.
                    let message = format!("{at}.{}.{field} is not a valid base64 value.", seed.field());
                    check.invalid(at, message);
                    return None;
                }
            }
        }
        (None, None) => return None,
    };
    if bytes.len() > LIMIT {
        let Part { name, advice, .. } = part;
        let message = format!("{at} {name} exceeds {LIMIT} byte limit. Should use {advice} for larger data.");
        check.invalid(at, message);
    }
    Some(Text::Inline(bytes))
}
