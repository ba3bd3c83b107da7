"""Tokenizers of exported models: a converted file makes the ids that the library of the exporter makes."""
import pytest
import tokenizers
import vitro
from exporter import LLAMA, export, write_tokenizer
from tokenizers import Regex, decoders, models, pre_tokenizers, processors, trainers
from vitro.errors import ConfigError
from vitro.model.convert import convert
from vitro.model.exported_tokenizer import PATTERNS, read_tokenizer

TEXT = "Once upon a time, there was a little girl named Lily.\n\nShe had 1234 apples; it's 3 o'clock! <|end|>\u00e9\u4e2d"


def trained(pattern):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    return tokenizer


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.values())
def test_byte_level_bpe_makes_the_librarys_ids(tmp_path, pattern):
    from dataclasses import replace
    made = trained(pattern)
    export(tmp_path, replace(LLAMA, layers=1), group=64)  # fewer ids than the tokenizer's: written again below
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer.model").unlink()
    with pytest.raises(ConfigError, match="vocab_size: 259, but the tokenizer has 300 tokens"):
        convert(tmp_path, tmp_path / "out.gguf")
    exported = vocabulary_of(tmp_path, 310)
    convert(exported, tmp_path / "out.gguf")
    assert vitro.tokenize(tmp_path / "out.gguf", TEXT) == made.encode(TEXT).ids


def vocabulary_of(folder, size):
    """The same model with more ids than the oracle's, as embeddings are often padded."""
    import json

    import numpy as np
    from exporter import TYPES, write_safetensors
    from vitro.model.safetensors import read_folder
    tensors = {name: tensor.load() for name, tensor in read_folder(folder).items()}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = np.concatenate([tensors[name], np.zeros((size - len(tensors[name]), tensors[name].shape[1]), tensors[name].dtype)])
    assert set(str(value.dtype) for value in tensors.values()) <= set(TYPES)
    write_safetensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": size}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("begins", [True, False])
def test_bos_is_added_where_the_template_adds_it(tmp_path, begins):
    made = trained(next(iter(PATTERNS)))
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A" if begins else "$A", special_tokens=[("<|begin|>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path, 0).add_bos == begins
    (tmp_path / "tokenizer_config.json").write_text('{"add_bos_token": false}')
    assert not read_tokenizer(tmp_path, 0).add_bos


def test_what_can_not_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="has no tokenizer"):
        read_tokenizer(tmp_path, 1)
    trained("[a-z]+").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match="the pattern .* is not supported"):
        read_tokenizer(tmp_path, 1)
    for text, words in (('{"model": {}}', "byte-level BPE"), ('{"model": 3}', "expected model.vocab")):
        (tmp_path / "tokenizer.json").write_text(text)
        with pytest.raises(ConfigError, match=words):
            read_tokenizer(tmp_path, 1)
    path = tmp_path / "tokenizer.model"
    write_tokenizer(path)
    whole = path.read_bytes()
    assert len(read_tokenizer(tmp_path, 1).tokens) == 259
    path.write_bytes(whole[:-1])
    with pytest.raises(ConfigError, match="tokenizer.model: damaged"):
        read_tokenizer(tmp_path, 1)
