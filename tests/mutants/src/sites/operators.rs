//! Operators and methods that become others.

use syn::{BinOp, Expr, ExprBinary, ExprMethodCall, ReturnType};

use super::Shape;
use super::finder::{Finder, has_let, range};

/// Methods whose closure is a condition.
const PREDICATES: [&str; 10] = [
    "all",
    "any",
    "filter",
    "find",
    "is_none_or",
    "is_some_and",
    "position",
    "retain",
    "skip_while",
    "take_while",
];

impl Finder<'_> {
    pub(super) fn binary(&mut self, binary: &ExprBinary) {
        let whole = range(binary);
        let has_let = has_let(&binary.left) || has_let(&binary.right);
        let (others, neutral): (&[&str], _) = match binary.op {
            // The last of two is the negation.
            BinOp::Lt(_) => (&["<=", ">="], None),
            BinOp::Le(_) => (&["<", ">"], None),
            BinOp::Gt(_) => (&[">=", "<="], None),
            BinOp::Ge(_) => (&[">", "<"], None),
            BinOp::Eq(_) if !self.is_condition(&whole) => (&["!="], None),
            BinOp::Ne(_) if !self.is_condition(&whole) => (&["=="], None),
            BinOp::Add(_) => (&["-"], None),
            BinOp::Sub(_) => (&["+"], None),
            BinOp::Mul(_) | BinOp::Rem(_) => (&["/"], None),
            BinOp::Div(_) => (&["*"], None),
            BinOp::Shl(_) => (&[">>"], None),
            BinOp::Shr(_) => (&["<<"], None),
            BinOp::BitAnd(_) => (&["|"], None),
            BinOp::BitOr(_) => (&["&"], None),
            BinOp::And(_) if !has_let => (&["||"], Some("true")),
            BinOp::Or(_) if !has_let => (&["&&"], Some("false")),
            _ => (&[], None),
        };
        let others = if self.is_condition(&whole) { &others[..others.len().min(1)] } else { others };
        for other in others {
            let text = self.exchanged(binary, other);
            self.add(whole.clone(), Shape::Expression, "operator", text);
        }
        if let Some(neutral) = neutral {
            self.operand(&binary.left, neutral);
            self.operand(&binary.right, neutral);
        }
    }

    pub(super) fn method(&mut self, call: &ExprMethodCall) {
        let whole = range(call);
        let name = call.method.to_string();
        if PREDICATES.contains(&name.as_str())
            && let Some(Expr::Closure(closure)) = call.args.first()
            // A body behind a type stays a block.
            && matches!(closure.output, ReturnType::Default)
        {
            self.condition(&closure.body, false);
        }
        if self.builders.contains(&name) {
            let receiver = self.source(&call.receiver).to_owned();
            self.add(whole.clone(), Shape::Expression, "chain", receiver);
        }
        let other = match name.as_str() {
            "min" if call.args.len() == 1 => "max",
            "max" if call.args.len() == 1 => "min",
            "any" => "all",
            "all" => "any",
            "saturating_sub" => "saturating_add",
            "saturating_add" => "saturating_sub",
            _ if self.is_condition(&whole) => return,
            "is_some" => "is_none",
            "is_none" => "is_some",
            "is_ok" => "is_err",
            "is_err" => "is_ok",
            _ => return,
        };
        let text = self.replaced(&whole, range(&call.method), other);
        self.add(whole, Shape::Expression, "method", text);
    }

    fn exchanged(&self, binary: &ExprBinary, operator: &str) -> String {
        // `a as u64 < b` would begin a list of generic arguments.
        if operator.starts_with('<') && matches!(*binary.left, Expr::Cast(_)) {
            return format!("({}) {operator} {}", self.source(&binary.left), self.source(&binary.right));
        }
        self.replaced(&range(binary), range(&binary.op), operator)
    }

    /// One side of `&&` or `||`, as if it were not there.
    fn operand(&mut self, operand: &Expr, neutral: &str) {
        let is_chain =
            matches!(operand, Expr::Binary(both) if matches!(both.op, BinOp::And(_) | BinOp::Or(_)));
        if is_chain || matches!(operand, Expr::Lit(_)) {
            return;
        }
        self.is_now_condition(range(operand));
        self.add(range(operand), Shape::Expression, "operand", neutral);
    }
}
