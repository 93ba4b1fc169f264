//! What is answered to whom, over HTTP.

use std::sync::Arc;

use walras_core::permit::Ask;
use walras_core::units::Resources;
use walras_scale::agent::Scheduler;
use walras_scale::agent::remote::{Local, Remote};
use walras_scale::http::{Handler, Question};
use walras_scale::permits::dump::Shown;
use walras_scale::permits::keep::InFile;
use walras_scale::seal::Within;

use crate::world::{GIB, PATIENCE, World, plain, question, run, seal, units, vm, vm_terms};

fn ask(name: &str, wanted: u64, last: Option<u64>, sequence: u64) -> Ask {
    let last_permit = last.map(units);
    let sequence = Some(sequence);
    Ask { vm: vm(name), wanted: units(wanted), last_permit, load: None, sequence }
}

#[test]
fn both_versions_are_answered_and_errors_have_the_documented_status() {
    run(async {
        let world = World::start(None).await;
        let price = Some(0.25);
        world.permits.others_are("node", Resources::ZERO, price);
        let answer = world.ask(&question(3, "a", 2, None)).await;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let expected = "{\"permit\":{\"vCPUs\":\"500m\",\"mem\":2},\"migrate\":null,\
                        \"resourceUnit\":{\"vCPUs\":\"250m\",\"mem\":1}}";
        assert_eq!((answer.status, body.as_str()), (200, expected));
        assert_eq!(
            answer.headers.get("walras-price").and_then(|it| it.to_str().ok()),
            Some("0.25")
        );
        assert_eq!(world.ask(&question(4, "a", 3, Some(2))).await.status, 200);
        for (body, status) in [
            ("{".to_owned(), 400),
            (question(2, "a", 1, None), 400),
            (question(5, "a", 1, None), 400),
            (question(3, "a", 1, Some(1)), 400),
            (question(4, "a", 9, Some(1)), 400),
            (question(4, "x", 1, None), 404),
            (" ".repeat(1025), 400),
        ] {
            let answer = world.ask(&body).await;
            assert_eq!(answer.status, status, "{body}: {}", answer.words());
        }
        let mut put = plain(&question(4, "a", 1, None));
        put.method = "PUT";
        let answer = world.client().ask(&put, PATIENCE).await.expect("an answer");
        assert_eq!(answer.status, 400);
        // More than there is: in whole units, and the rest is pressure.
        for name in ["b", "c"] {
            assert_eq!(world.ask(&question(4, name, 6, None)).await.status, 200);
        }
        let answer = world.ask(&question(4, "d", 8, None)).await;
        assert!(answer.words().starts_with("{\"permit\":{\"vCPUs\":\"250m\",\"mem\":1}"));
        let standing = world.permits.standing("node").expect("a node");
        assert_eq!((standing.held, standing.denied), (units(16), units(7)));
    });
}

#[test]
fn questions_are_signed_numbered_and_of_this_session() {
    run(async {
        let world = World::start(Some(seal())).await;
        let body = question(4, "a", 2, None);
        assert_eq!(world.ask(&body).await.status, 401);
        let remote = Remote::new(world.server.address(), GIB, Some(seal()));
        let answer = remote.ask(ask("a", 2, None, 7)).await.expect("a permit");
        assert_eq!(answer.permit, units(2));
        let overtaken = remote.ask(ask("a", 4, Some(2), 7)).await.expect_err("it was asked before");
        assert_eq!(overtaken.newest, Some(7));
        assert_eq!(world.permits.held(&vm("a")), Some(units(2)));
        // The same bytes once more, as somebody on the way could send them.
        let mut recorded = plain(&question(4, "a", 1, Some(2)));
        let within = Within { session: None, sequence: 8 };
        seal().sign(&mut recorded, within).expect("randomness");
        let named = world.client().ask(&recorded, PATIENCE).await.expect("an answer");
        assert_eq!(named.status, 401);
        let other = Remote::new(world.server.address(), GIB, None);
        assert!(other.ask(ask("a", 1, None, 9)).await.is_err());
        assert_eq!(world.permits.held(&vm("a")), Some(units(2)));
    });
}

