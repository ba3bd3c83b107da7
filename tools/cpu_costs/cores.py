"""Which model of llvm-mca stands for a core."""

CORES = {  # name: (llvm-mca's model, kind, why this model)
    "x2": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X2; V2 has its four vector pipes"),
    "x3": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X3; V2 is the server core next to it"),
    "x4": ("neoverse-v2", "assumed", "LLVM 19 has only the two-pipe Neoverse N2 for a Cortex-X4; V2 has its four vector pipes"),
    "a710": ("cortex-a710", "derived", "LLVM's own model (that of Neoverse N2, the server core next to it)"),
    "a715": ("cortex-a715", "assumed", "LLVM 19 takes the model of Neoverse N2, a core of the generation before"),
    "a720": ("cortex-a720", "derived", "LLVM's own model (that of Neoverse N2)"),
    "a510": ("cortex-a510", "derived", "LLVM's own model"),
    "a520": ("cortex-a520", "derived", "LLVM's own model (that of Cortex-A510)"),
    "oryon": ("oryon-1", "assumed", "LLVM models the first Oryon, of a laptop; both kinds of core of the phone take it"),
}

# LLVM's Oryon has no figures for a few instructions: these take their place, of the same unit and kind.
STAND_INS = {"oryon-1": [
    (r"scvtf\s+(v)", r"frintn \1"),
    (r"fabs\s+(v)", r"frintn \1"),
    (r"fmaxnm\s+(v)", r"fadd \1"),
    (r"fmax\s+(v)", r"fadd \1"),
    (r"(sdot\s+v\d+\.4s, v\d+\.16b, v\d+)\.4b\[\d\]", r"\1.16b"),
    (r"\bushl\s+(v)", r"urshl \1"),
    (r"cmtst\s+(v)", r"cmeq \1"),
    (r"(?:dup|mov)\s+d(\d+), (v\d+\.d\[1\])", r"dup v\1.2d, \2"),
    (r"(?:dup|mov)\s+s(\d+), (v\d+\.s\[\d\])", r"dup v\1.4s, \2"),
    (r"prfm\s+\w+, \[(\w+).*", r"ldr xzr, [\1, xzr]"),
    (r"ldrs?[bh]?\s+([wx]\d+), \[(\w+)(, #?\d+)?\](, #?\d+)?", r"ldr \1, [\2, xzr]"),
    (r"ldrs?[bh]\s+(w\d+), (\[\w+, \w+\])", r"ldr \1, \2"),
    (r"ldrs?[bh]?\s+([wx]\d+), \[(\w+), (w\d+, [su]xtw|:got_lo12:.*)\]", r"ldr \1, [\2, xzr]"),
    (r"str[bh]\s+(w\w+), \[(\w+)(, #?\d+)?\]$", r"stur \1, [\2]"),
    (r"[su]cvtf\s+s(\d+), w\d+.*", r"frintn v\1.4s, v\1.4s"),
    (r"[su]cvtf\s+s(\d+), s(\d+)", r"frintn v\1.4s, v\2.4s"),
    (r"str\s+s(\d+), \[(\w+)(, #?\d+)?\]$", r"stur s\1, [\2]"),
    (r"fmlal2?\s+(v\d+\.4s), (v\d+)\.4h, (v\d+)\.4h", r"fmla \1, \2.4s, \3.4s"),
    (r"fmul\s+s(\d+), s(\d+), s(\d+)", r"fmul v\1.4s, v\2.4s, v\3.4s"),
]}
