//! Names of builder methods: those that take `self` and return the type of their `impl`.

use std::collections::HashSet;

use syn::visit::{self, Visit};
use syn::{FnArg, ImplItem, ItemImpl, ReturnType, Type};

/// The names in a file. A call of one may be left out of a chain of calls.
pub(crate) fn builders(file: &syn::File) -> HashSet<String> {
    let mut names = Names(HashSet::new());
    names.visit_file(file);
    names.0
}

struct Names(HashSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let own = last_name(&item.self_ty);
        for method in
            item.items.iter().filter_map(|item| if let ImplItem::Fn(f) = item { Some(f) } else { None })
        {
            let takes_self =
                matches!(method.sig.inputs.first(), Some(FnArg::Receiver(me)) if me.reference.is_none());
            let ReturnType::Type(_, output) = &method.sig.output else { continue };
            let output = last_name(output);
            if takes_self && output.is_some() && (output == own || output.as_deref() == Some("Self")) {
                self.0.insert(method.sig.ident.to_string());
            }
        }
        visit::visit_item_impl(self, item);
    }
}

fn last_name(name: &Type) -> Option<String> {
    match name {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_builder_takes_itself_and_gives_its_own_type() {
        let text = "impl Plan<'_> {
            fn new() -> Plan<'_> {} fn and(self, a: A) -> Plan<'_> {} fn then(mut self) -> Self {}
            fn look(&self) -> Self {} fn is(self) -> bool {} fn end(self) {}
        }";
        let mut names: Vec<_> = builders(&syn::parse_file(text).unwrap()).into_iter().collect();
        names.sort();
        assert_eq!(names, ["and", "then"]);
    }
}
