//! JSON patches (RFC 6902): a list of operations. The patch is applied only if all operations succeed.

use serde_json::Value;

/// Maximum number of operations in a patch.
const MOST: usize = 1000;
/// Maximum number of values that an object may have after a copy. Without it, a patch that copies its own
/// copies doubles the object each time.
const VALUES: usize = 20_000;
/// Maximum bytes of text, including field names, after a copy. etcd does not store an object of that size.
const TEXT: usize = 2 << 20;
/// Maximum nesting depth of an object: reading, writing and dropping a value recurse that deep.
const LEVELS: usize = 100;

/// An operation of a patch. Paths are JSON pointers, split into steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    Add(Vec<String>, Value),
    Remove(Vec<String>),
    Replace(Vec<String>, Value),
    Move { from: Vec<String>, to: Vec<String> },
    Copy { from: Vec<String>, to: Vec<String> },
    Test(Vec<String>, Value),
}

/// Reads a list of operations.
pub(super) fn read(patch: &Value) -> Result<Vec<Operation>, String> {
    let Some(list) = patch.as_array() else {
        return Err("is not a list of operations (RFC 6902)".to_owned());
    };
    if list.len() > MOST {
        return Err(format!("has {} operations; at most {MOST} are read", list.len()));
    }
    let one = |(at, operation)| {
        self::operation(operation).map_err(|why| format!("has a fault in operation {at}: {why}"))
    };
    list.iter().enumerate().map(one).collect()
}

fn operation(operation: &Value) -> Result<Operation, String> {
    let path = |field: &str| {
        let text = operation[field].as_str().ok_or_else(|| format!("it has no {field}"))?;
        steps(text).ok_or_else(|| format!("{field} does not begin with /"))
    };
    let value = || operation.get("value").cloned().ok_or_else(|| "it has no value".to_owned());
    let (at, op) = (path("path")?, operation["op"].as_str().unwrap_or_default());
    Ok(match op {
        "add" => Operation::Add(at, value()?),
        "remove" => Operation::Remove(at),
        "replace" => Operation::Replace(at, value()?),
        "move" => Operation::Move { from: path("from")?, to: at },
        "copy" => Operation::Copy { from: path("from")?, to: at },
        "test" => Operation::Test(at, value()?),
        other => {
            let other: String = other.chars().take(32).collect();
            return Err(format!("op is {other:?}; known are add, remove, replace, move, copy and test"));
        }
    })
}

/// The steps of a JSON pointer.
fn steps(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let steps = pointer.strip_prefix('/')?.split('/');
    Some(steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// Applies all operations in order. The error names the first operation that failed.
pub(super) fn apply(object: &mut Value, operations: &[Operation]) -> Result<(), String> {
    operations.iter().enumerate().try_for_each(|(at, operation)| {
        apply_operation(object, operation).map_err(|why| format!("cannot be applied: operation {at}: {why}"))
    })
}

fn apply_operation(object: &mut Value, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Add(at, value) => {
            check_depth(at, value)?;
            add(object, at, value.clone())
        }
        Operation::Remove(at) => remove(object, at).map(drop),
        Operation::Replace(at, value) => {
            check_depth(at, value)?;
            *find(object, at)? = value.clone();
            Ok(())
        }
        Operation::Move { from, to } => {
            if to.len() > from.len() && to.starts_with(from) {
                return Err(format!("{} cannot be moved into itself", pointer(from)));
            }
            check_depth(to, find(object, from)?)?;
            let value = remove(object, from)?;
            add(object, to, value)
        }
        Operation::Copy { from, to } => {
            let value = find(object, from)?.clone();
            check_depth(to, &value)?;
            if count(object).saturating_add(count(&value)) > VALUES {
                return Err(format!("the object would have more than {VALUES} values"));
            }
            if text(object).saturating_add(text(&value)) > TEXT {
                return Err(format!("the object would have more than {TEXT} bytes of text"));
            }
            add(object, to, value)
        }
        Operation::Test(at, value) => match find(object, at)? == value {
            true => Ok(()),
            false => Err(format!("{} is another value", pointer(at))),
        },
    }
}

/// Checks that the object stays within [`LEVELS`] when the value is put at this path.
fn check_depth(at: &[String], value: &Value) -> Result<(), String> {
    let is_deep = LEVELS.checked_sub(at.len()).is_none_or(|left| is_deeper(value, left));
    if is_deep { Err(format!("the object would have more than {LEVELS} levels")) } else { Ok(()) }
}

/// True if the value is nested deeper than so many levels. The check itself goes no deeper than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut below: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(list) => Box::new(list.iter()),
        _ => return false,
    };
    levels.checked_sub(1).is_none_or(|left| below.any(|one| is_deeper(one, left)))
}

