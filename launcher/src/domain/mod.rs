//! A machine as a libvirt domain. Pure: the same machine and the same places give the same XML.
