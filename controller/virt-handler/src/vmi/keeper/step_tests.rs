use super::*;
use crate::now::now;
use crate::pod::Pods;
use crate::vmi::decide::{Event, HandOverFailure};
use crate::vmi::keeper::KeeperInput;
use crate::vmi::keeper::state::{Agent, GuestReport, Links, Run, Session};
use crate::vmi::keeper::tests::{pod, vmi};
use crate::vmi::permitted::Permitted;
use api::launcher::{self, Migration, MigrationPhase};
use serde_json::{Value, json};
use std::sync::Arc;

type TestState = State<&'static str, &'static str>;
type TestEvent = KeeperEvent<&'static str, &'static str>;

fn facts_of(object: Value) -> Facts {
    let permitted = Permitted::By(Arc::new(api::machine::Settings::of_cluster(&json!({}))));
    let input = KeeperInput { object: Arc::new(object), pod: None, permitted, role: Role::Guest };
    Facts::new(&Pods::played("/none"), input, pod()).unwrap()
}

/// A VMI in this phase.
fn facts(phase: &str) -> Facts {
    let mut object = vmi();
    object["status"]["phase"] = json!(phase);
    facts_of(object)
}

/// A VMI that runs and is deleted, with this grace period.
fn deleted(grace: u64) -> Facts {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:00:30Z");
    object["spec"]["terminationGracePeriodSeconds"] = json!(grace);
    facts_of(object)
}

/// Everything is permitted, but for writes of the status.
fn moment() -> Moment {
    Moment {
        now: Instant::now(),
        clock: now(),
        may_try: true,
        may_listen: true,
        may_request: true,
        writes: Writes::None,
        findings: Findings::default(),
    }
}

fn writing() -> Moment {
    Moment { writes: Writes::All, ..moment() }
}

fn reported(life: Life) -> Box<launcher::State> {
    Box::new(launcher::State { number: 1, life, ..launcher::State::default() })
}

fn session(life: Life) -> Session<&'static str> {
    Session { contact: Contact::There("connection"), launcher: reported(life) }
}

fn waiting() -> TestState {
    State::Waiting { silent_since: None }
}

fn connected() -> TestState {
    State::Connected { session: session(Life::Empty), links: Links::new(), failure: None }
}

fn failed() -> TestState {
    State::Connected { session: session(Life::Empty), links: Links::new(), failure: Some(failure()) }
}

fn failure() -> HandOverFailure {
    HandOverFailure { message: "no disk".into(), hopeless: false }
}

fn prepared() -> TestState {
    State::Prepared { session: session(Life::Empty), links: Links::new() }
}

fn running(is_handed_over: bool) -> TestState {
    State::Running { session: session(Life::Running), run: Box::new(Run::new(Links::new(), is_handed_over)) }
}

fn lost(mut state: TestState) -> TestState {
    state.session_mut().unwrap().contact = Contact::Lost { silent_since: None };
    state
}

fn ended() -> TestState {
    State::Ended { last: None, why: None }
}

fn heard(life: Life) -> TestEvent {
    KeeperEvent::Heard { newest: Some(reported(life)), is_open: true }
}

fn broke() -> TestEvent {
    KeeperEvent::Heard { newest: None, is_open: false }
}

fn first(life: Life) -> TestEvent {
    KeeperEvent::Connected { connection: "new", first: reported(life) }
}

fn last(life: Option<Life>, why: Option<&str>) -> TestEvent {
    KeeperEvent::LastState { last: life.map(reported), why: why.map(str::to_owned) }
}

fn handed_over() -> TestEvent {
    KeeperEvent::HandedOver { links: Links::new(), events: vec![Event::normal("Created", "")] }
}

fn not_handed_over() -> TestEvent {
    KeeperEvent::NotHandedOver { links: None, failure: failure() }
}

fn not_requested() -> TestEvent {
    KeeperEvent::NotRequested(Request::Shutdown { grace: Some(30) })
}

