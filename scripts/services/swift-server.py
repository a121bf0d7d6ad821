"""OpenStack Swift with its S3 API, in one process: `python3 swift.py FOLDER PORT ACCESS_KEY SECRET_KEY`.

The proxy listens on 127.0.0.1:PORT; the account, container and object server behind it have ports of their own. There is
one device and one replica, in FOLDER, whose file system must have extended attributes.
"""
import os
import sys
import time

import eventlet
from swift.common import utils

FOLDER, PORT, ACCESS_KEY, SECRET_KEY = sys.argv[1:5]

# The servers wait for each other on a machine that is busy. By default an object server waits a second for the container
# server, and then leaves the entry of the listing to a daemon, which does not run here: the listing would stay wrong. A proxy
# waits half a second for a connection, and then refuses requests for a minute.
PATIENT = """
conn_timeout = 120
node_timeout = 120
recoverable_node_timeout = 120
container_update_timeout = 120
error_suppression_limit = 1000000
"""

PROXY = f"""
[DEFAULT]
swift_dir = {FOLDER}
user = nobody
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
allow_account_management = true
{PATIENT}
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
dns_compliant_bucket_names = yes
max_upload_part_num = 10000
[filter:tempauth]
use = egg:swift#tempauth
{"user_" + ACCESS_KEY.replace(":", "_")} = {SECRET_KEY} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
max_manifest_segments = 10000
[filter:dlo]
use = egg:swift#dlo
"""

BACKEND = """
[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
{patient}
"""

CLUSTER = """
[swift-hash]
swift_hash_path_suffix = umbra
[storage-policy:0]
name = only
default = yes
"""


def write(name, text):
    path = os.path.join(FOLDER, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def write_ring(name, port):
    from swift.common.ring import RingBuilder

    ring = RingBuilder(part_power=1, replicas=1, min_part_hours=1)
    ring.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1, "ip": "127.0.0.1", "port": port, "device": "disk"})
    ring.rebalance()
    ring.get_ring().save(os.path.join(FOLDER, f"{name}.ring.gz"))


def serve(socket, config):
    from swift.common.wsgi import SwiftHttpProtocol, loadapp

    app = loadapp(config, global_conf={"log_name": os.path.basename(config)})
    return eventlet.spawn(
        eventlet.wsgi.server,
        socket,
        app,
        utils.NullLogger(),
        protocol=SwiftHttpProtocol,
        socket_timeout=60,
        capitalize_response_headers=False,
    )


def main():
    os.environ["TZ"] = "UTC+0"
    time.tzset()
    os.makedirs(os.path.join(FOLDER, "devices", "disk"), exist_ok=True)
    utils.SWIFT_CONF_FILE = write("swift.conf", CLUSTER)
    utils.validate_hash_conf()
    from swift.common.storage_policy import reload_storage_policies

    reload_storage_policies()
    # As swift.common.wsgi does it before a server starts.
    utils.eventlet_monkey_patch()
    servers = []
    for kind in ("account", "container", "object"):
        socket = eventlet.listen(("127.0.0.1", 0), backlog=1024)
        write_ring(kind, socket.getsockname()[1])
        servers.append((socket, write(f"{kind}-server.conf", BACKEND.format(folder=FOLDER, kind=kind, patient=PATIENT))))
    servers.append((eventlet.listen(("127.0.0.1", int(PORT)), backlog=1024), write("proxy-server.conf", PROXY)))
    for server in [serve(*each) for each in servers]:
        server.wait()


main()
