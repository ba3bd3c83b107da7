"""The store of a study: what counts stays, once, and what changed runs again."""
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas
import pytest
import vitro
from conftest import FAKES, ROOT, Command, environment
from vitro.study import old_points, parts, store
from vitro.study.store import Store

SWEEP = """
experiment: swept
machine: sim
workload: {output_tokens: 3}
fake: {log: runs.log}
sweep: {memory.budget: [4 MiB, 6 MiB], seed: [1, 2]}
"""


def runs(folder):
    log = folder / "runs.log"
    return len(log.read_text().split()) if log.exists() else 0


def row(number, **more):
    return {"identity": f"i{number}", "repeat": 0, "machine": "sim", "label": None, "experiment": "x", "point": "{}", "engine": "e",
            "revision": None, "dirty": False, "files": "{}", "host": "null", "tries": 1, "began": "", **more}


ANSWER = {"metrics": {"decode_tokens_per_s": 2, "token_latency_ms": {"p99": 3.5}, "cache_hit_rate": None}, "wall_s": 0.5,
          "experiment_resolved": {"machine": "sim"}}


def test_a_row_is_there_as_soon_as_it_was_added(tmp_path):
    with Store(tmp_path) as study:
        assert study.claim(("i0", 0)) == "mine" and study.answer(("i0", 0)) is None
        study.add(row(0), ANSWER)
        assert study.claim(("i0", 0)) == "done" and study.answer(("i0", 0)) == ANSWER
        frame = store.rows(tmp_path)  # by another reader, meanwhile
    assert list(frame["token_latency_ms.p99"]) == [3.5] and list(frame["identity"]) == ["i0"]


def test_an_index_that_is_lost_or_damaged_is_made_again(tmp_path):
    with Store(tmp_path) as study:
        study.add(row(0), ANSWER)
    index = tmp_path / "store/index.sqlite"
    for spoil in (index.unlink, lambda: index.write_text("no database" * 1000)):
        spoil()
        with Store(tmp_path) as study:
            assert study.answer(("i0", 0)) == ANSWER and study.claim(("i1", 0)) == "mine"


def test_many_parts_become_one_and_no_row_is_lost_or_doubled(tmp_path):
    with Store(tmp_path) as study:
        for number in range(40):
            study.add(row(number), ANSWER)
        study.join_parts()
        assert len(parts.listed(study.parts)) == 1
        assert study.answer(("i39", 0)) == ANSWER
        study.forget([("i3", 0)])
        assert study.claim(("i3", 0)) == "mine" and study.claim(("i4", 0)) == "done"
    assert sorted(store.rows(tmp_path)["identity"]) == sorted(f"i{number}" for number in range(40) if number != 3)


def test_parts_that_a_joined_one_left_behind_double_nothing(tmp_path):
    with Store(tmp_path) as study:
        for number in range(40):
            study.add(row(number), ANSWER)
        kept = {name: (study.parts / name).read_bytes() for name in parts.listed(study.parts)}
        study.join_parts()
    for name, data in list(kept.items())[:20]:  # as if it was ended while it took them away
        (tmp_path / "store/parts" / name).write_bytes(data)
    with Store(tmp_path) as study:
        assert len(study.index.rows()) == 40 and study.answer(("i0", 0)) == ANSWER
    assert len(store.rows(tmp_path)) == 40


def test_a_row_of_a_newer_version_is_refused_by_name(tmp_path, monkeypatch):
    with Store(tmp_path) as study:
        study.add(row(0), ANSWER)
        monkeypatch.setattr(parts, "FORMAT", 2)
        monkeypatch.setattr(parts, "__version__", "0.9.0")
        study.add(row(1), ANSWER)
        newer = parts.listed(study.parts)[-1]
        monkeypatch.undo()
    (tmp_path / "store/index.sqlite").unlink()
    for read in (lambda: Store(tmp_path), lambda: store.rows(tmp_path)):
        with pytest.raises(vitro.ConfigError, match=f"{newer}: rows of format 2, written by vitro 0.9.0"):
            read()


@pytest.mark.parametrize("text, said", [('{"schema": "vitro.store/2", "vitro": "0.9.0"}', "vitro.store/2, written by vitro 0.9.0"),
                                        ("{half", "damaged"), ('{"schema": "another/1"}', "another/1")])
