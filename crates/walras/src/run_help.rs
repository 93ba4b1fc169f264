//! What `walras apply` and the other commands about workloads of a host say for `--help`, after
//! their options.

pub(crate) const APPLY_HELP: &str = "\
Examples:
  walras apply -f web.yaml
  walras apply -f web.yaml --dry-run
  walras apply -f all.yaml --wait --address web1.example:50051 --tls ~/certs/alice
  walras apply -f all.yaml --wait --hosts hosts.txt --tls ~/certs/alice
  generate | walras apply -f - --json

A file has one workload, or several between lines of ---:
  id: web
  desired_state: running            # or stopped
  revision_id: \"7\"                  # where it is not said, made from what follows
  spec:
    rollback: true                  # a new revision that fails gives way to the last good one
    secrets: {TOKEN: hush}          # in the environment; kept nowhere by the host
    container:
      image: nginx:1.27
      args: [\"-g\", \"daemon off;\"]
      env: {MODE: production}
      ports: [{host_port: 8080, container_port: 80}]
      volumes: [{host_path: /srv/www, container_path: /www, read_only: true}]
      managed_volumes: [{name: cache, mount_path: /var/cache/nginx}]
      resources: {memory_bytes: 268435456, cpu_min_milli: 250, cpu_max_milli: 2000}
      restart_policy: {policy: always}       # no, on-failure, unless-stopped
      health_check: {command: [wget, -q, http://localhost], interval_s: 10}
      networks: [backend]                    # bridges; made where they are missing
      logs: {max_bytes: 10485760, max_files: 3}
  ---
  id: shop
  spec:
    secrets: {TOKEN: hush}
    compose:
      env: {TAG: \"2\"}
      compose_yaml: |
        services:
          web: {image: \"shop:${TAG}\", environment: {TOKEN: \"${TOKEN}\"}}
  ---
  id: db
  spec:
    secrets: {PASSWORD: hush}       # at /sys/firmware/qemu_fw_cfg/by_name/opt/dev.walras/PASSWORD
    vm:
      hypervisor: qemu              # or libvirt, where the host has it
      vcpus: 2
      vcpus_max: 4                  # it can grow to that while it runs
      memory_mb: 1024
      memory_max_mb: 4096
      scaling: {unit_cpu_milli: 500, unit_memory_mb: 512}   # and does, as its guest needs
      disks: [{path: /srv/db.qcow2, size_gb: 20}]    # made if it is not there, never removed
      ports: [{host_port: 2222, guest_port: 22}]
      cloud_init: |
        #cloud-config
        password: ${secret:PASSWORD}

The same revision again changes nothing. Another desired state starts or stops. Another revision
replaces: its image is fetched first, while the old one runs.

Exit codes:
  0  fine
  1  the host cannot be reached, a workload failed, or time ran out
  2  bad input or usage, or the host refused it";

pub(crate) const DELETE_HELP: &str = "\
Examples:
  walras delete web
  walras delete web db --wait

Exit codes:
  0  fine
  1  the host cannot be reached, or time ran out
  2  bad usage, or there is no such workload";

pub(crate) const STATUS_HELP: &str = "\
Examples:
  walras status web
  walras status web --json | jq .actual_state
  walras status web db --watch

The runtime is asked, for two seconds at most. If it does not answer, the state is UNKNOWN.

Exit codes:
  0  fine
  1  the host cannot be reached
  2  bad usage, or there is no such workload";

pub(crate) const LIST_HELP: &str = "\
Examples:
  walras list
  walras list --json --address web1.example:50051 --tls ~/certs/alice

Exit codes:
  0  fine
  1  the host cannot be reached
  2  bad usage";

pub(crate) const ACTIONS_HELP: &str = "\
Examples:
  walras actions
  walras actions web --failed

Newest first. Lost when the daemon restarts; its log has them too.

Exit codes:
  0  fine
  1  the host cannot be reached
  2  bad usage";

pub(crate) const LOGS_HELP: &str = "\
Examples:
  walras logs web
  walras logs web -f --tail 10
  walras logs shop --service db

Lines of a project with several containers begin with the name of their service.

Exit codes:
  0  fine
  1  the host cannot be reached, or its runtime does not answer
  2  bad usage, or there is no such workload";

pub(crate) const EXEC_HELP: &str = "\
Examples:
  walras exec web -- cat /etc/hostname
  walras exec shop --service db -- pg_dump shop > shop.sql
  walras exec web -i -- sh < script.sh

There is no terminal: what is written arrives as it is. Who may do this can do in the workload
whatever the workload can.

Exit codes:
  0  the command ended with 0
  1  it ended with another code, or the host cannot be reached
  2  bad usage, or there is no such workload";

pub(crate) const SNAPSHOT_HELP: &str = "\
Examples:
  walras snapshot db
  walras snapshot db --take before-upgrade
  walras snapshot db --revert before-upgrade
  walras snapshot db --drop before-upgrade

Snapshots are kept in the machine's qcow2 disks, all of them at the same moment. What its guest had
not written to them by then is not in them, as after a power failure.

Exit codes:
  0  fine
  1  the host cannot be reached, or it was not done
  2  bad usage, or there is no such workload or snapshot";

pub(crate) const HEALTH_HELP: &str = "\
Examples:
  walras health
  walras health --json

Exit codes:
  0  it is well
  1  it is not, or cannot be reached
  2  bad usage";

pub(crate) const DRAIN_HELP: &str = "\
Examples:
  walras drain
  walras drain --undo

Exit codes:
  0  fine
  1  the host cannot be reached
  2  bad usage";

pub(crate) const CERTS_HELP: &str = "\
Examples:
  walras certs init --dir ca
  walras certs issue --dir ca --use server --name web1.example --ip 192.0.2.7
  walras certs issue --dir ca --use client --name alice
  echo alice >> ca/web1.example/clients
  walras host --run-listen 0.0.0.0:50051 --run-tls ca/web1.example
  walras list --address web1.example:50051 --tls ca/alice

Copy the folder of a host to the host and that of a client to the client; ca-key.pem stays here.
A host takes only clients in its file `clients`, and reads it again when it changes.

Exit codes:
  0  fine
  1  a file cannot be written
  2  bad usage";
