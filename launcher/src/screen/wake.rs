//! Moves the guest's pointer as a VNC viewer does, so that a sleeping screen is awake on a screenshot.
//!
//! It makes two moves, since a mouse receives differences. QEMU answers in order: when the picture of one
//! pixel that was requested after the moves has come, the guest's devices have the moves. Then the guest has
//! [`WAKES`] to draw.

use super::{PATIENCE, Screen};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Time for the guest to draw.
const WAKES: Duration = Duration::from_millis(300);
/// Longest name of a screen that is read.
const NAME: u64 = 4 << 10;
const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// The security type of a screen without a password.
const NO_PASSWORD: u8 = 1;

impl Screen {
    /// Moves the pointer. Other viewers stay connected, and the one that types keeps typing.
    pub async fn wake(&self) -> Result<()> {
        let mut qemu = self.connect().await?;
        let shown = self.socket.display();
        match tokio::time::timeout(PATIENCE, nudge(&mut qemu)).await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => {
                return Err(Error::io(format!("cannot move the pointer of the VM's screen at {shown}"), e));
            }
            Err(_) => {
                let what = format!(
                    "the pointer of the VM's screen at {shown} was not moved within {} s",
                    PATIENCE.as_secs()
                );
                return Err(Error::new(ErrorKind::Failed, what));
            }
        }
        tokio::time::sleep(WAKES).await;
        Ok(())
    }
}

/// Connects as a viewer, moves the pointer, waits until QEMU has passed that on, and leaves.
async fn nudge(qemu: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let other = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut version = [0; VERSION.len()];
    qemu.read_exact(&mut version).await?;
    if version != *VERSION {
        return Err(other("it does not speak RFB 3.8"));
    }
    qemu.write_all(VERSION).await?;
    let mut kinds = vec![0; qemu.read_u8().await?.into()];
    qemu.read_exact(&mut kinds).await?;
    if !kinds.contains(&NO_PASSWORD) {
        return Err(other("it wants a password"));
    }
    qemu.write_u8(NO_PASSWORD).await?;
    if qemu.read_u32().await? != 0 {
        return Err(other("it lets no viewer in"));
    }
    // Shared access: other viewers stay.
    qemu.write_u8(1).await?;
    let (width, height) = (qemu.read_u16().await?, qemu.read_u16().await?);
    let mut format = [0; 16];
    qemu.read_exact(&mut format).await?;
    let name = u64::from(qemu.read_u32().await?);
    if name > NAME {
        return Err(other("its name is longer than 4 KiB"));
    }
    let read = tokio::io::copy(&mut (&mut *qemu).take(name), &mut tokio::io::sink()).await?;
    if read < name {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    for (x, y) in [(width / 2, height / 2), (width / 2 + 1, height / 2 + 1)] {
        qemu.write_all(&pointer(x, y)).await?;
    }
    // FramebufferUpdateRequest: the first point, whether it has changed or not.
    qemu.write_all(&[3, 0, 0, 0, 0, 0, 0, 1, 0, 1]).await?;
    qemu.flush().await?;
    qemu.read_u8().await.map(drop)
}

/// PointerEvent: no button is down.
fn pointer(x: u16, y: u16) -> [u8; 6] {
    let ([a, b], [c, d]) = (x.to_be_bytes(), y.to_be_bytes());
    [5, 0, a, b, c, d]
}