/// Name of the state, and its connection.
fn name(state: &TestState) -> String {
    let (name, session) = match state {
        State::Waiting { silent_since: None } => ("Waiting", None),
        State::Waiting { silent_since: Some(_) } => ("Waiting, silent", None),
        State::Connected { session, failure: None, .. } => ("Connected", Some(session)),
        State::Connected { session, failure: Some(_), .. } => ("Connected, failed", Some(session)),
        State::Prepared { session, .. } => ("Prepared", Some(session)),
        State::Running { session, .. } => ("Running", Some(session)),
        State::Ended { .. } => ("Ended", None),
    };
    let contact = match session.map(|session| &session.contact) {
        Some(Contact::Lost { silent_since: None }) => ", lost",
        Some(Contact::Lost { silent_since: Some(_) }) => ", silent",
        Some(Contact::There(_)) | None => "",
    };
    format!("{name}{contact}")
}

fn words(action: &KeeperAction) -> String {
    let reasons =
        |events: &[Event]| events.iter().map(|event| format!(" {}", event.reason)).collect::<String>();
    match action {
        KeeperAction::RetryLater => "retry later".into(),
        KeeperAction::ForgetRetry => "forget retry".into(),
        KeeperAction::Record(events) => format!("record{}", reasons(events)),
        KeeperAction::Connect => "connect".into(),
        KeeperAction::ReadLastState { .. } => "read last state".into(),
        KeeperAction::HandOver => "hand over".into(),
        KeeperAction::Request { request: Request::Shutdown { grace: Some(grace) }, event } => {
            format!("shutdown {grace}{}", reasons(event.as_slice()))
        }
        KeeperAction::Request { request, .. } => format!("{request:?}"),
        KeeperAction::WriteStatus { status, events, is_last } => {
            let phase = status.phase.as_ref().map(Phase::to_string).unwrap_or_default();
            format!("write {phase}{}{}", reasons(events), if *is_last { ", last" } else { "" })
        }
        KeeperAction::CloseMigration => "close migration".into(),
        KeeperAction::Announce(uid) => format!("announce {uid}"),
        KeeperAction::Order(order) => format!("order {}", order.uid),
        KeeperAction::Open { uid, source } => format!("open {uid} for {source}"),
        KeeperAction::Advertise(_) => "advertise".into(),
        KeeperAction::AskAgent => "ask agent".into(),
    }
}

/// Next state and actions.
fn after(state: TestState, event: TestEvent, facts: &Facts, moment: &Moment) -> (TestState, Vec<String>) {
    let Step { state, actions } = step(state, event, facts, moment);
    (state, actions.iter().map(words).collect())
}

