//! Sizes: virt-api's webhook about PVCs counts by the same.

pub(super) use kubernetes::config::overhead::Overhead;
