//! Conversion of a screenshot from PPM, which QEMU writes, to PNG.
//!
//! The PPM comes from QEMU, so it is bounded like any foreign input: 8 bits a colour, at most 16384 points a
//! side and 2^25 in all (a screen of 8K).

use crate::error::{Error, ErrorKind, Result};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

const LONGEST_SIDE: usize = 16_384;
const MOST_POINTS: usize = 1 << 25;
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Bytes of a pixel: red, green, blue.
const POINT: usize = 3;

/// The PNG of a PPM (`P6`).
pub fn from_ppm(ppm: &[u8]) -> Result<Vec<u8>> {
    let picture = Picture::read(ppm)?;
    let mut png = SIGNATURE.to_vec();
    let mut header = Vec::with_capacity(13);
    // Both fit, since they are bounded.
    header.extend((picture.width as u32).to_be_bytes());
    header.extend((picture.height as u32).to_be_bytes());
    // 8 bits a colour, red-green-blue, deflate, filters by row, rows in order.
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut png, b"IHDR", &header)?;
    chunk(&mut png, b"IDAT", &picture.packed()?)?;
    chunk(&mut png, b"IEND", &[])?;
    Ok(png)
}

struct Picture<'a> {
    width: usize,
    height: usize,
    points: &'a [u8],
}

impl Picture<'_> {
    fn read(ppm: &[u8]) -> Result<Picture<'_>> {
        let refuse =
            |why: String| Err(Error::refused(format!("the screenshot of QEMU cannot be converted: {why}")));
        let Some(mut rest) = ppm.strip_prefix(b"P6") else {
            return refuse("it is not a PPM of the kind P6".to_owned());
        };
        let mut numbers = [0; 3];
        for (number, name) in numbers.iter_mut().zip(["width", "height", "largest value"]) {
            let Some((found, after)) = next_number(rest) else {
                return refuse(format!("its header has no {name}"));
            };
            *number = found;
            rest = after;
        }
        let [width, height, largest] = numbers;
        if largest != 255 {
            return refuse(format!("its largest value is {largest}; only 255 is supported"));
        }
        let sides = 1..=LONGEST_SIDE;
        // Bounded before they are multiplied.
        if !sides.contains(&width) || !sides.contains(&height) || width * height > MOST_POINTS {
            return refuse(format!(
                "it has {width}x{height} points; at most {LONGEST_SIDE} a side and {MOST_POINTS} in all are supported"
            ));
        }
        // One white space, then the pixels.
        let [b' ' | b'\t' | b'\r' | b'\n', points @ ..] = rest else {
            return refuse("its header does not end".to_owned());
        };
        let wanted = width * height * POINT;
        let Some(points) = points.get(..wanted) else {
            return refuse(format!("it has {} bytes of {wanted}", points.len()));
        };
        Ok(Picture { width, height, points })
    }

    /// All rows, filtered and compressed.
    fn packed(&self) -> Result<Vec<u8>> {
        let row = self.width * POINT;
        let above = [&vec![0; row][..], self.points].concat();
        let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut filtered = [vec![0], vec![1], vec![2]];
        for (line, above) in self.points.chunks_exact(row).zip(above.chunks_exact(row)) {
            filtered.iter_mut().for_each(|filtered| filtered.truncate(1));
            let [none, left, up] = &mut filtered;
            none.extend(line);
            left.extend(&line[..POINT]);
            left.extend(line[POINT..].iter().zip(line).map(|(byte, left)| byte.wrapping_sub(*left)));
            up.extend(line.iter().zip(above).map(|(byte, up)| byte.wrapping_sub(*up)));
            // The usual heuristic: the row with the smallest differences compresses best.
            let best = filtered.iter().min_by_key(|filtered| weight(filtered)).map_or(&[][..], Vec::as_slice);
            out.write_all(best).map_err(cannot_pack)?;
        }
        out.finish().map_err(cannot_pack)
    }
}

fn cannot_pack(e: std::io::Error) -> Error {
    Error::new(ErrorKind::Failed, "cannot compress the screenshot").because(e)
}

fn weight(filtered: &[u8]) -> u64 {
    filtered.iter().map(|byte| u64::from(byte.cast_signed().unsigned_abs())).sum()
}

