//! JSON patches, as far as our programs write them.

use serde_json::Value;

/// The value after a JSON patch; `None` if one of its tests fails, or a path does not exist.
pub fn json_patch(mut value: Value, steps: &[Value]) -> Option<Value> {
    for step in steps {
        let (path, op) = (step["path"].as_str()?, step["op"].as_str()?);
        let new = step["value"].clone();
        if op == "test" {
            if value.pointer(path) != Some(&new) {
                return None;
            }
            continue;
        }
        let Some((parent, name)) = path.rsplit_once('/') else {
            value = new;
            continue;
        };
        let name = name.replace("~1", "/").replace("~0", "~");
        match (value.pointer_mut(parent)?, op) {
            (Value::Object(fields), "add") => drop(fields.insert(name, new)),
            (Value::Object(fields), "replace") => *fields.get_mut(&name)? = new,
            (Value::Object(fields), "remove") => drop(fields.remove(&name)?),
            (Value::Array(list), "add") if name == "-" => list.push(new),
            (Value::Array(list), "replace") => *list.get_mut(name.parse::<usize>().ok()?)? = new,
            (parent, op) => panic!("{op} {path} in {parent}"),
        }
    }
    Some(value)
}
