"""Networks of transformers that are made from configurations: those of transformers.toml, a line each.

`config` names the class of the configuration, without "Config". `base` names settings to begin with. What has no meaning below
is a setting; "none" is None, and a table with `config` or `base` is a configuration or settings of its own.
- `network`: the class of the network; AutoModel without it, or what suits `kind`. `plain` leaves the choice of attention to it.
- `inputs`: of each input its maker in MAKERS and the numbers that it takes, or a name in [inputs].
- `outputs`: attributes of the output that are compared; `part`: the part of the network that is run, its inputs in order;
  `call`: a function in CALLS that runs it.
- `cached = false`: without a cache; `constants`: further arguments.
- `kind`: `decoder` is one pass over a text and, unless `past = false`, a step over a past of keys and values (NAME_past; without
  `position` where that is false); `static` is a step over a cache of fixed places (NAME); `seq2seq` is both of NAME and a step of
  the decoder, NAME_step unless `past = false`.
"""

import tomllib
from pathlib import Path

import torch
import transformers as T
from torch import nn

T.logging.set_verbosity_error()
# Rows of a text, of the past of a decoder, of a cache of fixed places, and of what a decoder of two networks has said.
ROWS, PAST, PLACES, SAID = 12, 7, 16, 5


def ids(rows=ROWS, words=200, batch=1):
    return torch.randint(3, words, (batch, rows))


def ones(rows=ROWS, batch=1):
    return torch.ones(batch, rows, dtype=torch.long)


def mask(rows=ROWS, padding=3):
    """The last rows are padding."""
    return (torch.arange(rows) < rows - padding).long()[None]


MAKERS = {
    "ids": ids,
    "ones": ones,
    "mask": mask,
    "left": lambda: mask().flip(1),  # The first rows are padding.
    "ended": lambda batch=1: torch.cat([ids(ROWS - 1, batch=batch), torch.full((batch, 1), 2)], 1),
    "randn": torch.randn,
    "rand": torch.rand,
    "randint": lambda low, high, *shape: torch.randint(low, high, shape),
    "floats": torch.ones,
    "wave": lambda samples: torch.randn(1, samples) * 0.3,
    "boxes": lambda: torch.randint(0, 60, (1, ROWS, 1)).repeat(1, 1, 4) + torch.tensor([0, 0, 20, 30]),
    "box": lambda: torch.tensor([[[4.0, 6.0, 40.0, 50.0]]]),
    "points": lambda: torch.rand(1, 1, 2, 2) * 60,
    "labels": lambda: torch.tensor([[[1, 0]]]),
}


def pooled(network, attention_mask, **inputs):
    states, seen = network(attention_mask=attention_mask, **inputs).last_hidden_state, attention_mask
    return [nn.functional.normalize((states * seen[..., None]).sum(1) / seen.sum(1, keepdim=True), dim=-1)]


def speecht5_decoder(m, spectrogram, speaker, hidden, seen):
    return m.speecht5.decoder(
        input_values=spectrogram, speaker_embeddings=speaker, encoder_hidden_states=hidden, encoder_attention_mask=seen, use_cache=False
    )


CALLS = {
    "bge_pool": pooled,
    "whisper_encoder": lambda m, **inputs: m.encoder(**inputs),
    "mimi": lambda m, input_values: [m(input_values, num_quantizers=4).audio_values],
    "vits_text": lambda m, input_ids, attention_mask: list(
        m.text_encoder(input_ids, attention_mask[..., None].float(), attention_mask).values()
    ),
    "speecht5_encoder": lambda m, **inputs: m.speecht5.encoder(**inputs),
    "seamless_speech": lambda m, input_features, attention_mask: m.speech_encoder(input_features, attention_mask),
    "moonshine_encoder": lambda m, **inputs: m.encoder(**inputs),
    "fastspeech2_conformer_enc": lambda m, input_ids: m.encoder(input_ids)[0],
    "speecht5_decoder": speecht5_decoder,
    "vits_flow": lambda m, x, seen: [m.flow(x, seen, reverse=True)],
    "vits_durations": lambda m, x, seen: [m.duration_predictor(x, seen, None, reverse=True, noise_scale=0.0)],
    "dac_decoder": lambda m, codes: [m.decode(audio_codes=codes).audio_values],
}


