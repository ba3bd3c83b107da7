"""The index follows the parts: what a crash leaves behind in their folder neither doubles a row nor brings one back."""
import itertools

import pytest
import vitro
from test_store import ANSWER, row
from vitro.study import parts
from vitro.study.store import Store


def raw(folder):
    """What a query over all parts reads."""
    return sorted(found["identity"] for name in parts.listed(folder / "store/parts") for found in parts.read(folder / "store/parts" / name))


def filled(folder, count=40):
    with Store(folder) as study:
        for number in range(count):
            study.add(row(number), ANSWER)
    return sorted(f"i{number}" for number in range(count))


class Ended(BaseException):
    """As when the process is killed there."""


def ended(*_):
    raise Ended


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("where", ["before", "after"])
def test_a_join_that_was_ended(tmp_path, monkeypatch, where, lost):
    """before, after: its transaction's end."""
    names = filled(tmp_path)
    with Store(tmp_path) as study:
        if where == "before":
            monkeypatch.setattr(study.index, "take_up", ended)
        else:
            monkeypatch.setattr(study, "_take_away", ended)
        with pytest.raises(Ended):
            study.join_parts()
    assert len(raw(tmp_path)) == 80
    if lost:
        (tmp_path / "store/index.sqlite").unlink()
    with Store(tmp_path) as study:
        assert raw(tmp_path) == names and len(study.index.rows()) == 40
        study.forget([("i7", 0)])
        assert raw(tmp_path) == sorted(set(names) - {"i7"})
    (tmp_path / "store/index.sqlite").unlink()
    with Store(tmp_path) as study:
        assert study.answer(("i7", 0)) is None and len(study.index.rows()) == 39


def test_rows_that_were_forgotten_do_not_come_back_when_it_ended_there(tmp_path, monkeypatch):
    filled(tmp_path)
    with Store(tmp_path) as study:
        study.join_parts()
        monkeypatch.setattr(study, "_take_away", ended)
        with pytest.raises(Ended):
            study.forget([("i7", 0)])
    with Store(tmp_path) as study:
        assert study.answer(("i7", 0)) is None and study.answer(("i8", 0)) == ANSWER
    assert len(raw(tmp_path)) == 39


def test_a_part_whose_rows_are_partly_elsewhere_keeps_the_others(tmp_path):
    with Store(tmp_path) as study:
        for joined in ([0, 1], [1, 2]):
            parts.write(study.parts, [parts.row_of(row(number), ANSWER) for number in joined], "joined-")
    with Store(tmp_path) as study:
        assert raw(tmp_path) == ["i0", "i1", "i2"] and study.answer(("i2", 0)) == ANSWER


def test_a_part_that_was_joined_by_another_process_is_found_where_it_is_now(tmp_path, monkeypatch):
    filled(tmp_path)
    with Store(tmp_path) as first:
        part = first.index.part_of(("i3", 0))
        with monkeypatch.context() as patch:
            patch.setattr(Store, "others", lambda self: [])
            with Store(tmp_path) as second:
                second.join_parts()
        asked, real = itertools.count(), first.index.part_of
        monkeypatch.setattr(first.index, "part_of", lambda key: real(key) if next(asked) else part)
        assert first.answer(("i3", 0)) == ANSWER


def test_nobody_joins_or_forgets_beside_one_who_began_just_now(tmp_path, monkeypatch):
    """Another process begins between the last look before the transaction, had there been one, and its start."""
    filled(tmp_path)
    with Store(tmp_path) as study:
        real, began = study.index.change, []

        def change():
            if not began:
                began.append(Store(tmp_path))
            return real()
        monkeypatch.setattr(study.index, "change", change)
        study.join_parts()
        assert len(parts.listed(study.parts)) == 40
        began.pop().__exit__()
        with pytest.raises(vitro.ConfigError, match="is at work there"):
            study.forget([("i3", 0)])
        assert study.answer(("i3", 0)) == ANSWER
        began.pop().__exit__()


def test_a_damaged_index_is_not_taken_from_those_who_have_it_open(tmp_path):
    filled(tmp_path, 1)
    index = tmp_path / "store/index.sqlite"
    with Store(tmp_path) as study:
        index.write_bytes(b"no database" * 1000)
        with pytest.raises(vitro.RunError, match=r"index.sqlite: .*has it open \(expected --resume"):
            Store(tmp_path)
        with pytest.raises(vitro.RunError, match=r"index.sqlite: .* \(delete it"):
            study.claim(("i1", 0))
    with Store(tmp_path) as study:
        assert study.answer(("i0", 0)) == ANSWER


def test_a_reserve_that_could_not_be_made_is_made_later(tmp_path, monkeypatch):
    import errno
    import os

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(vitro.RunError, match="the disk is full"):
            Store(tmp_path)
    assert not (tmp_path / "store/reserve").exists()
    (tmp_path / "store/reserve").write_bytes(b"")  # as vitro left it before
    Store(tmp_path).__exit__()
    assert (tmp_path / "store/reserve").stat().st_size == 4 << 20