#[test]
fn each_event_leads_to_its_state_and_actions() {
    let rows: Vec<(TestState, TestEvent, &str, &[&str])> = vec![
        // The launcher comes.
        (waiting(), KeeperEvent::Changed, "Waiting", &["connect"]),
        (waiting(), KeeperEvent::NotListening, "Waiting", &["retry later"]),
        (waiting(), KeeperEvent::NotConnected, "Waiting", &["retry later"]),
        (waiting(), first(Life::Empty), "Connected", &["forget retry", "hand over"]),
        (waiting(), first(Life::Preparing), "Running", &["forget retry"]),
        (waiting(), first(Life::Running), "Running", &["forget retry"]),
        (waiting(), first(Life::Failed), "Ended", &["forget retry"]),
        // The VMI is handed over once.
        (connected(), KeeperEvent::Changed, "Connected", &["hand over"]),
        (connected(), handed_over(), "Prepared", &["forget retry", "record Created"]),
        (connected(), not_handed_over(), "Connected, failed", &["retry later"]),
        (connected(), heard(Life::Preparing), "Running", &[]),
        (failed(), KeeperEvent::Changed, "Connected, failed", &["hand over"]),
        (failed(), KeeperEvent::SettingsChanged, "Connected, failed", &["forget retry", "hand over"]),
        (failed(), handed_over(), "Prepared", &["forget retry", "record Created"]),
        (failed(), heard(Life::Running), "Running", &[]),
        (prepared(), KeeperEvent::Changed, "Prepared", &[]),
        (prepared(), heard(Life::Empty), "Prepared", &[]),
        (prepared(), heard(Life::Preparing), "Running", &[]),
        (prepared(), heard(Life::Failed), "Ended", &[]),
        // The launcher runs the VMI.
        (running(true), heard(Life::Paused), "Running", &[]),
        (running(true), heard(Life::Succeeded), "Ended", &[]),
        (running(true), heard(Life::Empty), "Prepared", &[]),
        (running(false), heard(Life::Empty), "Connected", &["hand over"]),
        (running(true), not_requested(), "Running", &["retry later"]),
        (running(true), KeeperEvent::NotWritten, "Running", &["retry later"]),
        // The connection breaks off.
        (connected(), broke(), "Connected, lost", &["connect"]),
        (prepared(), broke(), "Prepared, lost", &["connect"]),
        (running(true), broke(), "Running, lost", &["connect"]),
        (lost(connected()), KeeperEvent::NotConnected, "Connected, lost", &["retry later"]),
        (lost(connected()), first(Life::Empty), "Connected", &["forget retry", "hand over"]),
        (lost(prepared()), first(Life::Empty), "Prepared", &["forget retry"]),
        (lost(prepared()), first(Life::Running), "Running", &["forget retry"]),
        (lost(running(true)), first(Life::Running), "Running", &["forget retry"]),
        // The launcher is gone.
        (lost(running(true)), KeeperEvent::NotListening, "Running, lost", &["read last state"]),
        (lost(running(true)), last(None, None), "Running, silent", &["retry later"]),
        (lost(running(true)), last(Some(Life::Running), None), "Running, silent", &["retry later"]),
        (lost(running(true)), last(Some(Life::Succeeded), None), "Ended", &[]),
        (lost(prepared()), last(None, Some("exit code 1")), "Ended", &[]),
        (waiting(), last(None, Some("exit code 1")), "Ended", &[]),
        (waiting(), last(None, None), "Waiting, silent", &["retry later"]),
        (ended(), KeeperEvent::Changed, "Ended", &[]),
        (ended(), heard(Life::Running), "Ended", &[]),
        (ended(), first(Life::Running), "Ended", &["forget retry"]),
    ];
    for (state, event, expected, actions) in rows {
        let what = format!("{} and {event:?}", name(&state));
        let (state, done) = after(state, event, &facts("Scheduled"), &moment());
        assert_eq!(
            (name(&state).as_str(), done),
            (expected, actions.iter().map(|a| (*a).to_owned()).collect()),
            "{what}"
        );
    }
}

#[test]
fn the_decision_is_carried_out_as_far_as_it_is_permitted() {
    let pause = Moment { may_try: false, ..writing() };
    let deaf = Moment { may_listen: false, ..writing() };
    let late = Moment { writes: Writes::Last, ..writing() };
    let silent = Moment { may_request: false, ..moment() };
    let rows: Vec<(TestState, TestEvent, Facts, Moment, &[&str])> = vec![
        (waiting(), KeeperEvent::Changed, facts("Scheduled"), pause.clone(), &[]),
        (waiting(), KeeperEvent::Changed, facts("Scheduled"), deaf.clone(), &[]),
        (
            waiting(),
            KeeperEvent::SettingsChanged,
            facts("Scheduled"),
            pause.clone(),
            &["forget retry", "connect"],
        ),
        // A VMI that runs has a launcher that listened, to an earlier virt-handler.
        (waiting(), KeeperEvent::NotListening, facts("Running"), pause.clone(), &["read last state"]),
        (connected(), KeeperEvent::Changed, facts("Scheduled"), pause.clone(), &[]),
        (
            connected(),
            KeeperEvent::Changed,
            facts("Running"),
            pause.clone(),
            &["write Failed Stopped Deleted, last"],
        ),
        (
            connected(),
            not_handed_over(),
            facts("Scheduled"),
            writing(),
            &["retry later", "write Scheduled SyncFailed"],
        ),
        (prepared(), heard(Life::Running), facts("Scheduled"), writing(), &["write Running Started"]),
        (prepared(), heard(Life::Running), facts("Scheduled"), late.clone(), &[]),
        (
            prepared(),
            heard(Life::Succeeded),
            facts("Running"),
            late.clone(),
            &["write Succeeded Stopped Deleted, last"],
        ),
        (running(true), KeeperEvent::Changed, deleted(30), moment(), &["shutdown 30 ShuttingDown"]),
        (running(true), KeeperEvent::Changed, deleted(30), silent.clone(), &[]),
        (lost(running(true)), KeeperEvent::Changed, deleted(30), Moment { may_try: false, ..moment() }, &[]),
        // virt-controller removes the pod of a VMI that has ended.
        (running(true), KeeperEvent::Changed, facts("Failed"), writing(), &[]),
        (waiting(), KeeperEvent::Changed, facts("Succeeded"), writing(), &[]),
    ];
    for (state, event, facts, moment, actions) in rows {
        let what = format!("{} and {event:?}", name(&state));
        let (_, done) = after(state, event, &facts, &moment);
        assert_eq!(done, actions, "{what}");
    }
}

