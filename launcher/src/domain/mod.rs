//! A machine as a libvirt domain. Pure: the same machine on the same host gives the same XML.

pub mod host;
