//! The screen: our own screenshot, and the view of an independent VNC client (Debian's vncsnapshot).

use super::{Laptop, free_port, recipe, until};
use std::process::{Child, Command};

/// A picture: width, height, and three bytes per pixel.
struct Picture {
    size: String,
    points: Vec<u8>,
}

impl Picture {
    /// Reads a file by one of netpbm's readers.
    fn read(laptop: &Laptop, reader: &str, file: &str) -> Picture {
        let ppm = laptop.place.shell(&format!("{reader} {file} 2>/dev/null | ppmtoppm"));
        let mut lines = ppm.splitn(4, |byte| *byte == b'\n');
        assert_eq!(lines.next(), Some(&b"P6"[..]));
        let size = String::from_utf8(lines.next().unwrap().to_vec()).unwrap();
        Picture { size, points: lines.nth(1).unwrap().to_vec() }
    }

    /// Mean difference of two pictures, from 0 to 255.
    fn differs(&self, other: &Picture) -> u64 {
        assert_eq!(self.size, other.size);
        let sum: u64 = self.points.iter().zip(&other.points).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        sum / self.points.len() as u64
    }

    /// Percentage of pixels for which `like` is true.
    fn share(&self, like: impl Fn(&[u8]) -> bool) -> usize {
        self.points.chunks(3).filter(|point| like(point)).count() * 300 / self.points.len()
    }
}

/// `coracle vnc` without a viewer, ended on drop.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_foreign_vnc_client_sees_the_screen_that_we_keep() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("screen", &[]);
    laptop.says("screen", "login:");
    let port = free_port();
    let relay = Relay(
        laptop.command(&["vnc", "screen", "--no-viewer", "--port", &port.to_string()]).spawn().unwrap(),
    );
    // Such clients count displays from port 5900.
    let address = format!("127.0.0.1:{}", port - 5900);
    let seen = || {
        let mut client = Command::new("vncsnapshot");
        client.args(["-quiet", "-quality", "95", &address, "seen.jpg"]).current_dir(laptop.place.folder());
        client.output().unwrap().status.success()
    };
    until(seen, || "vncsnapshot sees nothing".into());
    laptop.run(&["vnc", "screen", "--screenshot", "kept.png"]).ok();
    let kept = Picture::read(&laptop, "pngtopnm", "kept.png");
    let seen = Picture::read(&laptop, "jpegtopnm", "seen.jpg");
    // The picture has letters; the cursor blinks, and a JPEG is not exact.
    assert!(kept.share(|point| point.iter().all(|colour| *colour > 100)) > 0, "the screen is black");
    assert!(kept.differs(&seen) < 4, "they differ by {}", kept.differs(&seen));
    drop(relay);
    laptop.run(&["rm", "-f", "screen"]).ok();
    laptop.is_empty();
}

#[test]
fn a_disc_boots() {
    let Some(laptop) = Laptop::with_guest() else { return };
    std::fs::copy(recipe("memtest", &[]), laptop.place.path("memtest.iso")).unwrap();
    laptop.run(&["run", "-d", "-q", "memtest.iso", "--memory", "128M", "--accel", "emulation"]).ok();
    let is_blue = || {
        laptop.run(&["vnc", "memtest", "--screenshot", "screen.png"]).ok();
        let screen = Picture::read(&laptop, "pngtopnm", "screen.png");
        screen.share(|point| point[0] == 0 && point[1] == 0 && point[2] > 128) > 50
    };
    until(is_blue, || "there is no blue screen".into());
    laptop.run(&["rm", "-f", "memtest"]).ok();
    laptop.is_empty();
}
