//! Wherever a decoder says that it can be entered again, entering there tells the same rest.

use crate::pack::{pack, xz};
use crate::read::{Pieces, all, refusal};
use cdi::filter::{self, Boundary, Budget, Layer, OnBoundary};
use cdi::{Error, Result};
use std::io::Read;
use std::sync::{Arc, Mutex};
use xz2::stream::Check;

const MOST: usize = 2 << 20;
const UNITS: usize = 8;

/// Two bytes: the layer and how it is read, how much damage is done. Then units: two bytes for their length, one for
/// the bytes that are repeated to that length, these bytes.
pub(crate) fn resume(input: &[u8]) {
    let Some((&[how, damage], rest)) = input.split_first_chunk::<2>() else { return };
    let layer = [Layer::Gzip, Layer::Xz, Layer::Zstd][usize::from(how & 3) % 3];
    let threads = 1 + usize::from(how >> 2 & 3);
    let check = [Check::None, Check::Crc32, Check::Crc64, Check::Sha256][usize::from(how >> 4 & 3)];
    let (rest, damage) = rest.split_at(rest.len().saturating_sub(usize::from(damage % 4) * 3));
    let units = units(rest);
    let mut file: Vec<u8> = match layer {
        // Streams of up to three blocks.
        Layer::Xz => {
            let units: Vec<&[u8]> = units.iter().map(Vec::as_slice).collect();
            units.chunks(3).flat_map(|blocks| xz(blocks, check)).collect()
        }
        _ => units.iter().flat_map(|unit| pack(layer, unit)).collect(),
    };
    let mut sound = true;
    for patch in damage.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([patch[0], patch[1]]));
        if let Some(byte) = file.get_mut(at) {
            *byte ^= patch[2];
            sound &= patch[2] == 0;
        }
    }

    // A journal's notes that no run wrote: they are refused, or the rest is judged as any file.
    let notes = Boundary { input: 0, output: 0, state: rest.to_vec() };
    let _ = read(layer, threads, file.get(10..).unwrap_or_default().to_vec(), Some(notes), None);

    let told: Arc<Mutex<Vec<Boundary>>> = Arc::default();
    let tell: OnBoundary = {
        let told = told.clone();
        Arc::new(move |boundary| told.lock().expect("no panic").push(boundary))
    };
    let whole = read(layer, threads, file.clone(), None, Some(tell));
    if sound && !units.is_empty() {
        let plain = whole.as_ref().expect("a sound file is read");
        assert!(*plain == units.concat(), "{layer}: the bytes are others");
    }
    let told = std::mem::take(&mut *told.lock().expect("no panic"));
    assert!(told.is_sorted_by_key(|b| (b.input, b.output)), "{told:?}");
    for boundary in told {
        let (input, output) = (boundary.input as usize, boundary.output as usize);
        let entered = read(layer, threads, file[input..].to_vec(), Some(boundary), None);
        match (&whole, entered) {
            (Ok(whole), Ok(rest)) => {
                assert!(whole[output..] == rest, "{layer}: entered at {input}, other bytes")
            }
            (Ok(_), Err(e)) => panic!("{layer}: sound, but not when entered at {input}: {e}"),
            (Err(e), Ok(_)) => panic!("{layer}: entered at {input} it is sound, but: {e}"),
            (Err(_), Err(_)) => {}
        }
    }
}

fn units(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    while let Some((&[high, low, n], next)) = rest.split_first_chunk::<3>() {
        // Boundaries are some 64 KiB apart.
        let len = usize::from(u16::from_be_bytes([high, low])) * 3;
        let (bytes, next) = next.split_at(usize::from(n).min(next.len()));
        let bytes = if bytes.is_empty() { &[0] } else { bytes };
        units.push(bytes.iter().copied().cycle().take(len).collect());
        rest = next;
        if units.len() == UNITS {
            break;
        }
    }
    units
}

fn read(
    layer: Layer,
    threads: usize,
    file: Vec<u8>,
    from: Option<Boundary>,
    tell: Option<OnBoundary>,
) -> Result<Vec<u8>, Error> {
    let budget = Budget { threads, memory: 32 << 20, beside: 0 };
    let passed = from.as_ref().map_or(0, |b| b.output);
    let source: Box<dyn Read + Send> = Box::new(Pieces::new(file, 50_000));
    let decoder = filter::open(layer, source, budget, from, tell).map_err(refusal)?;
    all(&mut filter::limit::Limited::new(decoder, layer, MOST as u64, passed), 30_000, MOST)
}
