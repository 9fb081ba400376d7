//! What is read, where it stands, and what is refused.

use super::*;
use serde_json::json;

fn one(text: &str) -> Document {
    let mut documents = parse(text).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn refused(text: &str) -> Vec<(usize, String)> {
    parse(text).unwrap_err().into_iter().map(|wrong| (wrong.line, wrong.what)).collect()
}

#[test]
fn every_field_knows_its_line() {
    let text = "# a machine\nkind: X\nspec:\n  domain:\n    disks:\n    - name: a\n      disk: {bus: virtio}\n    - name: b\n";
    let parsed = one(text);
    assert_eq!(parsed.value["spec"]["domain"]["disks"][0]["disk"]["bus"], json!("virtio"));
    for (path, line) in [
        ("kind", 2),
        ("spec", 3),
        ("spec.domain.disks", 5),
        ("spec.domain.disks[0].name", 6),
        ("spec.domain.disks[0].disk.bus", 7),
        ("spec.domain.disks[1]", 8),
        // What is not there is missing from what is around it.
        ("spec.domain.disks[1].disk.bus", 8),
        ("spec.domain.memory.guest", 4),
        ("spec.domain.disks[7].name", 5),
        ("metadata.name", 2),
    ] {
        assert_eq!(parsed.lines.line(path), line, "{path}");
    }
    let below = parsed.lines.below("spec.domain");
    assert_eq!((below.line("disks[1].name"), below.line("cpu")), (8, 4));
}

#[test]
fn several_documents_and_empty_ones() {
    let documents = parse("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n").unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!((documents[1].value.clone(), documents[1].lines.line("b")), (json!({"b": 2}), 6));
    assert_eq!(parse("").unwrap(), vec![]);
    assert_eq!(one("\u{feff}a: yes").value, json!({"a": true}));
}

#[test]
fn aliases_and_merges_are_written_out() {
    let text =
        "base: &b {x: 1, z: 2}\nlist: &l\n- 1\n- 2\nuse:\n  <<: *b\n  z: 3\nagain: *l\n1: one\ntrue: yes\n";
    let parsed = one(text);
    assert_eq!(parsed.value["use"], json!({"x": 1, "z": 3}));
    assert_eq!(parsed.value["again"], json!([1, 2]));
    assert_eq!((&parsed.value["1"], &parsed.value["true"]), (&json!("one"), &json!(true)));
    assert_eq!(parsed.lines.line("again[1]"), 8);
    assert_eq!(parsed.lines.line("use.x"), 6);
}

#[test]
fn a_text_with_one_document_is_its_value() {
    assert_eq!(value("a: &a [yes]\nb: *a\n"), Ok(json!({"a": [true], "b": [true]})));
    assert_eq!(value("{\"a\": null}"), Ok(json!({"a": null})));
    for nothing in ["", "---\n", "# a word\n", "null"] {
        assert_eq!(value(nothing), Ok(json!(null)), "{nothing:?}");
    }
    for (text, line, what) in [
        ("a: 1\n---\nb: 2\n", 1, "more than one document"),
        ("a: 1\na: 2\n", 2, "second time"),
        ("a: [1\nb: 2", 2, "not valid YAML"),
    ] {
        let wrong = value(text).unwrap_err();
        assert!(wrong.line == line && wrong.what.contains(what), "{text}: {wrong:?}");
    }
}

#[test]
fn strings_stay_strings() {
    let text = "a: \"yes\"\nb: '010'\nc: !!str 12\nd: |\n  no\n  way\ne: >-\n  one\n  two\nf: !!int 7\n";
    let wanted = json!({"a": "yes", "b": "010", "c": "12", "d": "no\nway\n", "e": "one two", "f": 7});
    assert_eq!(one(text).value, wanted);
}

#[test]
fn json_is_yaml_even_with_tabs() {
    let parsed = one("{\n\t\"a\": [true,\n\t\t{\"b\": \"yes\"}]\n}\n");
    assert_eq!(parsed.value, json!({"a": [true, {"b": "yes"}]}));
    assert_eq!(one("{\n  \"a\": 1,\n  \"b\": 2\n}").lines.line("b"), 3);
}

#[test]
fn faults_are_all_told_with_their_lines() {
    let faults = refused("a: 1\nb: .nan\na: 2\nc: !mine x\n");
    assert_eq!(faults.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 4], "{faults:?}");
    assert!(faults[1].1.contains("first is on line 1"), "{faults:?}");
    for (text, line, what) in [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a:\n\tb: 1", 2, "not valid YAML"),
        ("a: *nothing", 1, ""),
        ("a: &x [*x]", 1, "its own anchor"),
        ("a: !!int many", 1, "not a value of type int"),
        ("? [1]\n: 2", 1, "word"),
        ("a:\n  <<: 3", 2, "merged"),
    ] {
        let faults = refused(text);
        assert!(faults.iter().any(|(at, why)| *at == line && why.contains(what)), "{text}: {faults:?}");
    }
}

