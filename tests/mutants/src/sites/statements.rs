//! Calls and assignments that are left out, and errors that are ignored.

use std::ops::Range;

use syn::{BinOp, Block, Expr, Pat, Stmt};

use super::Shape;
use super::finder::{Finder, range};

impl Finder<'_> {
    /// Statements of a block but for its value.
    pub(super) fn statements(&mut self, block: &Block) {
        for (at, statement) in block.stmts.iter().enumerate() {
            match statement {
                Stmt::Expr(expression, Some(_)) => self.statement(expression, range(statement)),
                // An expression with a block, whose type is `()`.
                Stmt::Expr(expression, None) if at + 1 < block.stmts.len() => self.unit_tail(expression),
                Stmt::Local(local) => match (&local.pat, &local.init) {
                    (Pat::Wild(_), Some(_)) => self.delete(range(statement)),
                    (Pat::Ident(name), None) => drop(self.late.insert(name.ident.to_string())),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// The end of a block of type `()`.
    pub(super) fn unit_block(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.unit_tail(last);
        }
    }

    /// The ends of a block of type `Result<()>`; a call that is the whole body is left out with the body.
    pub(super) fn ok_block(&mut self, block: &Block, is_body: bool) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.ok_tail(last, is_body && block.stmts.len() == 1);
        }
    }

    fn unit_tail(&mut self, tail: &Expr) {
        match tail {
            Expr::Block(inner) => self.unit_block(&inner.block),
            Expr::If(branch) => {
                self.unit_block(&branch.then_branch);
                if let Some((_, other)) = &branch.else_branch {
                    self.unit_tail(other);
                }
            }
            Expr::Match(choice) => choice.arms.iter().for_each(|arm| self.unit_tail(&arm.body)),
            _ => self.statement(tail, range(tail)),
        }
    }

    fn ok_tail(&mut self, tail: &Expr, is_body: bool) {
        match tail {
            Expr::Block(inner) => self.ok_block(&inner.block, false),
            Expr::Unsafe(inner) => self.ok_block(&inner.block, false),
            Expr::If(branch) => {
                self.ok_block(&branch.then_branch, false);
                if let Some((_, other)) = &branch.else_branch {
                    self.ok_tail(other, false);
                }
            }
            Expr::Match(choice) => choice.arms.iter().for_each(|arm| self.ok_tail(&arm.body, false)),
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Await(_)
                if !is_body && self.source(tail) != "Ok(())" =>
            {
                self.add(range(tail), Shape::Expression, "tail", "Ok(())");
            }
            _ => {}
        }
    }

    /// An expression whose value is `()` or dropped.
    fn statement(&mut self, expression: &Expr, whole: Range<usize>) {
        match expression {
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Await(_) => self.delete(whole),
            Expr::Try(fallible) => {
                self.delete(whole.clone());
                if matches!(*fallible.expr, Expr::Call(_) | Expr::MethodCall(_) | Expr::Await(_)) {
                    let text = format!("let _ = {};", self.source(&fallible.expr));
                    self.add(whole, Shape::Statement, "ignore error", text);
                }
            }
            Expr::Assign(assign) if !self.late.contains(self.source(&assign.left)) => self.delete(whole),
            Expr::Binary(assign) => {
                let Some(other) = other_assignment(&assign.op) else { return };
                let text = self.replaced(&whole, range(&assign.op), other);
                self.add(whole.clone(), Shape::Statement, "operator", text);
                self.delete(whole);
            }
            _ => {}
        }
    }

    fn delete(&mut self, whole: Range<usize>) {
        self.add(whole, Shape::Statement, "delete", "");
    }
}

fn other_assignment(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) | BinOp::MulAssign(_) => "+=",
        BinOp::BitOrAssign(_) => "&=",
        BinOp::BitAndAssign(_) => "|=",
        BinOp::ShlAssign(_) => ">>=",
        BinOp::ShrAssign(_) => "<<=",
        _ => return None,
    })
}
