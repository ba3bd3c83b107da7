"""Measures whether the hot experts of one text are those of another (NPUMoE 5.8, Overlap@K), by the embedded mixture's own router:
moe_overlap.py TEXT OTHER. TEXT is cut into halves, so that its second half is unseen text of the same kind."""
import statistics
import sys
import tempfile
from pathlib import Path

import vitro
from vitro.trace import recordings

MODEL = Path(__file__).parents[1] / "configs" / "models" / "embedded" / "stories-moe-6m.f16.gguf"


def loads(text):
    """-> {layer: {expert: tokens that chose it}}"""
    with tempfile.TemporaryDirectory() as folder:
        path, recording = Path(folder) / "text.txt", Path(folder) / "experts.vtrc"
        path.write_text(text)
        vitro.perplexity(MODEL, path, overrides={"engine.record": str(recording)})
        found = {}
        for row in recordings.firing_statistics(recording, MODEL):
            found.setdefault(row["layer"], {})[row["expert"]] = row["tokens"]
        return found


def overlap(one, other, k):
    """Share of the k experts with most tokens that two loads of a layer have in common; of equals the lower id."""
    hottest = [{expert for expert, _ in sorted(load.items(), key=lambda item: (-item[1], item[0]))[:k]} for load in (one, other)]
    return len(hottest[0] & hottest[1]) / k


def table(texts, ks=(1, 2, 4)):
    """-> {(calibrated on, asked on): [mean over layers of Overlap@K, by K]}"""
    known = {name: loads(text) for name, text in texts.items()}
    return {(a, b): [statistics.mean(overlap(known[a][layer], known[b][layer], k) for layer in known[a]) for k in ks]
            for a in known for b in known if a != b}


if __name__ == "__main__":
    whole, other = (Path(path).read_text() for path in sys.argv[1:3])
    middle = len(whole) // 2
    for (a, b), shares in table({"first half": whole[:middle], "second half": whole[middle:], "other text": other}).items():
        print(f"{a:12} {b:12} " + " ".join(f"{100 * share:4.0f} %" for share in shares))