def test_a_store_of_a_newer_version_is_refused(fake, tmp_path, text, said):
    (tmp_path / "o/store").mkdir(parents=True)
    (tmp_path / "o/store/format.json").write_text(text)
    answer = fake("sweep", fake.write(SWEEP), "--out", "o", "--resume")
    assert answer.code == 2 and said in answer.err and "format.json" in answer.err and answer.err.count("\n") == 1
    assert runs(tmp_path) == 0


def test_a_claim_ends_with_its_process(tmp_path):
    first, second = Store(tmp_path), Store(tmp_path)
    assert first.claim(("a", 0)) == "mine" and second.claim(("a", 0)) == "theirs"
    assert [name.partition("-")[0] for name in second.others()] == [str(os.getpid())]
    with pytest.raises(vitro.ConfigError, match="is at work there"):
        second.forget([("a", 0)])
    first._owner._file.close()  # as when it was killed
    assert second.others() == [] and second.claim(("a", 0)) == "mine"


def test_a_row_whose_process_ended_before_it_was_listed_is_found(tmp_path):
    first, second = Store(tmp_path), Store(tmp_path)
    assert first.claim(("i0", 0)) == "mine"
    parts.write(first.parts, [parts.row_of(row(0), ANSWER)])
    first._owner._file.close()
    assert second.claim(("i0", 0)) == "done" and second.answer(("i0", 0)) == ANSWER


def test_what_another_process_found_wrong_counts_for_who_waited(tmp_path):
    first, second = Store(tmp_path), Store(tmp_path)
    first.claim(("a", 0))
    first.add_failure(("a", 0), "boom", False)
    assert second.claim(("a", 0), waited=True) == "failed" and second.index.failure_of(("a", 0)) == ("boom", False)
    assert second.claim(("a", 0)) == "mine", "who starts anew tries again"


def test_a_full_disk_is_named_and_what_has_finished_stays(fake, tmp_path, monkeypatch):
    real, calls = parts.write, []

    def full(*given):
        calls.append(given)
        if len(calls) >= 3 and (tmp_path / "o/store/reserve").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given)
    monkeypatch.setattr(parts, "write", full)
    with pytest.raises(vitro.RunError, match="o/store: the disk is full; 3 parts"):
        vitro.sweep(SWEEP, out=tmp_path / "o", workers=1)
    monkeypatch.undo()
    fake  # the stand-in again, which undo took away
    assert len(store.rows(tmp_path / "o")) == 3, "the reserve had room for the row that found the disk full"


@pytest.mark.all
def test_a_disk_that_is_really_full(tmp_path):
    """A file system of 8 MiB in a namespace of its own."""
    script = (f"mount -t tmpfs -o size=8m tmpfs {tmp_path} && cd {tmp_path} && printf '%s' \"$SWEEP\" > exp.yaml && "
              f"{sys.executable} -c 'import vitro.study.store as s; s.Store(\"o\").__exit__()' && "
              "head -c 16m /dev/zero > filler 2>/dev/null; "
              f"{sys.executable} -m vitro sweep exp.yaml --out o --resume; echo code $?; rm filler; "
              f"{sys.executable} -m vitro sweep exp.yaml --out o --resume; echo code $?; wc -l runs.log")
    env = os.environ | {"SWEEP": SWEEP, "VITRO_NATIVE_MODULE": "fake_vitro", "HOME": "/tmp",
                        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(Path(__file__).parents[1] / "fakes")])}
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no name spaces for users here")
    run = subprocess.run(["unshare", "-rm", "bash", "-c", script], capture_output=True, text=True, env=env, timeout=120)
    assert "store: the disk is full" in run.stderr and "code 1" in run.stdout and "Traceback" not in run.stderr, run.stdout + run.stderr
    assert run.stdout.rstrip().splitlines()[-2] == "code 0", run.stdout + run.stderr


# Sweeps on a store.


@pytest.mark.all
def test_a_value_in_front_reruns_only_itself(fake, tmp_path):
    fake("sweep", fake.write(SWEEP), "--out", "o")
    answer = fake("sweep", fake.write(SWEEP.replace("[4 MiB,", "[2 MiB, 4 MiB,")), "--out", "o", "--resume", "--json")
    assert len(answer.json["rows"]) == 6 and runs(tmp_path) == 4 + 2