#[test]
fn what_was_recorded_before_a_restart_is_refused_after_it() {
    run(async {
        let before = World::start(Some(seal())).await;
        // The session, as an agent learns it.
        let mut first = plain(&question(4, "a", 2, None));
        let none = Within { session: None, sequence: 1 };
        let signature = seal().sign(&mut first, none).expect("randomness");
        let answer = before.client().ask(&first, PATIENCE).await.expect("an answer");
        let session = seal().check_answer(signature, &answer).expect("it is signed");
        let mut recorded = plain(&question(4, "a", 2, None));
        let within = Within { session, sequence: 1 };
        seal().sign(&mut recorded, within).expect("randomness");
        let answer = before.client().ask(&recorded, PATIENCE).await.expect("an answer");
        assert_eq!(answer.status, 200);
        let after = World::start(Some(seal())).await;
        let answer = after.client().ask(&recorded, PATIENCE).await.expect("an answer");
        assert_eq!(answer.status, 401);
        assert_eq!(after.permits.held(&vm("a")), Some(units(1)));
    });
}

#[test]
fn after_a_restart_nobody_is_given_what_somebody_unheard_may_hold() {
    run(async {
        let world = World::empty(None, Box::new(walras_scale::permits::keep::Nowhere)).await;
        for name in ["a", "b"] {
            world.permits.vm_found("node", &vm(name), vm_terms(8), units(2));
        }
        world.permits.vm_found("node", &vm("c"), vm_terms(4), units(1));
        let local = Local(Arc::clone(&world.permits));
        // Both maxima are 8 of 16 together, and c's 4 are too much already: nobody grows.
        let answer = local.ask(ask("a", 8, Some(4), 1)).await.expect("an answer");
        assert_eq!(answer.permit, units(4));
        // An old agent is echoed what its machine is seen to use.
        let old = world.ask(&question(3, "b", 2, None)).await;
        assert_eq!(old.status, 200, "{}", old.words());
        let old = world.ask(&question(3, "c", 3, None)).await;
        assert_eq!(old.status, 200, "{}", old.words());
        let answer = local.ask(ask("a", 8, Some(4), 2)).await.expect("an answer");
        assert_eq!(answer.permit, units(8));
        let standing = world.permits.standing("node").expect("a node");
        assert!(standing.held.fits(units(16)), "{standing:?}");
    });
}

#[test]
fn a_maximum_that_was_lowered_is_remembered_until_the_machine_is_within_it() {
    run(async {
        let folder = tempfile::tempdir().expect("a folder");
        let keep = || Box::new(InFile::new(folder.path()));
        let world = World::empty(None, keep()).await;
        world.permits.vm_started("node", &vm("a"), vm_terms(8), units(1));
        world.ask(&question(4, "a", 8, Some(1))).await;
        world.permits.vm_changed(&vm("a"), vm_terms(2)).expect("it can be kept");
        // Killed here. The next one finds the machine, and does not believe in its new maximum yet.
        let world = World::empty(None, keep()).await;
        world.permits.vm_found("node", &vm("a"), vm_terms(2), units(8));
        assert_eq!(world.permits.held(&vm("a")), Some(units(8)));
        let answer = world.ask(&question(4, "a", 2, Some(8))).await;
        assert_eq!(answer.status, 200, "{}", answer.words());
        let world = World::empty(None, keep()).await;
        world.permits.vm_found("node", &vm("a"), vm_terms(2), units(2));
        assert_eq!(world.permits.held(&vm("a")), Some(units(2)));
    });
}

#[test]
fn the_state_and_metrics_are_shown_and_nothing_can_be_changed_there() {
    run(async {
        let world = World::start(None).await;
        world.ask(&question(4, "a", 2, Some(1))).await;
        let shown = Shown(Arc::clone(&world.permits));
        let server = walras_scale::http::start(
            std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
            walras_scale::http::Limits::DUMP,
            Arc::new(shown) as Arc<dyn Handler>,
        );
        let server = server.await.expect("a port");
        let mut client = walras_scale::http::Client::new(server.address());
        let state = client.ask(&Question::get("/"), PATIENCE).await.expect("an answer");
        let text = String::from_utf8_lossy(&state.body).into_owned();
        assert!(text.contains("\"default/a\"") && text.contains("\"capacity_pressure\""), "{text}");
        let metrics = client.ask(&Question::get("/metrics"), PATIENCE).await.expect("an answer");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        for line in [
            "autoscaling_plugin_resource_requests_total{code=\"200\"} 1",
            "autoscaling_vm_cpu_cores{vm=\"default/a\"} 0.5",
            "autoscaling_plugin_node_cpu_resources_current{node=\"node\",field=\"Total\"} 4.0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let mut post = plain("");
        post.method = "DELETE";
        let refused = client.ask(&post, PATIENCE).await.expect("an answer");
        assert_eq!(refused.status, 405);
    });
}
