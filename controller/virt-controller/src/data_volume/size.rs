//! Sizes: virt-api's webhook about PVCs counts by the same.

pub(super) use cluster_model::config::overhead::Overhead;
