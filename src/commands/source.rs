//! Arguments about a source, shared by all verbs that read a disk.

use super::registry_args::RegistryArgs;
use crate::error::{Error, ErrorKind, Result};
use api::wire::known_values;
use cdi::source::options::{LeastRate, least_rate};
use cdi::source::{Options, image, options};
use std::path::PathBuf;
use std::time::Duration;

/// Default of `--idle-timeout` in seconds.
const IDLE: u64 = 60;
const RETRIES: u32 = 5;
const CONNECTIONS: u16 = 8;

/// Arguments about access to a source.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Source")]
pub(crate) struct SourceArgs {
    /// Send this header with every HTTP request: 'Name: value'
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,

    /// Send the headers in this file, one 'Name: value' a line
    #[arg(long, value_name = "FILE")]
    header_file: Vec<PathBuf>,

    /// User name for HTTP basic authentication; the password is read from
    /// --password-file or CORACLE_HTTP_PASSWORD
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    /// File with the password for --user
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,

    /// File with a bearer token (or the variable CORACLE_HTTP_BEARER)
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    bearer_file: Option<PathBuf>,

    /// Trust the certificate authorities in this PEM file, too
    #[arg(long = "cacert", value_name = "FILE")]
    ca_files: Vec<PathBuf>,

    /// Do not check the server's certificate, and follow a redirect from
    /// https to http
    #[arg(long)]
    insecure: bool,

    /// Seconds without a received byte before giving up
    #[arg(long, value_name = "SECONDS", default_value_t = IDLE, value_parser = clap::value_parser!(u64).range(1..))]
    idle_timeout: u64,

    /// Bytes per second that a web server must send, measured over five
    /// minutes of waiting: below that the run fails [default: any rate]
    #[arg(long, value_name = "SIZE", value_parser = cdi::size::parse)]
    min_rate: Option<u64>,

    /// Number of consecutive retries without progress
    #[arg(long, value_name = "N", default_value_t = RETRIES)]
    retries: u32,

    /// Maximum number of concurrent requests per server
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS, value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,

    /// Architecture of the image to read from a multi-platform image, or to
    /// build: amd64, arm64 [default: that of this computer]
    #[arg(long, value_name = "ARCH", value_parser = arch)]
    arch: Option<String>,

    /// Path of the disk in an image, or in a tar around it [default: the only
    /// file in /disk, or the only disk in the tar]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    #[command(flatten)]
    places: RegistryArgs,
}

/// Architectures of images, by the names that Go has for them.
const ARCHES: [&str; 9] =
    ["386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"];

/// An architecture, or ARCH/VARIANT.
fn arch(text: &str) -> Result<String, String> {
    let name = text.split_once('/').map_or(text, |(name, _)| name);
    match ARCHES.contains(&name) {
        true => Ok(text.to_owned()),
        false => Err(known_values(api::architecture::go_name(name), &ARCHES)),
    }
}

impl SourceArgs {
    /// The options, with secrets read from files and environment variables.
    pub(crate) fn options(&self) -> Result<Options> {
        let mut headers = Vec::new();
        for line in &self.headers {
            headers.push(header(line)?);
        }
        for path in &self.header_file {
            let text = read(path)?;
            for line in text.lines().filter(|l| !l.trim().is_empty()) {
                headers.push(header(line)?);
            }
        }
        let bearer = match &self.bearer_file {
            Some(path) => Some(read(path)?.trim().to_owned()),
            None if self.user.is_none() => std::env::var("CORACLE_HTTP_BEARER").ok(),
            None => None,
        };
        Ok(Options {
            headers,
            user: self.user.clone(),
            password: self.user.as_ref().map(|_| self.password()).transpose()?,
            bearer,
            ca_files: self.ca_files.clone(),
            insecure_tls: self.insecure,
            idle_timeout: Duration::from_secs(self.idle_timeout),
            least_rate: self.least_rate(),
            retries: self.retries,
            max_connections: self.connections(),
            places: self.places.open(),
            image: self.image(),
            ..Options::default()
        })
    }

    /// Names of given flags, without the architecture. A flag with its default value does not count.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("--header", !self.headers.is_empty()),
            ("--header-file", !self.header_file.is_empty()),
            ("--user", self.user.is_some()),
            ("--bearer-file", self.bearer_file.is_some()),
            ("--cacert", !self.ca_files.is_empty()),
            ("--insecure", self.insecure),
            ("--idle-timeout", self.idle_timeout != IDLE),
            ("--min-rate", self.min_rate.is_some()),
            ("--retries", self.retries != RETRIES),
            ("--connections", self.connections != CONNECTIONS),
            ("--path", self.path.is_some()),
        ];
        let flags = flags.into_iter().filter_map(|(flag, is_given)| is_given.then_some(flag));
        flags.chain(self.places.given()).collect()
    }

    /// Architecture of the flag, if given.
    pub(crate) fn arch(&self) -> Option<String> {
        self.arch.clone()
    }

    /// Choice of an image in a multi-platform image, and of a file in it.
    pub(crate) fn image(&self) -> image::Options {
        let default = image::Options::default();
        image::Options { arch: self.arch.clone().unwrap_or(default.arch), path: self.path.clone(), ..default }
    }

    pub(crate) fn least_rate(&self) -> Option<LeastRate> {
        self.min_rate.map(|bytes| LeastRate { bytes, over: least_rate::OVER })
    }

    pub(crate) fn connections(&self) -> usize {
        usize::from(self.connections)
    }

    fn password(&self) -> Result<String> {
        match &self.password_file {
            Some(path) => Ok(read(path)?.trim_end_matches(['\r', '\n']).to_owned()),
            None => std::env::var("CORACLE_HTTP_PASSWORD").map_err(|_| {
                let what = "--user needs a password: give --password-file or set CORACLE_HTTP_PASSWORD";
                Error::new(ErrorKind::Usage, what)
            }),
        }
    }
}

fn header(line: &str) -> Result<(String, String)> {
    // The value may be a secret, so the message does not quote the header.
    options::header(line).ok_or_else(|| {
        Error::new(ErrorKind::Usage, "a header is written 'Name: value'; one given has no colon")
    })
}

fn read(path: &PathBuf) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_architecture_is_refused_with_the_known_ones() {
        for known in ["amd64", "arm64", "arm/v7", "riscv64"] {
            assert_eq!(arch(known).as_deref(), Ok(known));
        }
        for (text, meant) in
            [("amd46", "amd64"), ("x86_64", "amd64"), ("aarch64", "arm64"), ("arm46/v8", "arm64")]
        {
            let said = arch(text).unwrap_err();
            assert!(said.starts_with(&format!("did you mean {meant}? The known values are 386, ")), "{said}");
        }
    }
}
