//! What is read of an apply, and what is refused with which field.

use walras_core::run::{Resources, Restart};
use walras_rpc::agent::{
    ComposeSpec, ContainerSpec, CustomSpec, LogBounds, ManagedVolumeSpec, PortMapping,
    ResourceLimits, RestartPolicy, VmSpec, VolumeMount, WorkloadSpec,
};

use super::*;

fn message(container: ContainerSpec) -> ApplyWorkloadRequest {
    ApplyWorkloadRequest {
        id: "web".to_owned(),
        r#type: WorkloadType::Container.into(),
        revision_id: "1".to_owned(),
        desired_state: DesiredState::Running.into(),
        spec: Some(WorkloadSpec {
            spec: Some(AnySpec::Container(container)),
            ..Default::default()
        }),
        dry_run: false,
    }
}

fn good() -> ContainerSpec {
    ContainerSpec { image: "busybox".to_owned(), ..Default::default() }
}

#[test]
fn what_is_not_said_is_the_usual() {
    let read = request(message(good())).unwrap();
    let Work::Container(container) = &read.spec.work else { panic!("it is a container") };
    assert_eq!(container.restart, Restart::Always);
    assert_eq!(container.resources, Resources::default());
    assert_eq!((read.desired, read.spec.rollback), (Desired::Running, false));
    let mut checked = message(good());
    checked.r#type = 0;
    checked.desired_state = 0;
    assert_eq!(request(checked).unwrap().desired, Desired::Running);
    let short = ApplyWorkloadRequest { id: "a".to_owned(), ..message(good()) };
    let refused = request(short).unwrap_err().to_string();
    assert_eq!(refused, "id: `a` is too short; Docker wants two letters");
}

#[test]
fn every_field_out_of_range_is_told_at_once() {
    let mut bad = message(ContainerSpec {
        volumes: vec![VolumeMount {
            host_path: "../etc".to_owned(),
            container_path: "/x".to_owned(),
            read_only: false,
        }],
        managed_volumes: vec![ManagedVolumeSpec {
            name: "data".to_owned(),
            driver: "nfs".to_owned(),
            size_gb: 3,
            mount_path: "/data".to_owned(),
            retain_policy: "Sometimes".to_owned(),
            ..Default::default()
        }],
        ports: vec![
            PortMapping { host_port: 70_000, container_port: 80, protocol: String::new() },
            PortMapping { host_port: 1, container_port: 80, protocol: "sctp".to_owned() },
        ],
        resources: Some(ResourceLimits {
            cpu_shares: -1,
            memory_bytes: 1,
            weight: -1.0,
            target_latency_ms: -1,
            ..Default::default()
        }),
        restart_policy: Some(RestartPolicy { policy: "sometimes".to_owned(), max_retry_count: -1 }),
        networks: vec!["host".to_owned()],
        oci_runtime: "a/b".to_owned(),
        logs: Some(LogBounds { max_bytes: 1, max_files: -1 }),
        gpus: "all".to_owned(),
        sriov: "eth0".to_owned(),
        vault: "path".to_owned(),
        ..Default::default()
    });
    bad.id = "../web".to_owned();
    bad.revision_id = String::new();
    bad.desired_state = 9;
    let secrets = [("A=B".to_owned(), "hush".to_owned())];
    bad.spec.as_mut().unwrap().secrets = secrets.into_iter().collect();
    let error = request(bad).unwrap_err();
    let SpecError::Faults(faults) = &error else { panic!("{error}") };
    let fields: Vec<&str> = faults.iter().map(|fault| &*fault.field).collect();
    let expected = [
        "id",
        "revision_id",
        "desired_state",
        "gpus",
        "sriov",
        "vault",
        "managed_volumes[0].driver",
        "managed_volumes[0].size_gb",
        "managed_volumes[0].retain_policy",
        "ports[0].host_port",
        "ports[1].protocol",
        "resources.cpu_shares",
        "resources.weight",
        "resources.target_latency_ms",
        "restart_policy.max_retry_count",
        "restart_policy.policy",
        "logs.max_files",
        "secrets.A=B",
        "image",
        "volumes[0].host_path",
        "resources.memory_bytes",
        "networks[0]",
        "oci_runtime",
        "logs.max_bytes",
    ];
    assert_eq!(fields, expected);
    assert!(!error.to_string().contains("hush"), "{error}");
}

fn of(spec: AnySpec) -> ApplyWorkloadRequest {
    let spec = Some(WorkloadSpec { spec: Some(spec), ..Default::default() });
    ApplyWorkloadRequest { r#type: 0, spec, ..message(good()) }
}

#[test]
fn a_compose_project_is_read_inline_or_encoded_with_its_name() {
    let yaml = "services:\n  web: &web\n    image: x\n  two:\n    <<: *web\n";
    let encoded = "c2VydmljZXM6CiAgd2ViOgogICAgaW1hZ2U6IHgK";
    for (text, services) in [(yaml, 2), (encoded, 1)] {
        let compose_yaml = text.to_owned();
        let spec = ComposeSpec { compose_yaml, ..Default::default() };
        let read = request(of(AnySpec::Compose(spec))).unwrap();
        let Work::Compose(compose) = &read.spec.work else { panic!("it is a project") };
        assert_eq!((&*compose.project, compose.services()), ("web", services));
        assert_eq!(compose.images(&[]).unwrap(), ["x"], "{text}");
    }
    for (yaml, expected) in [("", "is missing"), ("services: [", "compose_yaml"), ("a: &a *a", "")]
    {
        let spec = ComposeSpec { compose_yaml: yaml.to_owned(), ..Default::default() };
        let refused = request(of(AnySpec::Compose(spec))).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains(expected), "{yaml}");
    }
}

#[test]
fn a_runtime_of_ones_own_gets_its_settings() {
    let settings = serde_json::json!({"image": "a", "count": 3});
    let serde_json::Value::Object(fields) = settings.clone() else { panic!("it is an object") };
    let spec =
        CustomSpec { runtime: "wasm".to_owned(), settings: Some(walras_rpc::from_json(fields)) };
    let read = request(of(AnySpec::Custom(spec))).unwrap();
    let Work::Custom(custom) = &read.spec.work else { panic!("it is custom") };
    assert_eq!((&*custom.runtime, &custom.settings), ("wasm", &settings));
    let none = request(of(AnySpec::Custom(CustomSpec::default()))).map(|_| ()).unwrap_err();
    assert_eq!(none.to_string(), "custom.runtime: is missing");
}

#[test]
fn what_this_host_cannot_run_and_what_does_not_fit_together_is_said_so() {
    let vm = of(AnySpec::Vm(VmSpec::default()));
    let refused = request(vm).unwrap_err().to_string();
    assert!(refused.contains("vm.memory_mb: is missing"), "{refused}");
    let mut other = message(good());
    other.r#type = WorkloadType::Vm.into();
    let refused = request(other).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "type: vm is said, and the spec is container");
    let spec =
        ComposeSpec { compose_yaml: "services: {a: {image: x}}".to_owned(), ..Default::default() };
    let mut files = of(AnySpec::Compose(spec));
    files.spec.as_mut().unwrap().secrets_as_files = true;
    let refused = request(files).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "secrets_as_files: is possible for containers only");
    let mut climbing = message(good());
    let spec = climbing.spec.as_mut().unwrap();
    spec.secrets_as_files = true;
    spec.secrets = [("../x".to_owned(), "hush".to_owned())].into_iter().collect();
    let refused = request(climbing).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "secrets.../x: is no name of a file");
}