fn find<'v>(object: &'v mut Value, at: &[String]) -> Result<&'v mut Value, String> {
    let found = at.iter().try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(list) => list.get_mut(index(step)?),
        _ => None,
    });
    found.ok_or_else(|| format!("{} is not there", pointer(at)))
}

fn add(object: &mut Value, at: &[String], value: Value) -> Result<(), String> {
    let Some((last, parent)) = at.split_last() else {
        *object = value;
        return Ok(());
    };
    match find(object, parent)? {
        Value::Object(fields) => drop(fields.insert(last.clone(), value)),
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let place = index(last).filter(|place| *place <= list.len());
            list.insert(place.ok_or_else(|| format!("{} is not an index of the list", pointer(at)))?, value);
        }
        _ => return Err(format!("{} is neither an object nor a list", pointer(parent))),
    }
    Ok(())
}

fn remove(object: &mut Value, at: &[String]) -> Result<Value, String> {
    let missing = || format!("{} is not there", pointer(at));
    let Some((last, parent)) = at.split_last() else {
        return Err("the whole object cannot be removed".to_owned());
    };
    match find(object, parent)? {
        Value::Object(fields) => fields.remove(last).ok_or_else(missing),
        Value::Array(list) => match index(last).filter(|place| *place < list.len()) {
            Some(place) => Ok(list.remove(place)),
            None => Err(missing()),
        },
        _ => Err(missing()),
    }
}

/// An index into a list: digits, without leading zeros.
fn index(step: &str) -> Option<usize> {
    let is_number =
        step.bytes().all(|digit| digit.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if is_number { step.parse().ok() } else { None }
}

fn pointer(at: &[String]) -> String {
    let path: String =
        at.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect();
    path.chars().take(200).collect()
}

/// Number of values in a value, itself included.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.values().map(count).sum::<usize>() + 1,
        Value::Array(list) => list.iter().map(count).sum::<usize>() + 1,
        _ => 1,
    }
}

