"""More sections of a drawn configuration, each as dotted keys: contracts, caches, static graphs, and placements that few have. Each is
given a generator of its own."""

SAMPLING = ({"temperature": 0.7}, {"temperature": 1, "top_k": 5}, {"temperature": 1.3, "top_p": 0.8})


def contracts(rng, scheme, engine):
    """Matmuls on fp16 activations, in fp16 sums or in plain arithmetic, in place of float ones; and one for prompts alone."""
    drawn = {}
    if "products.numerics" not in engine and rng.random() < 0.4:
        drawn["products.numerics"] = rng.choice(("a16", "reference") + (("half_sums",) * 3 if scheme == "f16" else ()))
    if rng.random() < 0.2:
        drawn["products.prefill_numerics"] = rng.choice(("fp16", "int8_rows"))
    return drawn


def attention(rng):
    return {"attention.kernel": rng.choice(("lut_exp", "exp_f16", "exp_f32"))} if rng.random() < 0.2 else {}


def codes(rng, engine):
    """How few-bit codes are multiplied, which changes no bit."""
    numerics = engine.get("products.numerics")
    drawn = {"products.share_precompute": rng.random() < 0.5}
    if rng.random() < 0.1:
        drawn[rng.choice(("products.decode", "products.prefill"))] = "file"
    if numerics not in ("int8", "int8_tables", "int16_tables"):
        return drawn | ({"weights.repack": False} if rng.random() < 0.2 else {})
    ways = ["automatic"] + ["lut"] * (numerics != "int16_tables") + ["dot"] * (numerics == "int8")
    drawn["products.codes"] = rng.choice(ways)
    if numerics == "int8" and drawn["products.codes"] != "lut" and rng.random() < 0.3:
        drawn["weights.repack"] = False
    return drawn


def accelerators_contract(rng, scheme, engine):
    """Matmuls of the accelerator in another contract than the cores'. Of experts they are those of its own graphs."""
    units, unit = engine["placement.units"], engine.get("placement.unit")
    if not (unit in ("npu", "cpu1") or "npu" in units) or engine.get("placement.kind") == "prompts" or rng.random() < 0.5:
        return {}
    alike = engine["ffn.kind"] != "experts" or engine["ffn.experts.overflow"] == "drop"
    if not alike:
        return {}
    few_bits = scheme not in ("f16", "q8_0") and not scheme.startswith("w8")
    return {"placement.activations": rng.choice(("fp16", "int8") + (("int8_tables", "int16_tables") if few_bits else ()))}


def caches(rng, engine, loads):
    """What a cache takes and gives up, where its parts lie, and how far is read ahead."""
    drawn = {}
    bundles = "weights.bundle" in engine or "ffn.clusters.neurons" in engine
    if engine["weights.kind"] == "paged":
        drawn["weights.read_ahead"] = rng.choice(("4 KiB", "16 KiB", "128 KiB"))
    if bundles or engine["weights.kind"] == "experts":
        drawn["weights.admission"] = rng.choice(("rule", "always", "bypass"))
    if engine["weights.kind"] == "experts" and not bundles:
        if engine.get("weights.eviction") == "popularity" and rng.random() < 0.5:
            drawn |= {"weights.experts.popularity": "calibrated", "ffn.experts.loads": loads}
        if rng.random() < 0.5:
            drawn["weights.experts.budget"] = rng.choice(("500 KiB", "1 MiB", "2 MiB"))
    if not bundles:
        return drawn
    drawn |= {"weights.report_bound": rng.random() < 0.2, "ffn.clusters.keep": rng.choice(("named", "fired"))}
    if engine["placement.units"][-1].startswith("cpu") and rng.random() < 0.3:
        drawn["ffn.clusters.io_core"] = engine["placement.units"][-1]
    if "placement.splits" in engine and rng.random() < 0.3:
        drawn["ffn.clusters.hot_in_dram"] = rng.choice(("0%", "25%", "100%"))
    if engine.get("weights.eviction") == "window":
        drawn["weights.window"] = rng.choice((0, 1, 1.5, 4))
    elif rng.random() < 0.2:
        drawn["weights.eviction"] = "popularity"
    if engine["weights.kind"] == "bundles" and rng.random() < 0.1:
        drawn["weights.cache"] = False
    return drawn


