//! Each program has exactly the rights that it uses: none is missing, and none is left over.
//!
//! The programs run under their own accounts through everything they do in a life; then the audit
//! log says what each asked for. A request that was forbidden is a missing right, and a rule that
//! no request needed is one too many.

use std::collections::BTreeSet;

use serde_json::Value;
use walras_testbed::wait_for;

use crate::autoscalers;
use crate::installed::{Installed, PATIENCE, SYSTEM};

/// One right: verb, group, resource with its subresource.
type Right = (String, String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What `account` asked for, by whether it was forbidden.
fn asked(installed: &Installed, account: &str) -> (BTreeSet<Right>, Vec<String>) {
    let user = format!("system:serviceaccount:{SYSTEM}:{account}");
    let mut used = BTreeSet::new();
    let mut forbidden = Vec::new();
    for event in installed.testbed.audit().unwrap() {
        if event["user"]["username"] != user.as_str() || event["objectRef"]["resource"].is_null() {
            continue;
        }
        let reference = &event["objectRef"];
        let resource = match reference["subresource"].as_str() {
            Some(sub) => format!("{}/{sub}", text(&reference["resource"])),
            None => text(&reference["resource"]),
        };
        let right = (text(&event["verb"]), text(&reference["apiGroup"]), resource);
        if event["responseStatus"]["code"] == 403 {
            let message = text(&event["responseStatus"]["message"]);
            forbidden.push(format!("{right:?}: {message}"));
        }
        // To apply what is not there yet takes the right to create it.
        if right.0 == "patch" && event["responseStatus"]["code"] == 201 {
            used.insert(("create".to_owned(), right.1.clone(), right.2.clone()));
        }
        used.insert(right);
    }
    (used, forbidden)
}

/// What the roles bound to `account` allow.
fn allowed(installed: &Installed, account: &str) -> BTreeSet<Right> {
    let kubectl = installed.testbed.kubectl().unwrap();
    let mut rights = BTreeSet::new();
    for (bindings, roles) in [("clusterrolebindings", "clusterrole"), ("rolebindings", "role")] {
        let all = kubectl.json(&["get", bindings, "-n", SYSTEM]).unwrap();
        for binding in all["items"].as_array().unwrap() {
            let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
            if !subjects.iter().any(|one| one["name"] == account) {
                continue;
            }
            let name = text(&binding["roleRef"]["name"]);
            let role = kubectl.json(&["get", roles, &name, "-n", SYSTEM]).unwrap();
            for rule in role["rules"].as_array().unwrap() {
                let list = |key: &str| rule[key].as_array().cloned().unwrap_or_default();
                for (verb, group, resource) in list("verbs").iter().flat_map(|verb| {
                    let groups = list("apiGroups");
                    let resources = list("resources");
                    groups.into_iter().flat_map(move |group| {
                        let verb = verb.clone();
                        resources
                            .clone()
                            .into_iter()
                            .map(move |resource| (verb.clone(), group.clone(), resource))
                    })
                }) {
                    rights.insert((text(&verb), text(&group), text(&resource)));
                }
            }
        }
    }
    assert!(!rights.is_empty(), "no role is bound to {account}");
    rights
}

/// An agent asks for what is on its own node, and never for what is on all of them.
fn sees_its_own_node(installed: &Installed) {
    let user = format!("system:serviceaccount:{SYSTEM}:walras-agent");
    for (resource, selector) in [
        ("pods", "fieldSelector=spec.nodeName%3Dnode-1"),
        ("podallocations", "labelSelector=walras.dev%2Fnode%3Dnode-1"),
    ] {
        let events = installed.testbed.audit().unwrap().into_iter();
        let of_many = events.filter(|event| {
            event["user"]["username"] == user.as_str()
                && event["objectRef"]["resource"] == resource
                && ["list", "watch"].contains(&event["verb"].as_str().unwrap_or_default())
        });
        let asked: Vec<String> = of_many.map(|event| text(&event["requestURI"])).collect();
        assert!(!asked.is_empty(), "no agent asked for {resource}");
        for uri in asked {
            assert!(uri.contains(selector), "{uri}");
        }
    }
}

#[test]
fn each_program_has_the_rights_it_uses_and_no_others() {
    let mut installed = Installed::prepare(&[("enableAgentBasedModeling", "true")]);
    let kubectl = installed.testbed.kubectl().unwrap();
    // What no cluster knows cannot be watched.
    kubectl.apply(&autoscalers::vertical_definition()).unwrap();
    installed.start_controller();
    installed.start_agent();
    let pod = installed.run("default", "load", "100m", "200m");
    pod.burst(300_000, 1);
    wait_for("a resize", PATIENCE, || {
        installed.check_alive();
        let quota = installed.quota(&pod)?;
        Ok((quota > 20_000 && installed.is_applied(&pod)).then_some(()))
    })
    .unwrap();
    wait_for("what was learned to be saved", PATIENCE, || {
        Ok(kubectl.run(&["get", "configmap", "mbcas-qtable-node-1", "-n", SYSTEM]).ok())
    })
    .unwrap();
    let uid = |what: [&str; 2], of: fn(&serde_json::Value) -> &serde_json::Value| {
        let object = kubectl.json(&[&["get"][..], &what, &["-n", SYSTEM]].concat()).unwrap();
        of(&object).as_str().map(str::to_owned)
    };
    let owner =
        uid(
            ["configmap", "mbcas-qtable-node-1"],
            |map| &map["metadata"]["ownerReferences"][0]["uid"],
        );
    let node = uid(["node", "node-1"], |node| &node["metadata"]["uid"]);
    assert!(owner.is_some() && owner == node, "it goes with its node: {owner:?}, {node:?}");
    // A second table, once there is a first; and the life of a pod to its end.
    installed.kill_agent();
    installed.start_agent();
    kubectl.run(&["label", "pod", "load", "mbcas.io/managed=false"]).unwrap();
    wait_for("the end of the allocation of a pod that opted out", PATIENCE, || {
        Ok(installed.allocation(&pod).is_err().then_some(()))
    })
    .unwrap();
    wait_for("every right to be used", PATIENCE, || {
        let left = |account: &str| {
            let (used, _) = asked(&installed, account);
            allowed(&installed, account).difference(&used).count()
        };
        Ok((left("walras-agent") + left("walras-controller") == 0).then_some(()))
    })
    .ok();
    sees_its_own_node(&installed);
    for account in ["walras-agent", "walras-controller"] {
        let (used, forbidden) = asked(&installed, account);
        assert!(forbidden.is_empty(), "{account} lacks rights: {forbidden:#?}");
        let allowed = allowed(&installed, account);
        let unused: Vec<_> = allowed.difference(&used).collect();
        assert!(unused.is_empty(), "{account} never uses {unused:#?}");
    }
}
