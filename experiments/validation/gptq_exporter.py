"""A model quantised by GPTQModel, a public exporter, beside what `vitro convert` makes of it: the likelihood of one text.

    python3 -m venv VENV && VENV/bin/pip install torch==2.14.1 transformers==5.24.0
    VENV/bin/pip install --no-build-isolation gptqmodel==7.7.0
    GPTQMODEL_CPU_WORKERS=2 VENV/bin/python experiments/validation/gptq_exporter.py FOLDER > FOLDER/exporter.json
    .venv/bin/python experiments/validation/gptq_exporter.py FOLDER --compare

The first run trains a small Llama and a small Qwen2 for a moment, quantises them in several ways into folders of FOLDER, and scores a text
by transformers in float32, with the values that the exporter's own layers stand for. It needs no GPU. The second run converts and scores
by this project. docs/design/gptq.md has the result.
"""
import argparse
import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "configs" / "models" / "embedded" / "eval.txt").read_text()
SCORED = TEXT[60:540]
CASES = {  # kind of the model, what the exporter is told
    "llama 4 bits": ("llama", {"bits": 4, "group_size": 128, "sym": True}),
    "llama 4 bits, zero points, act order": ("llama", {"bits": 4, "group_size": 64, "sym": False, "desc_act": True}),
    "llama 4 bits, zero points, gptq_v2": ("llama", {"bits": 4, "group_size": 128, "sym": False, "format": "gptq_v2"}),
    "llama 8 bits": ("llama", {"bits": 8, "group_size": 64, "sym": True}),
    "qwen2 4 bits, zero points": ("qwen2", {"bits": 4, "group_size": 128, "sym": False}),
    "qwen2 4 bits, gptq_v2": ("qwen2", {"bits": 4, "group_size": 64, "sym": True, "format": "gptq_v2"}),
}
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # Qwen2's


def make(kind, folder):
    import torch
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=512, special_tokens=["<|endoftext|>"],
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|endoftext|>", bos_token="<|endoftext|>")
    tokens.save_pretrained(folder)
    shape = {"vocab_size": len(tokens), "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "bos_token_id": 0, "eos_token_id": 0,
             "tie_word_embeddings": kind == "qwen2",
             "rope_parameters": {"rope_type": "default", "rope_theta": 1e6 if kind == "qwen2" else 1e4}}
    torch.manual_seed(1)
    name = {"qwen2": "Qwen2", "llama": "Llama"}[kind]
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**shape))
    ids, optimizer = torch.tensor(tokens(TEXT)["input_ids"]), torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(100):
        batch = torch.stack([ids[at:at + 128] for at in torch.randint(0, len(ids) - 128, (8,))])
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.half().save_pretrained(folder)


def likelihood(folder):
    """transformers in float32; each quantised matrix as the exporter's own layer dequantises it."""
    import torch
    from gptqmodel import BACKEND, GPTQModel
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    packed = GPTQModel.load(str(folder), backend=BACKEND.TORCH, device="cpu", dtype=torch.float16).model
    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    plain, state = AutoModelForCausalLM.from_config(config).float().eval(), {}
    for name, module in packed.named_modules():
        own = {f"{name}.{key}": value.detach().float() for key, value in module.named_parameters(recurse=False)}
        if hasattr(module, "qweight"):
            module.scales.data = module.scales.data.float()
            own = {f"{name}.weight": module.dequantize_weight().float().T.contiguous()}
            own |= {} if module.bias is None else {f"{name}.bias": module.bias.float()}
        state |= own
    lacks, unknown = plain.load_state_dict(state, strict=False)
    if unknown or set(lacks) - {"lm_head.weight"}:
        raise SystemExit(f"{folder}: {lacks} are missing, {unknown} are unknown")
    plain.tie_weights()
    ids = torch.tensor([AutoTokenizer.from_pretrained(folder)(SCORED)["input_ids"]])
    with torch.no_grad():
        chances = torch.log_softmax(plain(input_ids=ids).logits[0, :-1].double(), -1)
    return float(-chances.gather(1, ids[0, 1:, None]).mean())


def export(folder):
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the exporter's compiled dequantisation fails on the second model of a process
    from gptqmodel import GPTQModel, QuantizeConfig
    texts, found = [TEXT[at:at + 600] for at in range(0, 12000, 600)], {}
    for kind in ("llama", "qwen2"):
        if not (folder / kind / "config.json").exists():
            make(kind, folder / kind)
    for name, (kind, told) in CASES.items():
        model = GPTQModel.load(str(folder / kind), QuantizeConfig(**({"desc_act": False} | told)))
        model.quantize(texts, batch_size=1)
        model.save(str(folder / name))
        found[name] = likelihood(folder / name)
    return found


def compare(folder):
    import vitro
    from vitro.model.convert import convert
    text = folder / "text.txt"
    text.write_text(SCORED)
    printed = (folder / "exporter.json").read_text().splitlines()  # the exporter's own lines are among them
    for name, expected in json.loads(next(line for line in printed if line.startswith('{"llama'))).items():
        out = folder / f"{name}.gguf"
        convert(folder / name, out)
        found = vitro.perplexity(out, text)["nll"]
        print(f"{name:40} exporter {expected:.7f}, here {found:.7f}, difference {found - expected:+.1e}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.compare:
        compare(options.folder)
    else:
        print(f"\n{json.dumps(export(options.folder))}")
