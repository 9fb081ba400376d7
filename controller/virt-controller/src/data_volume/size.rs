//! Sizes of PVCs, by the same rules as in virt-api's webhook about PVCs.

pub(super) use cluster_model::config::overhead::Overhead;
