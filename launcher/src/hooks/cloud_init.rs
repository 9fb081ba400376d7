//! The texts of cloud-init, in the two forms that hooks read and write.
//!
//! A hook may change user data and network data. It sees names and keys beside them, which it may not change.

use super::plain;
use super::wire::Texts;
use crate::error::{Error, Result};
use crate::seed::cloud_init::{CloudInitData, Identity, LONGEST_TEXT, SeedFormat};
use serde_json::{Map, Value, json};

/// Fields of the data that a hook sees and may not change.
const SHOWN: [&str; 2] = ["NoCloudMetaData", "ConfigDriveMetaData"];

/// Input of a hook.
#[derive(Debug)]
pub(super) struct Data(Value);

impl Data {
    /// The data in the launcher's own form.
    pub(super) fn json(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// The data in the form of the API, for older hooks.
    pub(super) fn no_cloud(&self) -> Vec<u8> {
        json!({"userData": self.0["UserData"], "networkData": self.0["NetworkData"]}).to_string().into_bytes()
    }
}

/// The texts of a volume, for a hook.
pub(super) fn data(
    volume: &str,
    format: SeedFormat,
    identity: &Identity<'_>,
    given: &CloudInitData,
    hook: &str,
) -> Result<Data> {
    let text = |text: &Option<Vec<u8>>, what: &str| {
        String::from_utf8(text.clone().unwrap_or_default()).map_err(|e| {
            let why =
                format!("{hook} cannot be given the {what} of the volume {volume:?}, which is not text");
            Error::refused(why).because(e)
        })
    };
    let keys = given.numbered_keys();
    let meta = |separator: &str, id: String| {
        let mut meta = Map::new();
        let name = |words: [&str; 2]| words.join(separator);
        meta.insert(name(["instance", "id"]), id.into());
        meta.insert(name(["local", "hostname"]), identity.hostname.into());
        if let Some(keys) = keys.clone() {
            meta.insert(name(["public", "keys"]), keys);
        }
        meta
    };
    let (source, no_cloud, config_drive) = match format {
        SeedFormat::NoCloud => ("noCloud", Some(meta("-", identity.uuid.to_owned())), None),
        SeedFormat::ConfigDrive => {
            let mut meta = meta("_", format!("{}.{}", identity.name, identity.namespace));
            meta.insert("hostname".to_owned(), identity.hostname.into());
            meta.insert("uuid".to_owned(), identity.uuid.into());
            ("configDrive", None, Some(meta))
        }
    };
    Ok(Data(json!({
        "DataSource": source,
        "NoCloudMetaData": no_cloud,
        "ConfigDriveMetaData": config_drive,
        "UserData": text(&given.user_data, "user data")?,
        "NetworkData": text(&given.network_data, "network data")?,
        "DevicesData": null,
        "VolumeName": volume,
    })))
}

/// Texts of the hook's answer. A hook that knows only the older form answers in that.
pub(super) fn changed(
    told: &Data,
    answer: &Texts,
    given: CloudInitData,
    hook: &str,
) -> Result<CloudInitData> {
    let refused = |why: String| Error::refused(format!("{hook} answered PreCloudInitIso with {why}"));
    let read = |bytes: &[u8], what: &str| match bytes {
        [] => Ok(Value::Null),
        bytes => serde_json::from_slice::<Value>(bytes)
            .map_err(|e| refused(format!("a {what} that is not JSON: {}", plain(&e.to_string())))),
    };
    let data = read(&answer.data, "cloudInitData")?;
    // Both forms may be in the answer; a hook leaves the one that it does not know empty. A volume may have
    // no user data.
    let has_user_data = data["UserData"].as_str().is_some_and(|text| !text.is_empty());
    let is_whole =
        (has_user_data || answer.no_cloud.is_empty()) && SHOWN.iter().any(|name| data[name].is_object());
    let (data, user, network) = match is_whole {
        true => (data, "UserData", "NetworkData"),
        false => (read(&answer.no_cloud, "cloudInitNoCloudSource")?, "userData", "networkData"),
    };
    if !data.is_object() {
        return Err(refused("no texts".into()));
    }
    for name in SHOWN.iter().filter(|_| is_whole) {
        if without_nothing(&data[name]) != without_nothing(&told.0[name]) {
            return Err(refused(format!(
                "a changed {name}; a hook may change only UserData and NetworkData"
            )));
        }
    }
    let text = |name: &str, before: Option<Vec<u8>>| match &data[name] {
        Value::String(text) if text.len() as u64 > LONGEST_TEXT => {
            Err(refused(format!("a {name} of more than {LONGEST_TEXT} bytes")))
        }
        Value::String(text) if !text.is_empty() => Ok(Some(text.clone().into_bytes())),
        // An empty text counts as unset, unless it was empty before.
        Value::String(_) | Value::Null => Ok(before.filter(Vec::is_empty)),
        _ => Err(refused(format!("a {name} that is not text"))),
    };
    Ok(CloudInitData {
        user_data: text(user, given.user_data)?,
        network_data: text(network, given.network_data)?,
        keys: given.keys,
    })
}

/// An object without its empty fields, which JSON writers may leave out.
fn without_nothing(value: &Value) -> Map<String, Value> {
    let said = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let fields = value.as_object().into_iter().flatten();
    fields.filter(|(_, value)| said(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity<'_> =
        Identity { name: "web", namespace: "test", uuid: "5d30", hostname: "web", devices: &[] };

    fn given() -> CloudInitData {
        CloudInitData {
            user_data: Some(b"#cloud-config".to_vec()),
            network_data: None,
            keys: vec!["ssh-ed25519 A".into()],
        }
    }

    fn told(format: SeedFormat) -> Data {
        data("seed", format, &IDENTITY, &given(), "the hook").unwrap()
    }

    fn answer(data: &Value) -> Texts {
        Texts { data: data.to_string().into_bytes(), ..Texts::default() }
    }

    #[test]
    fn a_hook_is_told_the_texts_in_upstreams_forms() {
        let no_cloud = told(SeedFormat::NoCloud);
        assert_eq!(
            no_cloud.0,
            json!({
                "DataSource": "noCloud", "UserData": "#cloud-config", "NetworkData": "", "VolumeName": "seed",
                "NoCloudMetaData": {"instance-id": "5d30", "local-hostname": "web", "public-keys": {"0": "ssh-ed25519 A"}},
                "ConfigDriveMetaData": null, "DevicesData": null,
            })
        );
        let old: Value = serde_json::from_slice(&no_cloud.no_cloud()).unwrap();
        assert_eq!(old, json!({"userData": "#cloud-config", "networkData": ""}));
        let drive = told(SeedFormat::ConfigDrive).0;
        assert_eq!((&drive["DataSource"], &drive["NoCloudMetaData"]), (&json!("configDrive"), &Value::Null));
        assert_eq!(drive["ConfigDriveMetaData"]["instance_id"], "web.test");
        let binary = CloudInitData { user_data: Some(vec![0xff]), ..given() };
        let error =
            data("seed", SeedFormat::NoCloud, &IDENTITY, &binary, "the hook").unwrap_err().to_string();
        assert!(error.contains("user data of the volume \"seed\""), "{error}");
    }

    #[test]
    fn a_hook_changes_texts_in_either_form() {
        let told = told(SeedFormat::NoCloud);
        let mut new = told.0.clone();
        new["UserData"] = json!("#cloud-config\nhostname: other");
        // As Go writes it: nothing is left out.
        new["NoCloudMetaData"]["instance-type"] = json!("");
        let changed_to = |answer: &Texts| changed(&told, answer, given(), "the hook").unwrap();
        let texts = changed_to(&answer(&new));
        assert_eq!(texts.user_data.as_deref(), Some(&b"#cloud-config\nhostname: other"[..]));
        assert_eq!((&texts.network_data, &texts.keys), (&None, &given().keys));
        let old = json!({"userData": "a", "networkData": "b"}).to_string().into_bytes();
        let texts = changed_to(&Texts { no_cloud: old, ..Texts::default() });
        assert_eq!((texts.user_data, texts.network_data), (Some(b"a".to_vec()), Some(b"b".to_vec())));
        // A volume without user data comes back as it was.
        let none = CloudInitData { user_data: None, ..given() };
        let told = data("seed", SeedFormat::NoCloud, &IDENTITY, &none, "the hook").unwrap();
        let texts = changed(&told, &answer(&told.0), none, "the hook").unwrap();
        assert_eq!((texts.user_data, texts.network_data), (None, None));
    }

    #[test]
    fn an_answer_that_is_not_understood_is_refused() {
        let told = told(SeedFormat::NoCloud);
        let mut other = told.0.clone();
        other["NoCloudMetaData"]["instance-id"] = json!("other");
        let mut number = told.0.clone();
        number["NetworkData"] = json!(7);
        for (answer, said) in [
            (Texts::default(), "no texts"),
            (Texts { data: b"{".to_vec(), ..Texts::default() }, "not JSON"),
            (answer(&other), "a changed NoCloudMetaData"),
            (answer(&number), "NetworkData that is not text"),
        ] {
            let error = changed(&told, &answer, given(), "the hook").unwrap_err().to_string();
            assert!(
                error.starts_with("the hook answered PreCloudInitIso") && error.contains(said),
                "{error}"
            );
        }
    }
}
