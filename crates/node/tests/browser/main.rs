//! The dashboard in a real browser. Needs Chromium: `cargo xtask test --tier browser`.
//!
//! Pictures of everything are left in the folder that the first test prints, to be looked at.

#[path = "../../examples/dashboard/made_up.rs"]
mod made_up;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use made_up::MadeUp;
use serde_json::json;
use walras_browser::{Chromium, Key, Pictures, Scheme, WIDTHS};
use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::WorkloadFacts;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Weight, WorkloadUid};
use walras_node::board::{Board, Identity, WorkloadKind, WorkloadLabel};
use walras_node::serve::{self, ServeSettings, Server};

const LIVE: &str = "document.body.dataset.link === 'live'";
const PLOTTED: &str = "document.querySelectorAll('#plots svg .line').length === 5";

/// A node that ran for ten minutes, and its server.
fn served(workloads: usize) -> (MadeUp, Server) {
    let mut made_up = MadeUp::new(workloads);
    made_up.let_pass(Duration::from_secs(600));
    let server = serve_at(made_up.board(), SocketAddr::from(([127, 0, 0, 1], 0)));
    (made_up, server)
}

fn serve_at(board: &Arc<Board>, listen: SocketAddr) -> Server {
    let settings = ServeSettings { listen, names: Vec::new() };
    serve::start(Arc::clone(board), &settings).expect("the port is free")
}

fn url(server: &Server) -> String {
    format!("http://{}/", server.address())
}

fn pictures() -> Pictures {
    Pictures::new(env!("CARGO_TARGET_TMPDIR"), "dashboard")
}

fn picture(name: &str) -> PathBuf {
    pictures().path(name)
}

#[test]
fn the_page_fits_every_width_in_light_and_dark() {
    let (_made_up, server) = served(5);
    let mut browser = Chromium::start();
    println!("pictures are in {}", pictures().folder().display());
    for width in WIDTHS {
        let mut backs = Vec::new();
        for scheme in Scheme::ALL {
            browser.show(&url(&server), width, 900, scheme);
            browser.wait(LIVE);
            browser.wait(PLOTTED);
            browser.wait("document.querySelectorAll('#pods tr[data-uid]').length === 5");
            let case = format!("{width}-{}", scheme.name());
            browser.assert_usable(&case);
            backs.push(browser.value("getComputedStyle(document.body).backgroundColor"));
            browser.picture(&picture(&case));
        }
        assert_ne!(backs[0], backs[1], "dark is another colour than light");
    }
    browser.assert_no_complaints();
}

#[test]
fn a_click_on_a_workload_explains_it_and_escape_closes_it() {
    let (made_up, server) = served(5);
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait("document.querySelector('tr[data-uid=\"systemd/001\"]')");
    browser.value("document.querySelector('tr[data-uid=\"systemd/001\"]').click()");
    browser.wait("document.querySelectorAll('.story li').length >= 6");
    browser.wait("document.querySelectorAll('.detail svg .line').length === 4");
    let told = made_up.board().explain("postgres").unwrap();
    let shown =
        browser.value("[...document.querySelectorAll('.story li')].map(li => li.innerText)");
    // Nothing ticks here, so what is told does not change.
    assert_eq!(shown, json!(told.sentences));
    let changes = browser.value("document.querySelectorAll('.detail .log')[0].children.length");
    assert_eq!(changes, json!(told.changes.len()));
    assert_eq!(browser.value("location.hash"), json!("#systemd%2F001"), "it can be linked to");
    browser.picture(&picture("detail"));
    browser.press(Key::Escape);
    browser.wait("document.getElementById('detail').hidden");
    browser.assert_no_complaints();
}

#[test]
fn five_hundred_workloads_are_sorted_filtered_and_scrolled_with_few_rows_in_the_page() {
    let (_made_up, server) = served(500);
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait("document.getElementById('count').textContent === '500'");
    browser.picture(&picture("500-pods"));
    let rows = "document.querySelectorAll('#pods tr[data-uid]').length";
    assert!(browser.value(rows).as_u64().unwrap() < 100);
    browser.value("document.querySelector('th.name button').click()");
    let first = "document.querySelector('#pods tr[data-uid] .name .name').textContent";
    assert_eq!(browser.value(first), json!("cron"));
    browser.value("scrollTo(0, 1e9)");
    browser.wait(
        "[...document.querySelectorAll('#pods tr[data-uid]')].at(-1)?.textContent\
         .startsWith('video-encoder-9')",
    );
    browser.picture(&picture("500-pods-end"));
    browser.value(
        "(() => { const box = document.getElementById('filter'); box.value = 'SEARCH docker'; \
         box.dispatchEvent(new Event('input')); })()",
    );
    browser.wait("document.getElementById('count').textContent === '83 of 500'");
    browser.assert_no_complaints();
}

