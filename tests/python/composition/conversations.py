"""Workloads of several requests, drawn by seed."""

WORDS = "They were happy and the sun was warm so her mother said let us go home now".split()


def conversation(rng, workload, adapters=()):
    """Several requests of one process, some of which go on from sequences that earlier ones kept; or a sequence that is restored in a
    second run. adapters: names of which each request may have one."""
    way = rng.random()
    if way > 0.35:
        return
    def words():
        return " ".join(WORDS[:rng.randint(1, len(WORDS))])
    if way < 0.1:
        _alone(workload)
        workload["restore_kv"] = "of the same composition"
        return
    requests, kept = [], {}
    alone = rng.random() < 0.7  # as sequences that are kept have to be
    if alone:
        _alone(workload)
    for _ in range(rng.randint(2, 4)):
        request, goes_on = {"prompt": words()}, alone and kept and rng.random() < 0.7
        adapter = rng.choice(adapters) if adapters else None
        if goes_on:
            request["continue"] = rng.choice(sorted(kept))
            adapter = kept[request["continue"]]
            if rng.random() < 0.2:
                del request["prompt"]
        if adapter:
            request["adapter"] = adapter
        if alone and rng.random() < 0.7:
            request["keep_as"] = rng.choice("ab")
            kept[request["keep_as"]] = adapter
        requests.append(request)
    workload |= {"requests": requests, "kept_in": rng.choice(("dram", "flash"))}
    most = workload["output_tokens"]
    workload["output_tokens"] = min(most, 4) if isinstance(most, int) else [min(length, 4) for length in most]


def _alone(workload):
    workload["batch"] = 1
    for key in ("output_tokens", "adapter"):
        if isinstance(workload.get(key), list):
            workload[key] = workload[key][0]
