//! The walk through the syntax tree of a file.

use std::collections::HashSet;
use std::mem::take;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ReturnType, Signature, Stmt, Type, UnOp};

use super::{Mutant, Shape, Site, is_cfg_test, values};

/// All sites, in the order of the walk.
pub(super) fn sites(text: &str, file: &syn::File, builders: &HashSet<String>) -> Vec<Site> {
    let mut finder = Finder {
        text,
        builders,
        sites: Vec::new(),
        function: Vec::new(),
        conditions: HashSet::new(),
        late: HashSet::new(),
    };
    finder.visit_file(file);
    finder.sites
}

pub(super) struct Finder<'a> {
    pub(super) text: &'a str,
    /// Names of builder methods.
    pub(super) builders: &'a HashSet<String>,
    sites: Vec<Site>,
    function: Vec<String>,
    /// Conditions, which become true and false: their negation adds nothing.
    conditions: HashSet<Range<usize>>,
    /// Variables declared without a value: without their assignment nothing compiles.
    pub(super) late: HashSet<String>,
}

impl Finder<'_> {
    pub(super) fn add(
        &mut self,
        range: Range<usize>,
        shape: Shape,
        kind: &'static str,
        text: impl Into<String>,
    ) {
        let mutant = Mutant { kind, text: text.into(), key: String::new(), number: 0 };
        self.sites.push(Site { range, shape, function: self.function.join("::"), mutants: vec![mutant] });
    }

    /// The source text of a node.
    pub(super) fn source(&self, node: &impl Spanned) -> &str {
        &self.text[range(node)]
    }

    /// The text of `whole` with a part of it replaced.
    pub(super) fn replaced(&self, whole: &Range<usize>, part: Range<usize>, by: &str) -> String {
        format!("{}{by}{}", &self.text[whole.start..part.start], &self.text[part.end..whole.end])
    }

    pub(super) fn is_condition(&self, range: &Range<usize>) -> bool {
        self.conditions.contains(range)
    }

    pub(super) fn is_now_condition(&mut self, range: Range<usize>) {
        self.conditions.insert(range);
    }

    /// A condition becomes true and false; that of a loop would have no end as true.
    pub(super) fn condition(&mut self, condition: &Expr, is_loop: bool) {
        match condition {
            Expr::Let(_) | Expr::Lit(_) => {}
            Expr::Binary(both) if matches!(both.op, BinOp::And(_)) && has_let(condition) => {
                self.condition(&both.left, is_loop);
                self.condition(&both.right, is_loop);
            }
            _ => {
                let range = range(condition);
                self.is_now_condition(range.clone());
                if !is_loop {
                    self.add(range.clone(), Shape::Expression, "cond", "true");
                }
                self.add(range, Shape::Expression, "cond", "false");
            }
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let is_left_out = is_test(attributes) || signature.constness.is_some() || signature.ident == "main";
        if is_left_out {
            return;
        }
        self.function.push(signature.ident.to_string());
        let outer = take(&mut self.late);
        self.body(&signature.output, block);
        self.visit_block(block);
        self.late = outer;
        self.function.pop();
    }

    /// A body that returns at once.
    fn body(&mut self, output: &ReturnType, block: &Block) {
        let range = range(block);
        let body = self.text[range.start + 1..range.end - 1].trim().to_owned();
        if body.is_empty() {
            return;
        }
        let ReturnType::Type(_, output) = output else {
            // Without its lone statement a body is empty, too.
            if !is_lone_statement(block) {
                self.add(range, Shape::Body, "body", "return;");
            }
            self.unit_block(block);
            return;
        };
        let is_literal = body == "true" || body == "false" || body.parse::<u64>().is_ok();
        for value in values::of(output).into_iter().filter(|value| *value != body && !is_literal) {
            if value == "Ok(())" {
                self.ok_block(block, true);
            }
            self.add(range.clone(), Shape::Body, "body", format!("return {value};"));
        }
    }
}

