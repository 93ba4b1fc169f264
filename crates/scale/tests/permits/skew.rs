//! Agents and schedulers of different versions: each does the safe thing with what it does not
//! understand, and says so. That of guests is in `tests/guests.rs`.

use std::net::SocketAddr;
use std::sync::Arc;

use walras_core::permit::Ask;
use walras_scale::agent::Scheduler;
use walras_scale::agent::remote::Remote;
use walras_scale::http::{self, Asked, Handler, Limits, Told};
use walras_scale::permits::keep::Nowhere;

use crate::world::{GIB, World, question, run, units, vm, vm_terms};

/// A scheduler of others, which answers the same to everybody.
struct Other(u16, &'static str);

impl Handler for Other {
    fn answer(&self, _asked: &Asked) -> Told {
        Told { status: self.0, ..Told::json(self.1.as_bytes().to_vec()) }
    }
}

async fn asked_of(status: u16, body: &'static str) -> Result<walras_core::permit::Answer, String> {
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let other: Arc<dyn Handler> = Arc::new(Other(status, body));
    let server = http::start(anywhere, Limits::PERMITS, other).await.expect("a port");
    let remote = Remote::new(server.address(), GIB, None);
    let (vm, wanted) = (vm("a"), units(2));
    let ask = Ask { vm, wanted, last_permit: Some(units(1)), load: None, sequence: Some(1) };
    remote.ask(ask).await.map_err(|not| not.why)
}

/// Our agent beside schedulers that are older or newer: what it understands it takes, and what it
/// does not is no permit.
#[test]
fn our_agent_takes_the_answers_of_older_schedulers_and_no_others() {
    run(async {
        let plain = "{\"permit\":{\"vCPUs\":\"500m\",\"mem\":2},\"migrate\":null,\
                     \"resourceUnit\":{\"vCPUs\":\"250m\",\"mem\":1}}";
        let answer = asked_of(200, plain).await.expect("a permit");
        assert_eq!((answer.permit, answer.migrate), (units(2), false));
        // A scheduler before v2.1 refuses our version, in words of its own.
        let told = asked_of(400, "protocol version 4 not supported").await.expect_err("refused");
        assert_eq!(told, "400 protocol version 4 not supported");
        // One of v3 no longer tells a unit, one of v4 counts memory in bytes.
        for newer in [
            "{\"permit\":{\"vCPUs\":\"500m\",\"mem\":2},\"migrate\":null}",
            "{\"permit\":{\"vCPUs\":\"500m\",\"mem\":2147483648},\"migrate\":null,\
             \"resourceUnit\":{\"vCPUs\":\"250m\",\"mem\":1073741824}}",
        ] {
            let told = asked_of(200, newer).await.expect_err("it is not understood");
            assert!(told.contains("resourceUnit") || told.contains("permit.mem"), "{told}");
        }
    });
}

/// Agents that are newer or older than both versions that our scheduler speaks.
#[test]
fn our_scheduler_names_its_versions_to_agents_that_speak_others() {
    run(async {
        let world = World::start(None).await;
        for version in [1, 2, 5, 6] {
            let answer = world.ask(&question(version, "a", 2, None)).await;
            let told = answer.words();
            assert_eq!(answer.status, 400, "{told}");
            assert!(told.contains("which are 3 (v2.0) and 4 (v2.1)"), "{told}");
        }
        assert_eq!(world.permits.held(&vm("a")), Some(units(1)));
    });
}

/// After a restart of our scheduler: what an agent of v2.0 may hold is nobody's until it is heard,
/// whatever version others speak; and one of v2.1 has back what it says.
#[test]
fn after_a_restart_a_machine_of_v2_0_holds_its_maximum_until_first_contact() {
    run(async {
        let world = World::empty(None, Box::new(Nowhere)).await;
        world.permits.vm_found("node", &vm("old"), vm_terms(8), units(2));
        world.permits.vm_found("node", &vm("new"), vm_terms(8), units(2));
        assert_eq!(world.permits.held(&vm("old")), Some(units(8)));
        // The new one was permitted six: it keeps them, and gets the two that nobody can hold.
        let answer = world.ask(&question(4, "new", 8, Some(6))).await;
        assert!(answer.words().starts_with("{\"permit\":{\"vCPUs\":2,\"mem\":8}"), "{answer:?}");
        assert_eq!(world.permits.held(&vm("old")), Some(units(8)));
        let answer = world.ask(&question(3, "old", 2, None)).await;
        assert_eq!(answer.status, 200, "{}", answer.words());
        assert_eq!(world.permits.held(&vm("old")), Some(units(2)));
    });
}
