//! Bytes that arrive once: a pipe, a socket, the rest of a file that another program began to read.

use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// A pipe of this size means fewer switches between the two processes.
const PIPE: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Once {
    file: Mutex<Option<File>>,
    name: String,
}

impl Once {
    pub(super) fn new(file: File, name: String) -> Self {
        // If that is not allowed, or the file is not a pipe, it works as it is.
        if let Err(e) = rustix::pipe::fcntl_setpipe_size(&file, PIPE) {
            tracing::trace!("the pipe of {name} keeps its size: {e}");
        }
        Once { file: Mutex::new(Some(file)), name }
    }

    pub(super) fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        let name = &self.name;
        if from != 0 {
            let what =
                format!("{name} cannot go on at byte {from}: it is a stream and begins at its first byte");
            return Err(Error::new(ErrorKind::Usage, what));
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let file =
            file.ok_or_else(|| Error::failed(format!("{name} is a stream and has been read already")))?;
        Ok(Box::new(file))
    }
}
