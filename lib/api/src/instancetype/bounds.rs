//! Bounds on the size of an instance type or a preference. A webhook bounds the object at its writing; a
//! ControllerRevision has no webhook, and each VM that names it is expanded with its whole content at each
//! reconcile.
//!
//! | | at most |
//! |---|---|
//! | entries of a list: CPU features | 256 |
//! | `gpus`, `hostDevices` | 64 |
//! | entries of a map: annotations, `nodeSelector` | 256 |
//! | bytes of a key | 320 |
//! | bytes of a text: names, models, words | 1,024 |
//! | bytes of an annotation, of a session or a certificate of `launchSecurity` | 65,536 |
//! | levels, and values in all | 16, 4,096 |
//! | faults that are reported | 8 |
//!
//! Every value is checked, unknown fields too.

use crate::fault::{Fault, Reason};
use crate::wire::Path;
use serde_json::Value;

/// Entries of a list, and of a map.
const ENTRIES: usize = 256;
/// Host devices of a guest: no chipset has ports for more.
const DEVICES: usize = 64;
/// Bytes of a key. Keys of annotations are the longest: a domain of 253 bytes, and 63 more.
const KEY: usize = 320;
/// Bytes of a text.
const TEXT: usize = 1024;
/// Bytes of a text that is foreign data.
const LONG: usize = 64 << 10;
/// Levels of fields within fields.
const LEVELS: usize = 16;
/// Values in all. The check builds a path for each.
const VALUES: usize = 4096;
/// Faults that are reported; one is enough to refuse the object.
const TOLD: usize = 8;

/// The faults of a spec that exceeds a bound.
pub(super) fn faults(spec: &Value) -> Vec<Fault> {
    let mut check = SizeCheck { left: VALUES + 1, faults: Vec::new() };
    check.at(spec, &Path::of("spec"), TEXT, 0);
    check.faults
}

struct SizeCheck {
    /// Values that may still follow, and the first one beyond the bound.
    left: usize,
    faults: Vec<Fault>,
}

impl SizeCheck {
    /// `most`: longest text at this place, in bytes.
    fn at(&mut self, value: &Value, at: &Path, most: usize, level: usize) {
        if self.faults.len() >= TOLD || self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            return self.too_much(&Path::of("spec"), &format!("has more than {VALUES} values"));
        }
        if level > LEVELS {
            return self.too_much(at, &format!("is nested in more than {LEVELS} fields"));
        }
        match value {
            Value::Array(list) => {
                let most = if is_of_devices(at) { DEVICES } else { ENTRIES };
                if list.len() > most {
                    return self.too_many(at, list.len(), most, "entries");
                }
                for (i, value) in list.iter().enumerate() {
                    self.at(value, &at.index(i), TEXT, level + 1);
                }
            }
            Value::Object(fields) => {
                if fields.len() > ENTRIES {
                    return self.too_many(at, fields.len(), ENTRIES, "entries");
                }
                // A key that is too long is not repeated in the message.
                if let Some(key) = fields.keys().find(|key| key.len() > KEY) {
                    return self.too_many(at, key.len(), KEY, "bytes in a key");
                }
                let is_data = at.as_str() == "spec.annotations";
                for (key, value) in fields {
                    let is_long = is_data || matches!(key.as_str(), "session" | "dhCert");
                    self.at(value, &at.child(key), if is_long { LONG } else { TEXT }, level + 1);
                }
            }
            Value::String(text) if text.len() > most => self.too_many(at, text.len(), most, "bytes"),
            _ => {}
        }
    }

    fn too_many(&mut self, at: &Path, has: usize, most: usize, what: &str) {
        self.too_much(at, &format!("has {has} {what}; the limit is {most}"));
    }

    fn too_much(&mut self, at: &Path, what: &str) {
        self.faults.push(Fault::new(at, Reason::Invalid, format!("{at} {what}")));
    }
}

fn is_of_devices(at: &Path) -> bool {
    matches!(at.as_str(), "spec.gpus" | "spec.hostDevices")
}

