use super::*;

/// Mutants of a source, each as `kind: original => mutation`.
fn mutants(text: &str) -> Vec<String> {
    let sites = of(text, &HashSet::from(["then".to_owned()])).unwrap();
    let shown = |site: &Site| {
        let before = text[site.range.clone()].to_owned();
        site.mutants
            .iter()
            .map(move |mutant| format!("{}: {before} => {}", mutant.kind, mutant.text))
            .collect::<Vec<_>>()
    };
    sites.iter().flat_map(shown).collect()
}

/// Mutants in the body of a function whose own value has none.
fn within(body: &str) -> Vec<String> {
    mutants(&format!("fn f() -> X {{ {body} }}"))
}

/// The values that a function of this type returns instead of its own.
fn values(output: &str) -> Vec<String> {
    let shown = mutants(&format!("fn f() -> {output} {{ g }}"));
    shown.iter().filter_map(|line| line.strip_prefix("body: { g } => return ")).map(str::to_owned).collect()
}

#[test]
fn a_comparison_moves_by_one_and_is_negated() {
    assert_eq!(within("a < b"), ["operator: a < b => a <= b", "operator: a < b => a >= b"]);
    assert_eq!(within("a >= b"), ["operator: a >= b => a > b", "operator: a >= b => a < b"]);
    assert_eq!(within("a == b"), ["operator: a == b => a != b"]);
    assert_eq!(within("a as u8 > b")[1], "operator: a as u8 > b => (a as u8) <= b");
}

#[test]
fn a_condition_is_true_and_false_and_not_negated() {
    assert_eq!(
        within("if a < b { x } else { y }"),
        ["cond: a < b => true", "cond: a < b => false", "operator: a < b => a <= b"]
    );
    assert_eq!(within("if !a { x } else { y }"), ["cond: !a => true", "cond: !a => false"]);
    assert_eq!(within("if a.is_some() { x } else { y }").len(), 2);
    assert_eq!(within("while a { } x"), ["cond: a => false"]);
    assert_eq!(within("match a { b if c => x, d => y }"), ["cond: c => true", "cond: c => false"]);
}

#[test]
fn a_condition_that_binds_keeps_its_bindings() {
    assert_eq!(
        within("if let Some(a) = b && a.c { x } else { y }"),
        ["cond: a.c => true", "cond: a.c => false"]
    );
}

#[test]
fn a_side_of_and_and_or_is_left_out() {
    assert_eq!(within("a && b"), ["operator: a && b => a || b", "operand: a => true", "operand: b => true"]);
    assert_eq!(
        within("a || b || c"),
        [
            "operator: a || b || c => a || b && c",
            "operator: a || b => a && b",
            "operand: a => false",
            "operand: b => false",
            "operand: c => false"
        ]
    );
}

#[test]
fn calls_and_assignments_are_left_out() {
    assert_eq!(within("a(); x"), ["delete: a(); => "]);
    assert_eq!(within("a.b().await; x"), ["delete: a.b().await; => "]);
    assert_eq!(within("a = b; x"), ["delete: a = b; => "]);
    assert_eq!(within("a += b; x"), ["operator: a += b; => a -= b;", "delete: a += b; => "]);
    assert_eq!(within("let _ = a; x"), ["delete: let _ = a; => "]);
    assert_eq!(within("if let A = b { c() } x"), ["delete: c() => "]);
}

#[test]
fn the_first_value_of_a_variable_stays() {
    assert_eq!(within("let a; a = b; x"), [""; 0]);
}

#[test]
fn an_error_is_ignored() {
    assert_eq!(within("a()?; x"), ["delete: a()?; => ", "ignore error: a()?; => let _ = a();"]);
    let tails = mutants("fn f() -> Result<()> { if let A = b { c() } else { Ok(()) } }");
    assert_eq!(tails[1..], ["tail: c() => Ok(())"], "{tails:?}");
}

#[test]
fn a_body_returns_a_simple_value_of_its_type() {
    assert_eq!(values("bool"), ["true;", "false;"]);
    assert_eq!(values("Option<u8>"), ["None;", "Some(0);", "Some(1);"]);
    assert_eq!(values("Result<Vec<u8>, E>"), ["Ok(Vec::new());"]);
    assert_eq!(values("&'static str"), ["\"\";", "\"xyzzy\";"]);
    assert_eq!(values("fmt::Result"), ["Ok(());"]);
    assert_eq!(values("Option<X>"), ["None;"]);
    assert_eq!(values("X"), [""; 0]);
}

