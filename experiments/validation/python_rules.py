"""What eviction rules written in Python cost a run: the table of docs/guide/policies-in-python.md, "What a call costs".

    PYTHONPATH=python .venv/bin/python experiments/validation/python_rules.py [--rounds 6]

Each round runs every rule once, one after the other. A row has the least and the greatest wall_s of the rounds, and what the quickest run
says of its rule.
"""
import argparse
import sys
from pathlib import Path

import vitro

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python" / "policy"))
import pyrules  # noqa: E402  has LRU in Python


class LruEach(pyrules.PyLru):
    """LRU that hears of all blocks of a layer at once"""

    name = "py_lru_each"

    def touch_each(self, blocks):
        for block in blocks:
            self.order.move_to_end(block)


def of_notebook(name):
    """-> a class of the notebook on writing a policy, without what else the notebook does."""
    cells = (ROOT / "docs/notebooks/write_a_policy.py").read_text().split("\n# %%")
    code = next(cell for cell in cells if f"\nclass {name}(" in cell).partition("\n")[2]
    names = {"vitro": vitro, "__name__": "__main__"}
    exec(code, names)
    return names[name]


QUICKSTART = (ROOT / "experiments/quickstart.yaml",
              {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%", "workload.output_tokens": 96})
OFFLOAD = (ROOT / "experiments/benchmarks/offload_7b.yaml", {"workload.output_tokens": 16})


def rows():
    """-> (experiment, overrides, name of the rule, its class or None)"""
    for (path, changes), classes in ((QUICKSTART, (pyrules.PyLru, of_notebook("Fading"))), (OFFLOAD, (pyrules.PyLru, LruEach))):
        yield path, changes, "lru", None
        for rule in classes:
            yield path, changes, rule.__dict__.get("name", rule.__name__), rule


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    work = list(rows())
    runs = [[] for _ in work]
    for _ in range(rounds):
        for (path, changes, name, rule), done in zip(work, runs):
            done.append(vitro.run(path, overrides=changes | {"engine.weights.eviction": name}, policies=[rule] if rule else []))
    for (path, _, name, _), done in zip(work, runs):
        best = min(done, key=lambda run: run["wall_s"])
        told = "".join(f", {told['calls']:,} calls, {told['us_per_call']:.1f} us each, {told['share_of_run']:.0%} of the run"
                       for told in best.data.get("policies") or [])
        print(f"{path.stem}, {name}: {best['wall_s']:.2f} to {max(run['wall_s'] for run in done):.2f} s{told}")


if __name__ == "__main__":
    main()
