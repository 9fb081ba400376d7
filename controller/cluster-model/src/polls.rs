//! What a poll of the image of a DataImportCron comes to: a digest, or one of few reasons why there is none.
//!
//! The words of a server stand in neither: whoever may write a DataImportCron chooses the server, and would read through ours
//! what the server says. A poll pod asks from that namespace, and its words are kept, but no more of them than fit a condition.

use crate::worker;
use api::meta::ObjectMeta;
use jiff::{SignedDuration, Timestamp};

/// How the names of poll pods begin.
pub const POLLER: &str = "poller-";
/// The value of the label `cdi.kubevirt.io` of a poll pod.
pub const WORK: &str = "poller";
/// The container of a poll pod.
pub const CONTAINER: &str = "poller";

/// A worker pod polls the image of a DataImportCron, by its labels.
pub fn is_poller(pod: &ObjectMeta) -> bool {
    let has = |(label, value): (&str, &str)| pod.labels.get(label).is_some_and(|said| said == value);
    has(worker::WORKER) && has((worker::WORK.0, WORK))
}

/// What came of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// When it ended.
    pub at: Timestamp,
    /// The digest of the image.
    pub answer: Result<String, NoAnswer>,
    /// Polls in a row that had no answer, this one included.
    pub failures: u32,
    /// The pause that the server asked for.
    pub pause: Option<SignedDuration>,
}

/// Why a poll has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The address is none that is asked for tenants.
    Barred,
    /// No connection, or one that ended without an answer.
    Unreachable,
    /// No answer in time.
    Silent,
    /// The server's certificate is not believed.
    Tls,
    /// The server speaks plain HTTP, and is asked by TLS.
    Plain,
    /// 401, 403 and 407.
    Denied,
    /// 404 and 410.
    Missing,
    /// 429.
    Busy,
    /// 5xx and 408.
    Broken,
    /// Neither a strong ETag nor a date with a size; no digest.
    Nameless,
    /// The answer makes no sense: another status, a redirect that is not followed.
    Odd,
    /// A pod asked, and its own words say why.
    Pod,
}

impl NoAnswer {
    /// Why, and what to do about it, as the end of a sentence.
    pub const fn sentence(self) -> &'static str {
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

    /// Whether another try may do, without a change of the DataImportCron.
    pub const fn passes(self) -> bool {
        matches!(self, NoAnswer::Unreachable | NoAnswer::Silent | NoAnswer::Busy | NoAnswer::Broken)
    }
}
