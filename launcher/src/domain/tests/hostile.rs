//! Texts of the user stay texts, whatever characters they have.

use super::fixture::{Fixture, disk, nic, user};
use crate::domain::error::DomainError;
use crate::domain::host::{DiskLocation, Layer, Layers};
use crate::domain::render;
use api::launcher::Format;
use api::machine::network::Dhcp;
use api::machine::{Bus, Disk, Nic};
use proptest::prelude::*;

/// A VM with `text` in every field that takes a text.
fn everywhere(text: &str) -> Fixture {
    let place = DiskLocation::Layers(Layers {
        top: Layer::file(format!("/vm/{text}"), Format::Qcow2),
        below: vec![Layer::file(format!("/vm/{text}/base"), Format::Raw)],
        direct: false,
        preallocated: false,
        blocks: None,
    });
    Fixture::bare()
        .screen()
        .disk(Disk { serial: Some(text.into()), ..disk(text, Bus::Virtio) }, place)
        .nic(nic(text, Nic::Virtio), user(1))
        .kernel()
        .with(|machine| {
            machine.name = text.into();
            machine.uid = Some(text.into());
            machine.hostname = text.into();
            machine.firmware.serial = Some(text.into());
            machine.chassis.asset = Some(text.into());
            machine.interfaces[0].dhcp = Some(Dhcp { boot_file: Some(text.into()), ..Dhcp::default() });
        })
        .on(|host| {
            host.vnc = format!("/vm/{text}").into();
            host.kernel.as_mut().unwrap().args = Some(text.into());
        })
}

/// The XML without its texts: without quoted values and without text in elements.
fn skeleton(xml: &str) -> String {
    let mut out = String::new();
    let (mut quoted, mut in_tag) = (false, false);
    for c in xml.chars() {
        match c {
            '\'' if in_tag => quoted = !quoted,
            _ if quoted => {}
            '<' => in_tag = true,
            '>' => in_tag = false,
            _ if in_tag => out.push(c),
            _ => {}
        }
    }
    out
}

fn check(text: &str) -> Result<(), TestCaseError> {
    let fixture = everywhere(text);
    match render(&fixture.machine, &fixture.host) {
        Ok(xml) => {
            prop_assert_eq!(skeleton(&xml), skeleton(&everywhere("a").render()));
            // A comma in a value is doubled, so QEMU's options are those of a harmless one.
            let options = |xml: &str| {
                xml.replace(",,", "")
                    .lines()
                    .find(|line| line.contains("user,id="))
                    .map(|line| line.matches(',').count())
            };
            prop_assert_eq!(options(&xml), options(&everywhere("a").render()));
        }
        Err(error) => prop_assert!(matches!(error, DomainError::Character { .. }), "{}", error),
    }
    Ok(())
}

#[test]
fn hostile_texts_add_no_elements_or_options() {
    for text in [
        "a'/><disk type='file' x=\"&<>",
        "]]>",
        "<!--",
        "&amp;",
        "a,hostfwd=tcp::1-:1",
        ",",
        ",,,",
        "é\u{2028}",
        "a\nb",
        "\0",
    ] {
        check(text).unwrap();
    }
}

proptest! {
    #[test]
    fn random_texts_add_no_elements_or_options(text in "[a-c'\"<>&,=/ \\PC\\n\\x00-\\x1f]{0,12}") {
        check(&text)?;
    }
}
