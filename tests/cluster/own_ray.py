"""Starts a Ray of its own and prints the addresses on which its processes listen for TCP, as JSON."""

import json

import psutil

from hab_ray.cluster.session import ray_session


def main() -> None:
    """Look at all processes of the session once it has begun."""
    with ray_session():
        import ray

        @ray.remote
        def task() -> int:
            return 1

        assert ray.get(task.remote()) == 1
        me = psutil.Process()
        found = {
            socket.laddr.ip
            for process in (me, *me.children(recursive=True))
            for socket in process.net_connections("tcp")
            if socket.status == psutil.CONN_LISTEN
        }
    print(json.dumps(sorted(found)))


if __name__ == "__main__":
    main()
