//! Routing by method and path. Pure.

use hyper::Method;

/// The route of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// One of the pages that all workers have.
    Page,
    /// A test for an upload server that answers early.
    Probe,
    Upload(Kind),
    Archive,
    /// A request of the tus protocol, with the ID of the upload if the path has one.
    Tus(Option<&'a str>),
    Nowhere,
}

/// The kind of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// True if the bytes are a part of a form.
    pub(super) is_form: bool,
    /// True if it is answered when all bytes came and were valid.
    pub(super) is_async: bool,
}

/// The path of tus uploads.
pub(super) const TUS: &str = "/v1beta1/upload-tus";

pub(super) fn route<'a>(method: &Method, path: &'a str) -> Route<'a> {
    if matches!(path, "/v1/report" | "/metrics" | "/healthz") {
        return Route::Page;
    }
    if let Some(rest) = path.strip_prefix(TUS) {
        return match rest.strip_prefix('/') {
            Some(id) => Route::Tus(Some(id)),
            None if rest.is_empty() => Route::Tus(None),
            None => Route::Nowhere,
        };
    }
    let rest = path.strip_prefix("/v1beta1/").or_else(|| path.strip_prefix("/v1alpha1/"));
    let kind = |is_form, is_async| Route::Upload(Kind { is_form, is_async });
    let route = match rest {
        Some("upload") => kind(false, false),
        Some("upload-async") => kind(false, true),
        Some("upload-form") => kind(true, false),
        Some("upload-form-async") => kind(true, true),
        Some("upload-archive") => Route::Archive,
        _ => return Route::Nowhere,
    };
    match (method, route) {
        (&Method::POST, route) => route,
        (&Method::HEAD, Route::Upload(Kind { is_async: true, .. })) => Route::Probe,
        _ => Route::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_of_both_versions_takes_posts_and_the_early_ones_answer_a_probe() {
        for version in ["v1beta1", "v1alpha1"] {
            for (name, is_form, is_async) in [
                ("upload", false, false),
                ("upload-async", false, true),
                ("upload-form", true, false),
                ("upload-form-async", true, true),
            ] {
                let path = format!("/{version}/{name}");
                assert_eq!(route(&Method::POST, &path), Route::Upload(Kind { is_form, is_async }));
                let probed = if is_async { Route::Probe } else { Route::Nowhere };
                assert_eq!(route(&Method::HEAD, &path), probed, "{path}");
                for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
                    assert_eq!(route(&method, &path), Route::Nowhere, "{method} {path}");
                }
            }
            let archive = format!("/{version}/upload-archive");
            assert_eq!(route(&Method::POST, &archive), Route::Archive);
            assert_eq!(route(&Method::HEAD, &archive), Route::Nowhere);
        }
    }

    #[test]
    fn pages_and_uploads_of_tus_have_their_paths_and_nothing_else_has() {
        for page in ["/healthz", "/v1/report", "/metrics"] {
            assert_eq!(route(&Method::GET, page), Route::Page);
        }
        assert_eq!(route(&Method::POST, TUS), Route::Tus(None));
        assert_eq!(route(&Method::PATCH, "/v1beta1/upload-tus/5.a"), Route::Tus(Some("5.a")));
        for path in
            ["/", "/v1beta1/upload-tusk", "/v1/upload", "/upload", "/v1alpha1/upload-tus", "/v1beta1/upload/"]
        {
            assert_eq!(route(&Method::POST, path), Route::Nowhere, "{path}");
        }
    }
}
