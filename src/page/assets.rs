//! Files of the page, compiled into the program: our own, and the libraries that `assets/vendor.sh` has
//! fetched.

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    /// Path in its URL.
    pub(super) path: &'static str,
    pub(super) bytes: &'static [u8],
}

macro_rules! assets {
    ($($path:literal),+ $(,)?) => {
        &[$(Asset { path: concat!("/", $path), bytes: include_bytes!(concat!("assets/", $path)) }),+]
    };
}

/// HTML of the page, with placeholders for nonce, session and beginning.
pub(super) const INDEX: &str = include_str!("assets/index.html");

/// All other files of the page.
const ASSETS: &[Asset] = assets![
    "icon.svg",
    "page.css",
    "api.js",
    "console.js",
    "details.js",
    "dom.js",
    "form.js",
    "handles.js",
    "list.js",
    "live.js",
    "main.js",
    "nonce.js",
    "panels.js",
    "power.js",
    "screen.js",
    "session.js",
    "uploads.js",
    "vendor/addon-fit/lib/addon-fit.mjs",
    "vendor/novnc/core/base64.js",
    "vendor/novnc/core/crypto/aes.js",
    "vendor/novnc/core/crypto/bigint.js",
    "vendor/novnc/core/crypto/crypto.js",
    "vendor/novnc/core/crypto/des.js",
    "vendor/novnc/core/crypto/dh.js",
    "vendor/novnc/core/crypto/md5.js",
    "vendor/novnc/core/crypto/rsa.js",
    "vendor/novnc/core/decoders/copyrect.js",
    "vendor/novnc/core/decoders/h264.js",
    "vendor/novnc/core/decoders/hextile.js",
    "vendor/novnc/core/decoders/jpeg.js",
    "vendor/novnc/core/decoders/raw.js",
    "vendor/novnc/core/decoders/rre.js",
    "vendor/novnc/core/decoders/tight.js",
    "vendor/novnc/core/decoders/tightpng.js",
    "vendor/novnc/core/decoders/zlib.js",
    "vendor/novnc/core/decoders/zrle.js",
    "vendor/novnc/core/deflator.js",
    "vendor/novnc/core/display.js",
    "vendor/novnc/core/encodings.js",
    "vendor/novnc/core/inflator.js",
    "vendor/novnc/core/input/domkeytable.js",
    "vendor/novnc/core/input/fixedkeys.js",
    "vendor/novnc/core/input/gesturehandler.js",
    "vendor/novnc/core/input/keyboard.js",
    "vendor/novnc/core/input/keysym.js",
    "vendor/novnc/core/input/keysymdef.js",
    "vendor/novnc/core/input/util.js",
    "vendor/novnc/core/input/vkeys.js",
    "vendor/novnc/core/input/xtscancodes.js",
    "vendor/novnc/core/ra2.js",
    "vendor/novnc/core/rfb.js",
    "vendor/novnc/core/util/browser.js",
    "vendor/novnc/core/util/cursor.js",
    "vendor/novnc/core/util/element.js",
    "vendor/novnc/core/util/events.js",
    "vendor/novnc/core/util/eventtarget.js",
    "vendor/novnc/core/util/int.js",
    "vendor/novnc/core/util/logging.js",
    "vendor/novnc/core/util/strings.js",
    "vendor/novnc/core/websock.js",
    "vendor/novnc/vendor/pako/lib/utils/common.js",
    "vendor/novnc/vendor/pako/lib/zlib/adler32.js",
    "vendor/novnc/vendor/pako/lib/zlib/crc32.js",
    "vendor/novnc/vendor/pako/lib/zlib/deflate.js",
    "vendor/novnc/vendor/pako/lib/zlib/inffast.js",
    "vendor/novnc/vendor/pako/lib/zlib/inflate.js",
    "vendor/novnc/vendor/pako/lib/zlib/inftrees.js",
    "vendor/novnc/vendor/pako/lib/zlib/messages.js",
    "vendor/novnc/vendor/pako/lib/zlib/trees.js",
    "vendor/novnc/vendor/pako/lib/zlib/zstream.js",
    "vendor/xterm/css/xterm.css",
    "vendor/xterm/lib/xterm.mjs",
    // The licences come with the libraries.
    "vendor/addon-fit/LICENSE",
    "vendor/novnc/AUTHORS",
    "vendor/novnc/LICENSE.txt",
    "vendor/novnc/docs/LICENSE.MPL-2.0",
    "vendor/novnc/vendor/pako/LICENSE",
    "vendor/xterm/LICENSE",
    "vendor/manifest.json",
];