#[test]
fn without_settings_or_a_folder_nothing_is_handed_over() {
    let mut unknown = facts("Scheduled");
    unknown.permitted = Permitted::NotKnown;
    assert_eq!(after(connected(), KeeperEvent::Changed, &unknown, &writing()).1, Vec::<String>::new());
    let mut wrong = facts("Scheduled");
    wrong.place = Err(HandOverFailure { message: "the pod has no socket".into(), hopeless: false });
    let (_, done) = after(waiting(), KeeperEvent::Changed, &wrong, &writing());
    assert_eq!(done, ["write Scheduled SyncFailed"]);
}

/// A hand-over whose answer was lost.
#[test]
fn a_failure_of_the_hand_over_is_forgotten_once_the_launcher_has_the_vmi() {
    let (state, done) = after(failed(), heard(Life::Running), &facts("Scheduled"), &writing());
    assert_eq!((state.failure(), done), (None, vec!["write Running Started".to_owned()]));
}

#[test]
fn the_end_of_a_container_is_looked_for_while_the_launcher_is_not_connected() {
    let mut facts = facts("Scheduled");
    let mut pod = (*pod()).clone();
    pod.status.phase = "Failed".into();
    facts.pod = Arc::new(pod);
    assert_eq!(after(waiting(), KeeperEvent::Changed, &facts, &moment()).1, ["read last state"]);
    assert_eq!(after(prepared(), KeeperEvent::Changed, &facts, &moment()).1, Vec::<String>::new());
    assert_eq!(after(lost(prepared()), KeeperEvent::Changed, &facts, &moment()).1, ["read last state"]);
}

#[test]
fn a_launcher_that_stays_silent_has_ended_after_a_minute() {
    let (first, facts) = (moment(), facts("Running"));
    let (state, _) = after(lost(running(true)), last(None, None), &facts, &first);
    let soon = Moment { now: first.now + KUBELET - Duration::from_millis(1), ..first.clone() };
    let (state, done) = after(state, last(None, None), &facts, &soon);
    assert_eq!((name(&state).as_str(), done), ("Running, silent", vec!["retry later".to_owned()]));
    let late = Moment { now: first.now + KUBELET, ..writing() };
    let (state, done) = after(state, last(None, None), &facts, &late);
    assert_eq!((name(&state).as_str(), done.len()), ("Ended", 1), "{done:?}");
    assert!(done[0].starts_with("write Failed"), "{done:?}");
    // The minute begins anew after a connection.
    let (state, _) = after(lost(running(true)), last(None, None), &facts, &first);
    let (state, _) = after(
        state,
        KeeperEvent::Connected { connection: "new", first: reported(Life::Running) },
        &facts,
        &first,
    );
    let (state, _) = after(state, broke(), &facts, &first);
    let (state, _) = after(state, last(None, None), &facts, &Moment { writes: Writes::None, ..late });
    assert_eq!(name(&state), "Running, silent");
}

#[test]
fn a_request_is_sent_again_once_the_launcher_or_the_spec_changes() {
    let request = KeeperEvent::Requested(Request::Shutdown { grace: Some(30) });
    let (state, done) = after(running(true), request, &deleted(30), &moment());
    assert_eq!(done, Vec::<String>::new());
    let (state, done) = after(state, KeeperEvent::Changed, &deleted(10), &moment());
    assert_eq!(done, ["shutdown 10 ShuttingDown"], "the grace period became shorter");
    let mut newer = reported(Life::Running);
    newer.number = 2;
    let heard = KeeperEvent::Heard { newest: Some(newer), is_open: true };
    assert_eq!(after(state, heard, &deleted(30), &moment()).1, ["shutdown 30 ShuttingDown"]);
}

#[test]
fn a_request_that_was_refused_is_sent_again() {
    let (state, done) =
        after(running(true), not_requested(), &deleted(30), &Moment { may_request: false, ..moment() });
    assert_eq!(done, ["retry later"]);
    assert_eq!(after(state, KeeperEvent::Changed, &deleted(30), &moment()).1, ["shutdown 30 ShuttingDown"]);
}

