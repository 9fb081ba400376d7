//! The page in a browser: 500 VMs, one of them, its console, its screen; on a large page and on a phone.

use crate::Page;
use crate::browser::Browser;
use crate::guest::{COLOUR, COPIED};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

/// Counts repainted rows, and the longest time for which the page was busy.
const COUNT: &str = "(() => {
    window.seen = { rows: new Set(), longest: 0 };
    new MutationObserver((all) => all.forEach(({ target }) => {
        const row = (target.nodeType === 1 ? target : target.parentElement)?.closest('tr');
        window.seen.rows.add(row ? row.innerText.split(/\\s/)[0] : 'the table');
    })).observe(document.querySelector('#list tbody'), { subtree: true, childList: true, characterData: true });
    new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => {
        window.seen.longest = Math.max(window.seen.longest, duration);
    })).observe({ entryTypes: ['longtask'] });
})()";

fn visible(browser: &mut Browser) -> u64 {
    browser.value("document.querySelectorAll('#list tbody tr').length").as_u64().unwrap()
}

/// Expression that is true if the screen has the colour of the guest.
fn painted() -> String {
    let pixel = "(() => { const c = document.querySelector('.screen canvas'); \
        return c && [...c.getContext('2d').getImageData(80, 50, 1, 1).data].slice(0, 3).join() })()";
    format!("{pixel} === '{}'", COLOUR.map(|part| part.to_string()).join(","))
}