@pytest.mark.parametrize("key", ["model.gguf", *(pytest.param(key, marks=pytest.mark.all) for key in ("engine.replay", "device.plugins"))])
def test_a_changed_file_reruns_the_rows_that_it_touches_alone(fake, tmp_path, key):
    """A model, a recording, a plug-in."""
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_text(name)
    names = "[[./a.bin], [./b.bin]]" if key == "device.plugins" else "[./a.bin, ./b.bin]"
    path = fake.write(SWEEP.replace("memory.budget: [4 MiB, 6 MiB]", f"{key}: {names}"))
    fake("sweep", path, "--out", "o")
    before = store.rows(tmp_path / "o").set_index("identity")
    (tmp_path / "b.bin").write_text("another")
    assert fake("sweep", path, "--out", "o", "--resume").code == 0
    assert runs(tmp_path) == 4 + 2
    after = store.rows(tmp_path / "o").set_index("identity")
    added = after.loc[after.index.difference(before.index)]
    assert len(after) == 6 and len(added) == 2 and set(added["point"].map(lambda text: json.loads(text)[key]).map(str)) == {
        str(["./b.bin"] if key == "device.plugins" else "./b.bin")}


@pytest.mark.all
def test_an_engine_that_was_built_anew_reruns_all_rows(fake, tmp_path):
    path = fake.write(SWEEP)
    fake("sweep", path, "--out", "o")
    (tmp_path / "built").mkdir()
    (tmp_path / "built/fake_vitro.py").write_text((FAKES / "fake_vitro.py").read_text() + "# built again\n")
    other = Command(environment(ROOT / "python", tmp_path / "built", VITRO_NATIVE_MODULE="fake_vitro"), tmp_path)
    assert other("sweep", path, "--out", "o", "--resume").code == 0 and runs(tmp_path) == 8
    assert fake("sweep", path, "--out", "o", "--resume").code == 0 and runs(tmp_path) == 8, "the rows of the first one are still there"
    assert store.rows(tmp_path / "o")["engine"].nunique() == 2


def test_names_and_expectations_rerun_nothing_and_count_as_they_are_now(fake, tmp_path):
    fake("sweep", fake.write(SWEEP), "--out", "o")
    changed = SWEEP.replace("experiment: swept", "experiment: again\nexpect: {fast: {metric: decode_tokens_per_s, min: 1e9}}")
    answer = fake("sweep", fake.write(changed), "--out", "o", "--resume", "--json")
    assert runs(tmp_path) == 4 and [found["status"] for found in answer.json["rows"]] == ["off"] * 4 and answer.code == 1


@pytest.mark.all
def test_equal_points_are_run_each(fake, tmp_path):
    text = SWEEP.replace("seed: [1, 2]", "seed: [1, 1]")
    rows = fake("sweep", fake.write(text), "--out", "o", "--json").json["rows"]
    assert runs(tmp_path) == 4 and [found["repeat"] for found in rows] == [0, 1, 0, 1]
    fake("sweep", fake.write(text), "--out", "o", "--resume")
    assert runs(tmp_path) == 4


@pytest.mark.all
def test_without_resume_points_run_again_and_take_the_place_of_their_rows(fake, tmp_path):
    for count in (4, 8):
        assert fake("sweep", fake.write(SWEEP), "--out", "o").code == 0
        assert runs(tmp_path) == count and len(store.rows(tmp_path / "o")) == 4


def test_points_of_before_the_store_are_refused_with_the_way_to_take_them(fake, tmp_path):
    path = fake.write(SWEEP)
    table = vitro.sweep(path)
    assert runs(tmp_path) == 4
    (tmp_path / "o/points").mkdir(parents=True)
    for index in (0, 2):
        overrides = [f"memory.budget={table['memory.budget'][index]}", f"seed={table['seed'][index]}"]
        result = vitro.run(path, overrides=overrides)
        old = {"digest": old_points.digest("sim", vitro.resolve(path, overrides=overrides)), "result": result.data}
        (tmp_path / f"o/points/{index:05d}.json").write_text(json.dumps(old))
    before = runs(tmp_path)
    refused = fake("sweep", path, "--out", "o", "--resume")
    assert refused.code == 2 and "--adopt beside --resume" in refused.err and runs(tmp_path) == before
    assert fake("sweep", path, "--out", "o", "--resume", "--adopt").code == 0
    assert runs(tmp_path) == before + 2 and len(store.rows(tmp_path / "o")) == 4
    assert fake("sweep", path, "--out", "o", "--resume").code == 0 and runs(tmp_path) == before + 2