#[cfg(test)]
mod tests {
    use super::super::{InstancetypeSpec, PreferenceSpec, of_instancetype, of_preference};
    use super::*;
    use crate::wire;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// The faults of an instance type and of a preference that say this too.
    fn told(more: &Value) -> Vec<(String, String)> {
        let mut size = json!({"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}});
        let mut preference = json!({});
        for spec in [&mut size, &mut preference] {
            for (field, value) in more.as_object().unwrap() {
                spec[field] = value.clone();
            }
        }
        let told =
            |faults: Vec<Fault>| faults.into_iter().map(|fault| (fault.field, fault.message)).collect();
        let of_size: Vec<_> = told(of_instancetype(&wire::read::<InstancetypeSpec>(size).unwrap()));
        let of_preference: Vec<_> = told(of_preference(&wire::read::<PreferenceSpec>(preference).unwrap()));
        if of_size.is_empty() { of_preference } else { of_size }
    }

    fn features(count: usize) -> Value {
        let features: Vec<Value> = (0..count).map(|number| json!({"name": format!("f{number}")})).collect();
        json!({"preferredCPUFeatures": features})
    }

    fn devices(count: usize) -> Value {
        let device =
            |number: usize| json!({"name": format!("d{number}"), "deviceName": "vendor.example/gpu"});
        Value::Array((0..count).map(device).collect())
    }

    fn map(count: usize, value: &str) -> Value {
        json!((0..count).map(|number| (format!("k{number}"), value)).collect::<BTreeMap<_, _>>())
    }

    #[test]
    fn as_much_as_is_looked_at_and_one_more() {
        let of_preference = |spec: Value| of_preference(&wire::read(spec).unwrap());
        assert_eq!(of_preference(json!({"cpu": features(ENTRIES)})), []);
        let faults = of_preference(json!({"cpu": features(ENTRIES + 1)}));
        let at = "spec.cpu.preferredCPUFeatures";
        let message = format!("{at} has 257 entries; the limit is 256");
        assert_eq!(faults, [Fault::new(at, Reason::Invalid, message)]);
        for field in ["gpus", "hostDevices"] {
            assert_eq!(told(&json!({(field): devices(DEVICES)})), []);
            let at = format!("spec.{field}");
            let message = format!("{at} has 65 entries; the limit is 64");
            assert_eq!(told(&json!({(field): devices(DEVICES + 1)})), [(at, message)]);
        }
        for field in ["annotations", "nodeSelector"] {
            assert_eq!(told(&json!({(field): map(ENTRIES, "a")})), []);
            let at = format!("spec.{field}");
            let message = format!("{at} has 257 entries; the limit is 256");
            assert_eq!(told(&json!({(field): map(ENTRIES + 1, "a")})), [(at, message)]);
        }
    }

    #[test]
    fn texts_and_keys_have_an_end() {
        let long = |bytes: usize| "a".repeat(bytes);
        for (field, value) in [
            ("spec.annotations.k0", json!({"annotations": map(1, &long(LONG + 1))})),
            ("spec.nodeSelector.k0", json!({"nodeSelector": map(1, &long(TEXT + 1))})),
            ("spec.gpus[0].name", json!({"gpus": [{"name": long(TEXT + 1)}]})),
            ("spec.schedulerName", json!({"schedulerName": long(TEXT + 1)})),
            ("spec.preferredSubdomain", json!({"preferredSubdomain": long(TEXT + 1)})),
            ("spec.annotations", json!({"annotations": {(long(KEY + 1)): "a"}})),
            ("spec.unheard", json!({"unheard": long(TEXT + 1)})),
            ("spec.unheard", json!({"unheard": vec![7; ENTRIES + 1]})),
        ] {
            let told = told(&value);
            assert_eq!(told.len(), 1, "{field}");
            assert_eq!(told[0].0, field);
            assert!(told[0].1.len() < 200, "{}", told[0].1);
        }
        assert_eq!(told(&json!({"annotations": map(1, &long(LONG)), "schedulerName": long(TEXT)})), []);
        let key = json!({"annotations": {(long(KEY)): "a"}});
        assert_eq!(told(&key), []);
        let many: Vec<Value> = (0..DEVICES).map(|_| json!({"name": long(TEXT + 1)})).collect();
        assert_eq!(told(&json!({"gpus": many})).len(), TOLD, "more is not told");
    }

    /// A path is made of each value while it is looked at.
    #[test]
    fn what_is_nested_has_an_end_too() {
        let nested = |levels: usize| (0..levels).fold(json!(7), |inner, _| json!({"a": inner}));
        assert_eq!(told(&json!({"unheard": nested(LEVELS - 1)})), []);
        let deep = told(&json!({"unheard": nested(100)}));
        assert!(deep[0].1.ends_with("is nested in more than 16 fields"), "{deep:?}");
        let wide = vec![vec![7; ENTRIES]; ENTRIES];
        let message = "spec has more than 4096 values".to_owned();
        assert_eq!(told(&json!({"unheard": wide})), [("spec".to_owned(), message)]);
    }

    /// Each feature was compared with all others before.
    #[test]
    fn however_many_features_there_are_each_is_looked_at_once() {
        let preference: PreferenceSpec = wire::read(json!({"cpu": features(90_000)})).unwrap();
        let template = json!({"spec": {"domain": {"devices": {}, "cpu": {"features": [{"name": "f7", "policy": "disable"}]}}}});
        let began = std::time::Instant::now();
        let made =
            super::super::expand(&wire::read(template).unwrap(), None, Some(&preference), "spec", None);
        let features = made.unwrap().spec.domain.cpu.unwrap().features;
        assert_eq!((features.len(), features[0].policy.as_deref()), (90_000, Some("disable")));
        // Four thousand million comparisons of names take longer.
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
