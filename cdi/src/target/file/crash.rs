//! The power is cut, or the process killed, at every operation of a run. Afterwards the final name is never
//! half a disk, the journal never claims more than there is, and the next run comes to the same disk.

use super::super::disk::ForeignFile;
use super::super::sim::{Count, Fault, Rng, SimFolder};
use super::*;
use crate::journal::{Conversion, Mark, Mode, Position};
use crate::source::Identity;

const BLOCK: usize = 1024;
const BLOCKS: usize = 20;
const NAME: &str = "disk";

/// A disk with holes, different for each seed.
fn disk(seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut disk = vec![0; BLOCK * BLOCKS - 100];
    for block in disk.chunks_mut(BLOCK) {
        if rng.below(3) > 0 {
            block.fill_with(|| rng.below(255) as u8 + 1);
        }
    }
    disk
}

fn job(seed: u64) -> Conversion {
    let identity = Some(Identity::of_content(format!("etag:{seed}"), None));
    Conversion { source: "source".into(), identity, plan: "raw".into(), owner: None }
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Manner {
    seed: u64,
    size_known: bool,
    preallocate: bool,
    /// Blocks between marks; with 1 the journal becomes long enough to be rewritten.
    marks: usize,
}

/// One run of a small engine: in order, with marks. Checks the data that it continues from. After an error it
/// completes what it has begun, and makes marks: callers of a target and a journal may do so.
fn run(folder: &SimFolder, how: Manner) -> Result<()> {
    run_to_mark(folder, how, &mut 0)
}

/// Begins a run, or continues one.
fn start(folder: &SimFolder, how: Manner) -> Result<Started> {
    let options = FileOptions {
        size: how.size_known.then_some(disk(how.seed).len() as u64),
        preallocate: how.preallocate,
        ..FileOptions::default()
    };
    let replaced = folder.replaced(NAME);
    let claim = Claim::of(Arc::new(folder.clone()), OsStr::new(NAME), replaced, ForeignFile::Replace)?;
    claim.start(options, &job(how.seed), Mode::Auto)
}

/// The same as [`run`]. `marked` becomes the bytes of the last mark that was made.
fn run_to_mark(folder: &SimFolder, how: Manner, marked: &mut u64) -> Result<()> {
    let disk = disk(how.seed);
    let size = disk.len() as u64;
    let started = start(folder, how)?;
    let mut from = 0;
    if let Some(Mark { position: Position::Table { window: offset, .. }, .. }) = started.mark {
        from = usize::try_from(offset).unwrap();
        let mut there = vec![0; from];
        let long = started.target.file.len().unwrap();
        assert!(long >= offset, "the mark {offset} is past the file's end {long}");
        started.target.file.read_at(&mut there, 0).unwrap();
        assert!(there == disk[..from], "the journal claims {from} bytes that are not there ({how:?})");
        let on_device = folder.on_device(&format!("{NAME}.partial")).unwrap();
        assert!(
            on_device.get(..from) == Some(&disk[..from]),
            "the journal claims {from} bytes that are in the page cache alone ({how:?})"
        );
    }
    let (mut failed, mut in_flight) = (None, 2);
    for (i, block) in disk.chunks(BLOCK).enumerate().skip(from / BLOCK) {
        let at = (i * BLOCK) as u64;
        let put = match block.iter().all(|&b| b == 0) {
            true => started.target.zero(at, block.len() as u64),
            false => started.target.write(at, block),
        };
        let reached = if put.is_ok() { at + block.len() as u64 } else { at };
        let is_written = put.is_ok();
        failed = failed.or(put.err());
        if (i + 1) % how.marks == 0 || failed.is_some() {
            let position = Position::Table { window: reached, done: 0 };
            let mark = Mark { position, written: reached, sum: None };
            match started.journal.mark(&started.target, &mark) {
                Ok(_) => *marked = reached,
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        if failed.is_some() {
            if in_flight == 0 || !is_written {
                break;
            }
            in_flight -= 1;
        }
    }
    if let Some(e) = failed {
        return Err(e);
    }
    started.target.set_size(size)?;
    (Box::new(started.target) as Box<dyn Target>).finish()?;
    Ok(())
}

/// Asserts that the final name is free, or is one of the allowed disks.
fn assert_whole(folder: &SimFolder, allowed: &[Option<u64>], context: &str) {
    let there = folder.contents(NAME);
    let whole = allowed.iter().any(|seed| there == seed.map(disk));
    assert!(
        whole,
        "{context}: {:?} bytes stand under the final name and are no whole disk",
        there.map(|d| d.len())
    );
}

fn manners(seed: u64) -> [Manner; 3] {
    [(true, false, 1), (false, false, 3), (true, true, 3)].map(|(size_known, preallocate, marks)| Manner {
        seed,
        size_known,
        preallocate,
        marks,
    })
}

#[test]
fn a_cut_at_every_step_leaves_nothing_or_all_and_the_next_run_ends_the_same() {
    for how in manners(1) {
        let whole = SimFolder::new();
        run(&whole, how).unwrap();
        let steps = whole.steps();
        assert!(steps > 30, "only {steps} steps");
        for stop in 0..steps {
            for luck in 0..12 {
                let context = format!("{how:?}, stopped at {stop} of {steps}, luck {luck}");
                let folder = SimFolder::new();
                folder.stop_after(stop);
                let done = run(&folder, how);
                // At the very last step, the removal of the journal, the disk is complete already.
                assert_eq!(done.is_ok(), stop == steps - 1, "{context}");
                let mut rng = Rng(luck);
                let folder = if luck == 0 { folder.after_kill() } else { folder.after_power_cut(&mut rng) };
                let before = if done.is_ok() { Some(how.seed) } else { None };
                assert_whole(&folder, &[before, Some(how.seed)], &context);
                run(&folder, how).unwrap_or_else(|e| panic!("{context}: {e:?}"));
                assert_whole(&folder, &[Some(how.seed)], &context);
                assert_eq!(folder.names(), [NAME], "{context}");
                // The finished disk stays after any power cut.
                assert_whole(&folder.after_power_cut(&mut rng), &[Some(how.seed)], &context);
            }
        }
    }
}

#[test]
fn many_runs_of_several_jobs_each_cut_short() {
    for seed in 0..4000 {
        let mut rng = Rng(seed);
        let mut folder = SimFolder::new();
        let mut allowed = vec![None];
        for round in 0..5 {
            let job = 1 + rng.below(2) as u64;
            let how = manners(job)[rng.below(3)];
            let context = format!("seed {seed}, round {round}, {how:?}");
            folder.stop_after(rng.below(80));
            match rng.below(6) {
                0 => folder.fail(Fault::Sync(folder.done().syncs + rng.below(20)), seed),
                1 => folder.fail(Fault::Write(folder.done().writes + rng.below(40)), seed),
                _ => {}
            }
            let done = run(&folder, how);
            if done.is_ok() {
                // Finished means durable: the older disks are gone for good.
                allowed = vec![Some(job)];
            } else if !allowed.contains(&Some(job)) {
                allowed.push(Some(job));
            }
            folder = match rng.below(4) {
                0 => folder.after_kill(),
                1 => folder.after_eviction(),
                _ => folder.after_power_cut(&mut rng),
            };
            assert_whole(&folder, &allowed, &context);
        }
        run(&folder, manners(1)[0]).unwrap();
        assert_whole(&folder, &[Some(1)], &format!("seed {seed}, at last"));
    }
}

#[test]
fn a_run_that_was_cut_does_not_begin_again_from_zero() {
    let how = manners(1)[0];
    let whole = SimFolder::new();
    run(&whole, how).unwrap();
    let steps = whole.steps();
    let folder = SimFolder::new();
    folder.stop_after(steps * 3 / 4);
    run(&folder, how).unwrap_err();
    let folder = folder.after_power_cut(&mut Rng(5));
    let doubted = folder.after_kill();
    let before = folder.steps();
    run(&folder, how).unwrap();
    // If the owner of its files proves nothing, it is begun anew.
    doubted.begin_to_doubt("one owner for all");
    let all = doubted.steps();
    run(&doubted, how).unwrap();
    assert!(doubted.steps() - all > steps, "only {} of {steps} steps", doubted.steps() - all);
    assert!(
        folder.steps() - before < steps / 2,
        "{} of {steps} steps were done again",
        folder.steps() - before
    );
}

/// Bytes that a comparison found to be wrong are discarded, and a mark before them would still be believed.
#[test]
fn a_run_that_was_discarded_is_not_gone_on_with_after_a_power_cut() {
    let how = manners(1)[0];
    let whole = SimFolder::new();
    run(&whole, how).unwrap();
    let folder = SimFolder::new();
    folder.stop_after(whole.steps() * 3 / 4);
    run(&folder, how).unwrap_err();
    assert!(start(&folder.after_kill(), how).unwrap().mark.is_some());
    for luck in 0..32 {
        let folder = folder.after_kill();
        claim::discard_in(Arc::new(folder.clone()), OsStr::new(NAME), None).unwrap();
        let folder = folder.after_power_cut(&mut Rng(luck));
        assert_eq!(start(&folder, how).unwrap().mark, None, "luck {luck}");
    }
}

/// An append to the journal, and its rewriting, leave the marks in front as they are.
#[test]
fn a_mark_that_was_made_is_found_after_a_cut_at_any_later_step() {
    for how in manners(1) {
        let whole = SimFolder::new();
        run(&whole, how).unwrap();
        for stop in 0..whole.steps() {
            for luck in 0..8 {
                let (folder, mut marked) = (SimFolder::new(), 0);
                folder.stop_after(stop);
                let done = run_to_mark(&folder, how, &mut marked);
                let folder = match luck {
                    0 => folder.after_kill(),
                    1 => folder.after_eviction(),
                    _ => folder.after_power_cut_without_junk(&mut Rng(luck)),
                };
                if done.is_ok() || folder.contents(NAME).is_some() {
                    continue;
                }
                let found = start(&folder, how).unwrap().mark.map_or(0, |mark| mark.written);
                assert!(
                    found >= marked,
                    "{how:?}, stopped at {stop}, luck {luck}: {marked} bytes were marked, and {found} are found"
                );
            }
        }
    }
}

#[test]
fn a_mark_that_fails_is_cut_off_and_none_is_made_behind_it() {
    let folder = SimFolder::new();
    let started = start(&folder, manners(1)[0]).unwrap();
    let mark = |written| {
        let position = Position::Table { window: written, done: 0 };
        started.journal.mark(&started.target, &Mark { position, written, sum: None })
    };
    let journal = || folder.contents("disk.partial.journal").unwrap();
    for written in [1, 2] {
        let before = journal();
        mark(written).unwrap();
        assert!(journal().starts_with(&before) && journal().len() > before.len(), "a record was overwritten");
    }
    let before = journal();
    folder.fail(Fault::Write(folder.done().writes), 0);
    let e = mark(3).unwrap_err();
    assert!(e.to_string().contains("cannot write disk.partial.journal"), "{e}");
    assert!(journal() == before, "half a record stays");
    let e = mark(4).unwrap_err();
    assert!(e.to_string().contains("it has failed in this run"), "{e}");
    assert!(journal() == before);
}

#[test]
fn a_sync_or_a_write_that_fails_is_marked_over_by_nothing_and_the_next_run_ends_the_same() {
    for how in manners(1) {
        let whole = SimFolder::new();
        run(&whole, how).unwrap();
        let Count { syncs, writes } = whole.done();
        assert!(syncs > 5 && writes > 10, "only {syncs} syncs, {writes} writes");
        for fault in (0..syncs).map(Fault::Sync).chain((0..writes).map(Fault::Write)) {
            for luck in 0..12 {
                let context = format!("{how:?}, {fault:?}, luck {luck}");
                let folder = SimFolder::new();
                folder.fail(fault, luck);
                assert!(run(&folder, how).is_err(), "{context}: it ends well");
                assert_whole(&folder, &[None], &context);
                let mut rng = Rng(luck);
                let folder = match luck % 3 {
                    0 => folder.after_kill(),
                    1 => folder.after_eviction(),
                    _ => folder.after_power_cut(&mut rng),
                };
                run(&folder, how).unwrap_or_else(|e| panic!("{context}: {e:?}"));
                assert_whole(&folder.after_eviction(), &[Some(how.seed)], &context);
                assert_whole(&folder.after_power_cut(&mut rng), &[Some(how.seed)], &context);
                assert_eq!(folder.names(), [NAME], "{context}");
            }
        }
    }
}
