//! Routes of upload requests, and the corresponding paths of the upload pod. Pure.

use http::Method;

/// Kind of a request, by method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// Upload of a complete body in one request.
    Upload {
        /// Version in the path: `v1beta1` or `v1alpha1`.
        version: &'static str,
        /// Path of the request, which is also the path at the pod of a disk.
        path: &'a str,
    },
    /// A request of a resumable upload (tus 1.0).
    Tus(&'a str),
    /// Unknown path or method.
    Nowhere,
}

const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];
const UPLOADS: [&str; 4] = ["upload", "upload-async", "upload-form", "upload-form-async"];
/// Path of resumable uploads.
const TUS: &str = "/v1beta1/upload-tus";
/// The longest id of a resumable upload.
const LONGEST: usize = 128;

impl<'a> Route<'a> {
    pub(crate) fn of(method: &Method, path: &'a str) -> Route<'a> {
        if let Some(rest) = path.strip_prefix(TUS) {
            let is_whole = rest.is_empty() || rest.strip_prefix('/').is_some_and(is_id);
            let is_asked = [&Method::POST, &Method::PATCH, &Method::HEAD, &Method::DELETE, &Method::OPTIONS];
            let is_served = is_whole && is_asked.contains(&method);
            return if is_served { Route::Tus(path) } else { Route::Nowhere };
        }
        let Some((version, name)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return Route::Nowhere;
        };
        let version = VERSIONS.into_iter().find(|one| *one == version);
        match (version, method) {
            (Some(version), &Method::POST | &Method::HEAD) if UPLOADS.contains(&name) => {
                Route::Upload { version, path }
            }
            _ => Route::Nowhere,
        }
    }

    /// Path at the upload pod of a PVC with this content type; `None` if the pod has no such path.
    pub(crate) fn at_pod(&self, content: Content) -> Option<String> {
        match (*self, content) {
            (Route::Upload { path, .. } | Route::Tus(path), Content::Disk) => Some(path.to_owned()),
            // A HEAD request that asks for an early answer gets the pod's own 404, so the client need not
            // know the content type.
            (Route::Upload { version, .. }, Content::Archive) => Some(format!("/{version}/upload-archive")),
            _ => None,
        }
    }
}

/// Content type of a PVC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Disk,
    Archive,
}

fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upload_has_its_path_in_both_versions() {
        for version in VERSIONS {
            for name in UPLOADS {
                let path = format!("/{version}/{name}");
                for method in [Method::POST, Method::HEAD] {
                    let route = Route::of(&method, &path);
                    assert_eq!(route.at_pod(Content::Disk).as_deref(), Some(path.as_str()));
                    assert_eq!(route.at_pod(Content::Archive), Some(format!("/{version}/upload-archive")));
                }
                for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
                    assert_eq!(Route::of(&method, &path), Route::Nowhere, "{method} {path}");
                }
            }
        }
        let id = "/v1beta1/upload-tus/1048576.0123456789abcdef";
        for method in [Method::POST, Method::PATCH, Method::HEAD, Method::DELETE, Method::OPTIONS] {
            assert_eq!(Route::of(&method, id).at_pod(Content::Disk).as_deref(), Some(id));
            assert_eq!(Route::of(&method, id).at_pod(Content::Archive), None);
        }
        assert_eq!(Route::of(&Method::POST, TUS), Route::Tus(TUS));
    }

    #[test]
    fn no_other_path_reaches_a_pod() {
        for path in [
            "/",
            "/v1beta1/upload-archive",
            "/v1beta1/upload/",
            "/v1beta1/upload/../upload-archive",
            "/v1beta1//upload",
            "//v1beta1/upload",
            "/v1/upload",
            "/upload",
            "/v1/report",
            "/v1alpha1/upload-tus",
            "/v1beta1/upload-tusk",
            "/v1beta1/upload-tus/",
            "/v1beta1/upload-tus/..",
            "/v1beta1/upload-tus/a/b",
            "/v1beta1/upload-tus/a%2fb",
            "/v1beta1/upload-tus/a?b",
        ] {
            assert_eq!(Route::of(&Method::POST, path), Route::Nowhere, "{path}");
        }
        assert_eq!(Route::of(&Method::GET, TUS), Route::Nowhere);
        let long = format!("{TUS}/{}", "a".repeat(LONGEST + 1));
        assert_eq!(Route::of(&Method::PATCH, &long), Route::Nowhere);
    }
}