/// Expression that is true if the page does not scroll sideways.
#[track_caller]
fn fits(browser: &mut Browser) {
    let wide = browser.value("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    assert!(wide <= 0, "{wide} pixels too wide");
}

#[test]
fn five_hundred_vms_are_listed_searched_and_followed() {
    let Some(mut browser) = Browser::start() else { return };
    let page = Page::of(500, &[]);
    browser.size(1280, 800, false);
    browser.prefers("light");
    browser.open(&page.address());
    browser.until("document.querySelectorAll('#list tbody tr').length === 500");
    assert_eq!(browser.value("location.href"), json!(format!("http://127.0.0.1:{}/", page.port)));
    assert_eq!(browser.value("document.cookie"), json!(""), "the page has no cookie");
    assert_eq!(browser.text("#count"), "500 VMs");
    browser.says("#link", "Live");
    browser.says("#where", "namespace blue");
    fits(&mut browser);
    browser.picture("list-light");
    browser.prefers("dark");
    browser.picture("list-dark");
    browser.prefers("light");

    // The search, opened by its key.
    browser.key("/", "Slash", 191, 0, "/");
    for letter in ["4", "2"] {
        browser.key(letter, &format!("Digit{letter}"), 48, 0, letter);
    }
    browser.until("document.querySelector('#search').value === '42'");
    browser
        .until("[...document.querySelectorAll('#list tbody tr')].every((r) => r.innerText.includes('42'))");
    let found = visible(&mut browser);
    assert!(found > 3 && found < 60, "{found}");
    browser.says("#count", "of 500 VMs");
    browser.key("Escape", "Escape", 27, 0, "");
    browser.until("document.querySelectorAll('#list tbody tr').length === 500");
    browser.value("(() => { const s = document.querySelector('#state'); s.value = 'Stopped'; s.dispatchEvent(new Event('change')) })()");
    browser.until("document.querySelectorAll('#list tbody tr').length === 100");
    browser.value("(() => { const s = document.querySelector('#state'); s.value = ''; s.dispatchEvent(new Event('change')) })()");
    browser.until("document.querySelectorAll('#list tbody tr').length === 500");

    // One change paints one row.
    browser.value(COUNT);
    page.server.says("vm-0007", "Migrating");
    browser.until(
        "document.querySelector('a[href=\"#/blue/vm-0007\"]').closest('tr').innerText.includes('Migrating')",
    );
    assert_eq!(browser.value("[...window.seen.rows].join()"), json!("vm-0007"));
    // Changes of all rows at once do not block the page for long.
    for number in 0..500 {
        page.server.says(&format!("vm-{number:04}"), "Starting");
    }
    browser.until("[...document.querySelectorAll('#list td[data-column=status]')].every((c) => c.innerText === 'Starting')");
    let longest = browser.value("window.seen.longest").as_f64().unwrap();
    eprintln!("500 changes: the page was busy for {longest} ms at most");
    assert!(longest < 1000.0, "{longest} ms");
    page.server.deletes("vm-0007");
    browser.until("document.querySelectorAll('#list tbody tr').length === 499");

    // By the keyboard alone: to the first row, down, and into the VM.
    browser.value("document.querySelector('#list tbody a').focus()");
    browser.key("ArrowDown", "ArrowDown", 40, 0, "");
    browser.key("Enter", "Enter", 13, 0, "\r");
    browser.says("#vm h2", "vm-0001");
    browser.key("Escape", "Escape", 27, 0, "");
    browser.until("document.querySelector('#vm').hidden && document.activeElement.innerText === 'vm-0001'");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_vm_is_seen_stopped_and_typed_to() {
    let Some(mut browser) = Browser::start() else { return };
    let mut page = Page::of(12, &[]);
    browser.size(1500, 850, false);
    browser.prefers("dark");
    let origin = format!("http://127.0.0.1:{}", page.port);
    let permissions =
        json!({"origin": origin, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.call("Browser.grantPermissions", &permissions);
    browser.open(&page.address());
    browser.click("a[href='#/blue/vm-0003']");
    browser.says("#standing", "Running · namespace blue · node node-3");
    browser.until("document.querySelector('.why .says')?.innerText.length > 3");
    browser.says(".events", "Warning: Reason0");
    browser.click(".body > div > button");
    browser.until("document.querySelectorAll('.events li').length === 20");
    browser.says("dl", "2 (sockets 1, cores 2, threads 1)");
    browser.picture("details");

    // A question comes before a guest is shut down.
    browser.click("[data-verb=stop]");
    browser.says("dialog[open]", "Stop VM vm-0003?");
    browser.picture("question");
    browser.click("dialog .answers button:first-child");
    browser.until("!document.querySelector('dialog').open");
    assert!(page.server.asked().is_empty());
    browser.click("[data-verb=stop]");
    browser.click("dialog .answers .strong");
    browser.says("#said", "stop was asked for");
    let part = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachines/vm-0003";
    assert_eq!(page.server.asked(), [format!("PUT {part}/stop")]);
    page.server.says("vm-0003", "Stopping");
    browser.says("#said", "VM vm-0003: Stopping");
    page.server.says("vm-0003", "Running");
    let said = crate::server::status(409, "VM is being migrated");
    page.server.answers(&format!("PUT {part}/restart"), 409, &said);
    browser.click("[data-verb=restart]");
    browser.click("dialog .answers .strong");
    browser.says("#alarm", "cannot restart VM vm-0003 in namespace blue: VM is being migrated");
    browser.click("#alarm button");

    // The console echoes typed and pasted text.
    browser.click("[data-panel=console]");
    browser.says(".xterm-rows", "vm login:");
    let colours = "[...document.querySelectorAll('.xterm-rows span')].some((s) => getComputedStyle(s).color === 'rgb(10, 200, 90)')";
    browser.until(colours);
    browser.types("hello\n");
    browser.says(".xterm-rows", "login: hello");
    browser.value("navigator.clipboard.writeText('pasted by hand')");
    browser.click("[data-panel=console] .tools button:nth-of-type(4)");
    browser.says(".xterm-rows", "pasted by hand");
    let cells = "(() => { const rows = document.querySelector('.xterm-rows'); return [rows.children.length, \
        Math.round(rows.getBoundingClientRect().width)] })()";
    assert_eq!(browser.value(cells)[0], json!(24), "a guest has 24 lines until it is told otherwise");
    browser.types("\nflood\n");
    browser.says(".xterm-rows", "the end");
    browser.wheel(".xterm-screen", -400);
    browser.until("!document.querySelector('.xterm-rows').innerText.includes('the end')");
    browser.wheel(".xterm-screen", 4000);
    browser.says(".xterm-rows", "the end");

    // The screen beside it.
    browser.click("#switches [data-panel=screen]");
    browser.says("[data-panel=screen] .state", "Connected");
    browser.until(&painted());

    // Text that the guest copies reaches the clipboard by a click alone.
    let copy = "[data-panel=screen] .tools:last-of-type button:nth-of-type(4)";
    browser.says(copy, "Copy the guest's text");
    assert_eq!(browser.value("navigator.clipboard.readText()"), json!("pasted by hand"));
    browser.click(copy);
    browser.says("[data-panel=screen] .state", "Copied");
    assert_eq!(browser.value("navigator.clipboard.readText()"), json!(COPIED));

    browser.click(".screen canvas");
    browser.types("ab");
    browser.value("document.querySelector('[data-panel=screen] input').value = 'C!'");
    browser.click("[data-panel=screen] .tools:last-of-type button");
    let wanted = [0x61, 0x62, 0xffe1, 0x43, 0xffe1, 0x21];
    let begun = std::time::Instant::now();
    while page.server.keys() != wanted {
        assert!(begun.elapsed().as_secs() < 30, "{:x?}", page.server.keys());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    browser.picture("console-and-screen");
    browser.prefers("light");
    browser.picture("console-and-screen-light");

    // Ctrl-Shift-L moves the focus from the screen to its switch.
    browser.click(".screen canvas");
    browser.key("L", "KeyL", 76, 2 | 8, "");
    browser.until(
        "document.activeElement.dataset.panel === 'screen' && document.activeElement.tagName === 'BUTTON'",
    );

    // Another client has the keyboard: this one is read-only.
    browser.click("#switches [data-panel=console]");
    page.server.takes_consoles();
    browser.click("#switches [data-panel=console]");
    browser.says("[data-panel=console] .state", "another client types");
    browser.click("[data-panel=console] .tools button:nth-of-type(1)");
    browser.until("document.querySelector('[data-panel=console] .state').innerText === 'Connected'");
    browser.click("#switches [data-panel=screen]");
    browser.click("#switches [data-panel=screen]");
    browser.says("[data-panel=screen] .state", "another client types");
    browser.until(&painted());
    browser.click("[data-panel=screen] .tools button:nth-of-type(1)");
    browser.until("document.querySelector('[data-panel=screen] .state').innerText === 'Connected'");

    page.server.deletes("vm-0003");
    browser.says("#standing", "Not there");
    page.end();
    browser.says("#link", "coracle ui has ended");

    assert_eq!(browser.complaints(), [""; 0]);
    let requests = browser.requests();
    assert!(requests.len() > 60, "{}", requests.len());
    for request in requests {
        let ours = [&origin, &origin.replace("http:", "ws:"), "data:", "about:blank"];
        assert!(ours.iter().any(|start| request.starts_with(*start)), "{request}");
    }
}

#[test]
fn the_screen_of_one_vmi_is_shown_first() {
    let Some(mut browser) = Browser::start() else { return };
    let page = Page::shown_by(12, &["virt", "vnc", "vm-0003", "--web", "--proxy-only"]);
    browser.size(1500, 850, false);
    browser.open(&page.address());
    browser.says("#standing", "Running · namespace blue · node node-3");
    browser.says("[data-panel=screen] .state", "Connected");
    browser.until(&painted());
    assert_eq!(visible(&mut browser), 1, "the list has this VM alone");
    browser.picture("screen-alone");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_phone_shows_one_thing_at_a_time() {
    let Some(mut browser) = Browser::start() else { return };
    let page = Page::of(40, &["-A"]);
    browser.size(390, 780, true);
    browser.prefers("light");
    browser.open(&page.address());
    browser.until("document.querySelectorAll('#list tbody tr').length === 40");
    browser.says("#where", "all namespaces");
    fits(&mut browser);
    browser.picture("phone-list");
    browser.click("a[href='#/blue/vm-0002']");
    browser.until("document.querySelector('.why .says')?.innerText.length > 3");
    browser.until("document.querySelector('#list').getClientRects().length === 0");
    fits(&mut browser);
    browser.picture("phone-vm");
    browser.click("#switches [data-panel=console]");
    browser.says(".xterm-rows", "vm login:");
    assert_eq!(browser.value("document.querySelectorAll('#panels > section').length"), json!(1));
    fits(&mut browser);
    browser.picture("phone-console");
    browser.click("#switches [data-panel=screen]");
    browser.until(&painted());
    fits(&mut browser);
    browser.picture("phone-screen");
    browser.click("#back");
    browser.until("document.querySelector('#vm').hidden");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// A web server in a guest of `coracle run -p` has another port of the same address, and cookies ignore
/// ports.
#[test]
fn a_server_at_another_port_of_this_address_gets_nothing_of_the_session() {
    let Some(mut browser) = Browser::start() else { return };
    let page = Page::of(3, &[]);
    browser.open(&page.address());
    browser.says("#link", "Live");
    let guest = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}/", guest.local_addr().unwrap());
    let seen = std::thread::spawn(move || {
        let (stream, _) = guest.accept().unwrap();
        let lines: Vec<String> =
            BufReader::new(&stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let body = "<!doctype html><title>guest</title>";
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
        write!(&stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        lines
    });
    browser.open(&address);
    browser.until("document.title === 'guest'");
    let head = seen.join().unwrap();
    let told: Vec<&String> = head.iter().filter(|line| line.to_lowercase().contains("coracle")).collect();
    assert!(
        told.is_empty() && !head.iter().any(|line| line.to_lowercase().starts_with("cookie:")),
        "{head:?}"
    );
    assert_eq!(browser.value("Object.keys({ ...localStorage, ...sessionStorage }).length"), json!(0));
    // The page continues where it was, in this tab and in another one.
    for _ in 0..2 {
        browser.open(&format!("http://127.0.0.1:{}/", page.port));
        browser.says("#link", "Live");
    }
}
