"""A fit under SLURM: two tasks on two nodes against one process, and a job that is told to stop.

``python campaign/slurm.py`` starts a cluster of its own on this machine (munged, slurmctld and two
slurmd, from Debian's slurm-wlm) in a temporary folder, runs what docs/scale.md shows, and takes the
cluster down again. Where SLURM is not installed it says so and stores nothing.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import ROOT, environment, store
from ddp import TOLERANCE, difference

from symmetries.training import load_state

DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
NODES = {"node-a": 17001, "node-b": 17002}
COMMAND = "fit digits --method invariant --device cpu --nodes 2 --quiet"

CONF = """
ClusterName=campaign
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=120
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"

# MASTER_ADDR: these nodes are names of one machine, which only SLURM knows.
JOB = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --requeue --output={folder}/job.log --open-mode=append
export MASTER_ADDR=127.0.0.1
srun {symmetries} {command} --out {folder}/stopped --resume --overwrite
if [ $? -eq 130 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
"""


class Cluster:
    """A SLURM of two nodes on this machine, for the time of a ``with``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = environment(SLURM_CONF=str(folder / "slurm.conf"), MASTER_ADDR="127.0.0.1")

    def __enter__(self) -> "Cluster":
        (self.folder / "state").mkdir()
        key = self.folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        host = os.uname().nodename
        nodes = [NODE.format(name=name, host=host, port=port) for name, port in NODES.items()]
        conf = CONF.format(folder=self.folder, host=host, nodes="\n".join(nodes))
        (self.folder / "slurm.conf").write_text(conf)
        paths = {"key-file": key, "socket": self.folder / "munge.socket"}
        paths |= {name: self.folder / f"munged.{name}" for name in ("pid-file", "log-file")}
        paths["seed-file"] = self.folder / "munged.seed"
        self.say("munged", "--force", *(f"--{name}={path}" for name, path in paths.items()))
        self.say("slurmctld")
        for name in NODES:
            self.say("slurmd", "-N", name)
        self.wait("idle nodes", lambda: self.say("sinfo", "-h", "-o", "%t %D").strip() == "idle 2")
        return self

    def __exit__(self, *error: object) -> None:
        for path in [*self.folder.glob("slurm*.pid"), self.folder / "munged.pid-file"]:
            if path.exists():
                os.kill(int(path.read_text()), signal.SIGTERM)
        time.sleep(2)

    def say(self, *words: str) -> str:
        """Run a program of the cluster; what it prints."""
        done = subprocess.run(words, env=self.names, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise SystemExit(
                f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout

    def wait(self, what: str, ready: Any, seconds: float = 600) -> None:  # noqa: ANN401
        """Wait until something is so."""
        end = time.time() + seconds
        while not ready():
            if time.time() > end:
                log = self.folder / "job.log"
                raise SystemExit(f"no {what}\n{log.read_text()[-3000:] if log.exists() else ''}")
            time.sleep(0.2)


def symmetries() -> str:
    """The command line, with presets of a few steps."""
    return f"{sys.executable} -W ignore {ROOT / 'campaign' / 'small_command.py'}"


def stopped_and_requeued(cluster: Cluster) -> dict[str, Any]:
    """A job that gets SIGTERM half-way, as before its time is over, and queues itself again."""
    folder = cluster.folder
    (folder / "job.sh").write_text(
        JOB.format(folder=folder, symmetries=symmetries(), command=COMMAND)
    )
    job = cluster.say("sbatch", "--parsable", str(folder / "job.sh")).strip()

    def field(name: str) -> str:
        shown = cluster.say("scontrol", "show", "job", "-o", job)
        return shown.partition(f" {name}=")[2].split()[0]

    kept = folder / "stopped.resume"
    cluster.wait("checkpoint", lambda: any(kept.rglob("checkpoint.json")))
    cluster.say("scancel", "--signal=TERM", f"{job}.0")  # what --signal=TERM@90 does to its steps
    again = ("PENDING", "RUNNING")  # it is FAILED for a moment before
    cluster.wait("queue", lambda: field("Restarts") == "1" and field("JobState") in again)
    waiting = any(kept.rglob("checkpoint.json"))
    # A job that was requeued waits for two minutes, so that what made it fail may pass.
    cluster.say("scontrol", "update", f"jobid={job}", "StartTime=now")
    cluster.wait("second start", lambda: field("JobState") == "RUNNING")
    ends = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")
    cluster.wait("end of the job", lambda: field("JobState") in ends)
    said = (folder / "job.log").read_text()
    if field("JobState") != "COMPLETED":
        raise SystemExit(f"the job ended as {field('JobState')}\n{said[-3000:]}")
    return {
        "restarts": int(field("Restarts")),
        "checkpoint_kept": waiting,
        "end": field("JobState"),
        "said_how_to_go_on": "go on with" in said,
    }


def main() -> None:
    """Run all, and store the numbers."""
    started = time.time()
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        print(f"SLURM is not here ({', '.join(missing) or 'not root'}); nothing was run")
        return
    version = subprocess.run(["slurmd", "-V"], capture_output=True, text=True).stdout.strip()
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="slurm-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        alone = COMMAND.replace("--nodes 2", "").split()
        words = [*symmetries().split(), *alone, "--out", str(folder / "alone")]
        subprocess.run(words, env=environment(), check=True, capture_output=True)
        expected = load_state(folder / "alone" / "model")[0]
        with Cluster(folder) as cluster:
            words = [*symmetries().split(), *COMMAND.split(), "--out", str(folder / "together")]
            cluster.say("srun", "--nodes", "2", "--ntasks-per-node", "1", *words)
            found = stopped_and_requeued(cluster)
        for name, out in (("two tasks on two nodes", "together"), ("stopped, requeued", "stopped")):
            gap = difference(expected, load_state(folder / out / "model")[0])
            numbers[name] = {"difference": float(f"{gap:.3g}"), "same": gap < TOLERANCE}
        numbers["stopped, requeued"] |= found
    print(numbers)
    store("slurm", {"version": version, "cases": numbers}, started)


if __name__ == "__main__":
    main()
