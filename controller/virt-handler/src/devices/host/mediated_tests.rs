use super::super::discover::tests::Tree;
use super::*;

const CARD: &str = "0000:81:00.0";
const OTHER: &str = "0000:82:00.0";

fn card(name: &str, kinds: &[(&str, u32)]) -> Card {
    let kind = |(id, free): &(&str, u32)| Kind { id: (*id).into(), name: format!("{id}_name"), free: *free };
    Card { name: name.into(), kinds: kinds.iter().map(kind).collect(), there: Vec::new() }
}

fn with(card: Card, there: &[(&str, &str)]) -> Card {
    let there =
        there.iter().map(|(uuid, kind)| MediatedDevice { uuid: (*uuid).into(), kind: (*kind).into() });
    Card { there: there.collect(), ..card }
}

/// Cards and types of created devices, and UUIDs of removed ones.
fn steps(cards: &[Card], types: &[&str], free: &[&str]) -> Vec<String> {
    let free = free.iter().map(|uuid| (*uuid).to_owned()).collect();
    let said = |step| match step {
        Step::Make { card, kind, .. } => format!("{card} {kind}"),
        Step::Remove { uuid } => uuid,
    };
    decide(cards, types, &free).into_iter().map(said).collect()
}

#[test]
fn a_card_is_of_one_type_and_filled() {
    let one = card("a", &[("t1", 2), ("t2", 4)]);
    assert_eq!(steps(std::slice::from_ref(&one), &["t1", "t2"], &[]), ["a t1", "a t1"]);
    assert_eq!(
        steps(std::slice::from_ref(&one), &["t2_name"], &[]),
        ["a t2"; 4],
        "by what the driver calls it"
    );
    assert!(steps(&[one], &["other"], &[]).is_empty());
    assert!(steps(&[card("a", &[("t1", 0)])], &["t1"], &[]).is_empty());
    let uuids: BTreeSet<String> = decide(&[card("a", &[("t", u32::MAX)])], &["t"], &BTreeSet::new())
        .into_iter()
        .map(|step| match step {
            Step::Make { uuid, .. } | Step::Remove { uuid } => uuid,
        })
        .collect();
    assert_eq!(uuids.len(), 64, "each has its own");
}

#[test]
fn cards_go_to_the_types_in_turn() {
    let both = |name| card(name, &[("t1", 1), ("t2", 1)]);
    let cards = [both("a"), both("b"), both("c")];
    assert_eq!(steps(&cards, &["t1", "t2"], &[]), ["a t1", "b t2", "c t1"]);
    // A card with a type keeps it, and counts.
    let cards = [both("a"), with(both("b"), &[("x", "t1")])];
    assert_eq!(steps(&cards, &["t1", "t2"], &[]), ["a t2", "b t1"]);
    // A card that supports only the second type leaves the first to the other card.
    let cards = [card("a", &[("t2", 1)]), both("b")];
    assert_eq!(steps(&cards, &["t1", "t2"], &[]), ["a t2", "b t1"]);
}

#[test]
fn only_what_was_made_here_goes_and_the_card_waits_for_it() {
    let ours = of_mediated("a", "t1", 3);
    let one = with(card("a", &[("t1", 1), ("t2", 1)]), &[(&ours, "t1"), ("somebody's", "t1")]);
    assert_eq!(one.unwanted(&["t2"]).collect::<Vec<_>>(), std::slice::from_ref(&ours));
    assert_eq!(one.unwanted(&["t1"]).count(), 0);
    assert_eq!(steps(&[one], &["t2"], &[&ours]), [ours]);
}

#[test]
fn a_device_is_made_by_its_uuid() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    tree.card(CARD, &[("nvidia-222", Some("GRID T4-1Q"), 1), ("nvidia-223", None, 1)]);
    let make = |types: &[&str]| make(&tree.sysfs(), folder.path(), types, &BTreeSet::new).unwrap();
    let made = make(&["GRID_T4-1Q"]);
    let uuid = of_mediated(CARD, "nvidia-222", 0);
    assert_eq!(tree.written(CARD, "mdev_supported_types/nvidia-222/create"), uuid);
    let [Ok(note)] = &Vec::from_iter(&made.notes)[..] else { panic!("{made:?}") };
    assert!(note.contains(&uuid) && made.leaving.is_empty(), "{made:?}");
    // The kernel has created it.
    tree.card(CARD, &[("nvidia-222", Some("GRID T4-1Q"), 0), ("nvidia-223", None, 0)]);
    tree.made(CARD, "nvidia-222", &uuid, 7);
    assert_eq!(make(&["GRID_T4-1Q"]), MediatedChanges::default());
}