#[test]
fn a_body_that_is_such_a_value_already_has_no_mutant() {
    assert_eq!(mutants("fn f() -> u8 { 7 }"), [""; 0]);
    assert_eq!(mutants("fn f() -> Vec<u8> { Vec::new() }"), [""; 0]);
    assert_eq!(mutants("fn f() {}"), [""; 0]);
    // The statement is left out; with it, the body.
    assert_eq!(mutants("fn f() { a() }"), ["delete: a() => "]);
}

#[test]
fn methods_with_an_opposite_become_it() {
    assert_eq!(within("a.max(b)"), ["method: a.max(b) => a.min(b)"]);
    assert_eq!(within("a.is_none()"), ["method: a.is_none() => a.is_some()"]);
    assert_eq!(within("a.any(b)"), ["method: a.any(b) => a.all(b)"]);
    // Of an iterator.
    assert_eq!(within("a.max()"), [""; 0]);
}

#[test]
fn booleans_and_patterns_that_are_asked_are_negated() {
    assert_eq!(within("a(true)"), ["literal: true => false"]);
    assert_eq!(within("a(!b)"), ["not: !b => b"]);
    assert_eq!(within("matches!(a, B)"), ["not: matches!(a, B) => !matches!(a, B)"]);
}

#[test]
fn an_arm_with_the_body_of_the_last_stays() {
    assert_eq!(within("match a { 1 => b, 2 => c, _ => c }"), ["arm: 1 => no such arm"]);
}

#[test]
fn tests_constants_macros_and_the_start_have_no_mutants() {
    for text in [
        "#[cfg(test)] mod tests { fn f() -> bool { a < b } }",
        "#[test] fn f() { a(); b(); }",
        "#[cfg(test)] impl A { fn f() -> bool { a < b } }",
        "const A: bool = 1 < 2; static B: u8 = 1 + 2;",
        "const fn f() -> bool { a < b }",
        "fn main() { a(); b(); }",
        "impl fmt::Debug for A { fn fmt(&self) -> fmt::Result { a(); b() } }",
        "fn f() -> X { info!(a + b); [a; 1 + 2] }",
        "macro_rules! f { () => { a + b } }",
        "fn f() -> X { let A::<{ 1 + 2 }> = a; x }",
    ] {
        assert_eq!(mutants(text), [""; 0], "{text}");
    }
    assert_eq!(mutants("#[cfg(not(test))] mod real { fn f() -> X { a + b } }").len(), 1);
}

#[test]
fn a_function_is_named_with_its_type_and_trait() {
    let names = |text: &str| {
        of(text, &HashSet::new()).unwrap().into_iter().map(|site| site.function).collect::<Vec<_>>()
    };
    assert_eq!(names("impl A { fn f() -> X { a + b } }"), ["A::f"]);
    assert_eq!(names("impl B for A<C> { fn f() -> X { a + b } }"), ["<A as B>::f"]);
    assert_eq!(names("mod m { fn f() -> X { a + b } }"), ["f"]);
}

#[test]
fn equal_mutants_of_a_site_are_one() {
    let both = mutants("fn f() -> X { if true { a } else { b } }");
    assert_eq!(both, ["literal: true => false"]);
}

#[test]
fn the_closure_of_a_predicate_is_a_condition() {
    assert_eq!(within("a.filter(|a| a.b())"), ["cond: a.b() => true", "cond: a.b() => false"]);
    assert_eq!(
        within("a.is_some_and(|a| a > b)"),
        ["cond: a > b => true", "cond: a > b => false", "operator: a > b => a >= b"]
    );
    assert_eq!(within("a.filter(b)"), [""; 0]);
    assert_eq!(within("a.map(|a| a.b())"), [""; 0]);
}

#[test]
fn a_call_of_a_builder_is_left_out_of_its_chain() {
    assert_eq!(
        within("a.then(b).c().then(d)"),
        ["chain: a.then(b).c().then(d) => a.then(b).c()", "chain: a.then(b) => a"]
    );
}
