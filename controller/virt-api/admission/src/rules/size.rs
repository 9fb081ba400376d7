//! Limit on the number of values in an object. A real VM has far fewer. 3 MiB of short entries, sent to keep
//! virt-api busy, are a million values, and each could cost a fault with its path, or a comparison with all
//! others.

use super::Request;
use api::fault::{Fault, Reason};
use cluster_model::objects::VALUES;
use serde_json::Value;

/// The fault of an object over the limit. An object that is being deleted has no limit.
pub(super) fn fault(request: &Request) -> Option<Fault> {
    let fields = request.object.as_object().filter(|_| !request.is_leaving())?;
    let mut left = VALUES;
    let fits = fields.iter().all(|(name, value)| match (name.as_str(), value) {
        // The API server writes `managedFields`, and nothing here reads them.
        ("metadata", Value::Object(metadata)) => metadata
            .iter()
            .filter(|(name, _)| *name != "managedFields")
            .all(|(_, value)| fits(value, &mut left)),
        _ => fits(value, &mut left),
    });
    let message = format!("the object has more than {VALUES} values: split it");
    (!fits).then(|| Fault::new("spec", Reason::Invalid, message))
}

/// Subtracts a value and its content from the number left; false if it is exceeded. JSON is nested 128
/// levels at most after parsing.
fn fits(value: &Value, left: &mut usize) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    match value {
        Value::Array(list) => list.iter().all(|value| fits(value, left)),
        Value::Object(fields) => fields.values().all(|value| fits(value, left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(object: Value) -> Option<Fault> {
        fault(&Request { object, ..Request::default() })
    }

    #[test]
    fn as_many_values_as_are_looked_at_and_one_more() {
        let with = |count: usize| json!({"spec": {"volumes": vec![7; count]}});
        // The spec and the list are values, too.
        assert_eq!(of(with(VALUES - 2)), None);
        let message = of(with(VALUES - 1)).unwrap().message;
        assert!(message.contains("more than 20000 values"), "{message}");
    }

    #[test]
    fn what_is_being_deleted_is_counted_where_its_spec_changes() {
        let (many, leaving) = (json!(vec![7; VALUES + 1]), json!({"deletionTimestamp": "now"}));
        let object = json!({"metadata": leaving, "spec": many});
        let asked = |old: Value| fault(&Request { object: object.clone(), old, ..Request::default() });
        assert!(asked(json!({"metadata": leaving, "spec": {}})).is_some());
        assert_eq!(asked(object.clone()), None);
    }

    #[test]
    fn what_the_server_keeps_for_itself_and_what_goes_is_not_counted() {
        let many = json!(vec![7; VALUES + 1]);
        assert_eq!(of(json!({"metadata": {"managedFields": many}})), None);
        assert!(of(json!({"metadata": {"labels": many}})).is_some() && of(json!({"status": many})).is_some());
        assert_eq!(of(Value::Null), None);
    }
}
