# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Write a policy
#
# A model whose neurons do not all fit into DRAM has a cache of them. You write the rule that says which neuron goes for which, as a class
# in this notebook, and compare it with the engine's own rules and with Belady's rule, which knows the future.

# %%
import pandas
import vitro
from vitro import plot

quickstart = "vitro:experiments/quickstart"
cached = {"engine.policy": "neuron_cluster", "memory.ffn_in_dram": "30%", "workload.output_tokens": 96, "workload.stop_at_eos": False}

# %% [markdown]
# ## Two recordings
#
# Which neurons fire depends on the text. One text is for writing the rule, another one for judging it.

# %%
texts = {"written": "Once upon a time", "judged": "The dog saw a big red ball in the park"}
for name, prompt in texts.items():
    vitro.run(quickstart, overrides=cached | {"workload.prompt": prompt, "engine.record": f"{name}.vtrc"})


def replay(name):
    """The phone repeats what fired and computes nothing."""
    return cached | {"workload.prompt": texts[name], "engine.function": "replay", "engine.replay": f"{name}.vtrc"}


# %% [markdown]
# ## A rule
#
# Each use of a neuron is worth 1, and half as much `half_life` tokens later. What is worth least goes. A newcomer that is worth less than
# what would go for it is used and not kept.


# %%
class Fading(vitro.Eviction):
    """least often used, older uses counting less; also decides who comes in"""

    half_life = 16  # tokens

    def setup(self):
        self.worth = [0.0] * self.blocks  # of each neuron, in units that grow with time
        self.unit, self.there, self.coming = 1.0, {}, None

    def touch(self, block):
        self.worth[block] += self.unit

    def newcomer(self, block):
        self.coming = block
        self.touch(block)

    def insert(self, block):
        self.there[block] = True
        if block != self.coming:
            self.touch(block)

    def erase(self, block):
        del self.there[block]

    def next_token(self):
        self.unit *= 2 ** (1 / self.half_life)

    def victim_at_any_price(self, held):
        return min((block for block in self.there if not held(block)), key=self.worth.__getitem__, default=None)

    def victim(self, held):
        least = self.victim_at_any_price(held)
        return None if least is None or self.worth[least] >= self.worth[self.coming] else least


def with_rule(name, rule, **more):
    return vitro.run(quickstart, overrides=replay(name) | {"engine.weights.eviction": rule}, policies=[Fading], **more)


# %% [markdown]
# `half_life` is tuned on the first recording alone:

# %%
tuned = {}
for half_life in (2, 8, 32, 128):
    Fading.half_life = half_life
    tuned[half_life] = with_rule("written", "Fading").metric("cache_hit_rate")
Fading.half_life = max(tuned, key=tuned.get)
pandas.Series(tuned, name="hit rate").rename_axis("half-life, tokens").to_frame()

# %% [markdown]
# ## The ranking
#
# On the recording that the rule has not seen. `belady` runs twice: the first run finds out which neurons are wanted when.

# %%
runs = {rule: with_rule("judged", rule) for rule in ("step_lru", "lru", "lfu", "arc", "Fading")}
runs["Belady's rule"] = vitro.belady(quickstart, overrides=replay("judged"))
columns = {"hit rate": "cache_hit_rate", "reads per token": "storage_submissions_per_token", "tokens/s": "decode_tokens_per_s"}
ranking = pandas.DataFrame([{"rule": rule} | {name: run.metric(metric) for name, metric in columns.items()}
                            for rule, run in runs.items()]).sort_values("hit rate", ascending=False)
assert list(ranking["rule"])[:2] == ["Belady's rule", "Fading"]
ranking.style.format({"hit rate": "{:.1%}", "reads per token": "{:.0f}", "tokens/s": "{:.0f}"}).hide(axis="index")

# %% [markdown]
# Speed does not follow hits alone. Neurons that are missing side by side come by one read, so a rule with fewer hits may have fewer reads.

# %%
plot.bars(runs, "cache_hit_rate", label="accesses that hit, decoding")

# %% [markdown]
# ## On both machines
#
# A rule decides when a neuron is read. It changes no token, on the phone or on this computer, and the same class serves both. `twice=True`
# runs again and fails if the rule decides by something else than what it is told.

# %%
real = cached | {"workload.prompt": texts["judged"], "engine.weights.eviction": "Fading", "workload.output_tokens": 24}
sim = vitro.run(quickstart, overrides=real, policies=[Fading], twice=True)
host = vitro.run(quickstart, overrides=real | {"device": None}, machine="host", policies=[Fading])
assert host.tokens == sim.tokens == vitro.run(quickstart, overrides={
    "workload.prompt": texts["judged"], "workload.output_tokens": 24, "workload.stop_at_eos": False}).tokens
print(host.text)

# %% [markdown]
# ## What it costs
#
# Time in Python is no simulated time: on the phone a decision costs what the device file says (`cpu.cache_update_cycles`). It costs the
# simulation what the result says:

# %%
pandas.DataFrame(sim["policies"])[["name", "kind", "calls", "us_per_call", "share_of_run"]]