/// The launcher refuses the one of the first interface each time.
#[test]
fn a_link_that_is_refused_delays_no_other() {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    let interface = |name: &str| json!({"name": name, "bridge": {}, "state": "down"});
    object["spec"]["domain"]["devices"]["interfaces"] = json!([interface("a"), interface("b")]);
    let network = |name: &str| json!({"name": name, "multus": {"networkName": "lan"}});
    object["spec"]["networks"] = json!([network("a"), network("b")]);
    let facts = facts_of(object);
    let heard = |number| {
        let links = [("a".to_owned(), true), ("b".to_owned(), true)].into();
        let state = launcher::State { number, links, ..*reported(Life::Running) };
        KeeperEvent::Heard { newest: Some(Box::new(state)), is_open: true }
    };
    let down = |name: &str| Request::Link { interface: name.into(), up: false };
    let (state, done) = after(running(true), heard(1), &facts, &moment());
    assert_eq!(done, [format!("{:?}", down("a"))]);
    let refused = KeeperEvent::NotRequested(down("a"));
    let (state, _) = after(state, refused, &facts, &Moment { may_request: false, ..moment() });
    let (state, done) = after(state, KeeperEvent::Changed, &facts, &moment());
    assert_eq!(done, [format!("{:?}", down("b"))]);
    let (state, done) = after(state, KeeperEvent::Requested(down("b")), &facts, &moment());
    assert_eq!(done, Vec::<String>::new());
    let (_, done) = after(state, heard(2), &facts, &moment());
    assert_eq!(done, [format!("{:?}", down("a"))], "it has its turn again");
}

#[test]
fn a_link_that_does_not_move_is_asked_for_once() {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["spec"]["domain"]["devices"]["interfaces"] =
        json!([{"name": "lan", "bridge": {}, "state": "down"}]);
    object["spec"]["networks"] = json!([{"name": "lan", "multus": {"networkName": "lan"}}]);
    let facts = facts_of(object);
    let up = |number, doing: Option<&str>| {
        let doing = doing.map(str::to_owned);
        let state = launcher::State {
            number,
            doing,
            links: [("lan".into(), true)].into(),
            ..*reported(Life::Running)
        };
        KeeperEvent::Heard { newest: Some(Box::new(state)), is_open: true }
    };
    let down = Request::Link { interface: "lan".into(), up: false };
    let (state, done) = after(running(true), up(1, Some("link")), &facts, &moment());
    assert_eq!(done, Vec::<String>::new(), "the launcher is busy");
    let (state, done) = after(state, up(2, None), &facts, &moment());
    assert_eq!(done, [format!("{down:?}")]);
    let (state, done) = after(state, KeeperEvent::Requested(down.clone()), &facts, &moment());
    assert_eq!(done, Vec::<String>::new());
    let (state, done) = after(state, up(3, None), &facts, &moment());
    assert_eq!(done, Vec::<String>::new(), "nothing but the number has changed");
    let other = launcher::State {
        links: [("lan".into(), true), ("b".into(), true)].into(),
        ..*reported(Life::Running)
    };
    let other = KeeperEvent::Heard { newest: Some(Box::new(other)), is_open: true };
    assert_eq!(after(state, other, &facts, &moment()).1, [format!("{down:?}")]);
}

