//! Fuzz inputs are sparse files: a fuzzer should change what is there, not the zeros around it.
//!
//! Two bytes: the file's size in sectors of 512 bytes. Then pieces to the end: four bytes offset, two bytes length,
//! so many bytes. All numbers big-endian. Whatever does not fit is left out, so any input is a file.

/// 8 MiB.
const MOST_SECTORS: u16 = 16 << 10;

/// The file an input stands for.
pub(crate) fn expand(input: &[u8]) -> Vec<u8> {
    let Some((size, mut pieces)) = input.split_first_chunk::<2>() else { return vec![] };
    let mut file = vec![0; usize::from(u16::from_be_bytes(*size).min(MOST_SECTORS)) * 512];
    while let Some((head, rest)) = pieces.split_first_chunk::<6>() {
        let at = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let len = usize::from(u16::from_be_bytes([head[4], head[5]])).min(rest.len());
        let (bytes, next) = rest.split_at(len);
        if let Some(place) = file.get_mut(at..at + len) {
            place.copy_from_slice(bytes);
        }
        pieces = next;
    }
    file
}

/// The input for a file: whole sectors, and only what is not zero.
#[allow(dead_code, reason = "used where seeds are made")]
pub(crate) fn shrink(file: &[u8]) -> Vec<u8> {
    let sectors = u16::try_from(file.len().div_ceil(512)).expect("a small file");
    let mut input = sectors.to_be_bytes().to_vec();
    let mut at = 0;
    while let Some(start) = file[at..].iter().position(|&b| b != 0).map(|skip| at + skip) {
        // A piece ends where 8 zeros follow.
        let rest = &file[start..file.len().min(start + 60_000)];
        let len = rest.windows(8).position(|w| w.iter().all(|&b| b == 0)).unwrap_or(rest.len());
        input.extend(u32::try_from(start).expect("a small file").to_be_bytes());
        input.extend(u16::try_from(len).expect("at most 60,000").to_be_bytes());
        input.extend(&rest[..len]);
        at = start + len;
    }
    input
}
