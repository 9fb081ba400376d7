//! Deployment: virt-controller, virt-api and cdi-uploadproxy of the installation.

use super::workload::FOLLOWED;
use crate::objects::about::kept;
use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    kept: kept!(deployments),
    controller: Use { names: &["virt-controller", "virt-api", "cdi-uploadproxy"], ..FOLLOWED.controller },
    ..FOLLOWED.renamed("Deployment", "deployments")
};
