"""Who is at work in a store is known at any time, also while a process begins."""
import fcntl

from vitro.study import owners


def test_an_owner_whose_file_was_taken_away_before_it_was_locked_makes_it_again(tmp_path, monkeypatch):
    real, looks = fcntl.flock, []

    def flock(file, how):
        if not looks:
            looks.append(1)
            assert owners.others(tmp_path, "") == [], "it has no lock yet"
        return real(file, how)
    monkeypatch.setattr(fcntl, "flock", flock)
    owner = owners.Owner(tmp_path)
    assert owners.others(tmp_path, "") == [owner.name]
    owner.close()
    assert owners.others(tmp_path, "") == [] and not list(tmp_path.iterdir())
