//! The page of a cluster in a real browser. Needs Chromium: `cargo xtask test --tier browser`.
//!
//! The controller's own routes are served; only its cluster is made up. Pictures of everything are
//! left in the folder that the first test prints, to be looked at.

mod cluster;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use cluster::{EACH, HOSTILE, KINDS, Kind, Role, add_hostile, controller, leading};
use serde_json::{Value, json};
use walras_browser::{Chromium, Key, Pictures, Scheme, WIDTHS};
use walras_kube::controller::Staged;
use walras_node::serve::Server;

const LIVE: &str = "document.body.dataset.link === 'live'";
const FIGURES: &str = "[...document.querySelectorAll('.tile b')].map((one) => one.innerText)";
const GROUPS: &str = "[...document.querySelectorAll('#groups button')].filter((one) => \
    one.checkVisibility()).map((one) => [...one.children].map((part) => part.innerText))";
const COUNT: &str = "document.getElementById('count').textContent";

fn serve(controller: &Staged) -> Server {
    controller.serve(SocketAddr::from(([127, 0, 0, 1], 0))).expect("some port is free")
}

fn url(server: &Server) -> String {
    format!("http://{}/", server.address())
}

fn pictures() -> Pictures {
    Pictures::new(env!("CARGO_TARGET_TMPDIR"), "cluster")
}

fn picture(name: &str) -> PathBuf {
    pictures().path(name)
}

fn text(browser: &mut Chromium, id: &str) -> String {
    let text = browser.value(&format!("document.getElementById('{id}').innerText"));
    text.as_str().expect("a text").to_owned()
}

/// Waits until the page has asked twice more.
fn wait_for_news(browser: &mut Chromium) {
    let asked = "performance.getEntriesByName(location.origin + '/api/v1/cluster').length";
    let before = browser.value(asked).as_u64().expect("a number");
    browser.wait(&format!("{asked} >= {}", before + 2));
}

#[test]
fn the_page_fits_every_width_in_light_and_dark_and_has_every_pod() {
    let controller = leading(&KINDS, EACH);
    let server = serve(&controller);
    let mut browser = Chromium::start();
    println!("pictures are in {}", pictures().folder().display());
    for width in WIDTHS {
        let mut backs = Vec::new();
        for scheme in Scheme::ALL {
            browser.show(&url(&server), width, 900, scheme);
            browser.wait(LIVE);
            browser.wait(&format!("{COUNT} === '320'"));
            let case = format!("{width}-{}", scheme.name());
            browser.assert_usable(&case);
            // Refused are those of three kinds, and held back all but those who have it, and those
            // who were asked for a moment ago. 40 pods have 550m and 1200m, 280 have 100m and 400m.
            let figures = ["320", "120", "240", "40", "50.00", "160.0", "1.38", "0"];
            assert_eq!(browser.value(FIGURES), json!(figures), "{case}");
            backs.push(browser.value("getComputedStyle(document.body).backgroundColor"));
            browser.picture(&picture(&case));
        }
        assert_ne!(backs[0], backs[1], "dark is another colour than light");
        assert_eq!(browser.value(ALL_ROWS), json!(320), "every pod has its row at {width}");
        browser.picture(&picture(&format!("{width}-end")));
    }
    browser.assert_no_complaints();
}

/// How many rows are there to be seen when one scrolls from the top to the bottom.
const ALL_ROWS: &str = "(async () => {
    const seen = new Set();
    const later = requestAnimationFrame;
    const drawn = () => new Promise((done) => later(() => later(done)));
    for (let y = 0; ; y += innerHeight / 2) {
        scrollTo(0, y);
        await drawn();
        document.querySelectorAll('#pods tr[data-uid]').forEach((row) => seen.add(row.dataset.uid));
        if (y > document.documentElement.scrollHeight) return seen.size;
    }
})()";