/// The next number of a header, and the bytes after it. White space and comments may stand before it.
fn next_number(mut rest: &[u8]) -> Option<(usize, &[u8])> {
    loop {
        match rest {
            [b'#', ..] => rest = &rest[rest.iter().position(|byte| *byte == b'\n')?..],
            [byte, after @ ..] if byte.is_ascii_whitespace() => rest = after,
            _ => break,
        }
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // No accepted number has more digits, so it cannot overflow.
    let text = rest.get(..digits).filter(|digits| (1..=9).contains(&digits.len()))?;
    let number = text.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    Some((number, &rest[digits..]))
}

fn chunk(png: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) -> Result<()> {
    let size = u32::try_from(data.len())
        .map_err(|_| Error::new(ErrorKind::Failed, "the screenshot is too large for a PNG"))?;
    png.extend(size.to_be_bytes());
    let mut sum = crc32fast::Hasher::new();
    sum.update(name);
    sum.update(data);
    png.extend(name);
    png.extend(data);
    png.extend(sum.finalize().to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn ppm(width: usize, height: usize, points: impl Fn(usize) -> u8) -> Vec<u8> {
        let mut ppm = format!("P6\n{width} {height}\n255\n").into_bytes();
        ppm.extend((0..width * height * POINT).map(points));
        ppm
    }

    /// The points that another program (netpbm's) reads from a PNG.
    fn read_back(png: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("screen.png");
        std::fs::File::create(&path).unwrap().write_all(png).unwrap();
        let out = Command::new("pngtopnm").arg(&path).stderr(Stdio::inherit()).output();
        let out = out.expect("pngtopnm is there (make setup)");
        assert!(out.status.success());
        out.stdout
    }

    #[test]
    fn another_program_reads_the_same_points() {
        let text = |at: usize| if (at / 37).is_multiple_of(11) { 170 } else { 0 };
        let slope = |at: usize| (at / 30) as u8;
        let noise = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8 | u8::from(at == 0);
        for picture in [
            ppm(720, 400, text),
            ppm(64, 64, slope),
            ppm(33, 17, noise),
            ppm(2, 5, noise),
            ppm(1, 300, slope),
        ] {
            let png = from_ppm(&picture).unwrap();
            assert_eq!(read_back(&png), picture);
        }
        assert!(from_ppm(&ppm(720, 400, text)).unwrap().len() < 10_000);
    }

    #[test]
    fn headers_with_comments_and_more_than_the_points() {
        let mut odd = b"P6 # a screen\n# made by hand\n2\t# wide\n 1 255\n123456".to_vec();
        let plain = from_ppm(b"P6\n2 1\n255\n123456").unwrap();
        assert_eq!(from_ppm(&odd).unwrap(), plain);
        odd.extend(b"rest");
        assert_eq!(from_ppm(&odd).unwrap(), plain);
    }

    #[test]
    fn hostile_pictures_are_refused() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "not a PPM"),
            (b"P5\n1 1\n255\n1", "not a PPM"),
            (b"P6", "no width"),
            (b"P6\n1", "no height"),
            (b"P6\n1 1", "no largest value"),
            (b"P6\n-1 1\n255\n", "no width"),
            (b"P6\n99999999999999999999 1\n255\n", "no width"),
            (b"P6\n0 1\n255\n", "0x1 points"),
            (b"P6\n16385 1\n255\n", "16385x1 points"),
            (b"P6\n16384 16384\n255\n", "16384x16384 points"),
            (b"P6\n999999999 999999999\n255\n", "999999999x999999999 points"),
            (b"P6\n1 1\n65535\n123456", "65535"),
            (b"P6\n1 1\n255", "does not end"),
            (b"P6\n1 1\n255x123", "does not end"),
            (b"P6\n1 1\n255\n12", "2 bytes of 3"),
            (b"P6 # no end of it", "no width"),
        ];
        for (ppm, why) in cases {
            let said = from_ppm(ppm).unwrap_err().to_string();
            assert!(said.contains(why), "{}: {said}", String::from_utf8_lossy(ppm));
        }
    }
}
