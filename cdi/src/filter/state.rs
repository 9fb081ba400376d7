//! A decoder's state as text in a journal: base64, since an array of numbers would be three times as long.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(state: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD_NO_PAD.encode(state))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    STANDARD_NO_PAD.decode(text).map_err(D::Error::custom)
}
