"""How each command of README and docs is run by test_doc_blocks.py, or why it is not.

RUN: what is added so that it is short. ALL: the same, but it still takes seconds, so that only `./vitro test --all` runs it. EXCUSED: by
how it begins. A command is looked for as it stands on its page, without its comment and `./`.
"""
TOKENS = ("--set", "workload.output_tokens=2")
SHORT = (*TOKENS, "--set", "workload.prompt_tokens=2")
QUICK = "vitro run experiments/quickstart.yaml"
OFFLOAD = "experiments/offload.yaml"

RUN = {
    f'{QUICK} --machine sim --set engine.policy=mmap --set "memory.budget=6 MiB"': TOKENS,
    f"vitro run {OFFLOAD}": SHORT,
    f"{QUICK} --json": TOKENS,
    f"{QUICK} --machine host --set model.gguf=MODEL.gguf": TOKENS,
    f"{QUICK} --machine host --set engine.kv_dram_tokens=32": TOKENS,
    "vitro quantize model.f16.gguf model.w2.gguf --scheme w2g64z": (),
    "vitro quantize model.f16.gguf model.mixed.gguf --scheme w4g64z --embedding bf16 --output w8g64z": (),
    "vitro make-model big.gguf": ("--preset", "tiny"),
    "vitro schema experiment --out experiment.json": (),
    "vitro --help": (),
    "vitro tiles": (),
    "vitro tiles --device configs/devices/xiaomi14.yaml --shape 256,3584,3584": (),
    "vitro tiles --isa avx2 --json": (),
    f"{QUICK} --set engine.graph.activations=f16": TOKENS,
    f"{QUICK} --set engine.graph.activations=f16 --set engine.products.numerics=half_sums": TOKENS,
    "vitro graph model.gguf --dot --fuse none": (),
    f"{QUICK} --set engine.graph.fuse=none": TOKENS,
    "vitro make-model judge.gguf --preset tiny --value-head": (),
    f'{QUICK} --set engine.policy=mmap --set "memory.budget=6 MiB" --out out/mine': TOKENS,
    "vitro list devices": (),
    f"{QUICK} --set device=configs/devices/oneplus_ace3.yaml": TOKENS,
    "vitro tokenize MODEL.gguf": (),
    "vitro tokenize MODEL.gguf --json": (),
    f"{QUICK} --set engine.policy=neuron_cluster --set memory.ffn_in_dram=50% --set trace.format=perfetto --out out/flows": TOKENS,
    'vitro trace query out/flows "SELECT kernel, count(*) AS reads, median(kernel_begin_us - done_us) AS lay_us FROM flows GROUP BY '
    'kernel"': (),
}
ALL = {
    "vitro demo": (),
    f"vitro sensitivity {OFFLOAD}": (*SHORT, "--samples", "2", "--parameter", "dram.latency"),
    f"vitro sensitivity {OFFLOAD} --set workload.output_tokens=16": (*SHORT, "--samples", "2", "--parameter", "dram.latency"),
    "vitro run experiments/papers/npumoe/prefill.yaml": ("--set", "workload.prompt_tokens=32"),
    "vitro run experiments/scaling/words.yaml": TOKENS,
    "vitro sweep experiments/policies.yaml --out out/policies": SHORT,
    "vitro search experiments/search.yaml --out out/search": (*SHORT, "--trials", "8"),
    "vitro report out/policies": (),
    "vitro trace diff out/demo/host-dense out/demo/sim-dense": (),
    "vitro plan configs/models/bamboo-7b.yaml --device configs/devices/oneplus12.yaml --set memory.ffn_in_dram=50% -o plan.yaml": (),
    "vitro characterize configs/devices/oneplus12.yaml": ("--only", "power"),
    "vitro characterize configs/devices/oneplus12.yaml --only ufs --json": (),
    "vitro torture --seeds 1000 --shrink": ("--seeds", "3"),
    "vitro torture --seeds 100 --machine sim": ("--seeds", "2"),
    "vitro torture --seeds 12600 --from 100000": ("--seeds", "2", "--jobs", "1"),
    "vitro torture --seeds 700 --from 1000000 --machine sim": ("--seeds", "2", "--jobs", "1"),
    "vitro torture --seeds 700 --from 2000000 --machine host": ("--seeds", "2", "--jobs", "1"),
    "vitro perplexity MODEL.gguf TEXT --set engine.graph.activations=f16": (),
    "vitro tasks experiments/scaling/recall.yaml experiments/scaling/recall.jsonl --answer '^\\W*(\\w+)' "
    "--out out/recall": ("--limit", "1"),
}
HOURS = "takes many minutes, or hours; tests/python/reproducing runs rows of it"
MEASURES = "measures this machine for minutes; tests/python/calibrate and tests/python/validate run it in small"
PHONE = "needs a phone; tests/python/validate/test_bundle.py rehearses it"
LORA = "needs an adapter; tests/python/engine/test_lora.py makes one"
HERE = "stands for the reader's own experiment"
EXCUSED = {
    "exp.yaml:9: memory.budget": "what is printed; tests/python/running/test_budgets.py", "(...); the smallest that works": "the same",
    "vitro test": "runs the tests",
    "vitro reproduce": HOURS,
    "vitro calibrate": MEASURES, "sudo vitro calibrate": MEASURES, "vitro validate": MEASURES, "sudo vitro validate": MEASURES,
    "vitro bench sim": "five rounds of minutes; tests/python/commands runs the parts",
    "vitro convert": "needs a checkpoint from elsewhere; tests/python/model/test_convert.py makes small ones",
    "vitro merge": LORA,
    f"{QUICK} --machine host --set engine.units=gpu": "needs an OpenCL device; tests/python/engine/test_gpu.py",
    "vitro run ...": "stands for the command above it, which needs an OpenCL device",
    f"{QUICK} --machine host --set engine.units=hexagon": "needs the worker's build; tests/python/engine/test_hexagon.py",
    "vitro quantize model.f16.gguf model.gptq.gguf": "a minute; tests/python/model/test_gptq_pass.py",
    "vitro quality": "minutes; tests/python/model/test_gptq_pass.py and the table beside it",
    f"{QUICK} --machine host --set faults=faults.yaml": "ends with the unit that dies there; tests/engine/faults",
    "vitro torture --hours": "eight hours", "vitro torture --replay": "needs a case that did not hold",
    "vitro run EXP.yaml": HERE, "vitro run EXPERIMENT.yaml": HERE, "vitro tasks EXP.yaml": HERE,
    "vitro make-model big.gguf &&": "1.3 B parameters; README's is made small",
    "vitro run experiments/scaling/words.yaml --set": "tests/python/engine/test_scaling.py runs judges and beams",
    "vitro bundle": PHONE, "adb ": PHONE, "cmake --preset aarch64": "a cross build; the stage aarch64 makes it",
    "vitro search experiments/planner-front.yaml": "two to three minutes; tests/python/plan/test_planner.py runs its plan",
    "vitro sweep experiments/benchmarks/long_context.yaml": "many minutes",
    "vitro characterize configs/devices/oneplus12.yaml --only dram --sensitivity": "minutes; tests/python/device/test_characterize.py",
    "vitro characterize configs/devices/oneplus12.yaml --cross-fidelity": "minutes; tests/python/device/test_cross_fidelity.py",
    "python tools/tiles/measure.py": "times tiles; tests/python/tools/test_measured_tables.py reads what it wrote",
    "split ": "prepares the commands behind it", "M=": "prepares the commands behind it",
    "export VITRO_FASTRPC": "prepares the command behind it",
    "PYTHONPATH=python .venv/bin/python experiments/validation/python_rules.py": "rounds of a measurement",
    ".venv/bin/python experiments/validation/long_context.py": "a measurement, as root",
    "cmake -S CHECKOUT": "builds another project", "python experiments/validation/peers/llama_cpp.py": "measures beside another project",
    "git clone": "fetches another project", "hw_models_test ": "a test of its own; it needs what the lines above fetch",
    '"VITROPAK"': "no command: the head of a file", "plan (JSON)": "no command", "zeros up to a page": "no command",
    "sections,": "no command",
    "checksums:": "no command", "energy: measured": "no command: what one prints", "experiment ": "no command: what one prints",
    "tiny-policy": "no command: what one prints", "vitro: phone.yaml:2": "no command: what one prints",
    "VITRO_NO_CODE=1 vitro sweep study.yaml": HERE,
}
# Pages whose blocks another test runs, in their order.
ELSEWHERE = {
    "docs/guide/adding-a-device.md": "tests/python/device/test_adding_a_device.py",
    "docs/guide/plugins.md": "tests/python/device/test_tlm.py",
}
