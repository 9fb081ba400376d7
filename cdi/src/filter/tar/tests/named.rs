//! The disk that is named by its path, in an archive with several.

use super::*;

fn read_named(parts: &[Vec<u8>], path: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len() + END, 0);
    let mut out = Vec::new();
    match Tar::member(Box::new(io::Cursor::new(bytes)), path).read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(e) => Err(Error::io("reading", e)),
    }
}

fn two() -> Vec<Vec<u8>> {
    let mut second = disk();
    second[0] ^= 1;
    vec![
        ustar("vm/", b'5', 0),
        file("vm/a.raw", &disk()),
        file("./vm/b.raw", &second),
        file("vm/notes.txt", b"short"),
        ustar("vm/link", b'2', 0),
    ]
}

#[test]
fn a_disk_is_chosen_by_its_path() {
    let mut second = disk();
    second[0] ^= 1;
    for path in ["vm/a.raw", "./vm/a.raw", "/vm/a.raw"] {
        assert_eq!(read_named(&two(), path).unwrap(), disk(), "{path}");
    }
    assert_eq!(read_named(&two(), "vm/b.raw").unwrap(), second);
    assert_eq!(read_named(&two(), "vm/notes.txt").unwrap(), b"short", "what is named is taken as it is");
    refused_with(read(&two()), r#""vm/a.raw", "vm/b.raw"; choose one by --path"#);
}

#[test]
fn a_path_that_names_no_file_is_refused_with_what_there_is() {
    let said = r#"there is no file "b.raw" in the archive; it has "vm/a.raw", "vm/b.raw""#;
    refused_with(read_named(&two(), "b.raw"), said);
    refused_with(read_named(&two()[3..], "b.raw"), "it has no file that could be a disk");
    refused_with(read_named(&two(), "vm/link"), "is a symbolic link, which cannot be a disk");
    let odd = read_named(&two(), "a\u{1b}[2J").unwrap_err().to_string();
    assert!(!odd.contains('\u{1b}'), "{odd:?}");
}

#[test]
fn a_named_disk_needs_a_whole_archive_in_which_it_stands_once() {
    let twice = [file("a.raw", &disk()), file("b.raw", &disk()), file("./a.raw", &disk())];
    refused_with(read_named(&twice, "a.raw"), r#"the archive has "a.raw" twice"#);
    assert_eq!(read_named(&twice, "b.raw").unwrap(), disk());
    let cut = two().concat();
    let mut out = Vec::new();
    let e = Tar::member(Box::new(io::Cursor::new(cut)), "vm/a.raw").read_to_end(&mut out).unwrap_err();
    assert!(e.to_string().contains("truncated"), "{e}");
}
