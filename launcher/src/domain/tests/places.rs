//! Places on the PCI bus.
