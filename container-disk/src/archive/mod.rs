//! Images in one tar file: `oci-archive:FILE[:TAG]`, an OCI image layout in a tar, and `docker-archive:FILE`,
//! the format of `docker save`.
//!
//! ```text
//!  read    FILE ──index once──► names, offsets (contents.rs) ──► documents and blobs, at any offset
//!                                                                oci.rs, docker.rs
//!  write   blobs ──► FILE.partial (growing.rs) ──close──► index, end mark, fsync, rename ──► FILE
//!                                                         oci_sink.rs, docker_sink.rs
//! ```
//!
//! Reading makes no copy: a blob is a section of the file. An archive that two programs could read in two
//! ways is refused (`tar/`), and no name in it is used to open a file.
//!
//! Writing makes no second copy either: a blob's header is filled in when its digest and size are known. Only
//! blobs that are written at the same time as another are buffered in anonymous files.
//! [`crate::place::Sink::close`] makes the archive durable and gives it its name. Without that call no file
//! is left. The same blobs in the same order give the same archive.

mod contents;
mod docker;
mod docker_sink;
mod growing;
mod oci;
mod oci_sink;
#[cfg(test)]
mod tests;

pub use docker::DockerArchive;
pub use docker_sink::DockerArchiveSink;
pub use oci::OciArchive;
pub use oci_sink::OciArchiveSink;