#[test]
fn a_daemon_that_is_gone_is_said_and_one_that_returns_is_found() {
    let (made_up, server) = served(5);
    let address = server.address();
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait(LIVE);
    browser.wait(PLOTTED);
    server.stop();
    browser
        .wait("document.body.dataset.link === 'gone' && !document.getElementById('gone').hidden");
    let said = browser.value("document.getElementById('gone').innerText");
    assert!(said.as_str().unwrap().starts_with("The daemon does not answer."), "{said}");
    browser.picture(&picture("gone"));
    let _again = serve_at(made_up.board(), address);
    browser.wait(LIVE);
    browser.wait("document.getElementById('gone').hidden");
}

#[test]
fn figures_of_the_machine_are_shown_or_say_why_there_are_none() {
    let (made_up, server) = served(1);
    let mut browser = Chromium::start();
    browser.show(&url(&server), 1400, 900, Scheme::Light);
    browser.wait("!document.getElementById('figures').hidden");
    let shown = "Object.fromEntries([...document.querySelectorAll('#figures-list > div')]\
                 .map(it => [it.dataset.figure, it.querySelector('dd').textContent]))";
    assert_eq!(
        browser.value(shown),
        json!({
            "cpu_utilization": "0.250",
            "disk_iops": "1234 1/s",
            "l3_cache_miss_rate": "this hardware shows no cache counters",
            "run_queue_latency_p99_us": "7.500 us",
        })
    );
    assert_eq!(
        browser.value("document.getElementById('figures-drops').textContent"),
        json!("Packets dropped: NO_SOCKET 3.000/s.")
    );
    browser.picture(&picture("figures"));
    let mut told = made_up.board().telemetry().expect("they are made up");
    told.taken_unix_ms -= 60_000;
    told.zone = Some("<b>zone</b>".to_owned());
    made_up.board().set_telemetry(told);
    browser.wait("document.getElementById('figures').classList.contains('stale')");
    let age = browser.value("document.getElementById('figures-age').textContent");
    let age = age.as_str().unwrap();
    assert!(age.starts_with("<b>zone</b>") && age.contains("too old"), "{age}");
    browser.assert_usable("stale figures");
    browser.assert_no_complaints();
}

#[test]
fn names_are_text_problems_are_told_and_a_watching_daemon_says_so() {
    let identity = Identity {
        version: "1".into(),
        host: "<b>host</b>".into(),
        profile: "direct".into(),
        acting: false,
    };
    let board = Arc::new(Board::new(identity));
    board.set_problems(vec!["The store cannot be written: <i>disk full</i>.".to_owned()]);
    let server = serve_at(&board, SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut browser = Chromium::start();
    browser.show(&url(&server), 400, 900, Scheme::Dark);
    browser.wait("document.getElementById('empty').innerText.startsWith('No pods yet.')");
    browser.picture(&picture("empty"));
    let name = "<img src=x onerror=alert(1)>";
    let amount = Millicores::new(500);
    let facts = WorkloadFacts {
        uid: WorkloadUid::new("../\"'&?#%00"),
        family: None,
        bounds: Bounds::new(amount, amount),
        weight: Weight::ONE,
        limit: amount,
        request: None,
        came_with: CameWith::default(),
        nature: Nature::Unknown,
        request_rule: RequestRule::Kept,
    };
    let label = WorkloadLabel {
        name: name.to_owned(),
        kind: WorkloadKind::Path,
        original_limit: None,
        target_latency_ms: None,
    };
    board.workload_added(&facts, label);
    browser.wait("document.querySelectorAll('#pods tr[data-uid]').length === 1");
    assert_eq!(browser.value("document.querySelector('td.name .name').textContent"), json!(name));
    assert_eq!(
        browser.value("document.querySelectorAll('td img, #host b, li i').length"),
        json!(0)
    );
    let problem = browser.value("document.getElementById('problems').innerText");
    assert!(problem.as_str().unwrap().contains("<i>disk full</i>"), "{problem}");
    assert_eq!(
        browser.value("document.getElementById('acting').innerText"),
        json!("only watching")
    );
    browser.value("document.querySelector('tr[data-uid]').click()");
    browser.wait("document.querySelectorAll('.story li').length >= 5");
    assert_eq!(browser.value("document.querySelector('.detail h2').textContent"), json!(name));
    browser.picture(&picture("hostile"));
    browser.assert_no_complaints();
}
