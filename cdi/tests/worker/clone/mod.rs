//! The two pods of a clone: the one that serves the disk of a PVC, and the one that imports it.

mod changes;
mod copies;
mod ends;
mod liars;
mod relay;
mod strangers;

use super::client::{Authority, Connection, Identity};
use super::{PATIENCE, Pod, disk, names};
use api::job::{Clone, Import, Report, Serve, Source, Stage, Target};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use tests::disk::Noise;

/// The name in the certificate of the importer.
const CLIENT: &str = "golden/debian-tenant/root";
const MIB: u64 = 1 << 20;

/// The source of a clone: its volume, the Secrets of both ends, and the pod that serves.
struct Origin {
    volume: tempfile::TempDir,
    servers: Authority,
    clients: Authority,
    /// The Secret of the pod that serves.
    secret: tempfile::TempDir,
    /// The Secret of the importer.
    importer: tempfile::TempDir,
    identity: Identity,
}

impl Origin {
    fn new() -> Origin {
        let (servers, clients) = (Authority::new(), Authority::new());
        let folder = || tempfile::tempdir().expect("it can be made");
        let (secret, importer, identity) = (folder(), folder(), clients.sign(CLIENT));
        clients.mount(&servers.sign("server"), secret.path());
        servers.mount(&identity, importer.path());
        Origin { volume: folder(), servers, clients, secret, importer, identity }
    }

    /// A source whose disk has this size and these ranges of data.
    fn with(size: u64, data: &[(u64, u64)]) -> Origin {
        let origin = Origin::new();
        let file = File::create(origin.disk()).expect("it can be made");
        file.set_len(size).expect("a size");
        for (at, len) in data {
            let bytes = Noise::new(at + 1).bytes(*len as usize);
            file.write_all_at(&bytes, *at).expect("it can be written");
        }
        file.sync_all().expect("it can be written");
        origin
    }

    fn disk(&self) -> PathBuf {
        disk(self.volume.path())
    }

    /// The pod that serves it.
    fn serve(&self) -> Pod {
        self.serve_with(Target::File(self.disk()), &[])
    }

    fn serve_with(&self, disk: Target, environment: &[(&str, &str)]) -> Pod {
        self.serve_job(&Serve { disk, client: CLIENT.to_owned(), is_shared: false }, environment)
    }

    fn serve_job(&self, job: &Serve, environment: &[(&str, &str)]) -> Pod {
        let path = |name: &str| self.secret.path().join(name).to_str().expect("a plain path").to_owned();
        let (chain, key, clients) = (path("tls.crt"), path("tls.key"), path("ca.crt"));
        let own = [("TLS_CERT_FILE", chain.as_str()), ("TLS_KEY_FILE", &key), ("CLIENT_CERT_FILE", &clients)];
        Pod::start_as(&["serve"], job, &[&own, environment].concat())
    }

    /// The job of the importer, for a server at this address.
    fn job(&self, at: &str, volume: &Path) -> Import {
        let tls = self.importer.path().to_owned();
        let source = Source::Clone(Clone { url: format!("https://{at}/disk"), tls });
        Import { source, target: Target::File(disk(volume)), size: None, preallocate: false }
    }

    /// A connection of the importer.
    fn connect(&self, at: &str) -> Connection {
        self.servers.connect(at, Some(&self.identity)).expect("a connection")
    }

    /// Bytes that the file system keeps for the disk.
    fn allocated(&self) -> u64 {
        allocated(&self.disk())
    }
}

fn allocated(file: &Path) -> u64 {
    std::fs::metadata(file).expect("a file").blocks() * 512
}

/// Bytes that a pod sent.
fn sent(pod: &mut Pod) -> u64 {
    pod.reports(|_| true).done
}
