//! Values of simple types, which a body may return instead of its own.

use syn::{GenericArgument, PathArguments, Type, TypePath};

/// Expressions of this type, as source texts.
pub(super) fn of(output: &Type) -> Vec<String> {
    match output {
        Type::Tuple(tuple) if tuple.elems.is_empty() => texts(&["()"]),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => texts(&["\"\"", "\"xyzzy\""]),
            _ => Vec::new(),
        },
        Type::Path(path) => of_path(path),
        _ => Vec::new(),
    }
}

fn of_path(path: &TypePath) -> Vec<String> {
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(argument) => Some(argument),
                _ => None,
            })
        }
        _ => None,
    };
    let within = |name: &str| -> Vec<String> {
        argument.map(of).unwrap_or_default().into_iter().map(|value| format!("{name}({value})")).collect()
    };
    match last.ident.to_string().as_str() {
        "bool" => texts(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => texts(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "isize" => texts(&["0", "1"]),
        "f32" | "f64" => texts(&["0.0", "1.0"]),
        "String" => texts(&["String::new()", "\"xyzzy\".into()"]),
        "Vec" => texts(&["Vec::new()"]),
        "Duration" => texts(&["std::time::Duration::ZERO"]),
        "Option" => [texts(&["None"]), within("Some")].concat(),
        // `io::Result` and the like have one argument, `fmt::Result` has none.
        "Result" if argument.is_none() => texts(&["Ok(())"]),
        "Result" => within("Ok"),
        "BTreeMap" | "HashMap" | "BTreeSet" | "HashSet" | "VecDeque" | "PathBuf" | "OsString" => {
            texts(&["Default::default()"])
        }
        _ => Vec::new(),
    }
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}