/// The bytes of a node.
pub(super) fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

/// True if a condition binds variables, which nothing may be put around.
pub(super) fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)) => {
            has_let(&both.left) || has_let(&both.right)
        }
        Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| is_cfg_test(attribute) || attribute.path().is_ident("test"))
}

/// True for a block of one statement that is left out anyway.
fn is_lone_statement(block: &Block) -> bool {
    use Expr::{Assign, Binary, Call, MethodCall, Try};
    matches!(&block.stmts[..], [Stmt::Expr(Call(_) | MethodCall(_) | Try(_) | Assign(_) | Binary(_), _)])
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of_path =
            |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let own = match &*item.self_ty {
            Type::Path(own) => of_path(&own.path),
            _ => "?".to_owned(),
        };
        let name = match &item.trait_ {
            Some((_, path, _)) => format!("<{own} as {}>", of_path(path)),
            None => own,
        };
        if is_test(&item.attrs) || name.ends_with(" as Debug>") {
            return;
        }
        self.function.push(name);
        item.items.iter().for_each(|item| self.visit_impl_item(item));
        self.function.pop();
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_item_struct(&mut self, _: &'ast syn::ItemStruct) {}
    fn visit_item_type(&mut self, _: &'ast syn::ItemType) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_path_arguments(&mut self, _: &'ast syn::PathArguments) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    /// The length is a constant.
    fn visit_expr_repeat(&mut self, repeated: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeated.expr);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.statements(block);
        visit::visit_block(self, block);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        match statement {
            Stmt::Local(local) if is_test(&local.attrs) => {}
            Stmt::Macro(_) => {}
            _ => visit::visit_stmt(self, statement),
        }
    }

    fn visit_expr_for_loop(&mut self, each: &'ast syn::ExprForLoop) {
        self.unit_block(&each.body);
        visit::visit_expr_for_loop(self, each);
    }

    fn visit_expr_loop(&mut self, endless: &'ast syn::ExprLoop) {
        self.unit_block(&endless.body);
        visit::visit_expr_loop(self, endless);
    }

    fn visit_expr_while(&mut self, repeated: &'ast syn::ExprWhile) {
        self.unit_block(&repeated.body);
        self.condition(&repeated.cond, true);
        visit::visit_expr_while(self, repeated);
    }

    fn visit_expr_if(&mut self, branch: &'ast syn::ExprIf) {
        if branch.else_branch.is_none() {
            self.unit_block(&branch.then_branch);
        }
        self.condition(&branch.cond, false);
        visit::visit_expr_if(self, branch);
    }

    fn visit_expr_match(&mut self, choice: &'ast syn::ExprMatch) {
        if let Some((last, rest)) = choice.arms.split_last()
            && matches!(last.pat, syn::Pat::Wild(_))
            && last.guard.is_none()
        {
            for arm in rest.iter().filter(|arm| arm.guard.is_none()) {
                if self.source(&arm.body) != self.source(&last.body) {
                    self.add(range(&arm.pat), Shape::Arm, "arm", "no such arm");
                }
            }
        }
        for (_, guard) in choice.arms.iter().filter_map(|arm| arm.guard.as_ref()) {
            self.condition(guard, false);
        }
        visit::visit_expr_match(self, choice);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let range = range(unary);
        if matches!(unary.op, UnOp::Not(_)) && !self.is_condition(&range) {
            let inner = self.source(&unary.expr).to_owned();
            self.add(range, Shape::Expression, "not", inner);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        self.binary(binary);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.method(call);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_macro(&mut self, call: &'ast syn::ExprMacro) {
        let range = range(call);
        if call.mac.path.is_ident("matches") && !self.is_condition(&range) {
            let text = format!("!{}", self.source(call));
            self.add(range, Shape::Expression, "not", text);
        }
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        if let syn::Lit::Bool(value) = &literal.lit {
            let other = if value.value { "false" } else { "true" };
            self.add(range(literal), Shape::Expression, "literal", other);
        }
    }
}
