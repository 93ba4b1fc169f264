"""A control plane that was made of proto/control.proto by gRPC's own tools for Python.

Called as: control.py STUBS CERTIFICATES WISHES. It listens on a port of its own with certificates on
both sides, prints the port, and then every call as a line of JSON. WISHES is a file that says how
it behaves from now on: words such as `drain`, `refuse` and `forget`.
"""

import concurrent.futures
import json
import pathlib
import sys
import time

import grpc

STUBS, CERTIFICATES, WISHES = sys.argv[1:4]
sys.path.insert(0, STUBS)

from google.protobuf import json_format  # noqa: E402
from google.protobuf.timestamp_pb2 import Timestamp  # noqa: E402

import control_pb2  # noqa: E402
import control_pb2_grpc  # noqa: E402

LEASE_S = 4


def wishes():
    return pathlib.Path(WISHES).read_text().split()


def lease():
    return Timestamp(seconds=int(time.time()) + LEASE_S)


def told(what, request, context):
    names = context.auth_context().get("x509_subject_alternative_name", [])
    message = json_format.MessageToDict(request)
    print(json.dumps({"call": what, "by": [name.decode() for name in names], **message}), flush=True)


class Control(control_pb2_grpc.AgentControlServicer):
    def RegisterNode(self, request, context):
        told("register", request, context)
        accepted = "refuse" not in wishes()
        return control_pb2.RegisterNodeResponse(
            accepted=accepted,
            reason="" if accepted else "no room for another host",
            heartbeat_interval_seconds=1,
            lease_expires_at=lease(),
        )

    def Heartbeat(self, request, context):
        told("heartbeat", request, context)
        asked = wishes()
        return control_pb2.HeartbeatResponse(
            acknowledged="forget" not in asked,
            drain_node="drain" in asked,
            lease_expires_at=lease(),
        )


read = lambda name: (pathlib.Path(CERTIFICATES) / name).read_bytes()  # noqa: E731
server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
control_pb2_grpc.add_AgentControlServicer_to_server(Control(), server)
credentials = grpc.ssl_server_credentials(
    [(read("key.pem"), read("cert.pem"))], read("ca.pem"), require_client_auth=True
)
print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
server.start()
server.wait_for_termination()