#[test]
fn the_guest_agent_is_asked_when_it_comes_and_from_time_to_time() {
    let (at, facts) = (moment(), facts("Running"));
    let agent = |agent| {
        let state = launcher::State { agent, ..*reported(Life::Running) };
        KeeperEvent::Heard { newest: Some(Box::new(state)), is_open: true }
    };
    let ask_at = |state: &TestState| state.ask_at().map(|ask| ask - at.now);
    let report = || Some(GuestReport { info: launcher::GuestInfo::default(), left_out: None });
    let (state, done) = after(running(true), agent(true), &facts, &at);
    assert_eq!(done, ["ask agent"]);
    let (state, done) = after(state, KeeperEvent::AskDelayed(at.now + Duration::from_secs(3)), &facts, &at);
    assert_eq!((ask_at(&state), done.len()), (Some(Duration::from_secs(3)), 0));
    let (state, _) = after(state, KeeperEvent::Asked(None), &facts, &at);
    assert_eq!((ask_at(&state), state.report()), (Some(ASK_AGENT.0), None));
    let (state, _) = after(state, KeeperEvent::Asked(report()), &facts, &at);
    assert_eq!((ask_at(&state), state.report()), (Some(ASK_AGENT.0), report().as_ref()));
    let (state, _) = after(state, KeeperEvent::Asked(None), &facts, &at);
    assert_eq!(
        (ask_at(&state), state.report()),
        (Some(ASK_AGENT.1), report().as_ref()),
        "the last report stays"
    );
    let later = Moment { now: at.now + ASK_AGENT.1, ..at.clone() };
    let (state, done) = after(state, KeeperEvent::Changed, &facts, &later);
    assert_eq!(done, ["ask agent"]);
    // A lost connection keeps the report, and asks nothing.
    let (state, done) = after(state, broke(), &facts, &Moment { may_try: false, ..later.clone() });
    assert_eq!((done.len(), ask_at(&state), state.report()), (0, None, report().as_ref()));
    let (state, _) = after(state, first(Life::Running), &facts, &later);
    assert!(state.run().is_some_and(|run| run.agent.is_none()), "the agent has gone");
}

#[test]
fn the_router_begins_once_with_the_guest() {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["spec"]["domain"]["devices"]["interfaces"] = json!([{"name": "default", "masquerade": {}}]);
    object["spec"]["networks"] = json!([{"name": "default", "pod": {}}]);
    let (at, facts) = (moment(), facts_of(object));
    let (state, done) = after(prepared(), heard(Life::Preparing), &facts, &at);
    assert_eq!(done, Vec::<String>::new(), "the guest does not run yet");
    let (state, done) = after(state, heard(Life::Running), &facts, &at);
    assert_eq!(done, ["advertise"]);
    let (state, done) = after(state, KeeperEvent::NotAdvertised, &facts, &at);
    assert_eq!(done, Vec::<String>::new(), "not before a pause");
    let later = Moment { now: at.now + Duration::from_secs(60), ..at.clone() };
    let (state, _) = after(state, broke(), &facts, &at);
    let (state, done) =
        after(state, KeeperEvent::Changed, &facts, &Moment { may_try: false, ..later.clone() });
    assert_eq!(done, Vec::<String>::new(), "the launcher is not connected");
    let (state, done) = after(state, first(Life::Running), &facts, &later);
    assert_eq!(done, ["forget retry", "advertise"]);
    let (state, done) = after(state, KeeperEvent::Advertised("router"), &facts, &later);
    assert_eq!(done, Vec::<String>::new());
    // It outlives a connection.
    let (state, _) = after(state, broke(), &facts, &later);
    let (state, done) = after(state, first(Life::Running), &facts, &later);
    assert_eq!(done, ["forget retry"]);
    assert!(state.run().is_some_and(|run| run.router == Router::On("router")));
}

/// An agent that is connected is known in the first report of a launcher.
#[test]
fn an_agent_is_known_from_the_first_report() {
    let at = moment();
    let report = Box::new(launcher::State { agent: true, ..*reported(Life::Running) });
    let connected = KeeperEvent::Connected { connection: "new", first: report };
    let (state, done) = after(waiting(), connected, &facts("Running"), &at);
    assert_eq!(done, ["forget retry", "ask agent"]);
    assert!(state.run().is_some_and(|run| run.agent == Some(Agent { ask_at: at.now, report: None })));
}

/// A VMI that runs here and migrates away.
fn migrating(more: Value) -> Facts {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    object["status"]["nodeName"] = json!("node1");
    object["status"]["migrationState"] =
        json!({"migrationUid": "m", "sourceNode": "node1", "targetNode": "node2"});
    if let (Some(state), Value::Object(more)) = (object["status"]["migrationState"].as_object_mut(), more) {
        state.extend(more);
    }
    facts_of(object)
}