/// Bytes of text in a value, field names included.
fn text(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + text(value)).sum(),
        Value::Array(list) => list.iter().map(text).sum(),
        Value::String(said) => said.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn made(object: &Value, patch: &Value) -> Result<Value, String> {
        let mut object = object.clone();
        apply(&mut object, &read(patch)?)?;
        Ok(object)
    }

    #[test]
    fn operations_are_those_of_the_standard() {
        let object = json!({"a": [1, 2], "b/c": {"d~": 1}});
        for (patch, wanted) in [
            (json!([{"op": "add", "path": "/a/1", "value": 9}]), json!({"a": [1, 9, 2], "b/c": {"d~": 1}})),
            (json!([{"op": "add", "path": "/a/-", "value": 9}]), json!({"a": [1, 2, 9], "b/c": {"d~": 1}})),
            (json!([{"op": "remove", "path": "/a/0"}]), json!({"a": [2], "b/c": {"d~": 1}})),
            (
                json!([{"op": "replace", "path": "/b~1c/d~0", "value": 2}]),
                json!({"a": [1, 2], "b/c": {"d~": 2}}),
            ),
            (
                json!([{"op": "move", "from": "/a/0", "path": "/x"}]),
                json!({"a": [2], "b/c": {"d~": 1}, "x": 1}),
            ),
            (
                json!([{"op": "copy", "from": "/a", "path": "/x"}]),
                json!({"a": [1, 2], "b/c": {"d~": 1}, "x": [1, 2]}),
            ),
            (json!([{"op": "test", "path": "/a", "value": [1, 2]}]), object.clone()),
        ] {
            assert_eq!(made(&object, &patch), Ok(wanted), "{patch}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_which_operation_and_why() {
        let object = json!({"a": [1, 2], "b": 1});
        for (operation, says) in [
            (json!({"op": "remove", "path": "/c"}), "/c is not there"),
            (json!({"op": "remove", "path": "/a/2"}), "/a/2 is not there"),
            (json!({"op": "replace", "path": "/a/01", "value": 1}), "/a/01 is not there"),
            (json!({"op": "add", "path": "/a/9", "value": 1}), "not an index of the list"),
            (json!({"op": "add", "path": "/b/c", "value": 1}), "neither an object nor a list"),
            (json!({"op": "move", "from": "/a", "path": "/a/0"}), "into itself"),
            (json!({"op": "test", "path": "/b", "value": 2}), "is another value"),
            (json!({"op": "test", "path": "b", "value": 2}), "does not begin with /"),
            (json!({"op": "add", "path": "/b"}), "it has no value"),
            (json!({"op": "jump", "path": "/b"}), "op is \"jump\""),
            (json!({"op": "remove", "path": ""}), "the whole object cannot be removed"),
        ] {
            let said = made(&object, &json!([operation])).unwrap_err();
            assert!(said.contains(says) && said.contains("operation 0"), "{said}");
        }
    }

    #[test]
    fn copies_of_copies_come_to_an_end() {
        let twice = |at: usize| json!({"op": "copy", "from": "", "path": format!("/{at}")});
        let patch = Value::Array((0..100).map(twice).collect());
        assert!(made(&json!({"a": 1}), &patch).unwrap_err().contains("more than 20000 values"));
        let long = json!({"a": "x".repeat(1_000_000)});
        let more = |at: &str| json!({"op": "copy", "from": "/a", "path": at});
        assert!(made(&long, &json!([more("/b")])).is_ok());
        assert!(made(&long, &json!([more("/b"), more("/c")])).unwrap_err().contains("bytes of text"));
        let many = Value::Array(vec![twice(0); MOST + 1]);
        assert!(read(&many).unwrap_err().contains("at most 1000"));
    }

    #[test]
    fn no_object_gets_deeper_than_its_bound() {
        let chain = |levels: usize| (0..levels).fold(json!(1), |below, _| json!({"a": below}));
        let path = |levels: usize| "/a".repeat(levels);
        let object = json!({"a": chain(50), "b": chain(50)});
        for operation in [
            json!({"op": "copy", "from": "/a", "path": path(51)}),
            json!({"op": "move", "from": "/b", "path": path(51)}),
            json!({"op": "add", "path": path(51), "value": chain(50)}),
            json!({"op": "replace", "path": path(51), "value": chain(50)}),
            json!({"op": "add", "path": path(101), "value": 1}),
        ] {
            let said = made(&object, &json!([operation])).unwrap_err();
            assert!(said.contains("more than 100 levels"), "{operation}: {said}");
        }
        let most = json!([{"op": "replace", "path": path(51), "value": chain(49)}]);
        assert!(made(&object, &most).is_ok());
        // Each copy onto its own end doubles a chain.
        let twice = json!({"op": "copy", "from": "/a", "path": path(51)});
        assert!(made(&object, &json!([{"op": "remove", "path": "/b"}, twice, twice])).is_err());
    }
}