@pytest.mark.all
def test_traces_of_points_that_were_asked_for(fake, tmp_path):
    path = fake.write(SWEEP)
    fake("sweep", path, "--out", "o")
    answer = fake("sweep", path, "--out", "o", "--resume", "--trace", "2")
    assert answer.code == 0 and "trace of point 2: o/traces/00002" in answer.err and "other events" not in answer.err
    assert (tmp_path / "o/traces/00002/trace.json").exists() and runs(tmp_path) == 5
    assert os.listdir(tmp_path / "o/traces") == ["00002"]
    assert fake("sweep", path, "--out", "o", "--resume", "--trace", "3", "--trace", "3").code == 0 and runs(tmp_path) == 6
    wrong = fake("sweep", path, "--out", "o", "--resume", "--trace", "4")
    assert wrong.code == 2 and "--trace: 4" in wrong.err


@pytest.mark.all
def test_a_trace_that_fails_is_told_and_keeps_what_was_there(fake, tmp_path):
    path = fake.write(SWEEP.replace("log: runs.log", "log: runs.log, sleep: 0.5"))
    (tmp_path / "o/traces/00000").mkdir(parents=True)
    (tmp_path / "o/traces/00000/trace.json").write_text("old")
    fake("sweep", path, "--out", "o")
    answer = fake("sweep", path, "--out", "o", "--resume", "--trace", "0", "--limit", "0.01")
    assert answer.code == 1 and "trace of point 0: " in answer.err and os.listdir(tmp_path / "o/traces") == ["00000"]
    assert (tmp_path / "o/traces/00000/trace.json").read_text() == "old"


def start(fake, path, *more):
    return subprocess.Popen([sys.executable, "-m", "vitro", "sweep", path, "--out", "o", "--resume", *more], cwd=fake.folder, env=fake.env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.all
def test_two_processes_share_a_sweep(fake, tmp_path):
    slow = SWEEP.replace("log: runs.log", "log: runs.log, sleep: 0.2").replace("[1, 2]", "[1, 2, 3, 4, 5]")
    both = [start(fake, fake.write(slow), "--workers", "1", "--json") for _ in range(2)]
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    one, other = (pandas.DataFrame(json.loads(out)["rows"]) for out, _ in said)
    pandas.testing.assert_frame_equal(one, other)
    assert runs(tmp_path) == 10 and len(store.rows(tmp_path / "o")) == 10


def test_rows_can_be_read_while_a_sweep_runs(fake, tmp_path):
    seen = []

    def progress(done, total):
        seen.append((done, len(store.rows(tmp_path / "o"))))
        if done == 2:  # another process reads
            code = "import vitro; print(len(vitro.rows('o')))"
            read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=fake.env, timeout=120)
            assert read.stdout == "2\n", read.stderr
    vitro.sweep(SWEEP, out="o", workers=1, progress=progress)
    assert seen == [(count, count) for count in range(5)]


def part_names(folder):
    store_parts = folder / "o/store/parts"
    return parts.listed(store_parts) if store_parts.exists() else []


def kills(fake, tmp_path, seed):
    """Ends a sweep of 24 points again and again, then lets it finish. -> how often it was ended."""
    text = SWEEP.replace("log: runs.log", "log: runs.log, sleep: 0.03").replace("[1, 2]", str(list(range(12))))
    path, chance, count = fake.write(text), random.Random(seed), 0
    before = {}
    while True:
        process, there, early = start(fake, path), set(part_names(tmp_path)), chance.random() < 0.2
        while not early and process.poll() is None and there == set(part_names(tmp_path)):
            time.sleep(0.02)  # mostly it gets somewhere, else it might never end
        try:
            process.wait(timeout=chance.uniform(0, 0.6))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            count += 1
        process.communicate()
        if (tmp_path / "o/store/format.json").exists():
            now = {found["identity"]: found["answer"] for found in store.rows(tmp_path / "o").to_dict("records")}
            assert before.items() <= now.items(), "a finished row stays as it was"
            before = now
    assert process.returncode == 0, process.stderr.read()
    rows = store.rows(tmp_path / "o")
    with Store(tmp_path / "o") as study:
        assert len(rows) == 24 == rows["identity"].nunique() == len(study.index.rows())
    calm = vitro.sweep(path).drop(columns="wall_s")
    swept = pandas.read_parquet(tmp_path / "o/results.parquet").drop(columns=["wall_s", "identity", "repeat"])
    pandas.testing.assert_frame_equal(swept, calm, check_dtype=False)
    assert runs(tmp_path) - 24 <= 24 + 8 * count, "only what was under way ran again"
    return count


@pytest.mark.all
@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("VITRO_KILLED_SWEEPS", 6))))
def test_sweeps_that_are_killed_lose_and_double_nothing(fake, tmp_path, seed):
    """A sweep is killed some five times before it ends: 22 of them a hundred times."""
    kills(fake, tmp_path, seed)