def tensors(output):
    """The tensors in an output, in order."""
    if torch.is_tensor(output):
        return (output,)
    if hasattr(output, "layers"):
        # A cache of keys and values.
        output = [part for layer in output.layers for part in (layer.keys, layer.values)]
    elif hasattr(output, "values"):
        output = output.values()
    elif not isinstance(output, (tuple, list)):
        output = ()
    return tuple(tensor for part in output for tensor in tensors(part))


class Positional(nn.Module):
    """A network whose inputs are given in order, and whose outputs are a tuple of tensors."""

    def __init__(self, network, names, call):
        super().__init__()
        self.network, self.names, self.call = network, names, call

    def forward(self, *inputs):
        return tensors(self.call(self.network, **dict(zip(self.names, inputs))))


def made(config, kind, plain=False):
    """A network of a configuration, with PyTorch's own attention where it can have that."""
    create = kind.from_config if kind.__name__.startswith("AutoModel") else kind
    if plain:
        try:
            return create(config).eval()
        except ValueError:
            config._attn_implementation = "eager"
            return create(config).eval()
    config._experts_implementation = "batched_mm"
    for attention in ("sdpa", "eager"):
        config._attn_implementation = attention
        try:
            return create(config).eval()
        except ValueError:
            if attention == "eager":
                raise


TABLE = tomllib.loads((Path(__file__).parent / "transformers.toml").read_text())
# The fields of a network that are no settings.
FIELDS = ("network", "plain", "inputs", "outputs", "part", "call", "cached", "constants", "kind", "past", "position")


def settings(table):
    """Settings with those that they begin with."""
    table = dict(table)
    base = settings(TABLE["settings"][table.pop("base")]) if "base" in table else {}
    return base | table


def value(setting):
    """A setting as transformers wants it."""
    if isinstance(setting, dict):
        table = {key: value(part) for key, part in settings(setting).items()}
        return getattr(T, table.pop("config") + "Config")(**table) if "config" in table else table
    return None if setting == "none" else setting


def cache(keys_and_values, names):
    """A cache of the tensors of these layers."""
    past = T.DynamicCache()
    for layer, name in enumerate(names):
        past.update(keys_and_values.pop(f"{name}_key"), keys_and_values.pop(f"{name}_value"), layer)
    return past


