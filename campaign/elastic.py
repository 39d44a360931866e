"""A worker that dies, and two hosts: torchrun starts the run again from its last checkpoint.

``python campaign/elastic.py`` compares with an undisturbed run of one process. As root it also runs
across two network namespaces, which stand for two hosts. ``--repeat`` runs each case some times.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from common import ROOT, environment, store
from ddp import difference

from symmetries.training import load_state

WORKER = str(ROOT / "campaign" / "elastic_worker.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
PORT = 29517
LIMIT = 120  # seconds; a run takes about ten


def alone(folder: Path) -> dict[str, Any]:
    """The weights of an undisturbed run of one process."""
    command = [sys.executable, WORKER, str(folder), "0", "-1"]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    return load_state(folder / "model")[0]


def together(commands: list[list[str]], names: list[dict[str, str]]) -> None:
    """Run commands beside each other; if one fails or takes too long, end all and show their words.

    A launcher whose peer has failed waits for it at its end for five minutes. So the others are
    ended as soon as one has failed.
    """
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        running = [
            subprocess.Popen(
                words, env=environment(**more), stdout=log, stderr=log, process_group=0
            )
            for words, more, log in zip(commands, names, logs, strict=True)
        ]
        last = time.monotonic() + LIMIT
        codes = [one.poll() for one in running]
        while None in codes and not any(codes) and time.monotonic() < last:
            time.sleep(0.1)
            codes = [one.poll() for one in running]
        for one in running:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGTERM)
                one.wait()
        if codes != [0] * len(codes):
            why = "failed" if any(codes) else f"did not end within {LIMIT} s"
            for log in logs:
                log.seek(0)
            pairs = zip(codes, logs, strict=True)
            said = [f"-- code {code}:\n{log.read()[-3000:]}" for code, log in pairs]
            raise SystemExit("\n".join([f"torchrun {why}", *said]))


def restarted(folder: Path) -> dict[str, Any]:
    """Two processes, of which the second dies after step 9; torchrun starts both again."""
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    together([[*command, WORKER, str(folder), "1", "9"]], [{}])
    state, meta = load_state(folder / "model")
    return {"state": state, "first_step_again": meta["steps"][0], "restarts": 1}


def two_hosts(folder: Path) -> dict[str, Any]:
    """One process on each of two hosts, over a network of their own."""
    # Names of this process's own: another campaign beside it has other hosts.
    hosts = {f"symmetries-{side}-{os.getpid()}": f"10.77.0.{n}" for n, side in ((1, "a"), (2, "b"))}
    first = next(iter(hosts.values()))
    commands, names = [], []
    with _namespaces(hosts):
        for host, address in hosts.items():
            command = ["ip", "netns", "exec", host, *TORCHRUN, "--nnodes", "2"]
            command += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "job"]
            command += ["--rdzv-endpoint", f"{first}:{PORT}"]
            command += ["--rdzv-conf", f"is_host={int(address == first)}"]
            command += ["--local-addr", address, WORKER, str(folder), "0", "-1"]
            commands.append(command)
            names.append({"GLOO_SOCKET_IFNAME": "link0", "TP_SOCKET_IFNAME": "link0"})
        together(commands, names)
    state, meta = load_state(folder / "model")
    return {"state": state, "world": meta["world"]}


@contextmanager
def _namespaces(hosts: dict[str, str]) -> Iterator[None]:
    """Two network namespaces with a link between them, for as long as the block lasts."""
    a, b = hosts
    with ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", host)
            stack.callback(_ip, "netns", "del", host)
        _ip("link", "add", "link0", "netns", a, "type", "veth", "peer", "name", "link0", "netns", b)
        for host, address in hosts.items():
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", "link0")
            _ip("-n", host, "link", "set", "link0", "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def main() -> None:
    """Run all, some times over, and store the numbers; the first run that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case")
    repeat = parser.parse_args().repeat
    started = time.time()
    cases: dict[str, Callable[[Path], dict[str, Any]]] = {"worker killed": restarted}
    if os.geteuid() == 0 and shutil.which("ip"):
        cases["two hosts (network namespaces)"] = two_hosts
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        expected = alone(Path(scratch, "alone"))
        for name, case in cases.items():
            gaps = []
            for number in range(repeat):
                found = case(Path(scratch, f"{case.__name__}{number}"))
                gaps.append(difference(expected, found.pop("state")))
                print(name, number + 1, gaps[-1], flush=True)
            gap = float(f"{max(gaps):.3g}")
            numbers[name] = {**found, "runs": repeat, "difference": gap, "same": gap < 1e-4}
    store("elastic", {"cases": numbers}, started)


if __name__ == "__main__":
    main()
