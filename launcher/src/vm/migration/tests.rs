use super::*;
use crate::hypervisor::End;

fn seen(condition: Condition) -> Result<DomainState> {
    Ok(DomainState { condition, pid: None, started: None, agent: false })
}

#[test]
fn a_migration_tells_where_the_vm_is() {
    let failed = || Err(Error::new(ErrorKind::Failed, "migrate", "no"));
    let gone = || Err(Error::new(ErrorKind::NotFound, "look", "gone"));
    let silent = || Err(Error::new(ErrorKind::TimedOut, "look", "no answer"));
    let place = |result, seen| Migrated { mode: MigrationMode::PreCopy, result, seen }.location();
    for (result, seen, wanted) in [
        (Ok(()), gone(), VmLocation::Target),
        (Ok(()), seen(Condition::Off(End::Left)), VmLocation::Target),
        (failed(), seen(Condition::Off(End::Left)), VmLocation::Target),
        (failed(), seen(Condition::Running), VmLocation::Source),
        (failed(), seen(Condition::Paused(Pause::Asked)), VmLocation::Source),
        (failed(), seen(Condition::Off(End::Crashed)), VmLocation::Source),
        // libvirt has not heard the result.
        (failed(), seen(Condition::Paused(Pause::Passing)), VmLocation::Unknown),
        (failed(), gone(), VmLocation::Unknown),
        (failed(), silent(), VmLocation::Unknown),
        (Ok(()), silent(), VmLocation::Unknown),
        (Ok(()), seen(Condition::Running), VmLocation::Unknown),
    ] {
        let told = format!("{result:?} {seen:?}");
        assert_eq!(place(result, seen), wanted, "{told}");
    }
    let mode = MigrationMode::PostCopy;
    let ended = Migrated { mode, result: failed(), seen: seen(Condition::Off(End::Crashed)) };
    assert_eq!(ended.location(), VmLocation::Unknown, "its guest went on at the target");
}
