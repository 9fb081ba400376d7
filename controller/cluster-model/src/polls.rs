//! Result of polling the image of a DataImportCron: a digest, or one of a few reasons for its absence.
//!
//! Texts of a server are in neither: the author of a DataImportCron chooses the server, and could otherwise
//! read through our program what the server answers. A poll pod runs in the author's namespace: its message
//! is kept, shortened for a condition.

use crate::worker;
use api::meta::ObjectMeta;
use jiff::{SignedDuration, Timestamp};

/// Name prefix of poll pods.
pub const POLLER: &str = "poller-";
/// The value of the label `cdi.kubevirt.io` of a poll pod.
pub const WORK: &str = "poller";
/// The container of a poll pod.
pub const CONTAINER: &str = "poller";

/// True for a worker pod that polls the image of a DataImportCron, by its labels.
pub fn is_poller(pod: &ObjectMeta) -> bool {
    let has = |(label, value): (&str, &str)| pod.labels.get(label).is_some_and(|said| said == value);
    has(worker::WORKER) && has((worker::WORK.0, WORK))
}

/// Result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollRecord {
    /// End of the poll.
    pub at: Timestamp,
    /// The digest of the image, or the reason for its absence.
    pub answer: Result<String, NoAnswer>,
    /// Number of failed polls in a row, this one included.
    pub failures: u32,
    /// Pause requested by the server.
    pub pause: Option<SignedDuration>,
}

/// Reason why a poll has no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The address is one that is not contacted on behalf of tenants.
    Barred,
    /// No connection, or the connection ended without an answer.
    Unreachable,
    /// The server gave no answer in time.
    Silent,
    /// The server's certificate is not trusted.
    Tls,
    /// The server speaks plain HTTP, and was contacted with TLS.
    Plain,
    /// 401, 403 and 407.
    Denied,
    /// HTTP status 404 or 410.
    Missing,
    /// HTTP status 429: the client has sent too many requests.
    Busy,
    /// HTTP status 408 or 5xx.
    Broken,
    /// The response has no digest: neither a strong ETag nor a date with a size.
    Nameless,
    /// Unexpected response: another status, or a redirect that is not followed.
    Odd,
    /// A poll pod failed. Its own message has the reason.
    Pod,
}

impl NoAnswer {
    /// Reason and remedy, as the end of a sentence.
    pub const fn description(self) -> &'static str {
        match self {
            NoAnswer::Barred => {
                "its address, or one that it leads to, is of the node, of its link or of a metadata service, and is not asked"
            }
            NoAnswer::Unreachable => "the server cannot be reached: check its name and port",
            NoAnswer::Silent => "the server gave no answer in time",
            NoAnswer::Tls => {
                "the server's certificate is not trusted: a poll believes the usual CAs alone, so name the server's own in certConfigMap"
            }
            NoAnswer::Plain => {
                "the server speaks plain HTTP, and was asked by TLS: list a registry, as HOST:PORT, in insecureRegistries of the \
                 CDIConfig (of the CDI object: spec.config.insecureRegistries); of a file write the url with http://"
            }
            NoAnswer::Denied => "the server wants a login: name a Secret with one in secretRef",
            NoAnswer::Missing => "the server does not have it: check the url",
            NoAnswer::Busy => "the server asks for fewer requests",
            NoAnswer::Broken => "the server failed",
            NoAnswer::Nameless => {
                "the server does not name the version: it must send a strong ETag, or Last-Modified and Content-Length, or as a \
                 registry Docker-Content-Digest"
            }
            NoAnswer::Pod => "the poll pod has no answer",
            NoAnswer::Odd => "the server gave an answer that makes no sense for a poll",
        }
    }

    /// True if another attempt may succeed without a change of the DataImportCron.
    pub const fn is_transient(self) -> bool {
        matches!(self, NoAnswer::Unreachable | NoAnswer::Silent | NoAnswer::Busy | NoAnswer::Broken)
    }
}
