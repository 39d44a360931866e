"""Runs trainings as processes of their own: python worker.py '[JOB, ...]'.

It forks a child (or, with "world": 2, two that find each other as torchrun would tell them) for
each job, one job after another, and prints the exit codes. A job names the settings ("config"),
where the first process writes its weights ("result"), and after which step the process kills itself
("kill", by SIGKILL). A process that has not left its process group at its end has code 2: gloo's
threads could abort it.
"""

import atexit
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

import lightning_fabric  # noqa: F401 - here, because every child would import it again
import torch
import torch._dynamo  # optimisers import it

sys.path.insert(0, str(Path(__file__).parent))
from helpers import loss, make_config, make_data, make_model

from symmetries.training import train


def work(job):
    torch.set_num_threads(1)
    seen = []

    def on_step(step, metrics):
        seen.append(step.index)
        if step.index + 1 == job.get("kill"):
            os.kill(os.getpid(), signal.SIGKILL)

    model = make_model(dropout=job.get("dropout", 0.2))
    histories = [
        train(model, loss, make_data(), make_config(**config), on_step=on_step)
        for config in job["configs"]
    ]
    if int(os.environ.get("LOCAL_RANK", "0")) == 0:
        state = {name: value.tolist() for name, value in model.state_dict().items()}
        metrics = [history.metrics for history in histories]
        result = {"state": state, "metrics": metrics, "steps": seen}
        Path(job["result"]).write_text(json.dumps(result))


def fork(job, environment):
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(environment)
        work(job)
        atexit._run_exitfuncs()  # what Python does at its end
        code = 2 if torch.distributed.is_initialized() else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def rendezvous(rank, world, port):
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    names |= {"GROUP_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()} | {"TORCHELASTIC_RUN_ID": "test"}


def main():
    codes = []
    for job in json.loads(sys.argv[1]):
        world = job.get("world", 1)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [rendezvous(rank, world, port) if world > 1 else {} for rank in range(world)]
        children = [fork(job, environment) for environment in ranks]
        codes.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    sys.stdout.write(json.dumps(codes) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "--direct":  # one job, in this process: Fabric starts the others
        work(json.loads(sys.argv[2]))
    else:
        main()