/// A keeper acts until there is nothing to do: the same action again would be done for ever.
#[test]
fn an_abort_is_sent_once_also_of_a_migration_that_an_earlier_virt_handler_ordered() {
    let facts = migrating(json!({"abortRequested": true}));
    let mut state = running(true);
    let told = Migration { id: "m".into(), ..Migration::default() };
    state.session_mut().unwrap().launcher.migration = Some(told);
    let (state, actions) = after(state, KeeperEvent::Changed, &facts, &moment());
    assert_eq!(actions, [r#"AbortMigration { id: "m" }"#]);
    let request = Request::AbortMigration { id: "m".into() };
    let (state, actions) = after(state, KeeperEvent::Requested(request.clone()), &facts, &moment());
    assert_eq!(actions, [""; 0]);
    let (state, _) = after(state, KeeperEvent::NotRequested(request), &facts, &moment());
    let (_, actions) = after(state, KeeperEvent::Changed, &facts, &moment());
    assert_eq!(actions, [r#"AbortMigration { id: "m" }"#], "it was not sent");
}

#[test]
fn a_certificate_that_could_not_be_made_is_made_after_the_pause() {
    let facts = migrating(json!({}));
    let (state, actions) = after(running(true), KeeperEvent::Changed, &facts, &moment());
    assert_eq!(actions, ["announce m"]);
    let (_, actions) = after(state, KeeperEvent::NotOpened, &facts, &moment());
    assert_eq!(actions, ["retry later"]);
}

/// The conditions of the VMI are the source's.
#[test]
fn a_target_that_cannot_be_prepared_records_each_new_reason_once() {
    let facts = Facts { role: Role::Target, ..migrating(json!({"targetNode": "node1"})) };
    let pause = || Moment { may_try: false, ..moment() };
    let (state, actions) = after(connected(), not_handed_over(), &facts, &pause());
    assert_eq!(actions, ["retry later", "record SyncFailed"]);
    let (state, actions) = after(state, not_handed_over(), &facts, &pause());
    assert_eq!(actions, ["retry later"]);
    let failure = HandOverFailure { message: "no network".into(), hopeless: false };
    let (_, actions) = after(state, KeeperEvent::NotHandedOver { links: None, failure }, &facts, &pause());
    assert_eq!(actions, ["retry later", "record SyncFailed"]);
}

#[test]
fn findings_about_the_connections_are_written_when_they_are_made() {
    let facts = migrating(json!({}));
    let mut state = running(true);
    let end = MigrationEnd::new("m", "own".into(), Stage::Ordered);
    state.run_mut().unwrap().migration = Some(end);
    let findings = Findings { failure: Some("it broke off".into()), is_closed: false };
    let (state, _) =
        after(state, KeeperEvent::Changed, &facts, &Moment { findings: findings.clone(), ..moment() });
    assert_eq!(state.migration().unwrap().findings, findings);
}

/// libvirt waits for a target that does not answer. Its abort has a time.
#[test]
fn the_connections_of_an_abort_that_does_not_end_are_closed_once() {
    let facts = migrating(json!({}));
    let mut state = running(true);
    let run = state.run_mut().unwrap();
    run.migration = Some(MigrationEnd::new("m", "own".into(), Stage::Ordered));
    let told = |phase| {
        let migration = Migration { id: "m".into(), phase, ..Migration::default() };
        launcher::State { migration: Some(migration), ..*reported(Life::Running) }
    };
    let heard = |phase| KeeperEvent::Heard { newest: Some(Box::new(told(phase))), is_open: true };
    let begin = moment();
    let later = |seconds| Moment { now: begin.now + Duration::from_secs(seconds), ..begin.clone() };
    let closes = |actions: &[String]| actions.iter().any(|action| action == "close migration");
    let (state, actions) = after(state, heard(MigrationPhase::Running), &facts, &later(0));
    assert_eq!((closes(&actions), state.cut_at()), (false, None));
    let (state, actions) = after(state, heard(MigrationPhase::Aborting), &facts, &later(100));
    assert_eq!((closes(&actions), state.cut_at()), (false, Some(later(110).now)));
    let (state, actions) = after(state, heard(MigrationPhase::Aborting), &facts, &later(109));
    assert_eq!(
        (closes(&actions), state.cut_at()),
        (false, Some(later(110).now)),
        "its time is not begun anew"
    );
    let (state, actions) = after(state, KeeperEvent::Changed, &facts, &later(110));
    assert_eq!((closes(&actions), state.cut_at()), (true, None));
    let (state, actions) = after(state, heard(MigrationPhase::Aborting), &facts, &later(130));
    assert_eq!((closes(&actions), state.cut_at()), (false, None));
}
