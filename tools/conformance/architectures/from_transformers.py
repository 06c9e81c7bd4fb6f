"""Networks of transformers, tiny, from configurations: encoders and decoders of text, decoder steps with past keys and
values, audio, vision, and both together."""

import torch
import transformers as T

from configured import ids, networks, positional, settings

NETWORKS = networks("transformers")
EXPORTERS = ["torchscript", "dynamo", "optimised", "quantised"]


def trocr_full():
    """An encoder of images and a decoder of text."""
    encoder = T.ViTConfig(**settings({"base": "vision"}))
    decoder = T.TrOCRConfig(
        vocab_size=200, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, max_position_embeddings=32
    )
    config = T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    inputs = {"pixel_values": torch.randn(1, 3, 32, 32), "decoder_input_ids": ids(5)}
    return T.VisionEncoderDecoderModel(config).eval(), inputs, lambda m, **inputs: [m(**inputs, use_cache=False).logits]


NETWORKS["trocr_full"] = positional(trocr_full)
