"""A worker that dies, and two hosts: torchrun starts the run again from its last checkpoint.

``python campaign/elastic.py`` compares with an undisturbed run of one process. As root it also runs
across two network namespaces, which stand for two hosts.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, environment, store
from ddp import difference

from symmetries.training import load_state

WORKER = str(ROOT / "campaign" / "elastic_worker.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
PORT = 29517
HOSTS = {"symmetries-a": "10.77.0.1", "symmetries-b": "10.77.0.2"}


def alone(folder: Path) -> dict[str, Any]:
    """The weights of an undisturbed run of one process."""
    command = [sys.executable, WORKER, str(folder), "0", "-1"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    return load_state(folder / "model")[0]


def restarted(folder: Path) -> dict[str, Any]:
    """Two processes, of which the second dies after step 9; torchrun starts both again."""
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    command += [WORKER, str(folder), "1", "9"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    state, meta = load_state(folder / "model")
    return {"state": state, "first_step_again": meta["steps"][0], "restarts": 1}


def two_hosts(folder: Path) -> dict[str, Any]:
    """One process on each of two hosts, over a network of their own."""
    _namespaces()
    try:
        running = []
        for host in HOSTS:
            command = ["ip", "netns", "exec", host, *TORCHRUN, "--nnodes", "2"]
            command += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "job"]
            command += ["--rdzv-endpoint", f"{HOSTS['symmetries-a']}:{PORT}"]
            command += ["--rdzv-conf", f"is_host={int(host == 'symmetries-a')}"]
            command += ["--local-addr", HOSTS[host]]
            command += [WORKER, str(folder), "0", "-1"]
            names = environment(GLOO_SOCKET_IFNAME=f"{host[-1]}0", TP_SOCKET_IFNAME=f"{host[-1]}0")
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            running.append(subprocess.Popen(command, env=names, **options))
        said = [process.communicate(timeout=300)[0] for process in running]
        if any(process.returncode for process in running):
            raise SystemExit("\n".join(text[-2000:] for text in said))
    finally:
        for host in HOSTS:
            _ip("netns", "del", host)
    state, meta = load_state(folder / "model")
    return {"state": state, "world": meta["world"]}


def _namespaces() -> None:
    (a, address), (b, other) = HOSTS.items()
    for host in HOSTS:  # what a killed campaign left goes first
        subprocess.run(["ip", "netns", "del", host], check=False, capture_output=True)
        _ip("netns", "add", host)
    _ip("link", "add", "a0", "netns", a, "type", "veth", "peer", "name", "b0", "netns", b)
    for host, link, number in ((a, "a0", address), (b, "b0", other)):
        _ip("-n", host, "addr", "add", f"{number}/24", "dev", link)
        _ip("-n", host, "link", "set", link, "up")
        _ip("-n", host, "link", "set", "lo", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def main() -> None:
    """Run all, and store the numbers."""
    started = time.time()
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        expected = alone(Path(scratch, "alone"))
        found = restarted(Path(scratch, "elastic"))
        gap = difference(expected, found.pop("state"))
        numbers["worker killed"] = {**found, "difference": float(f"{gap:.3g}"), "same": gap < 1e-4}
        if os.geteuid() == 0 and shutil.which("ip"):
            found = two_hosts(Path(scratch, "hosts"))
            gap = difference(expected, found.pop("state"))
            same = {"difference": float(f"{gap:.3g}"), "same": gap < 1e-4}
            numbers["two hosts (network namespaces)"] = {**found, **same}
    print(numbers)
    store("elastic", {"cases": numbers}, started)


if __name__ == "__main__":
    main()
