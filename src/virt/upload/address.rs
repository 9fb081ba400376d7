//! Addresses and paths of the upload proxy. Pure, but for [`discover`].
//!
//! ```text
//!  --uploadproxy-url, else CDIConfig config: spec.uploadProxyURLOverride, else status.uploadProxyURL
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::virt::client::Cluster;
use cluster_model::objects::Kind;
use reqwest::Url;

const ASYNC: &str = "/v1beta1/upload-async";
const SYNC: &str = "/v1beta1/upload";
const TUS: &str = "/v1beta1/upload-tus";

/// The address in the CDIConfig of the cluster.
pub(crate) async fn discover(cluster: &Cluster) -> Result<String> {
    let config = cluster.find(&Kind::CDIConfig.object("", "config")).await;
    let config = config.map_err(|e| e.into_error("cannot find the upload proxy"))?.unwrap_or_default();
    let fields = [&config["spec"]["uploadProxyURLOverride"], &config["status"]["uploadProxyURL"]];
    let url = fields.into_iter().find_map(|field| field.as_str().filter(|url| !url.is_empty()));
    url.map(str::to_owned).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "uploadproxy URL not found").with_hint(
            "say --uploadproxy-url=https://HOST:PORT; \
             'kubectl port-forward -n NAMESPACE service/cdi-uploadproxy 8443:443' makes it https://localhost:8443",
        )
    })
}

/// The address with a scheme. Default: https.
pub(crate) fn with_scheme(text: &str) -> String {
    if text.contains("://") { text.to_owned() } else { format!("https://{text}") }
}

/// Parses and checks an address.
pub(super) fn parsed(text: &str) -> Result<Url> {
    let usage = |what: String| Error::new(ErrorKind::Usage, what).with_hint("use https://HOST:PORT");
    let shown = printable::line(text);
    let url = Url::parse(text).map_err(|e| usage(format!("{shown} is not an address")).because(e))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err(usage(format!("{shown} is not the address of an upload proxy"))),
    }
}

/// Endpoint that answers once all bytes are received.
pub(super) fn early(base: &Url) -> Url {
    with(base, ASYNC)
}

/// Endpoint that answers once the disk is complete.
pub(super) fn late(base: &Url) -> Url {
    with(base, SYNC)
}

/// Endpoint of resumable uploads; `None` if the user gave the full path of another endpoint.
pub(super) fn resumable(base: &Url) -> Option<Url> {
    (!base.as_str().contains("/v1beta1/upload")).then(|| with(base, TUS))
}

/// Address of a resumable upload. Whatever host and folder the answer names, requests go to the server that
/// created it, since no other server may get the token.
pub(super) fn of_upload(uploads: &Url, location: &str) -> Option<Url> {
    let path = location.split(['?', '#']).next().unwrap_or_default();
    let (_, id) = path.rsplit_once(&format!("{TUS}/"))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let fits = !id.is_empty() && id.len() <= 256 && id.bytes().all(is_plain) && id.trim_matches('.') == id;
    let mut url = uploads.clone();
    url.set_path(&format!("{}/{id}", uploads.path()));
    fits.then_some(url)
}

fn with(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    if !base.as_str().contains(path) {
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_behind_the_address_unless_it_has_them() {
        for (base, wanted) in [
            ("https://h:1", "https://h:1/v1beta1/upload-async"),
            ("https://h/x/", "https://h/x/v1beta1/upload-async"),
            ("https://h/v1beta1/upload-async", "https://h/v1beta1/upload-async"),
            ("https://h/v1beta1/upload", "https://h/v1beta1/upload/v1beta1/upload-async"),
        ] {
            assert_eq!(early(&parsed(base).unwrap()).as_str(), wanted);
        }
        for (base, wanted) in [
            ("https://h", "https://h/v1beta1/upload"),
            ("https://h/v1beta1/upload", "https://h/v1beta1/upload"),
            ("https://h/v1beta1/upload-async", "https://h/v1beta1/upload-async"),
        ] {
            assert_eq!(late(&parsed(base).unwrap()).as_str(), wanted);
        }
        assert_eq!(resumable(&parsed("http://h").unwrap()).unwrap().as_str(), "http://h/v1beta1/upload-tus");
        assert_eq!(resumable(&parsed("http://h/v1beta1/upload").unwrap()), None);
        assert_eq!(
            (with_scheme("h.example"), with_scheme("http://h")),
            ("https://h.example".into(), "http://h".into())
        );
        for wrong in ["", "https://", "ftp://h", "data:x"] {
            assert_eq!(parsed(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
        }
    }

    #[test]
    fn an_upload_is_gone_on_with_at_the_server_that_made_it() {
        let uploads = resumable(&parsed("https://h/x").unwrap()).unwrap();
        let wanted = "https://h/x/v1beta1/upload-tus/5.0123";
        for location in
            ["/v1beta1/upload-tus/5.0123", "https://evil.example/v1beta1/upload-tus/5.0123?a=b", wanted]
        {
            assert_eq!(of_upload(&uploads, location).unwrap().as_str(), wanted, "{location}");
        }
        for wrong in
            ["", "/v1beta1/upload-tus/", "/v1beta1/upload-tus/..", "/v1beta1/upload-tus/a%2fb", "/x/5"]
        {
            assert_eq!(of_upload(&uploads, wrong), None, "{wrong}");
        }
    }
}
