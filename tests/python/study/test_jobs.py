"""Points on their way: a row is of the files and of the rows that its sweep began with."""
import gc
import json

import pytest
import vitro
from test_store import SWEEP, runs
from vitro.running.result import Result
from vitro.study import jobs, old_points, store
from vitro.study.store import Store


@pytest.mark.parametrize("spoil", ["unlink", "write"])
def test_a_point_whose_file_was_written_again_while_it_ran_gets_no_row(fake, tmp_path, spoil):
    model = tmp_path / "a.bin"
    model.write_text("one")
    text = SWEEP.replace("sweep:", "model: {gguf: ./a.bin}\nsweep:")

    def progress(done, total):
        if done == 2:
            model.unlink() if spoil == "unlink" else model.write_text("two")
    frame = vitro.sweep(text, out="o", workers=1, progress=progress)
    assert list(frame["status"]) == ["ok", "failed", "ok", "failed"], "points 0 and 2 run first"
    assert "a.bin: was written again while this ran (expected --resume" in frame["error"][1]
    assert len(store.rows("o")) == 2
    model.write_text("one")
    assert list(vitro.sweep(text, out="o", resume=True)["status"]) == ["ok"] * 4 and runs(tmp_path) == 6


def test_a_plugin_of_the_environment_that_was_written_again_is_noticed(fake, tmp_path, monkeypatch):
    plugin = tmp_path / "p.so"
    plugin.write_text("one")
    monkeypatch.setenv("VITRO_PLUGINS", str(plugin))
    frame = vitro.sweep(SWEEP, out="o", workers=1, progress=lambda done, total: done == 3 and plugin.write_text("two"))
    assert list(frame["status"]) == ["ok"] * 3 + ["failed"] and "p.so: was written again" in frame["error"][3]


def test_a_later_part_forgets_only_what_had_finished_before(fake, tmp_path):
    points = [(None, {"seed": seed}, {"seed": "exp.yaml:1"}) for seed in (1, 2)]
    more = dict(out=tmp_path / "o", overrides=[], workers=1)
    jobs.run_points(SWEEP, points, **more)
    before = store.rows("o")["finished"].max()
    jobs.run_points(SWEEP, points[:1], since="2000-01-01T00:00:00.000Z", **more)
    assert runs(tmp_path) == 2, "it has finished since"
    with Store(tmp_path / "o"):  # another process, which joined
        jobs.run_points(SWEEP, points[:1], since="9999-01-01T00:00:00.000Z", **more)
        assert runs(tmp_path) == 3 and store.rows("o")["finished"].max() > before
        with pytest.raises(vitro.ConfigError, match="is at work there"):
            jobs.run_points(SWEEP, points[:1], **more)


def test_what_is_kept_of_a_point_is_packed(fake, tmp_path):
    points = [(None, {"seed": seed}, {"seed": "exp.yaml:1"}) for seed in (1, 2)]
    ended = jobs.run_points(SWEEP, points, out=tmp_path / "o", overrides=[], workers=1)
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Result)]
    assert ended[0]._device is ended[1]._device
    assert ended[0].result.metrics == ended[0].result.data["metrics"] and ended[0].metrics["decode_tokens_per_s"] > 0
    assert ended[0].result.data["experiment_resolved"] == ended[0].resolved() == ended[0].compose().resolved


def test_a_row_that_is_forgotten_before_it_is_read_runs(fake, tmp_path, monkeypatch):
    vitro.sweep(SWEEP, out="o")
    real, asked = Store.answer, []

    def answer(self, key):
        asked.append(key)
        if len(asked) <= 4:
            return None  # as if others had not finished it yet
        if len(asked) == 5:
            self.forget([key])
        return real(self, key)
    monkeypatch.setattr(Store, "answer", answer)
    assert list(vitro.sweep(SWEEP, out="o", resume=True, workers=1)["status"]) == ["ok"] * 4 and runs(tmp_path) == 5


def test_an_adoption_that_was_ended_goes_on(fake, tmp_path, monkeypatch):
    path, count = fake.write(SWEEP), 0
    (tmp_path / "o/points").mkdir(parents=True)
    table = vitro.sweep(path)
    for index in range(4):
        overrides = [f"memory.budget={table['memory.budget'][index]}", f"seed={table['seed'][index]}"]
        result = vitro.run(path, overrides=overrides)
        old = {"digest": old_points.digest("sim", vitro.resolve(path, overrides=overrides)), "result": result.data}
        (tmp_path / f"o/points/{index:05d}.json").write_text(json.dumps(old))
    before, real = runs(tmp_path), Store.add

    def add(self, *given):
        nonlocal count
        count += 1
        if count == 2:
            raise KeyboardInterrupt
        real(self, *given)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", add)
        with pytest.raises(KeyboardInterrupt):
            vitro.sweep(path, out="o", resume=True, adopt=True)
    assert len(store.rows("o")) == 1
    with pytest.raises(vitro.ConfigError, match="expected --adopt beside --resume"):
        vitro.sweep(path, out="o", resume=True)
    vitro.sweep(path, out="o", resume=True, adopt=True)
    assert runs(tmp_path) == before and len(store.rows("o")) == 4
    vitro.sweep(path, out="o", resume=True)
    assert runs(tmp_path) == before


def test_all_points_are_checked_before_the_first_one_runs_and_both_are_told(fake):
    told = []
    vitro.sweep(SWEEP, workers=1, checking=lambda *at: told.append(("checked", *at)), progress=lambda *at: told.append(("ran", *at)))
    assert told == [*(("checked", done, 4) for done in range(1, 5)), *(("ran", done, 4) for done in range(5))]
