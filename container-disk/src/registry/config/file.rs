//! `registries.toml`, Coracle's own format. All keys and defaults are in `docs/registries.md`.
//!
//! ```text
//!  [host."NAME"]            settings for docker://NAME/…: transfer terms, access, upload method    HostTable
//!  [[host."NAME".mirror]]   a mirror: address, priority, rewriting, access                       MirrorTable
//! ```

use super::units::{Size, Time};
use super::{Access, Host, MirrorRule, MirrorUse, Rewrite, Scheme, Source, Terms, UploadMethod, paths};
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Size of a chunk if neither the file nor the registry sets one.
pub(crate) const CHUNK: u64 = 8 << 20;

/// Maximum size of a chunk. Each chunk is held in memory until it is uploaded.
pub(crate) const LARGEST_CHUNK: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    host: BTreeMap<String, HostTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct HostTable {
    #[serde(default)]
    mirror: Vec<MirrorTable>,
    fallback: Option<bool>,
    min_rate: Option<Size>,
    patience: Option<Time>,
    idle: Option<Time>,
    upload: Option<Upload>,
    ca: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    plain_http: bool,
    credentials: Option<Credentials>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MirrorTable {
    host: String,
    #[serde(default)]
    priority: i64,
    rewrite: Option<RewriteTable>,
    #[serde(default, rename = "for")]
    asks: MirrorUseName,
    ca: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    plain_http: bool,
    credentials: Option<Credentials>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RewriteTable {
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum MirrorUseName {
    #[default]
    All,
    Digests,
    Tags,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Credentials {
    Usual,
    None,
    File(PathBuf),
    Helper(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected \"stream\", \"chunks\", { chunks = SIZE } or \"whole\"")]
enum Upload {
    Word(UploadWord),
    Chunks { chunks: Size },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UploadWord {
    Stream,
    Chunks,
    Whole,
}

/// Parses the text of the file at `path`.
pub(super) fn parse(path: &Path, text: &str) -> Result<BTreeMap<String, Host>> {
    let file: File = toml::from_str(text).map_err(|e| {
        let line = paths::line(text, e.span().map_or(0, |span| span.start));
        Error::usage(format!("{}, line {line}: {}", path.display(), e.message()))
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut hosts = BTreeMap::new();
    for (name, table) in file.host {
        let host = host(folder, table)
            .map_err(|why| Error::usage(format!("{}: the table of host {name:?}: {why}", path.display())))?;
        hosts.insert(name.to_ascii_lowercase(), host);
    }
    Ok(hosts)
}

fn host(folder: &Path, table: HostTable) -> Result<Host, String> {
    let usual = Terms::default();
    let terms = Terms {
        min_rate: table.min_rate.map_or(usual.min_rate, |size| size.0),
        patience: table.patience.map_or(usual.patience, |time| time.0),
        least_rate: usual.least_rate,
        idle: table.idle.map_or(usual.idle, |time| time.0),
        upload: table.upload.as_ref().map_or(Ok(usual.upload), upload_method)?,
    };
    let mut own = access(folder, table.ca, table.client_cert, table.client_key, table.credentials)?;
    (own.insecure, own.scheme) = (table.insecure, scheme(table.plain_http));
    let mirrors = table.mirror.into_iter().map(|mirror| self::mirror(folder, mirror));
    let mirrors = mirrors.collect::<Result<Vec<_>, _>>()?;
    let fallback = table.fallback.unwrap_or(true);
    if mirrors.is_empty() && !fallback {
        return Err("fallback is false and there is no mirror, so no registry is left for this host".into());
    }
    Ok(Host { mirrors, fallback, own, terms })
}

fn mirror(folder: &Path, table: MirrorTable) -> Result<MirrorRule, String> {
    let address = table.host.to_ascii_lowercase();
    if !crate::reference::is_host(&address) {
        return Err(format!("the mirror {address:?} is not a host name with an optional port"));
    }
    let mut access = access(folder, table.ca, table.client_cert, table.client_key, table.credentials)?;
    (access.insecure, access.scheme) = (table.insecure, scheme(table.plain_http));
    let rewrite = table.rewrite.map_or_else(Rewrite::default, |r| Rewrite { from: r.from, to: r.to });
    let asks = match table.asks {
        MirrorUseName::All => MirrorUse::All,
        MirrorUseName::Digests => MirrorUse::Digests,
        MirrorUseName::Tags => MirrorUse::Tags,
    };
    Ok(MirrorRule { address, priority: table.priority, rewrite, asks, access })
}

fn access(
    folder: &Path,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    credentials: Option<Credentials>,
) -> Result<Access, String> {
    let at = |path: PathBuf| folder.join(path);
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((at(cert), at(key))),
        (None, None) => None,
        _ => return Err("client-cert and client-key go together".into()),
    };
    let credentials = match credentials {
        None | Some(Credentials::Usual) => Source::Usual,
        Some(Credentials::None) => Source::Nothing,
        Some(Credentials::File(path)) => Source::File(at(path)),
        Some(Credentials::Helper(name)) => Source::Helper(name),
    };
    Ok(Access { ca: ca.map(at).into_iter().collect(), client, credentials, ..Access::default() })
}

fn scheme(plain: bool) -> Scheme {
    if plain { Scheme::Plain } else { Scheme::Usual }
}

fn upload_method(upload: &Upload) -> Result<UploadMethod, String> {
    let size = match upload {
        Upload::Word(UploadWord::Stream) => return Ok(UploadMethod::Stream),
        Upload::Word(UploadWord::Whole) => return Ok(UploadMethod::Whole),
        Upload::Word(UploadWord::Chunks) => CHUNK,
        Upload::Chunks { chunks } => chunks.0,
    };
    if size == 0 || size > LARGEST_CHUNK {
        return Err(format!("chunks have 1 byte to {} MiB", LARGEST_CHUNK >> 20));
    }
    Ok(UploadMethod::Chunks(size))
}