#[test]
fn a_device_is_removed_when_nobody_was_offered_it_for_a_look_and_no_pod_has_it() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let uuid = of_mediated(CARD, "nvidia-222", 0);
    tree.card(CARD, &[("nvidia-222", None, 0)]);
    tree.made(CARD, "nvidia-222", &uuid, 7);
    let look = |left: &BTreeSet<String>| make(&tree.sysfs(), folder.path(), &[], &|| left.clone()).unwrap();
    let removed = || tree.written(CARD, &format!("{uuid}/remove"));
    let first = look(&BTreeSet::new());
    assert_eq!((first.leaving.iter().collect::<Vec<_>>(), removed().as_str()), (vec![&uuid], ""));
    let kept = folder.path().join("kubelet_internal_checkpoint");
    std::fs::write(&kept, super::super::assignments::tests::with_mediated(&uuid)).unwrap();
    let second = look(&first.leaving);
    assert_eq!((second.leaving.len(), removed().as_str()), (1, ""), "a pod has it");
    std::fs::write(&kept, super::super::assignments::tests::NOBODY).unwrap();
    let third = look(&second.leaving);
    assert_eq!(removed(), "1");
    let [Ok(note)] = &Vec::from_iter(&third.notes)[..] else { panic!("{third:?}") };
    assert!(note.contains("removed the mediated device"), "{third:?}");
    // The device stays if the assignments of pods are unknown.
    std::fs::write(&kept, "no JSON").unwrap();
    std::fs::remove_file(tree.sysfs().join(format!("bus/mdev/devices/{uuid}/remove"))).unwrap();
    std::fs::write(tree.sysfs().join(format!("bus/mdev/devices/{uuid}/remove")), "").unwrap();
    let fourth = look(&third.leaving);
    assert_eq!((fourth.leaving.len(), removed().as_str()), (1, ""));
}

/// The thread that removes devices may take longer than its caller waits, which offers the others again
/// meanwhile.
#[test]
fn a_device_that_is_offered_again_is_not_removed_by_a_look_of_before() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    tree.card(CARD, &[("nvidia-222", None, 0)]);
    let uuids: BTreeSet<String> = (0..2).map(|n| of_mediated(CARD, "nvidia-222", n)).collect();
    for (uuid, group) in uuids.iter().zip([7, 8]) {
        tree.made(CARD, "nvidia-222", uuid, group);
    }
    std::fs::write(
        folder.path().join("kubelet_internal_checkpoint"),
        super::super::assignments::tests::NOBODY,
    )
    .unwrap();
    // The list is read when the look begins, and again for each device.
    let asked = std::cell::Cell::new(0);
    let left = || match asked.replace(asked.get() + 1) {
        0 | 1 => uuids.clone(),
        _ => BTreeSet::new(),
    };
    make(&tree.sysfs(), folder.path(), &[], &left).unwrap();
    let removed: Vec<String> =
        uuids.iter().map(|uuid| tree.written(CARD, &format!("{uuid}/remove"))).collect();
    assert_eq!(removed, ["1", ""]);
}

#[test]
fn a_type_that_says_no_number_keeps_its_devices() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let uuid = of_mediated(CARD, "nvidia-222", 0);
    tree.card(CARD, &[("nvidia-222", None, 0)]);
    tree.made(CARD, "nvidia-222", &uuid, 7);
    let types = tree.sysfs().join("class/mdev_bus").join(CARD).join("mdev_supported_types");
    std::fs::remove_file(types.join("nvidia-222/available_instances")).unwrap();
    let made = make(&tree.sysfs(), folder.path(), &["nvidia-222"], &BTreeSet::new).unwrap();
    assert_eq!(made, MediatedChanges::default());
}

#[test]
fn what_is_not_understood_of_what_pods_have_keeps_a_device() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let uuid = of_mediated(CARD, "nvidia-222", 0);
    tree.card(CARD, &[("nvidia-222", None, 0)]);
    tree.made(CARD, "nvidia-222", &uuid, 7);
    // Another card has room for a wanted type.
    tree.card(OTHER, &[("nvidia-223", None, 1)]);
    let left = || BTreeSet::from([uuid.clone()]);
    let of = |entries: &str| format!(r#"{{"Data": {{"PodDeviceEntries": {entries}}}}}"#);
    let entries = ["{}", "[{}]", "[7]", r#"[{"AllocResp": "%"}]"#, r#"[{"AllocResp": "/w=="}]"#].map(of);
    let texts = [None, Some("{}".to_owned())].into_iter().chain(entries.map(Some));
    for text in texts {
        if let Some(text) = &text {
            std::fs::write(folder.path().join("kubelet_internal_checkpoint"), text).unwrap();
        }
        let made = make(&tree.sysfs(), folder.path(), &["nvidia-223"], &left).unwrap();
        assert_eq!(tree.written(CARD, &format!("{uuid}/remove")), "", "{text:?}");
        assert_eq!(made.leaving, left(), "{text:?}");
        let why: Vec<_> = made.notes.iter().filter_map(|note| note.as_ref().err()).collect();
        assert!(
            matches!(why[..], [why] if why.contains("kubelet_internal_checkpoint")),
            "{text:?}: {made:?}"
        );
        assert!(
            made.notes.iter().any(|note| note.as_ref().is_ok_and(|note| note.contains(OTHER))),
            "{made:?}"
        );
    }
}

#[test]
fn a_node_without_such_cards_has_nothing_to_do() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    assert_eq!(
        make(&tree.sysfs(), folder.path(), &["t"], &BTreeSet::new).unwrap(),
        MediatedChanges::default()
    );
}
