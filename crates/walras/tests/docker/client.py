"""A client of the workload API that was made of proto/agent.proto by gRPC's own tools for Python.

Called as: client.py STUBS ADDRESS CERTIFICATES IMAGE repeat|race COUNT. It knows nothing of Walras
but the protocol, and prints what it was answered as JSON.
"""

import json
import pathlib
import sys
import threading

import grpc

STUBS, ADDRESS, CERTIFICATES, IMAGE, TASK, COUNT = sys.argv[1:7]
sys.path.insert(0, STUBS)

import agent_pb2  # noqa: E402
import agent_pb2_grpc  # noqa: E402

SERVE = "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done"


def service():
    """A connection of its own, with certificates on both sides."""
    read = lambda name: (pathlib.Path(CERTIFICATES) / name).read_bytes()  # noqa: E731
    credentials = grpc.ssl_channel_credentials(read("ca.pem"), read("key.pem"), read("cert.pem"))
    return agent_pb2_grpc.AgentServiceStub(grpc.secure_channel(ADDRESS, credentials))


def workload(name, revision):
    return agent_pb2.ApplyWorkloadRequest(
        id=name,
        type=agent_pb2.WORKLOAD_TYPE_CONTAINER,
        revision_id=revision,
        desired_state=agent_pb2.DESIRED_STATE_RUNNING,
        spec=agent_pb2.WorkloadSpec(
            container=agent_pb2.ContainerSpec(image=IMAGE, command=["/bin/sh", "-c", SERVE])
        ),
    )


def repeat(count):
    """The same again and again: how often it was applied, and how often there was nothing to do."""
    asked = service()
    answers = [asked.ApplyWorkload(workload("same", "1"), timeout=30) for _ in range(count)]
    return {
        "applied": sum(answer.applied for answer in answers),
        "skipped": sum(answer.skipped for answer in answers),
    }


def race(count):
    """Two that want different things of one workload: what each of them asked for last."""
    refused = []

    def ask(who):
        asked = service()
        for number in range(count):
            try:
                asked.ApplyWorkload(workload("torn", f"{who}-{number}"), timeout=30)
            except grpc.RpcError as error:
                refused.append(str(error))

    both = [threading.Thread(target=ask, args=(who,)) for who in ("one", "two")]
    for one in both:
        one.start()
    for one in both:
        one.join()
    return {"last": [f"one-{count - 1}", f"two-{count - 1}"], "refused": refused}


print(json.dumps({"repeat": repeat, "race": race}[TASK](int(COUNT))))