#[test]
fn what_is_refused_says_why_at_every_width_and_leads_to_its_pods() {
    let controller = leading(&KINDS, EACH);
    let server = serve(&controller);
    let mut browser = Chromium::start();
    for width in WIDTHS {
        browser.show(&url(&server), width, 900, Scheme::Dark);
        browser.wait(&format!("{COUNT} === '320'"));
        let groups = browser.value(GROUPS);
        let named = |place: usize| (groups[place][0].clone(), groups[place][1].clone());
        let expected = [
            "Infeasible",
            "InvalidMode",
            "QuotaExceeded",
            "Deferred",
            "RecommendOnly",
            "Unanswered",
            "Applying",
        ];
        for (place, reason) in expected.into_iter().enumerate() {
            assert_eq!(named(place), (json!("40"), json!(reason)), "{groups}");
        }
        let sentence = |place: usize| groups[place][2].as_str().expect("a sentence");
        assert!(sentence(1).contains("`<b>on</b>` is not a mode"), "{groups}");
        assert!(sentence(2).contains("exceeded quota: cpu-of-the-team"), "{groups}");
        assert!(sentence(3).contains("It has waited for"), "{groups}");
        let first = "document.querySelector('#pods tr[data-uid] .status').innerText";
        let first = browser.value(first);
        let first: Vec<&str> = first.as_str().expect("a text").split_whitespace().collect();
        // The most urgent come first.
        assert!(expected[..3].contains(&first[1]), "{first:?}");
        browser.value("document.querySelectorAll('#groups button')[2].click()");
        browser.wait(&format!("{COUNT} === '40 of 320'"));
        browser.picture(&picture(&format!("{width}-filtered")));
        browser.value("document.querySelector('#pods tr[data-uid]').click()");
        browser.wait("!document.getElementById('detail').hidden");
        let told = text(&mut browser, "detail");
        assert!(told.contains("Pending: QuotaExceeded"), "{told}");
        assert!(told.contains("limited: limits.cpu=16."), "{told}");
        assert!(told.contains("describe podallocation"), "{told}");
        browser.assert_usable(&format!("a pod is open at {width}"));
        browser.picture(&picture(&format!("{width}-detail")));
        browser.press(Key::Escape);
        browser.wait("document.getElementById('detail').hidden");
    }
    browser.assert_no_complaints();
}

#[test]
fn text_from_objects_is_text() {
    let controller = leading(&[Kind::BadMode], 2);
    add_hostile(&controller);
    controller.lease_held_by("<i>other</i>_0123456789abcdef");
    controller.settings_seen(&[("mode", "<u>on</u>")]);
    let server = serve(&controller);
    let mut browser = Chromium::start();
    browser.show(&url(&server), 400, 900, Scheme::Light);
    browser.wait(&format!("{COUNT} === '3'"));
    let names = "[...document.querySelectorAll('td.name .name')].map((one) => one.textContent)";
    let names = browser.value(names);
    assert!(names.as_array().expect("names").contains(&json!(HOSTILE)), "{names}");
    let row = "[...document.querySelectorAll('#pods tr[data-uid]')]\
        .find((row) => row.dataset.uid === 'shop/hostile').click()";
    browser.value(row);
    browser.wait("!document.getElementById('detail').hidden");
    assert_eq!(browser.value("document.querySelector('.detail h2').textContent"), json!(HOSTILE));
    let told = text(&mut browser, "detail");
    assert!(told.contains(&format!("There is no pod {HOSTILE} in this namespace.")), "{told}");
    browser.picture(&picture("hostile-detail"));
    browser.press(Key::Escape);
    assert!(text(&mut browser, "standing").starts_with("<i>other</i> leads."));
    assert!(text(&mut browser, "problems").contains("mode: \"<u>on</u>\" is not one of"));
    let made =
        "document.querySelectorAll('img:not(.mark), i:not(.fill), u, td b, .sentence b').length";
    assert_eq!(browser.value(made), json!(0));
    assert_eq!(browser.value("document.title"), json!("Walras: the cluster"));
    browser.assert_usable("hostile");
    browser.picture(&picture("hostile"));
    browser.assert_no_complaints();
}

#[test]
fn an_empty_cluster_says_so_and_so_does_one_where_all_is_well() {
    let mut browser = Chromium::start();
    for width in WIDTHS {
        let controller = controller(Role::Elected);
        controller.lease_taken();
        let server = serve(&controller);
        browser.show(&url(&server), width, 900, Scheme::Light);
        browser
            .wait("document.getElementById('empty').innerText.includes('not all been read yet')");
        assert_eq!(text(&mut browser, "acting"), "reading");
        controller.settings_seen(&[]);
        controller.all_listed();
        browser.wait("document.getElementById('empty').innerText.startsWith('No pods yet. ')");
        let figures = ["0", "0", "0", "0", "0.00", "0.00", "0", "0"];
        assert_eq!(browser.value(FIGURES), json!(figures));
        browser.assert_usable("empty");
        browser.picture(&picture(&format!("{width}-empty")));
    }
    let server = serve(&leading(&[Kind::Applied], 3));
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait("document.getElementById('fine').innerText.startsWith('Every pod has what')");
    assert_eq!(browser.value(GROUPS), json!([]));
    browser.picture(&picture("fine"));
    browser.assert_no_complaints();
}