#[test]
fn many_keys_are_read_in_one_go() {
    // With a look at each of those before, this would take minutes.
    let many: String = (0..90_000).map(|i| format!("k{i}: 1\n")).collect();
    assert_eq!(one(&many).value.as_object().unwrap().len(), 90_000);
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..12 {
        let list = vec![format!("*a{}", i - 1); 10].join(",");
        bomb += &format!("a{i}: &a{i} [{list}]\n");
    }
    assert!(refused(&bomb)[0].1.contains("more than 200000 values"));
    let deep = "[".repeat(5000);
    assert!(!refused(&deep).is_empty());
    let deep = format!("{}1{}", "{a: ".repeat(200), "}".repeat(200));
    assert!(refused(&deep)[0].1.contains("nested"));
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 17].join(","));
    assert!(refused(&long)[0].1.contains("bytes of text"));
    let long =
        format!("{{? &a {}: 1, b: &b [{{*a : 1}}], c: [{}]}}", "x".repeat(1 << 20), vec!["*b"; 17].join(","));
    assert!(refused(&long)[0].1.contains("bytes of text"));
    let long = "- 1\n".repeat(200_001);
    assert!(refused(&long)[0].1.contains("values"));
}

/// On a thread with as little stack as a worker of a server has.
#[test]
fn an_alias_is_as_deep_as_what_it_stands_for() {
    let lists = |each: usize, aliases: usize| {
        let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(each), "]".repeat(each));
        let rest = (1..aliases).map(|i| format!("- &a{i} {}\n", nested(&format!("*a{}", i - 1))));
        format!("- &a0 {}\n{}", nested("x"), rest.collect::<String>())
    };
    // The value of each is one deeper than that of the one before, and is merged from it.
    let merged = |aliases: usize| {
        let rest = (1..aliases).map(|i| format!("- &a{i} {{<<: {{x: *a{}}}}}\n", i - 1));
        format!("- &a0 {{x: 1}}\n{}", rest.collect::<String>())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let done = thread.spawn(move || {
        for bomb in [lists(97, 60), lists(50, 2), merged(5000), merged(101)] {
            assert!(value(&bomb).unwrap_err().what.contains("nested more than 100 deep"));
            assert!(refused(&bomb)[0].1.contains("nested more than 100 deep"));
        }
        for deep in [lists(49, 2), lists(1, 99), merged(97)] {
            assert!(value(&deep).is_ok() && parse(&deep).is_ok(), "{deep}");
        }
    });
    done.unwrap().join().unwrap();
}

#[test]
fn a_fault_shows_the_beginning_of_a_word_and_there_are_a_hundred_of_them() {
    let long = "\u{e000}".repeat(20_000);
    let twice = format!("? &a {long}\n: 1\n{}", "? *a\n: 1\n".repeat(500));
    let number = format!("a: !!int {long}");
    let tags = [format!("a: !{long} 1"), format!("a: !!{} 1", "x".repeat(60_000))];
    for text in [&twice, &number, &tags[0], &tags[1]] {
        let faults = refused(text);
        let longest = faults.iter().map(|(_, what)| what.len()).max();
        assert!(faults.len() <= FAULTS + 1 && longest < Some(1000), "{} of {longest:?} bytes", faults.len());
        let first = value(text).unwrap_err();
        assert_eq!((first.line, first.what), faults[0], "the first of them");
    }
    assert_eq!(refused(&twice).len(), FAULTS + 1);
    // What is JSON but for the tab that YAML does not know is not let through by that.
    let json = format!("{{{}\n\t\"b\": 1}}", "\"a\": 1, ".repeat(200));
    assert!(refused(&json)[0].1.contains("second time"));
}
