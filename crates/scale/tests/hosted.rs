//! Two machines on one plain host, beside other workloads: the host is never handed out twice.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::runtime::Builder;
use tokio::time;
use walras_core::permit::{PerResource, Terms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Ratio, Resources, VmName};
use walras_core::vm::{Seen, VmBounds};
use walras_scale::agent::Machine;
use walras_scale::hosted::{Hosted, HostedOptions, HostedVm};
use walras_scale::http::{Client, Question};
use walras_scale::permits::keep::{InFile, Nowhere};

/// A machine that is a number.
struct Scripted(Mutex<Seen>);

fn unit() -> ComputeUnit {
    ComputeUnit::new(Resources::new(Millicores::new(500), Bytes::new(1 << 30))).expect("a unit")
}

impl Machine for Scripted {
    fn observe(&self) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move { Ok(*self.0.lock().expect("a lock")) })
    }

    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move {
            let mut seen = self.0.lock().expect("a lock");
            if seen.version != version {
                return Err("another version".to_owned());
            }
            *seen = Seen { using: to, version: version + 1 };
            Ok(*seen)
        })
    }
}

fn options() -> HostedOptions {
    let terms = Terms {
        capacity: unit().times(8),
        overcommit: PerResource::both(Ratio::ONE),
        watermark: PerResource::both(Ratio::ONE),
        system: Resources::ZERO,
        unit: unit(),
        moves_at_once: 0,
    };
    HostedOptions {
        node: "here".to_owned(),
        terms,
        keep: Box::new(Nowhere),
        permits: None,
        seal: None,
        slot: Bytes::new(1 << 30),
        permits_shown: None,
        agents_shown: None,
    }
}

fn vm(name: &str, least: u64) -> HostedVm {
    HostedVm {
        name: VmName::new(&format!("default/{name}")),
        unit: unit(),
        bounds: VmBounds::new(unit().times(least), unit().times(6)),
        using: unit().times(1),
        may_move: false,
        found: false,
        guest: None,
    }
}

fn machine() -> Arc<Scripted> {
    Arc::new(Scripted(Mutex::new(Seen { using: unit().times(1), version: 1 })))
}

async fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < until, "waited for 60 s: {what}");
        time::sleep(Duration::from_millis(20)).await;
    }
}

fn run(work: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work);
}

#[test]
fn machines_and_others_divide_one_host() {
    run(async {
        let anywhere = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let folder = tempfile::tempdir().expect("a folder");
        let keep = Box::new(InFile::new(folder.path()));
        let shown = HostedOptions { keep, permits_shown: anywhere, ..options() };
        let host = Hosted::start(shown).await.expect("it starts");
        // Others have a right to three of eight units.
        host.others_are(unit().times(3), Some(0.5));
        let (first, second) = (machine(), machine());
        // The least of the first is three units: it grows to that without anybody asking.
        host.machine_is_here(vm("a", 3), Arc::clone(&first) as _).await.expect("it is sized");
        let (a, b) = (vm("a", 3).name, vm("b", 4).name);
        let has = |machine: &Scripted| machine.0.lock().expect("a lock").using;
        wait_for("the first grows", || has(&first) == unit().times(3)).await;
        assert_eq!(host.cap(&a), Some(unit().times(3)));
        assert!(host.admits(unit().times(2)) && !host.admits(unit().times(3)));
        // The second wants four, of which two are left.
        host.machine_is_here(vm("b", 4), Arc::clone(&second) as _).await.expect("it is sized");
        wait_for("the second has what is left", || has(&second) == unit().times(2)).await;
        assert_eq!(host.cap(&b), Some(unit().times(2)));
        // The first ends, and the second gets what it was denied.
        host.machine_gone(&a);
        wait_for("the second grows", || has(&second) == unit().times(4)).await;
        // Other bounds hold, and are kept before they do.
        let less = VmBounds::new(unit().times(1), unit().times(2));
        host.bounds_changed(&b, less).await.expect("it is kept");
        assert!(folder.path().join("permits.json").exists());
        let mut client = Client::new(host.addresses().next().expect("one"));
        let answer = client.ask(&Question::get("/"), Duration::from_secs(20)).await;
        let text = String::from_utf8_lossy(&answer.expect("an answer").body).into_owned();
        assert!(text.contains("\"price\": 0.5") && text.contains("default/b"), "{text}");
    });
}

#[test]
fn permits_without_a_key_are_served_to_this_host_only() {
    run(async {
        let open = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
        let told = Hosted::start(HostedOptions { permits: open, ..options() }).await;
        let told = told.expect_err("it is refused").to_string();
        assert!(told.contains("on the loopback interface only"), "{told}");
    });
}