#[test]
fn who_acts_and_what_may_be_changed_is_said() {
    let pills = "['acting', 'mode'].map((id) => document.getElementById(id).innerText)";
    let mut browser = Chromium::start();
    let mut check = |name: &str, controller: &Staged, word: &str, mode: &str, told: &str| {
        let server = serve(controller);
        browser.show(&url(&server), 1400, 900, Scheme::Dark);
        browser.wait(LIVE);
        assert_eq!(browser.value(pills), json!([word, format!("mode {mode}")]), "{name}");
        let standing = text(&mut browser, "standing");
        assert!(standing.contains(told), "{name}: {standing}");
        browser.assert_usable(name);
        browser.picture(&picture(name));
    };
    let kinds = [Kind::Applied, Kind::Deferred];
    let acts = leading(&kinds, 3);
    let me = acts.me().rsplit_once('_').expect("a name and a number").0.to_owned();
    let mode = "requests-and-limits";
    check("acts", &acts, "acting", mode, &format!("{me} leads, and changes requests and limits."));
    acts.settings_seen(&[("mode", "limits-only")]);
    check("limits", &acts, "acting", "limits-only", "changes limits, and leaves requests alone.");
    acts.settings_seen(&[("mode", "off")]);
    check("off", &acts, "only watching", "off", "The mode is off");
    acts.settings_seen(&[("mode", "restore")]);
    check("restore", &acts, "giving back", "restore", "pods get back what they came with");
    acts.settings_seen(&[("mode", mode)]);
    acts.lease_held_by("walras-controller-5d8f-q2x7p_0123456789abcdef");
    let told = format!("walras-controller-5d8f-q2x7p leads. This is told by {me}, ");
    check("stands-by", &acts, "standing by", mode, &told);
    acts.lease_held_by(acts.me());
    check("lost", &acts, "stopped acting", mode, "could not renew its lease");
    check("nobody", &controller(Role::Elected), "nobody acts", "off", "knows of no controller");
    check("dry-run", &controller(Role::DryRun), "only watching", "off", "--dry-run");
    browser.assert_no_complaints();
}

#[test]
fn a_controller_that_is_mute_or_gone_is_said_and_one_that_returns_is_found() {
    let controller = leading(&KINDS, 2);
    let server = serve(&controller);
    let address = server.address();
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait(LIVE);
    server.stop();
    // Connections are made, and nobody ever answers.
    let mute = TcpListener::bind(address).expect("the port is free again");
    let gone = "document.body.dataset.link === 'gone' && !document.getElementById('gone').hidden";
    browser.wait(gone);
    let said = text(&mut browser, "gone");
    assert!(said.starts_with("The controller does not answer. It was last heard "), "{said}");
    browser.picture(&picture("gone"));
    drop(mute);
    let again = controller.serve(address).expect("the port is free again");
    browser.wait(LIVE);
    browser.wait("document.getElementById('gone').hidden");
    again.stop();
    browser.wait(gone);
}

#[test]
fn everything_can_be_done_with_the_keyboard_while_news_arrive() {
    let controller = leading(&KINDS, EACH);
    let server = serve(&controller);
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait(&format!("{COUNT} === '320'"));
    browser.press(Key::Slash);
    assert_eq!(browser.value("document.activeElement.id"), json!("filter"));
    let focused = "document.activeElement.dataset.uid ?? null";
    for _ in 0..20 {
        browser.press(Key::Tab);
        if browser.value(focused) != Value::Null {
            break;
        }
    }
    let uid = browser.value(focused);
    assert_ne!(uid, Value::Null, "a row can be reached");
    let ring = "getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.value(ring), json!("solid"), "it can be seen where one is");
    wait_for_news(&mut browser);
    assert_eq!(browser.value(focused), uid);
    browser.press(Key::Enter);
    browser.wait("!document.getElementById('detail').hidden");
    let hash = browser.value("decodeURIComponent(location.hash.slice(1))");
    assert_eq!(hash, uid, "it can be linked to");
    wait_for_news(&mut browser);
    assert_eq!(browser.value("document.activeElement.ariaLabel"), json!("Close"));
    browser.press(Key::Enter);
    browser.wait("document.getElementById('detail').hidden");
    assert_eq!(browser.value(focused), uid, "one is back where one was");
    browser.press(Key::Enter);
    browser.press(Key::Escape);
    browser.wait("document.getElementById('detail').hidden");
    browser.value("document.querySelector('#groups button').focus()");
    browser.press(Key::Enter);
    browser.wait(&format!("{COUNT} === '40 of 320'"));
    browser.assert_no_complaints();
}
