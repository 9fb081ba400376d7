//! Files of a crate with production code: those that its roots declare as modules, without those of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use syn::Item;

use crate::sites::is_cfg_test;

/// Files below the given paths, relative to the crate, each with the crate roots that it is part of.
pub(crate) fn of(
    source: &Path,
    paths: &[PathBuf],
) -> Result<BTreeMap<PathBuf, BTreeSet<PathBuf>>, Box<dyn Error>> {
    let mut files: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for root in roots(source)? {
        let mut modules = Modules { source, found: BTreeSet::new() };
        modules.follow(&root, true)?;
        for file in modules.found {
            files.entry(file).or_default().insert(root.clone());
        }
    }
    if let Some(path) = paths.iter().find(|path| !files.keys().any(|file| is_below(file, path))) {
        return Err(format!("{} has no production code in {}", path.display(), source.display()).into());
    }
    files.retain(|file, _| paths.iter().any(|path| is_below(file, path)));
    Ok(files)
}

/// Crate roots where cargo looks for them.
pub(crate) fn roots(source: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut roots = vec![PathBuf::from("src/lib.rs"), PathBuf::from("src/main.rs")];
    if source.join("src/bin").is_dir() {
        for entry in fs::read_dir(source.join("src/bin"))? {
            let path = Path::new("src/bin").join(entry?.file_name());
            roots.push(if path.extension().is_some() { path } else { path.join("main.rs") });
        }
    }
    roots.retain(|root| source.join(root).is_file());
    Ok(roots)
}

/// `src/vmi` stands for `src/vmi.rs` and all files of `src/vmi/`.
fn is_below(file: &Path, path: &Path) -> bool {
    file.starts_with(path) || file.with_extension("") == path
}

/// The module tree of one root.
struct Modules<'a> {
    source: &'a Path,
    found: BTreeSet<PathBuf>,
}

impl Modules<'_> {
    fn follow(&mut self, file: &Path, is_root: bool) -> Result<(), Box<dyn Error>> {
        let text = fs::read_to_string(self.source.join(file))?;
        let parsed = syn::parse_file(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let folder = file.parent().expect("a file of a crate is in a folder");
        let below = match is_root || file.ends_with("mod.rs") {
            true => folder.to_owned(),
            false => file.with_extension(""),
        };
        self.found.insert(file.to_owned());
        self.declared(&parsed.items, folder, &below)
    }

    fn declared(&mut self, items: &[Item], folder: &Path, below: &Path) -> Result<(), Box<dyn Error>> {
        let modules =
            items.iter().filter_map(|item| if let Item::Mod(module) = item { Some(module) } else { None });
        for module in modules.filter(|module| !module.attrs.iter().any(is_cfg_test)) {
            let name = module.ident.to_string();
            if let Some((_, items)) = &module.content {
                self.declared(items, folder, &below.join(name))?;
                continue;
            }
            let candidates = match module.attrs.iter().find_map(path_attribute) {
                Some(path) => vec![folder.join(path)],
                None => vec![below.join(format!("{name}.rs")), below.join(name).join("mod.rs")],
            };
            // A file that a build script generates is not in the sources.
            if let Some(file) = candidates.into_iter().find(|file| self.source.join(file).is_file()) {
                self.follow(&file, false)?;
            }
        }
        Ok(())
    }
}

/// The path of `#[path = "…"]`.
fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    match &attribute.meta {
        syn::Meta::NameValue(syn::MetaNameValue {
            path,
            value: syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }),
            ..
        }) if path.is_ident("path") => Some(text.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], paths: &[&str]) -> Result<Vec<(String, String)>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let of = of(folder.path(), &paths).map_err(|e| e.to_string())?;
        let shown = |path: &Path| path.display().to_string();
        Ok(of.iter().flat_map(|(file, roots)| roots.iter().map(|root| (shown(file), shown(root)))).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(file, root)| ((*file).to_owned(), (*root).to_owned())).collect()
    }

    #[test]
    fn modules_of_tests_and_all_below_them_are_left_out() {
        let files = [
            ("src/lib.rs", "mod a;\n#[cfg(test)]\nmod sim;\n#[cfg(not(test))]\nmod real;\n"),
            ("src/a.rs", "mod b;\n#[cfg(test)]\n#[path = \"other_tests.rs\"]\nmod tests;\n"),
            ("src/a/b.rs", ""),
            ("src/other_tests.rs", ""),
            ("src/sim.rs", "mod deep;\n"),
            ("src/sim/deep.rs", ""),
            ("src/real.rs", ""),
            ("src/forgotten.rs", ""),
        ];
        let lib = |file| (file, "src/lib.rs");
        let all = [lib("src/a/b.rs"), lib("src/a.rs"), lib("src/lib.rs"), lib("src/real.rs")];
        assert_eq!(found(&files, &["src"]), Ok(pairs(&all)));
        assert_eq!(found(&files, &["src/a"]), Ok(pairs(&all[..2])));
        assert!(found(&files, &["src/sim"]).unwrap_err().starts_with("src/sim has no production code in "));
    }

    #[test]
    fn a_file_of_two_programs_has_two_roots() {
        let files = [
            ("src/bin/one.rs", "#[path = \"two/shared.rs\"]\nmod shared;\n"),
            ("src/bin/two/main.rs", "mod shared;\n"),
            ("src/bin/two/shared.rs", ""),
        ];
        let both =
            [("src/bin/two/shared.rs", "src/bin/one.rs"), ("src/bin/two/shared.rs", "src/bin/two/main.rs")];
        assert_eq!(found(&files, &["src/bin/two/shared.rs"]), Ok(pairs(&both)));
    }

    #[test]
    fn modules_within_a_module_are_in_its_folder() {
        let files = [("src/main.rs", "mod outer { mod inner; }\n"), ("src/outer/inner.rs", "")];
        assert_eq!(found(&files, &["src/outer"]), Ok(pairs(&[("src/outer/inner.rs", "src/main.rs")])));
    }
}
