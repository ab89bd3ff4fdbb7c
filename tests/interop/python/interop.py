"""A fencepost client in Python, made from the proto files alone.

Usage: interop.py PROTO_DIR OUT_DIR HOST:PORT...

It generates the stubs into OUT_DIR with grpc_tools.protoc, and then, against the nodes at the given
addresses: finds the services through reflection (which speaks v1alpha), asks for their health, acquires
a resource, sends the same request again, renews, is refused as another holder, reads an invalid
argument's details, releases, and sees the next token rise. Each step is printed; the first that does
not hold ends it with exit code 1.
"""

import os
import sys
import uuid
from pathlib import Path

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_tools import protoc

# Seconds for one call, an election included.
TIMEOUT = 10


def check(step, holds, found=None):
    """Prints a step, and ends the run if it does not hold."""
    if not holds:
        sys.exit(f"FAILED: {step}; found: {found}")
    print(f"ok: {step}", flush=True)


def generate(proto_dir, out_dir):
    """Makes the Python stubs from the .proto files, as a user would."""
    out_dir.mkdir(parents=True, exist_ok=True)
    protos = sorted((proto_dir / "fencepost" / "v1").glob("*.proto"))
    arguments = ["protoc", f"-I{proto_dir}", f"--python_out={out_dir}", f"--grpc_python_out={out_dir}"]
    code = protoc.main(arguments + [str(proto) for proto in protos])
    check("the stubs are generated from the proto files", code == 0, code)
    sys.path.insert(0, str(out_dir))


def find_services(channel):
    """Finds the services, and the fields of a message, through reflection alone."""
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    wanted = {"fencepost.v1.Issuer", "fencepost.v1.Cluster", "grpc.health.v1.Health"}
    check("reflection lists the services", wanted <= services, sorted(services))
    issuer = DescriptorPool(database).FindServiceByName("fencepost.v1.Issuer")
    methods = {method.name: method for method in issuer.methods}
    check("reflection describes Acquire", "Acquire" in methods, sorted(methods))
    fields = {field.name for field in methods["Acquire"].input_type.fields}
    check("reflection describes its request", {"resource", "holder", "ttl_ms"} <= fields, sorted(fields))


def error_info(error):
    """The serialized google.rpc.Status of a failed call, which holds its ErrorInfo."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return value
    return b""


def story(channel, pb, stub):
    """Acquire, retry, renew, be refused, release, and see the token rise."""
    resource = f"interop/{uuid.uuid4()}"
    request = pb.AcquireRequest(
        resource=resource,
        holder="python",
        ttl_ms=30_000,
        request_id=uuid.uuid4().bytes,
        attempt=1,
    )
    first = stub.Acquire(request, timeout=TIMEOUT)
    check("a free resource is granted", first.WhichOneof("outcome") == "granted", first)
    check("the grant is new", not first.granted.replayed, first)
    token = first.granted.token.value
    check("the answer names cluster and leader", first.header.cluster_id and first.header.leader.address, first)

    request.attempt = 2
    again = stub.Acquire(request, timeout=TIMEOUT)
    check("the same request id gets the same token", again.granted.token.value == token, again)
    check("and is told that it is a replay", again.granted.replayed, again)

    mine = pb.RenewItem(resource=resource, holder="python", token=token)
    not_mine = pb.RenewItem(resource=resource, holder="somebody else", token=token)
    renewed = stub.Renew(pb.RenewRequest(items=[mine, not_mine]), timeout=TIMEOUT)
    outcomes = [outcome.WhichOneof("outcome") for outcome in renewed.outcomes]
    check("the holder renews, somebody else does not", outcomes == ["renewed", "unknown"], outcomes)
    check("a renewal keeps the TTL", renewed.outcomes[0].renewed.lease_ms == 30_000, renewed)

    other = pb.AcquireRequest(resource=resource, holder="other", ttl_ms=1_000, request_id=uuid.uuid4().bytes)
    refused = stub.Acquire(other, timeout=TIMEOUT)
    check("another holder is refused", refused.WhichOneof("outcome") == "held", refused)
    check("and is told who has it", refused.held.holder == "python" and refused.held.token.value == token, refused)

    try:
        stub.Acquire(pb.AcquireRequest(resource="", holder="python", ttl_ms=1_000), timeout=TIMEOUT)
        check("an empty resource is an invalid argument", False)
    except grpc.RpcError as error:
        named = "resource" in error.details() and b"INVALID_FIELD" in error_info(error)
        check("an empty resource is an invalid argument", error.code() == grpc.StatusCode.INVALID_ARGUMENT, error)
        check("which names its field and its reason", named, error)

    seen = stub.Inspect(pb.InspectRequest(resource=resource), timeout=TIMEOUT)
    check("inspect shows the grant", seen.grant.token.value == token and seen.grant.renewals == 1, seen)

    release = pb.ReleaseRequest(resource=resource, holder="python", token=token)
    for when in ("a release is taken", "and may be repeated"):
        released = stub.Release(release, timeout=TIMEOUT)
        check(when, released.WhichOneof("outcome") == "released", released)

    other.request_id = uuid.uuid4().bytes
    following = stub.Acquire(other, timeout=TIMEOUT)
    check("the next grant has a higher token", following.granted.token.value > token, following)
    return resource


def main():
    proto_dir, out_dir, *addresses = sys.argv[1:]
    generate(Path(proto_dir), Path(out_dir))
    from fencepost.v1 import cluster_pb2, cluster_pb2_grpc, issuer_pb2, issuer_pb2_grpc

    # Every node takes every call, so the story must hold at each of them.
    for address in addresses:
        print(f"-- {address}", flush=True)
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(timeout=TIMEOUT)
            find_services(channel)
            story(channel, issuer_pb2, issuer_pb2_grpc.IssuerStub(channel))
            cluster = cluster_pb2_grpc.ClusterStub(channel)
            status = cluster.Status(cluster_pb2.StatusRequest(), timeout=TIMEOUT)
            check("status lists the members", len(status.members) == len(addresses), status)
    print("all of it holds", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    main()