class Network:
    """A line of the table."""

    def __init__(self, row):
        self.row = {key: row[key] for key in FIELDS if key in row}
        self.config = {key: part for key, part in row.items() if key not in FIELDS}
        self.kind = self.row.get("kind")

    def make(self):
        usual = {"decoder": "AutoModelForCausalLM", "static": "AutoModelForCausalLM", "seq2seq": "AutoModelForSeq2SeqLM"}
        name = self.row.get("network", usual.get(self.kind, "AutoModel"))
        return made(value(self.config), getattr(T, name), self.row.get("plain", False))

    def inputs(self):
        inputs = self.row.get("inputs", "whole_text" if self.kind == "decoder" else "text")
        inputs = TABLE["inputs"][inputs] if isinstance(inputs, str) else inputs
        makers = {name: words.split() for name, words in inputs.items()}
        return {name: MAKERS[words[0]](*map(int, words[1:])) for name, words in makers.items()}

    def call(self):
        row, constants = self.row, dict(self.row.get("constants", {}))
        if self.kind == "decoder" or not row.get("cached", True):
            constants["use_cache"] = False
        if "call" in row:
            return CALLS[row["call"]]
        if "part" in row:
            return lambda m, **inputs: [getattr(m, row["part"])(*inputs.values())]
        if "outputs" not in row:
            return lambda m, **inputs: m(**inputs, **constants)

        def selected(m, **inputs):
            output = m(**inputs, **constants)
            return [getattr(output, name) for name in row["outputs"]]

        return selected

    def whole(self):
        return self.make(), self.inputs(), self.call()

    def step(self):
        """A step of a decoder over a past of keys and values."""
        network, past = self.make(), T.DynamicCache()
        with torch.no_grad():
            output = network(input_ids=ids(PAST), use_cache=True, past_key_values=past)
        inputs = {"input_ids": ids(1), "attention_mask": ones(PAST + 1)}
        if self.row.get("position", True):
            inputs["position_ids"] = torch.full((1, 1), PAST)
        layers = output.past_key_values.layers
        for number, layer in enumerate(layers):
            inputs[f"past_{number}_key"] = layer.keys.detach().clone()
            inputs[f"past_{number}_value"] = layer.values.detach().clone()
        names = [f"past_{number}" for number in range(len(layers))]

        def call(m, **inputs):
            past = cache(inputs, names)
            output = m(**inputs, past_key_values=past, use_cache=True)
            return [output.logits, output.past_key_values]

        return network, inputs, call

    def static(self):
        """A step over a cache of PLACES places, with the position given: state."""
        network = self.make()
        config = network.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        inputs, names = {"input_ids": ids(1), "position": torch.tensor([3])}, []
        for number in range(config.num_hidden_layers):
            names.append(f"past_{number}")
            inputs[f"past_{number}_key"] = torch.randn(1, heads, PLACES, size)
            inputs[f"past_{number}_value"] = torch.randn(1, heads, PLACES, size)

        def call(m, input_ids, position, **inputs):
            past = cache(inputs, names)

            def update(key, value, layer, *_, **__):
                layer = past.layers[layer]
                layer.keys = torch.index_copy(layer.keys, 2, position, key)
                layer.values = torch.index_copy(layer.values, 2, position, value)
                return layer.keys, layer.values

            past.update = update
            seen = torch.arange(PLACES)[None, None, None] <= position
            seen = torch.zeros(1, 1, 1, PLACES).masked_fill(~seen, torch.finfo(torch.float32).min)
            output = m(input_ids=input_ids, position_ids=position[None], attention_mask=seen, past_key_values=past, use_cache=True)
            return [output.logits] + [tensor for layer in past.layers for tensor in (layer.keys, layer.values)]

        return network, inputs, call

    def both(self):
        """An encoder and a decoder that has said something."""
        network, inputs = self.make(), self.inputs()
        inputs["decoder_input_ids"] = ids(SAID)
        return network, inputs, lambda m, **inputs: [m(**inputs, use_cache=False).logits]

    def decoder_step(self):
        """A step of the decoder over what the encoder has computed and a past."""
        network, encoded = self.make(), self.inputs()
        past = T.EncoderDecoderCache(T.DynamicCache(), T.DynamicCache())
        with torch.no_grad():
            output = network(**encoded, decoder_input_ids=ids(SAID), use_cache=True, past_key_values=past)
        inputs = {"decoder_input_ids": ids(1), "encoder_hidden": output.encoder_last_hidden_state}
        if "attention_mask" in encoded:
            inputs["attention_mask"] = encoded["attention_mask"]
        past = output.past_key_values
        layers = range(len(past.self_attention_cache.layers))
        for layer in layers:
            for name, part in (("self", past.self_attention_cache), ("cross", past.cross_attention_cache)):
                inputs[f"past_{name}_{layer}_key"] = part.layers[layer].keys.clone()
                inputs[f"past_{name}_{layer}_value"] = part.layers[layer].values.clone()

        def call(m, encoder_hidden, **inputs):
            of_self, of_both = (cache(inputs, [f"past_{name}_{layer}" for layer in layers]) for name in ("self", "cross"))
            past = T.EncoderDecoderCache(of_self, of_both)
            for layer in layers:
                past.is_updated[layer] = True
            encoded = T.modeling_outputs.BaseModelOutput(encoder_hidden)
            # Moonshine's encoder gives one, too.
            encoded.attention_mask = None
            output = m(**inputs, encoder_outputs=encoded, past_key_values=past, use_cache=True)
            return [output.logits, of_self]

        return network, inputs, call


def positional(build):
    """`build` gives a network, its inputs by name, and how to call it."""

    def whole():
        network, inputs, call = build()
        return Positional(network, list(inputs), call), tuple(inputs.values())

    return whole


def networks(section):
    """The networks of a section of the table, by name."""
    found = {}
    for name, row in TABLE[section].items():
        network = Network(row)
        first = {"static": network.static, "seq2seq": network.both}.get(network.kind, network.whole)
        found[name] = positional(first)
        if network.kind in ("decoder", "seq2seq") and row.get("past", True):
            ending, step = ("_past", network.step) if network.kind == "decoder" else ("_step", network.decoder_step)
            found[name + ending] = positional(step)
    return found
