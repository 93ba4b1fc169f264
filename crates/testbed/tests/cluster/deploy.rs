//! What installs Walras, on a real API server: everything is accepted, and the accounts of the
//! agent and the controller may do what they need and nothing else.

use serde_json::{Value, json};
use walras_testbed::{Kubectl, Program, Settings, Spec, Testbed, prepare, wait_for};

use crate::PATIENCE;

const CONTROLLER: &str = "--as=system:serviceaccount:mbcas-system:walras-controller";
const AGENT: &str = "--as=system:serviceaccount:mbcas-system:walras-agent";

/// An attempt to do something: what, as kubectl has it, and what it is refused with, if it is.
type Attempt<'a> = (&'a [&'a str], Option<&'a str>);

const MERGE: &str = "--type=merge";
const RESIZE: &str = "--subresource=resize";
const OF_SPEC: Option<&str> = Some("walras-controller changes the spec of a pod by resizing only");
const OF_ANNOTATIONS: Option<&str> = Some("walras-controller changes no annotation but");
const OF_LABELS: Option<&str> = Some("walras-controller changes no labels, owners or finalizers");
const OF_MEMORY: Option<&str> = Some("walras-controller resizes the CPU of containers only");

/// What the controller may patch of a pod and what not: how, the patch, and the refusal.
const PATCHES: [(&str, &str, Option<&str>); 17] = [
    (MERGE, r#"{"metadata":{"annotations":{"walras.dev/original-resources":"{}"}}}"#, None),
    (MERGE, r#"{"metadata":{"annotations":{"walras.dev/original-resources":null}}}"#, None),
    (MERGE, r#"{"metadata":{"annotations":{"walras.dev/autoscaler":"x"}}}"#, None),
    (MERGE, r#"{"metadata":{"annotations":{"walras.dev/autoscaler":null}}}"#, None),
    (MERGE, r#"{"metadata":{"annotations":{"more":"x"}}}"#, OF_ANNOTATIONS),
    (MERGE, r#"{"metadata":{"annotations":{"owner":"x"}}}"#, OF_ANNOTATIONS),
    (MERGE, r#"{"metadata":{"annotations":{"owner":null}}}"#, OF_ANNOTATIONS),
    (MERGE, r#"{"metadata":{"labels":{"app":"x"}}}"#, OF_LABELS),
    (MERGE, r#"{"metadata":{"labels":null}}"#, OF_LABELS),
    (MERGE, r#"{"metadata":{"finalizers":["x.invalid/y"]}}"#, OF_LABELS),
    (MERGE, r#"{"spec":{"activeDeadlineSeconds":5}}"#, OF_SPEC),
    (
        "--type=strategic",
        r#"{"spec":{"containers":[{"name":"app","image":"x.invalid/y"}]}}"#,
        OF_SPEC,
    ),
    (
        RESIZE,
        r#"{"spec":{"containers":[{"name":"app","resources":
            {"requests":{"cpu":"150m"},"limits":{"cpu":"300m"}}}]}}"#,
        None,
    ),
    (
        RESIZE,
        r#"{"spec":{"initContainers":[{"name":"mesh","resources":{"requests":{"cpu":"20m"}}}]}}"#,
        None,
    ),
    (
        RESIZE,
        r#"{"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":"99Mi"}}}]}}"#,
        OF_MEMORY,
    ),
    (
        RESIZE,
        r#"{"spec":{"containers":[{"name":"log","resources":{"requests":{"memory":"9Mi"}}}]}}"#,
        OF_MEMORY,
    ),
    (
        RESIZE,
        r#"{"spec":{"initContainers":[{"name":"mesh","resources":{"limits":{"memory":"9Mi"}}}]}}"#,
        OF_MEMORY,
    ),
];

#[test]
fn accounts_may_do_what_they_need_and_nothing_else() {
    let testbed = Testbed::fresh(Spec::new(0, true)).unwrap();
    let kubectl = testbed.kubectl().unwrap();
    install(&kubectl);
    let namespace = testbed.namespace("shop").unwrap();
    kubectl.apply(&pod(&namespace.name)).unwrap();
    let_kubectl_read(&kubectl);
    await_policies(&kubectl, &namespace.name);

    for (how, patch, refused) in PATCHES {
        let call = ["patch", "pod", "web", "-n", &namespace.name, how, "-p", patch, CONTROLLER];
        attempt(&kubectl, (&call, refused));
    }
    let resized = kubectl.json(&["get", "pod", "web", "-n", &namespace.name]).unwrap();
    let limit = resized.pointer("/spec/containers/0/resources/limits/cpu");
    assert_eq!(limit, Some(&Value::from("300m")));
    of_others(&kubectl, &namespace.name);
    of_tenants(&kubectl, &namespace.name);
    of_config(&kubectl, &namespace.name);
    of_allocations(&kubectl, &namespace.name);
    of_other_nodes(&testbed, &kubectl);
}

/// kubectl reads what it patches; the agent and the controller do not, and may not.
fn let_kubectl_read(kubectl: &Kubectl) {
    let reads =
        ["--verb=get", "--resource=pods,pods/resize,configmaps,podallocations.allocation.mbcas.io"];
    kubectl.run(&[&["create", "clusterrole", "reads"], &reads[..]].concat()).unwrap();
    let mut bind = vec!["create", "clusterrolebinding", "reads", "--clusterrole=reads"];
    bind.extend(["--serviceaccount=mbcas-system:walras-controller"]);
    bind.extend(["--serviceaccount=mbcas-system:walras-agent"]);
    kubectl.run(&bind).unwrap();
}

/// What is in nobody's way, and what roles alone refuse.
fn of_others(kubectl: &Kubectl, namespace: &str) {
    let relabel = r#"{"metadata":{"labels":{"app":"x"}}}"#;
    let patch = ["patch", "pod", "web", "-n", namespace, MERGE, "-p", relabel];
    attempt(kubectl, (&patch, None));
    attempt(kubectl, (&[&patch[..], &[AGENT]].concat(), Some("cannot patch resource")));
    let delete = ["delete", "pod", "web", "-n", namespace, CONTROLLER];
    attempt(kubectl, (&delete, Some("cannot delete resource")));
    let secrets = ["get", "secrets", "-A"];
    for account in [AGENT, CONTROLLER] {
        attempt(kubectl, (&[&secrets[..], &[account]].concat(), Some("cannot list resource")));
    }
}

/// Nobody but the controller says what a pod came with: not at its creation, not later, and not by
/// any of the ways to write to a pod.
fn of_tenants(kubectl: &Kubectl, namespace: &str) {
    const OURS: &str = "walras.dev/original-resources and walras.dev/autoscaler are written by";
    let claim = r#"{"app":{"cpuRequestMilli":1000000000}}"#;
    for name in ["walras.dev/original-resources", "walras.dev/autoscaler"] {
        let mut born = pod(namespace);
        born["metadata"]["name"] = json!("greedy");
        born["metadata"]["annotations"] = json!({ name: claim });
        let told = kubectl.apply(&born).unwrap_err().to_string();
        assert!(told.contains(OURS), "{told}");
        let patch = json!({ "metadata": { "annotations": { name: claim } } }).to_string();
        let call = ["patch", "pod", "web", "-n", namespace, MERGE, "-p", &patch];
        attempt(kubectl, (&call, Some(OURS)));
        attempt(kubectl, (&[&call[..], &["--subresource=status"]].concat(), Some(OURS)));
    }
    let written = r#"{"metadata":{"annotations":{"walras.dev/original-resources":"{}"}}}"#;
    let call = ["patch", "pod", "web", "-n", namespace, MERGE, "-p", written, CONTROLLER];
    attempt(kubectl, (&call, None));
    let removed = r#"{"metadata":{"annotations":{"walras.dev/original-resources":null}}}"#;
    let call = ["patch", "pod", "web", "-n", namespace, MERGE, "-p", removed];
    attempt(kubectl, (&call, Some(OURS)));
    // What is left as it is is in nobody's way.
    let other = r#"{"metadata":{"annotations":{"team":"shop"}}}"#;
    attempt(kubectl, (&["patch", "pod", "web", "-n", namespace, MERGE, "-p", other], None));
}

/// Settings can be read by both and written by neither; an agent writes what it learned.
fn of_config(kubectl: &Kubectl, namespace: &str) {
    let ours = ["-n", "mbcas-system"];
    let settings = ["get", "configmaps", "--field-selector=metadata.name=mbcas-agent-config"];
    let off =
        ["patch", "configmap", "mbcas-agent-config", MERGE, "-p", r#"{"data":{"mode":"off"}}"#];
    let own = "walras-agent writes no ConfigMap but mbcas-qtable-NODE of its own node";
    for account in [AGENT, CONTROLLER] {
        attempt(kubectl, (&[&settings[..], &ours, &[account]].concat(), None));
        let all = [&["get", "configmaps"], &ours[..], &[account]].concat();
        attempt(kubectl, (&all, Some("cannot list resource")));
    }
    attempt(kubectl, (&[&off[..], &ours, &[AGENT]].concat(), Some(own)));
    attempt(kubectl, (&[&off[..], &ours, &[CONTROLLER]].concat(), Some("cannot patch resource")));
    let create = |name| ["create", "configmap", name, "--from-literal=a=b", AGENT];
    attempt(kubectl, (&[&create("mbcas-qtable-n1")[..], &ours].concat(), Some(own)));
    attempt(kubectl, (&[&create("other")[..], &ours].concat(), Some(own)));
    // The token of a pod says on which node it runs.
    let on = "--as-user-extra=authentication.kubernetes.io/node-name=n3";
    attempt(kubectl, (&[&create("mbcas-qtable-n2")[..], &ours, &[on]].concat(), Some(own)));
    attempt(kubectl, (&[&create("mbcas-qtable-n3")[..], &ours, &[on]].concat(), None));
    let elsewhere = [&create("mbcas-qtable-n1")[..], &["-n", namespace]].concat();
    attempt(kubectl, (&elsewhere, Some("cannot create resource")));
}

/// An agent writes the allocations of its own node, also over what others wrote in their place, as
/// soon as the controller has found that they did.
fn of_allocations(kubectl: &Kubectl, namespace: &str) {
    const OWN: &str = "walras-agent writes no PodAllocation but those of its own node";
    const TAKEN: &str = "walras-agent takes no PodAllocation over from another node";
    let long = "n".repeat(70);
    let of_long = format!("{}-0123456789abcdef", "n".repeat(46));
    // Without an owner that is there, it would soon be collected as garbage.
    let pod = kubectl.json(&["get", "pod", "web", "-n", namespace]).unwrap();
    let owner = &pod["metadata"]["uid"];
    let object = |node: &str| {
        let object = json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": {
                "name": "web", "namespace": namespace, "labels": { "walras.dev/node": node },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "web",
                    "uid": owner }],
            },
            "spec": { "namespace": namespace, "podName": "web", "desiredCPURequest": "100m",
                "desiredCPULimit": "200m" },
        });
        object.to_string()
    };
    let on = |node: &str| format!("--as-user-extra=authentication.kubernetes.io/node-name={node}");
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-", AGENT];
    let write = |extra: &[&str], node: &str, refused: Option<&str>| {
        let call = [&apply[..], extra].concat();
        let told = kubectl.run_with(&call, &object(node));
        match (&told, refused) {
            (Ok(_), None) => {}
            (Err(error), Some(because)) if error.to_string().contains(because) => {}
            (Ok(_) | Err(_), _) => panic!("{call:?} for {node}, {refused:?}: {told:?}"),
        }
    };
    // What the controller says of it.
    let say = |reason: &str| {
        let status = json!({ "status": { "reason": reason } }).to_string();
        let call = ["patch", "podallocation", "web", "-n", namespace, "--subresource=status"];
        kubectl.run(&[&call[..], &[MERGE, "-p", &status]].concat()).unwrap();
    };
    write(&[], "n1", Some(OWN));
    write(&[&on("n1")], "n2", Some(OWN));
    write(&[&on("n1")], "", Some(OWN));
    write(&[&on("n1")], "n1", None);
    write(&[&on("n1")], "n1", None);
    write(&[&on("n2")], "n1", Some(OWN));
    // To take it over and then to delete it would blind the other node.
    write(&[&on("n2")], "n2", Some(TAKEN));
    say("Applied");
    write(&[&on("n2")], "n2", Some(TAKEN));
    say("ForeignNode");
    write(&[&on("n2")], "n2", None);
    say("StalePod");
    write(&[&on(&long)], &of_long, None);
    write(&[&on("n2")], &of_long, Some(OWN));
    let delete = ["delete", "podallocation", "web", "-n", namespace, AGENT];
    attempt(kubectl, (&[&delete[..], &[&on("n2")]].concat(), Some(OWN)));
    attempt(kubectl, (&[&delete[..], &[&on(&long)]].concat(), None));
}

/// With the file that we ship for an API server's command line an agent sees the pods of its own
/// node, and no others; without it, all of them, because roles know no field selectors.
fn of_other_nodes(testbed: &Testbed, kubectl: &Kubectl) {
    // As an error of the server: it asked somebody who is not there.
    const BY_THE_FILE: Option<&str> = Some("https://127.0.0.1:1/?timeout=1s");
    let on = |node: &str| format!("--as-user-extra=authentication.kubernetes.io/node-name={node}");
    let (here, there) = (on("n1"), on("n2"));
    let all = ["get", "pods", "-A", AGENT];
    let mine = [&all[..], &["--field-selector=spec.nodeName=n1"]].concat();
    let more = [&all[..], &["--field-selector=spec.nodeName!=n1"]].concat();
    let watch = "/api/v1/pods?watch=1&timeoutSeconds=1&fieldSelector=spec.nodeName%3D";
    let (watch_mine, watch_other) = (format!("{watch}n1"), format!("{watch}n2"));
    attempt(kubectl, (&[&all[..], &[&here]].concat(), None));

    let checkout = Settings::read().unwrap().checkout;
    let file = checkout.join("deploy/authorization/agents-see-their-node.yaml");
    let shipped = std::fs::read_to_string(file).unwrap();
    let nowhere = testbed.dir().join("config/nowhere.kubeconfig");
    let text = shipped.replace("/etc/kubernetes/nowhere.kubeconfig", nowhere.to_str().unwrap());
    assert_ne!(text, shipped, "the file names the kubeconfig that leads nowhere");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [{ "name": "nowhere", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "nowhere", "context": { "cluster": "nowhere", "user": "" } }],
    });
    std::fs::write(nowhere, config.to_string()).unwrap();
    std::fs::write(testbed.dir().join("config/authorization.json"), text).unwrap();
    testbed.stop_api_server().unwrap();
    testbed.start_api_server().unwrap();

    for (call, refused) in [
        ([&mine[..], &[&here]].concat(), None),
        (vec!["get", "--raw", &watch_mine, AGENT, &here], None),
        // Others' are not its business, nor are all, nor those of a token that names no node.
        ([&mine[..], &[&there]].concat(), BY_THE_FILE),
        (vec!["get", "--raw", &watch_other, AGENT, &here], BY_THE_FILE),
        ([&all[..], &[&here]].concat(), BY_THE_FILE),
        ([&more[..], &[&here]].concat(), BY_THE_FILE),
        (mine.clone(), BY_THE_FILE),
        // Everything else is as it was, for the agent and for others.
        (vec!["get", "podallocations", "-A", AGENT, &here], None),
        (vec!["get", "pods", "-A", CONTROLLER], None),
        (vec!["get", "secrets", "-A", AGENT, &here], Some("cannot list resource")),
    ] {
        attempt(kubectl, (&call, refused));
    }
}

fn attempt(kubectl: &Kubectl, (call, refused): Attempt<'_>) {
    match (kubectl.run(call), refused) {
        (Ok(_), None) => {}
        (Err(error), Some(because)) => {
            let error = error.to_string();
            assert!(error.contains(because), "{call:?} is refused, but not for that: {error}");
        }
        (Ok(_), Some(because)) => panic!("{call:?} should be refused: {because}"),
        (Err(error), None) => panic!("{call:?} should be allowed: {error}"),
    }
}

/// Applies the plain manifests, and lets the API server look at what the chart makes.
fn install(kubectl: &Kubectl) {
    let settings = Settings::read().unwrap();
    let folder = settings.checkout.join("deploy/kubernetes");
    kubectl.run(&["apply", "--server-side", "-k", folder.to_str().unwrap()]).unwrap();
    let crd = "customresourcedefinition/podallocations.allocation.mbcas.io";
    kubectl.run(&["wait", "--for=condition=Established", crd, "--timeout=120s"]).unwrap();
    let programs = prepare(&[Program::Helm], &settings).unwrap();
    let mut helm = std::process::Command::new(programs.place(Program::Helm).unwrap());
    helm.args(["template", "walras", "deploy/helm/walras", "--include-crds"]);
    helm.args(["--namespace", "mbcas-system", "--kube-version", "1.33.0"]);
    let rendered = helm.current_dir(&settings.checkout).output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    let look = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"];
    let told = kubectl.run_with(&look, &rendered).unwrap();
    assert!(told.contains("daemonset.apps/walras-agent"), "{told}");
}

/// Waits until the policies are looked at, and makes sure that nothing in them is doubtful.
fn await_policies(kubectl: &Kubectl, namespace: &str) {
    let ours = [
        "walras-controller-pods",
        "walras-annotations",
        "walras-agent-configmaps",
        "walras-agent-allocations",
    ];
    for name in ours {
        let what = format!("the check of {name}");
        let checked = wait_for(&what, PATIENCE, || {
            let policy = kubectl.json(&["get", "validatingadmissionpolicy", name])?;
            Ok(policy.pointer("/status/typeChecking").cloned())
        });
        assert_eq!(checked.unwrap(), json!({}), "{name}");
    }
    let patch = r#"{"metadata":{"labels":{"app":"x"}}}"#;
    let call = ["patch", "pod", "web", "-n", namespace, MERGE, "-p", patch, CONTROLLER];
    wait_for("the first refusal by a policy", PATIENCE, || {
        let refused = kubectl.run(&[&call[..], &["--dry-run=server"]].concat());
        Ok(refused.is_err_and(|error| error.to_string().contains("denied request")).then_some(()))
    })
    .unwrap();
    let create = ["create", "configmap", "other", "-n", "mbcas-system", AGENT];
    wait_for("the first refusal by the other policy", PATIENCE, || {
        let refused = kubectl.run(&[&create[..], &["--dry-run=server"]].concat());
        Ok(refused.is_err_and(|error| error.to_string().contains("denied request")).then_some(()))
    })
    .unwrap();
}

/// A pod with everything that must not be touched. Nothing runs it: there is no node.
fn pod(namespace: &str) -> Value {
    let image = "x.invalid/app";
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": namespace,
            "labels": { "app": "web" }, "annotations": { "owner": "me" },
        },
        "spec": {
            "containers": [
                { "name": "app", "image": image, "resources": {
                    "requests": { "cpu": "100m", "memory": "32Mi" },
                    "limits": { "cpu": "200m", "memory": "64Mi" } } },
                { "name": "log", "image": image },
            ],
            "initContainers": [
                { "name": "mesh", "image": image, "restartPolicy": "Always",
                  "resources": { "requests": { "cpu": "10m" } } },
            ],
        },
    })
}
