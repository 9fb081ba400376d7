//! UploadTokenRequest: asks virt-api for the token of an upload. Nothing is stored.

use crate::objects::About;

pub(crate) const ABOUT: About =
    About::new("upload.cdi.kubevirt.io/v1beta1", "UploadTokenRequest", "uploadtokenrequests");
