"""The queue of GPU runs: jobs in lanes, a limit, what comes back, and going on from there."""

import dataclasses
import importlib.util
import json
import sys
import time
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "papers" / "gpu_runs.py"
SCRIPT = """
import json, sys, time
from pathlib import Path
out, seconds = Path(sys.argv[1]), float(sys.argv[2])
rows = json.loads((out / "results.json").read_text()) if (out / "results.json").exists() else []
(out / "results.json").write_text(json.dumps([*rows, sys.argv[2]]))
(out / "picture.npz").write_bytes(b"numbers")
(out / "models").mkdir(exist_ok=True)
(out / "models" / "weights.json").write_text("{}")
print("said", flush=True)
if (out / "checkpoints" / "state").exists():
    print("goes on")
(out / "checkpoints").mkdir(exist_ok=True)
(out / "checkpoints" / "state").write_text("half")
time.sleep(seconds)
sys.exit(3 if seconds == 0.1 else 0)
"""


@pytest.fixture
def queue(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(SOURCE.parent))
    spec = importlib.util.spec_from_file_location("gpu_runs", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "script.py").write_text(SCRIPT)
    (tmp_path / "here" / "stored.json").write_text('["before"]')
    monkeypatch.setattr(module, "HERE", tmp_path / "here")
    monkeypatch.setattr(module, "POLL", 0.02)

    def job(name, pause, seconds=0.0, start=""):
        return module.Job(name, seconds, "script.py", f"{{out}} {pause}", start=start)

    def run(jobs, *words, limit=20.0):
        monkeypatch.setattr(module, "QUEUES", {"mine": jobs})
        out = tmp_path / "out"
        given = ["gpu_runs.py", "mine", "--out", str(out), "--limit", str(limit), *words]
        monkeypatch.setattr(sys, "argv", given)
        module.main()
        return {j["name"]: j for j in json.loads((out / "runs.json").read_text())["jobs"]}

    run.job, run.module, run.out = job, module, tmp_path / "out"
    return run


def test_results_come_back_with_their_commands(queue, monkeypatch):
    monkeypatch.setenv("SYMMETRIES_COMMIT", "abc")
    jobs = (queue.job("a", 0, start="stored.json"), queue.job("b", 0.1), queue.job("c", 0))
    found = queue(jobs, "--lanes", "2")
    assert {name: job["rc"] for name, job in found.items()} == {"a": 0, "b": 3, "c": 0}
    assert found["a"]["files"] == {"results.json": ["0"]}, (
        "what was there before does not come back"
    )
    assert found["b"]["command"] == "{out} 0.1"
    assert set(zipfile.ZipFile(queue.out / "arrays.zip").namelist()) == {
        *("a/picture.npz", "b/picture.npz", "c/picture.npz")
    }
    assert json.loads((queue.out / "runs.json").read_text())["commit"] == "abc"
    log = (queue.out / "log.txt").read_text()
    assert log.count("said") == 3
    assert "b ended (3)" in log


def test_at_the_limit_jobs_are_asked_to_stop_and_end_by_themselves(queue):
    began = time.perf_counter()
    jobs = (queue.job("long", 60), queue.job("later", 0, seconds=1.0))
    found = queue(jobs, "--lanes", "1", limit=1.5)
    assert time.perf_counter() - began < 15
    assert set(found) == {"long"}
    assert (found["long"]["stopped"], found["long"]["files"]) == (True, {"results.json": ["60"]})
    assert found["long"]["rc"] == 1, "it ended by itself: no signal did (a negative number)"
    log = (queue.out / "log.txt").read_text()
    assert "no time for later" in log
    assert "stopped\n" in log


def test_a_job_that_is_ending_is_not_stopped_by_the_signal(queue):
    slow = "import atexit, time; atexit.register(time.sleep, 3)\n"
    (queue.module.HERE / "script.py").write_text(slow + SCRIPT)
    found = queue((queue.job("a", 0),), limit=1.0)
    assert (found["a"]["stopped"], found["a"]["rc"]) == (True, 0)


def test_unfinished_jobs_go_on_from_their_checkpoints(queue):
    jobs = (queue.job("done", 0), queue.job("long", 60))
    queue(jobs, limit=2.0)
    names = zipfile.ZipFile(queue.out / "checkpoints.zip").namelist()
    assert names == ["long/checkpoints/state"]
    before = queue.out.rename(queue.out.with_name("before"))
    found = queue(jobs, "--from", str(before), limit=2.0)
    assert set(found) == {"long"}
    assert "goes on" in (queue.out / "log.txt").read_text()


def test_what_is_done_is_not_repeated(queue):
    jobs = (queue.job("a", 0), queue.job("b", 0.1))
    queue(jobs)
    before = queue.out.rename(queue.out.with_name("before"))
    found = queue(jobs, "--from", str(before))
    assert set(found) == {"b"}, "b had failed"


def test_jobs_that_take_longer_than_expected_tell_what_still_fits(queue):
    slow, next_one = queue.job("slow", 1.0, seconds=0.1), queue.job("next", 0, seconds=0.5)
    assert set(queue((slow, next_one), "--lanes", "1", limit=4.0)) == {"slow"}
    assert "no time for next" in (queue.out / "log.txt").read_text()


def test_a_job_that_goes_on_later_begins_when_a_quarter_of_it_fits(queue):
    jobs = [queue.job(name, 0, seconds) for name, seconds in (("half", 8.0), ("whole", 24.0))]
    found = queue([dataclasses.replace(job, goes_on=True) for job in jobs], limit=4.0)
    assert set(found) == {"half"}
    assert "no time for whole" in (queue.out / "log.txt").read_text()


def test_an_archive_has_all_files_of_a_job_or_none(queue, monkeypatch):
    monkeypatch.setattr(queue.module, "LARGEST", 6000)
    (queue.module.HERE / "script.py").write_text(SCRIPT.replace('"half"', "sys.argv[2] * 3000"))
    queue((queue.job("large", 60), queue.job("later", 9)), limit=2.0)
    assert zipfile.ZipFile(queue.out / "checkpoints.zip").namelist() == ["later/checkpoints/state"]
    assert "no room for large: 6000 bytes" in (queue.out / "log.txt").read_text()


def test_every_command_of_the_queues_is_known_to_its_script(queue):
    module = queue.module
    queues = list(module.QUEUES.values())
    assert all(len({job.name for job in jobs}) == len(jobs) for jobs in queues)
    for job in (job for jobs in queues for job in jobs):
        source = "".join(p.read_text() for p in (SOURCE.parent / job.script).parent.glob("*.py"))
        options = [w for w in f"{job.words} {job.tiny}".split() if w.startswith("--")]
        assert all(f'"{option}"' in source for option in options), job
        assert not job.start or (SOURCE.parent / job.start).exists()