impl Asset {
    /// The file at this path.
    pub(super) fn at(path: &str) -> Option<&'static Asset> {
        ASSETS.iter().find(|asset| asset.path == path)
    }

    /// Content type by the file's suffix.
    pub(super) fn media_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("js" | "mjs") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "text/plain; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page/assets")
    }

    /// The files below a folder, as the page would ask for them.
    fn below(within: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(within).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => below(&path, found),
                false => {
                    let short = path.strip_prefix(folder()).unwrap().display().to_string();
                    found.insert(format!("/{short}"));
                }
            }
        }
    }

    #[test]
    fn libraries_are_those_of_the_manifest() {
        let manifest: Vec<Value> =
            serde_json::from_slice(Asset::at("/vendor/manifest.json").unwrap().bytes).unwrap();
        let mut known = BTreeMap::new();
        for package in &manifest {
            assert!(package["integrity"].as_str().unwrap().starts_with("sha512-"), "{package}");
            assert!(["MIT", "MPL-2.0"].contains(&package["license"].as_str().unwrap()), "{package}");
            for (path, hash) in package["files"].as_object().unwrap() {
                known.insert(format!("/vendor/{path}"), format!("sha256:{}", hash.as_str().unwrap()));
            }
        }
        assert_eq!(manifest.len(), 3);
        let ours = ASSETS.iter().filter(|asset| asset.path.starts_with("/vendor/"));
        let hashes: BTreeMap<String, String> = ours
            .filter(|asset| asset.path != "/vendor/manifest.json")
            .map(|asset| (asset.path.to_owned(), ::tests::layout::digest(asset.bytes)))
            .collect();
        assert_eq!(hashes, known, "src/page/assets/vendor.sh brings what the manifest names");
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let mut there = BTreeSet::new();
        below(&folder(), &mut there);
        for kept in ["/index.html", "/vendor.sh"] {
            assert!(there.remove(kept), "{kept}");
        }
        assert_eq!(ASSETS.iter().map(|asset| asset.path.to_owned()).collect::<BTreeSet<_>>(), there);
    }

    /// Every import of a module and every file in the page exists; none is on another host.
    #[test]
    fn the_page_names_only_files_that_are_there() {
        let quoted = |text: &str, before: &str| -> Vec<String> {
            let mut found = Vec::new();
            for rest in text.split(before).skip(1) {
                found.extend(rest.split(['"', '\'']).nth(1).map(str::to_owned));
            }
            found
        };
        let mut seen = 0;
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with("js") && !asset.path.contains(".mjs"))
        {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let code: String = text
                .lines()
                .filter(|line| !line.trim_start().starts_with(['*', '/']))
                .collect::<Vec<_>>()
                .join("\n");
            let base = Path::new(asset.path).parent().unwrap();
            let named = code.lines().filter(|line| line.starts_with("import ") || line.starts_with("} from"));
            let mut imports: Vec<String> =
                named.flat_map(|line| line.split(['"', '\'']).nth(1)).map(str::to_owned).collect();
            imports.extend(quoted(&code, "import("));
            for import in imports {
                seen += 1;
                let mut path = if import.starts_with('/') { PathBuf::from("/") } else { base.to_owned() };
                for part in import.trim_start_matches('/').split('/') {
                    match part {
                        "." => {}
                        ".." => drop(path.pop()),
                        _ => path.push(part),
                    }
                }
                let path = path.display().to_string();
                assert!(Asset::at(&path).is_some(), "{} imports {import}: {path}", asset.path);
            }
        }
        assert!(seen > 80, "only {seen} imports are seen");
        for name in [quoted(INDEX, "src="), quoted(INDEX, "href=")].concat() {
            assert!(name.starts_with('#') || Asset::at(&name).is_some(), "index.html names {name}");
        }
        assert!(!INDEX.contains("://") && !INDEX.contains("style=") && !INDEX.contains("onclick"));
        for word in ["NONCE", "SESSION", "BEGINNING"] {
            assert_eq!(INDEX.matches(word).count(), 1, "{word}");
        }
    }
}
