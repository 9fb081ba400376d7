//! A worker: takes one unit after the other and decodes it chunk by chunk.

use super::shared::{Chunk, Guard, LaneJob, Shared};
use super::{Codec, Stop};
use std::sync::Arc;

pub(super) fn run(shared: &Arc<Shared>, mut codec: impl Codec) {
    while let Some(job) = shared.job() {
        let guard = Guard::on(shared.clone(), job.lane);
        let result = decode(shared, &mut codec, &job);
        shared.done(&job, result);
        guard.calm();
    }
}

fn decode(shared: &Arc<Shared>, codec: &mut impl Codec, job: &LaneJob) -> Result<(), Stop> {
    codec.start(job.at, job.memory)?;
    let mut plain = None;
    let result = steps(shared, codec, job.lane, &mut plain);
    // Bytes decoded before an error are passed on too.
    if let Some(chunk) = plain.filter(|chunk| !chunk.bytes().is_empty()) {
        shared.push_plain(job.lane, chunk)?;
    }
    result
}

fn steps(
    shared: &Arc<Shared>,
    codec: &mut impl Codec,
    lane: u64,
    plain: &mut Option<Chunk>,
) -> Result<(), Stop> {
    let mut left = false;
    while let Some(slice) = shared.next_packed(lane)? {
        let mut at = 0;
        loop {
            let chunk = match plain {
                Some(chunk) => chunk,
                None => plain.insert(shared.plain_chunk(lane)?),
            };
            let (taken, made) = codec.step(&slice.bytes()[at..], chunk.room())?;
            at += taken;
            chunk.grow(made);
            if chunk.room().is_empty() {
                // The codec may hold more output even if it has taken all input.
                if let Some(full) = plain.take() {
                    shared.push_plain(lane, full)?;
                }
            } else if at == slice.bytes().len() {
                break;
            } else if taken == 0 && made == 0 {
                left = true;
                break;
            }
        }
    }
    codec.end(left).map_err(Stop::Error)
}
