"""Two processes on this machine as workers that train one model together."""

import json
import socket


def worker_configs(number: int = 2) -> list[str]:
    """TF_CONFIG of each worker, with ports that are free now."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("localhost", 0))
    cluster = {"worker": [f"localhost:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    return [
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        for index in range(number)
    ]