def layout(rng, scheme, engine):
    """How neurons lie in flash."""
    if rng.random() < 0.5:
        return {}
    if "ffn.clusters.neurons" not in engine:
        return {"weights.layout": "rows"}
    apart = ("scales_inline", "scales_resident") if scheme == "q4_0" and engine.get("weights.bundle", True) else ()
    return {"weights.layout": rng.choice(("auto", "bundles", "bundles_two_phase", *apart))}


def static_graphs(rng, engine):
    """When graphs come, how many keys they are for, and who attends to a full chunk."""
    drawn = {}
    if "placement.unit" in engine or "placement.graph_units" in engine:
        drawn["placement.graphs"] = rng.choice(("ahead", "needed"))
    if engine.get("placement.kind") == "chunk_attention":
        drawn |= {"placement.attention": rng.choice(("unit", "unit", "cores")),
                  "placement.attention_keys": rng.choice(("visible", "chunks", "powers", [8, 24, 64]))}
    return drawn


def tiers(rng, engine):
    """Which sizes graphs of experts have, and whether experts have any."""
    if engine["ffn.kind"] != "experts":
        return {}
    drawn = {"graphs": rng.random() < 0.9, "groups": rng.random() < 0.8, "residency": rng.random() < 0.8,
             "host_per_token": rng.choice(("0 us", "20 us"))}
    if engine["ffn.experts.tiers"]:
        drawn["multiples"] = rng.choice(([1, 2, 4], [1], [2, 3]))
        if rng.random() < 0.4:
            drawn["base"] = rng.choice((1, 2, 32))
    elif rng.random() < 0.5:
        drawn["capacity"] = rng.choice((1, 4, 64))
    if rng.random() < 0.3:
        drawn["shape_multiple"] = 64
    return {f"ffn.experts.{key}": value for key, value in drawn.items()}


def dropping(rng, engine):
    """Rows that find no room in a graph are dropped. The same ones on a core in place of the unit: shapes, and what it holds, are alike."""
    if engine["ffn.kind"] != "experts" or rng.random() < 0.6:
        return {}
    alike = {"shape_multiple": 64, "resident": "0 B", "cold": rng.choice(("0%", "25%"))}
    return {f"ffn.experts.{key}": value for key, value in ({"overflow": "drop"} | alike).items()}


def loads(rng, engine):
    """Of experts, some of which are busier than others."""
    if "ffn.experts.loads" not in engine:
        return {}
    def layer(experts):
        shares = [rng.choice((1, 1, 2, 6)) for _ in range(experts)]
        return [share / sum(shares) for share in shares]
    return {"ffn.experts.loads": [layer(len(one)) for one in engine["ffn.experts.loads"]]}


def offload(rng, machine, engine):
    """In place of cores alone: an accelerator that has their matmuls, those of prompts, or a share, as a GPU of the simulated phone has; on
    host a second core."""
    if engine.get("placement.kind", "cores") != "cores" or "placement.unit" in engine or engine["ffn.kind"] == "experts":
        return {}
    unit, cores = "cpu1" if machine == "host" else "npu", engine["placement.units"]
    ways = [{"placement.kind": "prompts", "placement.unit": unit, "placement.outliers": rng.choice(("0%", "10%", "60%"))},
            {"placement.kind": "matmuls", "placement.unit": unit}]
    if machine == "host":
        ways += [{"placement.kind": "cores", "placement.units": ["cpu0", "cpu1"]}] * 2
    else:
        ways += [{"placement.units": [*cores, "npu"]}]
    if machine == "sim":
        ways += [{"placement.units": [*cores, "gpu"]}, {"placement.kind": "matmuls", "placement.unit": "gpu"}]
    return rng.choice(ways) if rng.random() < 0.7 else {}


def head(rng, engine):
    """A share of the output matrix for an accelerator that has the layers."""
    if engine.get("placement.kind") != "layers" or rng.random() < 0.5:
        return {}
    return {"placement.head": rng.choice(("25%", "60%", "100%"))}


def by_image(rng, engine):
    """What holds the weights of a GPU."""
    if "gpu" not in (engine.get("placement.unit"), *engine["placement.units"]):
        return {}
    return {"products.decode": rng.choice(("image", "buffer", "automatic")), "products.prefill": rng.choice(("image", "buffer"))}


def lengths(rng, workload):
    """Sequences of a batch that end one by one, or tokens that are drawn."""
    if rng.random() < 0.2:
        workload["output_tokens"] = [rng.randint(1, 8) for _ in range(workload.pop("batch"))]
    if rng.random() < 0.3:
        workload["sampling"] = rng.choice(SAMPLING)
    if rng.random() < 0.2:
        workload["stop_at_eos"] = True
