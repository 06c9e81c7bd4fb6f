"""Networks of transformers, tiny, from configurations: encoders and decoders of text, decoder steps with past keys and
values, audio, vision, and both together."""

import torch
import transformers
from torch import nn

transformers.logging.set_verbosity_error()
T = transformers
# Rows of a text, and of the past of a decoder.
ROWS, PAST = 12, 7
NETWORKS = {}
EXPORTERS = ["torchscript", "dynamo", "optimised", "quantised"]


def ids(rows=ROWS, words=200, batch=1):
    return torch.randint(3, words, (batch, rows))


def ones(rows=ROWS, batch=1):
    return torch.ones(batch, rows, dtype=torch.long)


def mask(rows=ROWS, padding=3):
    """The last rows are padding."""
    return (torch.arange(rows) < rows - padding).long()[None]


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

    def __init__(self, network, names, call, constants):
        super().__init__()
        self.network, self.names, self.call, self.constants = network, names, call, constants

    def forward(self, *inputs):
        inputs = dict(zip(self.names, inputs))
        return tensors(self.call(self.network, **inputs) if self.call else self.network(**inputs, **self.constants))


def made(config, kind=None):
    """A network of a configuration, with PyTorch's own attention where it can have that."""
    kind = getattr(T, kind) if isinstance(kind, str) else kind or T.AutoModel
    create = kind.from_config if kind.__name__.startswith("Auto") else kind
    config._experts_implementation = "batched_mm"
    for attention in ("sdpa", "eager"):
        config._attn_implementation = attention
        try:
            return create(config).eval()
        except ValueError:
            if attention == "eager":
                raise


def auto(config, kind=None, **settings):
    return made(config(**settings), kind)


def register(name, build):
    """`build` gives a network, its inputs by name, how to call it, and constant arguments."""

    def whole():
        network, inputs, call, constants = build()
        return Positional(network, list(inputs), call, constants), tuple(inputs.values())

    NETWORKS[name] = whole


def add(name, config, kw, inputs, cls=None, fn=None, call=None, **opts):
    def build():
        return auto(getattr(T, config), cls, **kw), inputs(), fn, call or {}

    register(name, build)


H = dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, max_position_embeddings=64)
TXT = lambda: dict(input_ids=ids(), attention_mask=mask())
TT = lambda: dict(input_ids=ids(), attention_mask=mask(), token_type_ids=torch.randint(0, 2, (1, ROWS)))
# encoders
add("bert", "BertConfig", H, TT)
add("bert_mlm", "BertConfig", H, TT, cls="BertForMaskedLM")
add("bert_ner", "BertConfig", H, TT, cls="BertForTokenClassification")
add("roberta", "RobertaConfig", H, TXT)
add("xlm_roberta", "XLMRobertaConfig", H, TXT)
add("camembert_cls", "CamembertConfig", H, TXT, cls="CamembertForSequenceClassification")
add("deberta", "DebertaConfig", dict(H, relative_attention=True, pos_att_type=["c2p", "p2c"], type_vocab_size=0, pad_token_id=0), TXT)
add(
    "deberta_v2",
    "DebertaV2Config",
    dict(
        H,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=16,
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        type_vocab_size=0,
        position_biased_input=False,
        conv_kernel_size=3,
        conv_act="gelu",
    ),
    TXT,
)
add("distilbert", "DistilBertConfig", dict(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=96, max_position_embeddings=64), TXT)
add("electra", "ElectraConfig", dict(H, embedding_size=32), TT)
add("mpnet", "MPNetConfig", H, TXT)
add("albert", "AlbertConfig", dict(H, embedding_size=32), TT)
add("longformer", "LongformerConfig", dict(H, attention_window=4), lambda: dict(input_ids=ids(16), attention_mask=ones(16)))
add(
    "modernbert",
    "ModernBertConfig",
    dict(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
        local_attention=8,
        global_attn_every_n_layers=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    TXT,
)
add("nomic_bert", "NomicBertConfig", dict(H, pad_token_id=0), TXT)
add(
    "funnel",
    "FunnelConfig",
    dict(vocab_size=200, block_sizes=[1, 1], num_decoder_layers=1, d_model=64, n_head=4, d_head=16, d_inner=96),
    TXT,
    cls="FunnelModel",
)
add("xlnet", "XLNetConfig", dict(vocab_size=200, d_model=64, n_layer=2, n_head=4, d_inner=96), TXT)
add("big_bird", "BigBirdConfig", dict(H, attention_type="original_full"), TXT)
add(
    "big_bird_sparse",
    "BigBirdConfig",
    dict(H, attention_type="block_sparse", block_size=4, num_random_blocks=1),
    lambda: dict(input_ids=ids(48), attention_mask=ones(48)),
)
add("convbert", "ConvBertConfig", dict(H, embedding_size=64), TXT)
add("squeezebert", "SqueezeBertConfig", dict(H, embedding_size=64, q_groups=4, k_groups=4, v_groups=4), TXT)
add("mobilebert", "MobileBertConfig", dict(H, embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32), TXT)
add(
    "fnet",
    "FNetConfig",
    dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, intermediate_size=96, max_position_embeddings=64),
    lambda: dict(input_ids=ids()),
)
add(
    "nystromformer",
    "NystromformerConfig",
    dict(H, segment_means_seq_len=16, num_landmarks=4),
    lambda: dict(input_ids=ids(16), attention_mask=ones(16)),
)
add("roformer", "RoFormerConfig", dict(H, embedding_size=64), TXT)
add("ibert", "IBertConfig", H, TXT)
add(
    "layoutlm",
    "LayoutLMConfig",
    H,
    lambda: dict(
        input_ids=ids(), bbox=torch.randint(0, 60, (1, ROWS, 1)).repeat(1, 1, 4) + torch.tensor([0, 0, 20, 30]), attention_mask=mask()
    ),
)
add(
    "layoutlmv3",
    "LayoutLMv3Config",
    dict(H, input_size=32, patch_size=16, coordinate_size=10, shape_size=12),
    lambda: dict(
        input_ids=ids(),
        bbox=torch.randint(0, 60, (1, ROWS, 1)).repeat(1, 1, 4) + torch.tensor([0, 0, 20, 30]),
        attention_mask=mask(),
        pixel_values=torch.randn(1, 3, 32, 32),
    ),
)
add("rembert", "RemBertConfig", dict(H, input_embedding_size=32), TXT)
add(
    "canine",
    "CanineConfig",
    dict(H, num_hash_buckets=64, local_transformer_stride=4, downsampling_rate=4, max_position_embeddings=64),
    lambda: dict(input_ids=ids(32), attention_mask=ones(32)),
)
add(
    "perceiver",
    "PerceiverConfig",
    dict(
        num_latents=8,
        d_latents=32,
        d_model=32,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        vocab_size=200,
        max_position_embeddings=64,
    ),
    lambda: dict(inputs=torch.randn(1, ROWS, 32)),
)
add("luke", "LukeConfig", dict(H, entity_vocab_size=50, entity_emb_size=32), TXT)
add(
    "esm",
    "EsmConfig",
    dict(H, position_embedding_type="rotary", pad_token_id=1, mask_token_id=4, emb_layer_norm_before=False, token_dropout=True),
    TXT,
)
add("xmod", "XmodConfig", dict(H, default_language="en_XX"), TXT)
add(
    "bge_pool",
    "BertConfig",
    H,
    TT,
    fn=lambda m, **k: [
        nn.functional.normalize(
            (lambda h, a: (h * a[..., None]).sum(1) / a.sum(1, keepdim=True))(m(**k).last_hidden_state, k["attention_mask"]), dim=-1
        )
    ],
)

# decoders, one pass over ROWS tokens
G = dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, max_position_embeddings=64)


def lm(name, config, kw, **opts):
    add(name, config, kw, TXT_NC, cls="AutoModelForCausalLM", call=dict(use_cache=False), **opts)
    if opts.get("past", True):
        past(name + "_past", config, kw, **opts)


TXT_NC = lambda: dict(input_ids=ids(), attention_mask=ones())


def past(name, config, kw, **opts):
    def build():
        m = auto(getattr(T, config), "AutoModelForCausalLM", **kw)
        c = T.DynamicCache()
        with torch.no_grad():
            o = m(input_ids=ids(PAST), use_cache=True, past_key_values=c)
        i = dict(input_ids=ids(1), attention_mask=ones(PAST + 1))
        if opts.get("position", True):
            i["position_ids"] = torch.full((1, 1), PAST)
        n = len(o.past_key_values.layers)
        for k, l in enumerate(o.past_key_values.layers):
            i[f"past_{k}_key"] = l.keys.detach().clone()
            i[f"past_{k}_value"] = l.values.detach().clone()

        def fn(m, **d):
            c = T.DynamicCache()
            for k in range(n):
                c.update(d.pop(f"past_{k}_key"), d.pop(f"past_{k}_value"), k)
            o = m(**d, past_key_values=c, use_cache=True)
            return [o.logits, o.past_key_values]

        return m, i, fn, {}

    register(name, build)


def static(name, config, kw, L=16, **opts):
    """Cache of L places, position given: state."""

    def build():
        m = auto(getattr(T, config), "AutoModelForCausalLM", **kw)
        cfg = m.config
        n = cfg.num_hidden_layers
        kv = getattr(cfg, "num_key_value_heads", None) or cfg.num_attention_heads
        hd = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
        i = dict(input_ids=ids(1), position=torch.tensor([3]))
        for k in range(n):
            i[f"past_{k}_key"] = torch.randn(1, kv, L, hd)
            i[f"past_{k}_value"] = torch.randn(1, kv, L, hd)

        def fn(m, input_ids, position, **d):
            c = T.DynamicCache()
            for k in range(n):
                c.update(d[f"past_{k}_key"], d[f"past_{k}_value"], k)

            def update(key, value, layer, *a, **kw):
                l = c.layers[layer]
                l.keys = torch.index_copy(l.keys, 2, position, key)
                l.values = torch.index_copy(l.values, 2, position, value)
                return l.keys, l.values

            c.update = update
            where = torch.arange(L)[None, None, None] <= position
            am = torch.zeros(1, 1, 1, L).masked_fill(~where, torch.finfo(torch.float32).min)
            o = m(input_ids=input_ids, position_ids=position[None], attention_mask=am, past_key_values=c, use_cache=True)
            return [o.logits] + [t for l in c.layers for t in (l.keys, l.values)]

        return m, i, fn, {}

    register(name, build)


GPT2 = dict(vocab_size=200, n_embd=64, n_layer=2, n_head=4, n_positions=64)
lm("gpt2", "GPT2Config", GPT2)
lm("gpt_neox", "GPTNeoXConfig", G)
lm(
    "gpt_neo",
    "GPTNeoConfig",
    dict(
        vocab_size=200,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        max_position_embeddings=64,
    ),
)
lm("gptj", "GPTJConfig", dict(GPT2, rotary_dim=8))
lm("llama", "LlamaConfig", dict(G, num_key_value_heads=2))
lm("mistral", "MistralConfig", dict(G, num_key_value_heads=2, sliding_window=4))
lm("qwen2", "Qwen2Config", dict(G, num_key_value_heads=2))
lm("qwen3", "Qwen3Config", dict(G, num_key_value_heads=2, head_dim=16))
lm(
    "qwen3_moe",
    "Qwen3MoeConfig",
    dict(G, num_key_value_heads=2, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48),
)
lm("gemma", "GemmaConfig", dict(G, num_key_value_heads=1, head_dim=16))
lm("gemma2", "Gemma2Config", dict(G, num_key_value_heads=2, head_dim=16, sliding_window=4, query_pre_attn_scalar=16))
lm("gemma3", "Gemma3TextConfig", dict(G, num_key_value_heads=2, head_dim=16, sliding_window=4, query_pre_attn_scalar=16))
lm("phi", "PhiConfig", dict(G))
lm("phi3", "Phi3Config", dict(G, num_key_value_heads=2, pad_token_id=0))
lm(
    "opt",
    "OPTConfig",
    dict(
        vocab_size=200,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=96,
        max_position_embeddings=64,
        word_embed_proj_dim=64,
    ),
)
lm("bloom", "BloomConfig", dict(vocab_size=200, hidden_size=64, n_layer=2, n_head=4), position=False)
lm("falcon", "FalconConfig", dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=False))
lm("mpt", "MptConfig", dict(vocab_size=200, d_model=64, n_layers=2, n_heads=4, expansion_ratio=2, max_seq_len=64), position=False)
lm("stablelm", "StableLmConfig", dict(G, num_key_value_heads=2))
lm("starcoder2", "Starcoder2Config", dict(G, num_key_value_heads=2))
lm("olmo2", "Olmo2Config", dict(G, num_key_value_heads=2, pad_token_id=0))
lm("cohere", "CohereConfig", dict(G, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2))
lm("smollm3", "SmolLM3Config", dict(G, num_key_value_heads=2, pad_token_id=0))
lm("granite", "GraniteConfig", dict(G, num_key_value_heads=2))
lm("codegen", "CodeGenConfig", dict(GPT2, rotary_dim=8))
lm("mixtral", "MixtralConfig", dict(G, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2))
lm("biogpt", "BioGptConfig", G)
lm(
    "deepseek_v3",
    "DeepseekV3Config",
    dict(
        G,
        num_key_value_heads=4,
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=24,
        qk_rope_head_dim=8,
        v_head_dim=16,
        qk_nope_head_dim=16,
    ),
)
lm("lfm2", "Lfm2Config", dict(G, num_key_value_heads=2, layer_types=["conv", "full_attention"], block_multiple_of=8), past=False)
add(
    "mamba",
    "MambaConfig",
    dict(vocab_size=200, hidden_size=32, state_size=8, num_hidden_layers=2),
    lambda: dict(input_ids=ids(8)),
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add(
    "mamba2",
    "Mamba2Config",
    dict(vocab_size=200, hidden_size=32, state_size=8, num_hidden_layers=2, num_heads=4, head_dim=16, n_groups=2, chunk_size=4),
    lambda: dict(input_ids=ids(8)),
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add(
    "rwkv",
    "RwkvConfig",
    dict(vocab_size=200, hidden_size=32, num_hidden_layers=2, attention_hidden_size=32, intermediate_size=64, context_length=32),
    lambda: dict(input_ids=ids(8)),
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add(
    "xglm",
    "XGLMConfig",
    dict(vocab_size=200, d_model=64, ffn_dim=96, num_layers=2, attention_heads=4, max_position_embeddings=64),
    TXT_NC,
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add(
    "recurrent_gemma",
    "RecurrentGemmaConfig",
    dict(G, num_hidden_layers=3, lru_width=64, attention_window_size=8),
    TXT_NC,
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
for n, c, k in [
    ("llama", "LlamaConfig", dict(G, num_key_value_heads=2)),
    ("gpt2", "GPT2Config", GPT2),
    ("qwen3", "Qwen3Config", dict(G, num_key_value_heads=2, head_dim=16)),
    ("gemma3", "Gemma3TextConfig", dict(G, num_key_value_heads=2, head_dim=16, sliding_window=32, query_pre_attn_scalar=16)),
]:
    static(n + "_static", c, k)


# encoder-decoders
def seq2seq(name, config, kw, enc=None, cls="AutoModelForSeq2SeqLM", D=5, encname="input_ids", xattn=True, **opts):
    enc = enc or TXT

    def full():
        m = auto(getattr(T, config), cls, **kw)
        i = enc()
        i["decoder_input_ids"] = ids(D)
        return m, i, lambda m, **d: [m(**d, use_cache=False).logits], {}

    register(name, full)

    def step():
        m = auto(getattr(T, config), cls, **kw)
        e = enc()
        c = T.EncoderDecoderCache(T.DynamicCache(), T.DynamicCache())
        with torch.no_grad():
            o = m(**e, decoder_input_ids=ids(D), use_cache=True, past_key_values=c)
        i = dict(decoder_input_ids=ids(1), encoder_hidden=o.encoder_last_hidden_state)
        if "attention_mask" in e:
            i["attention_mask"] = e["attention_mask"]
        pk = o.past_key_values
        n = len(pk.self_attention_cache.layers)
        for k in range(n):
            for nm, cc in (("self", pk.self_attention_cache), ("cross", pk.cross_attention_cache)):
                i[f"past_{nm}_{k}_key"] = cc.layers[k].keys.clone()
                i[f"past_{nm}_{k}_value"] = cc.layers[k].values.clone()

        def fn(m, encoder_hidden, **d):
            a, b = T.DynamicCache(), T.DynamicCache()
            for k in range(n):
                a.update(d.pop(f"past_self_{k}_key"), d.pop(f"past_self_{k}_value"), k)
                b.update(d.pop(f"past_cross_{k}_key"), d.pop(f"past_cross_{k}_value"), k)
            c = T.EncoderDecoderCache(a, b)
            for k in range(n):
                c.is_updated[k] = True
            encoded = T.modeling_outputs.BaseModelOutput(encoder_hidden)
            # Moonshine's encoder gives one, too.
            encoded.attention_mask = None
            o = m(**d, encoder_outputs=encoded, past_key_values=c, use_cache=True)
            return [o.logits, a]

        return m, i, fn, {}

    register(name + "_step", step)


B = dict(
    vocab_size=200,
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=96,
    decoder_ffn_dim=96,
    max_position_embeddings=64,
)
T5 = dict(vocab_size=200, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0)
seq2seq("t5", "T5Config", T5)
seq2seq("t5_gated", "T5Config", dict(T5, feed_forward_proj="gated-gelu"))
seq2seq("mt5", "MT5Config", T5)
seq2seq("bart", "BartConfig", B)
seq2seq("mbart", "MBartConfig", B)
seq2seq("marian", "MarianConfig", dict(B, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1))
seq2seq("m2m_100", "M2M100Config", B)
seq2seq("pegasus", "PegasusConfig", B)
seq2seq("blenderbot", "BlenderbotConfig", B)
seq2seq(
    "led",
    "LEDConfig",
    dict(
        vocab_size=200,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_encoder_position_embeddings=64,
        max_decoder_position_embeddings=64,
        attention_window=4,
    ),
    enc=lambda: dict(input_ids=ids(16), attention_mask=ones(16)),
)
seq2seq(
    "whisper",
    "WhisperConfig",
    dict(
        B,
        num_mel_bins=16,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    ),
    enc=lambda: dict(input_features=torch.randn(1, 16, 64)),
    cls="AutoModelForSpeechSeq2Seq",
)
add(
    "whisper_encoder",
    "WhisperConfig",
    dict(B, num_mel_bins=16, max_source_positions=32, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    lambda: dict(input_features=torch.randn(1, 16, 64)),
    fn=lambda m, **k: m.encoder(**k),
)
SPEECH_TO_TEXT = dict(
    vocab_size=200,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_source_positions=64,
    max_target_positions=32,
    conv_channels=32,
    input_feat_per_channel=16,
    num_conv_layers=2,
)
add(
    "speech_to_text",
    "Speech2TextConfig",
    SPEECH_TO_TEXT,
    lambda: dict(input_features=torch.randn(1, 40, 16), attention_mask=ones(40), decoder_input_ids=ids(5)),
    call=dict(use_cache=False),
)
add(
    "trocr",
    "TrOCRConfig",
    dict(
        vocab_size=200,
        d_model=32,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        cross_attention_hidden_size=24,
    ),
    lambda: dict(input_ids=ids(5), encoder_hidden_states=torch.randn(1, 9, 24)),
    cls="TrOCRForCausalLM",
    call=dict(use_cache=False),
)

# audio
A = dict(
    vocab_size=40,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    conv_dim=[16, 16, 16],
    conv_stride=[5, 2, 2],
    conv_kernel=[10, 3, 2],
    num_conv_pos_embeddings=8,
    num_conv_pos_embedding_groups=2,
)
A = {**A, "num_feat_extract_layers": 3}
WAV = lambda: dict(input_values=torch.randn(1, 1600) * 0.3)
add("wav2vec2", "Wav2Vec2Config", A, WAV)
add("wav2vec2_ctc", "Wav2Vec2Config", dict(A, feat_extract_norm="layer", do_stable_layer_norm=True), WAV, cls="Wav2Vec2ForCTC")
add("wav2vec2_mask", "Wav2Vec2Config", A, lambda: dict(input_values=torch.randn(1, 1600), attention_mask=mask(1600, 400)))
add("wav2vec2_conformer", "Wav2Vec2ConformerConfig", dict(A, conv_depthwise_kernel_size=7), WAV)
add("wav2vec2_conformer_rotary", "Wav2Vec2ConformerConfig", dict(A, conv_depthwise_kernel_size=7, position_embeddings_type="rotary"), WAV)
add(
    "wav2vec2_bert",
    "Wav2Vec2BertConfig",
    dict(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        feature_projection_input_dim=20,
        conv_depthwise_kernel_size=7,
    ),
    lambda: dict(input_features=torch.randn(1, 30, 20)),
)
add("hubert", "HubertConfig", A, WAV)
add("wavlm", "WavLMConfig", A, WAV)
add("unispeech_sat", "UniSpeechSatConfig", A, WAV)
add("data2vec_audio", "Data2VecAudioConfig", dict(A, num_conv_pos_embeddings=3, conv_pos_kernel_size=5), WAV)
add("sew", "SEWConfig", dict(A, squeeze_factor=2), WAV)
add("sew_d", "SEWDConfig", dict(A, squeeze_factor=2, position_buckets=8, max_position_embeddings=32), WAV)
add(
    "ast",
    "ASTConfig",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        patch_size=8,
        frequency_stride=5,
        time_stride=5,
        max_length=48,
        num_mel_bins=16,
    ),
    lambda: dict(input_values=torch.randn(1, 48, 16)),
    cls="AutoModelForAudioClassification",
)
add(
    "encodec_encode",
    "EncodecConfig",
    dict(
        num_filters=4,
        hidden_size=16,
        codebook_dim=16,
        codebook_size=32,
        upsampling_ratios=[4, 2],
        target_bandwidths=[1.5, 3.0],
        sampling_rate=8000,
        num_lstm_layers=1,
    ),
    lambda: dict(x=torch.randn(1, 1, 640)),
    fn=lambda m, x: [m.encoder(x)],
)
add(
    "encodec_decode",
    "EncodecConfig",
    dict(num_filters=4, hidden_size=16, codebook_dim=16, codebook_size=32, upsampling_ratios=[4, 2], sampling_rate=8000),
    lambda: dict(x=torch.randn(1, 16, 20)),
    fn=lambda m, x: [m.decoder(x)],
)
add(
    "encodec",
    "EncodecConfig",
    dict(num_filters=4, hidden_size=16, codebook_dim=16, codebook_size=32, upsampling_ratios=[4, 2], sampling_rate=8000),
    lambda: dict(input_values=torch.randn(1, 1, 640)),
    fn=lambda m, input_values: [m(input_values).audio_values],
)
DAC = dict(
    encoder_hidden_size=8,
    downsampling_ratios=[2, 4],
    decoder_hidden_size=32,
    n_codebooks=3,
    codebook_size=32,
    codebook_dim=4,
    upsampling_ratios=[4, 2],
)
add(
    "dac",
    "DacConfig",
    DAC,
    lambda: dict(input_values=torch.randn(1, 1, 256)),
    fn=lambda m, input_values: [m(input_values).audio_values],
)
add(
    "mimi",
    "MimiConfig",
    dict(
        hidden_size=32,
        num_filters=4,
        upsampling_ratios=[4, 2],
        codebook_size=32,
        codebook_dim=16,
        vector_quantization_hidden_dimension=16,
        num_hidden_layers=2,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=8,
        num_quantizers=4,
        num_semantic_quantizers=1,
        upsample_groups=32,
        sampling_rate=1000,
        frame_rate=62.5,
        sliding_window=16,
    ),
    lambda: dict(input_values=torch.randn(1, 1, 256)),
    fn=lambda m, input_values: [m(input_values, num_quantizers=4).audio_values],
)
VITS = dict(
    vocab_size=40,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    window_size=4,
    ffn_dim=64,
    flow_size=32,
    spectrogram_bins=33,
    upsample_initial_channel=32,
    upsample_rates=[4, 2],
    upsample_kernel_sizes=[8, 4],
    resblock_kernel_sizes=[3, 5],
    resblock_dilation_sizes=[[1, 3], [1, 3]],
    prior_encoder_num_wavenet_layers=2,
    wavenet_kernel_size=3,
    duration_predictor_filter_channels=32,
    depth_separable_channels=2,
)
add(
    "vits",
    "VitsConfig",
    dict(VITS, use_stochastic_duration_prediction=False),
    lambda: dict(x=torch.randn(1, 32, 20)),
    fn=lambda m, x: [m.decoder(x)],
)
add(
    "vits_text",
    "VitsConfig",
    dict(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        window_size=4,
        ffn_dim=64,
        flow_size=32,
        spectrogram_bins=33,
    ),
    lambda: dict(input_ids=ids(12, 40), attention_mask=ones(12)),
    fn=lambda m, input_ids, attention_mask: list(m.text_encoder(input_ids, attention_mask[..., None].float(), attention_mask).values()),
)
add(
    "hifigan",
    "SpeechT5HifiGanConfig",
    dict(
        model_in_dim=16,
        upsample_initial_channel=32,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3, 7],
        resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]],
    ),
    lambda: dict(spectrogram=torch.randn(1, 20, 16)),
    cls="SpeechT5HifiGan",
)
add(
    "univnet",
    "UnivNetConfig",
    dict(
        model_in_channels=8,
        model_hidden_channels=8,
        num_mel_bins=16,
        resblock_kernel_sizes=[3, 3],
        resblock_stride_sizes=[4, 2],
        resblock_dilation_sizes=[[1, 3], [1, 3]],
        kernel_predictor_hidden_channels=8,
    ),
    lambda: dict(input_features=torch.randn(1, 12, 16), noise_sequence=torch.randn(1, 12, 8)),
    cls="UnivNetModel",
)
add(
    "clap_audio",
    "ClapAudioConfig",
    dict(
        window_size=4,
        num_mel_bins=16,
        spec_size=64,
        patch_size=4,
        patch_stride=[4, 4],
        hidden_size=64,
        depths=[1, 1],
        num_attention_heads=[2, 2],
        patch_embeds_hidden_size=32,
        projection_dim=16,
        num_classes=5,
        enable_fusion=False,
        patch_embed_input_channels=1,
    ),
    lambda: dict(input_features=torch.randn(1, 1, 256, 16)),
    cls="ClapAudioModel",
)
add("clap_text", "ClapTextConfig", H, TXT, cls="ClapTextModel")
SPEECHT5 = dict(
    vocab_size=40,
    hidden_size=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    num_mel_bins=16,
    speech_decoder_prenet_units=32,
    speaker_embedding_dim=16,
)
add(
    "speecht5_encoder",
    "SpeechT5Config",
    SPEECHT5,
    lambda: dict(input_values=ids(12, 40), attention_mask=ones(12)),
    cls="SpeechT5ForTextToSpeech",
    fn=lambda m, input_values, attention_mask: m.speecht5.encoder(input_values=input_values, attention_mask=attention_mask),
)
add(
    "seamless_speech",
    "SeamlessM4TConfig",
    dict(
        hidden_size=32,
        speech_encoder_layers=2,
        speech_encoder_attention_heads=4,
        speech_encoder_intermediate_size=64,
        encoder_layers=1,
        decoder_layers=1,
        vocab_size=60,
        t2u_vocab_size=60,
        unit_hifi_gan_vocab_size=60,
        feature_projection_input_dim=20,
        conv_depthwise_kernel_size=7,
        adaptor_kernel_size=4,
        adaptor_stride=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        t2u_encoder_layers=1,
        t2u_decoder_layers=1,
        t2u_encoder_ffn_dim=32,
        t2u_decoder_ffn_dim=32,
        t2u_encoder_attention_heads=4,
        t2u_decoder_attention_heads=4,
        num_adapter_layers=1,
        upsample_initial_channel=32,
    ),
    lambda: dict(input_features=torch.randn(1, 24, 20), attention_mask=ones(24)),
    cls="SeamlessM4TForSpeechToText",
    fn=lambda m, input_features, attention_mask: m.speech_encoder(input_features, attention_mask),
)
add(
    "musicgen_decoder",
    "MusicgenDecoderConfig",
    dict(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, num_codebooks=2, max_position_embeddings=64
    ),
    lambda: dict(input_ids=ids(6, 40, 2)),
    cls="MusicgenForCausalLM",
    call=dict(use_cache=False),
)
MOONSHINE = dict(
    vocab_size=200,
    hidden_size=32,
    intermediate_size=64,
    encoder_num_hidden_layers=2,
    decoder_num_hidden_layers=2,
    encoder_num_attention_heads=4,
    decoder_num_attention_heads=4,
)
add(
    "moonshine_encoder",
    "MoonshineConfig",
    MOONSHINE,
    lambda: dict(input_values=torch.randn(1, 4000)),
    fn=lambda m, **k: m.encoder(**k),
)
PARAKEET = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    conv_kernel_size=7,
    subsampling_factor=4,
    subsampling_conv_channels=8,
    num_mel_bins=16,
)
add(
    "parakeet",
    "ParakeetEncoderConfig",
    PARAKEET,
    lambda: dict(input_features=torch.randn(1, 48, 16)),
    cls="ParakeetEncoder",
)
add(
    "fastspeech2_conformer_enc",
    "FastSpeech2ConformerConfig",
    dict(
        hidden_size=32,
        vocab_size=40,
        num_mel_bins=16,
        encoder_num_attention_heads=2,
        encoder_layers=1,
        encoder_linear_units=64,
        decoder_layers=1,
        decoder_num_attention_heads=2,
        decoder_linear_units=64,
        speech_decoder_postnet_units=16,
        speech_decoder_postnet_layers=2,
        duration_predictor_channels=16,
        energy_predictor_channels=16,
        pitch_predictor_channels=16,
    ),
    lambda: dict(input_ids=ids(12, 40)),
    cls="FastSpeech2ConformerModel",
    fn=lambda m, input_ids: m.encoder(input_ids)[0],
)

# vision and multimodal
V = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
IMG = lambda n=32, c=3: (lambda: dict(pixel_values=torch.randn(1, c, n, n)))
add("vit", "ViTConfig", V, IMG(), cls="AutoModelForImageClassification")
add("deit", "DeiTConfig", V, IMG(), cls="DeiTForImageClassificationWithTeacher")
add("beit", "BeitConfig", dict(V, use_relative_position_bias=True), IMG(), cls="AutoModelForImageClassification")
add("data2vec_vision", "Data2VecVisionConfig", dict(V, use_shared_relative_position_bias=True), IMG())
add(
    "swin",
    "SwinConfig",
    dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4),
    IMG(),
    cls="AutoModelForImageClassification",
)
add("swinv2", "Swinv2Config", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), IMG())
add(
    "swin2sr",
    "Swin2SRConfig",
    dict(image_size=16, embed_dim=16, depths=[2], num_heads=[2], window_size=4, upscale=2),
    IMG(16),
    cls="Swin2SRForImageSuperResolution",
)
add(
    "segformer",
    "SegformerConfig",
    dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 32], decoder_hidden_size=32, num_attention_heads=[1, 2, 2, 2]),
    IMG(64),
    cls="AutoModelForSemanticSegmentation",
)
add(
    "pvt_v2",
    "PvtV2Config",
    dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], image_size=64, num_attention_heads=[1, 2, 2, 2], mlp_ratios=[2, 2, 2, 2]),
    IMG(64),
)
add("dinov2", "Dinov2Config", V, IMG())
add("dinov2_reg", "Dinov2WithRegistersConfig", V, IMG())
add("dinov3", "DINOv3ViTConfig", dict(V), IMG())
add("clip_vision", "CLIPVisionConfig", V, IMG(), cls="CLIPVisionModelWithProjection")


def clip(name, T_, V_, C_, cls, extra={}):
    def build():
        c = getattr(T, C_)(
            text_config=dict(H, eos_token_id=2, bos_token_id=1, pad_token_id=0, **extra),
            vision_config=dict(V, hidden_size=64) if "iglip" in C_ else V,
            projection_dim=24,
        )
        try:
            m = getattr(T, cls)(c).eval()
        except ValueError:
            c._attn_implementation = "eager"
            m = getattr(T, cls)(c).eval()
        i = dict(
            input_ids=torch.cat([ids(ROWS - 1), torch.full((1, 1), 2)], 1), attention_mask=ones(), pixel_values=torch.randn(1, 3, 32, 32)
        )
        return m, i, (lambda m, **k: (lambda o: [o.logits_per_image, o.text_embeds, o.image_embeds])(m(**k))), {}

    register(name, build)


clip("clip", "", "", "CLIPConfig", "CLIPModel")
clip("siglip", "", "", "SiglipConfig", "SiglipModel")
clip("blip", "", "", "BlipConfig", "BlipModel")
clip("altclip_like_chinese", "", "", "ChineseCLIPConfig", "ChineseCLIPModel")


def owl(name, C, cls):
    def build():
        c = getattr(T, C)(
            text_config=dict(H, eos_token_id=2, bos_token_id=1, pad_token_id=0, max_position_embeddings=16),
            vision_config=V,
            projection_dim=64,
        )
        m = getattr(T, cls)(c).eval()
        return (
            m,
            dict(
                input_ids=torch.cat([ids(ROWS - 1, batch=2), torch.full((2, 1), 2)], 1),
                attention_mask=ones(batch=2),
                pixel_values=torch.randn(1, 3, 32, 32),
            ),
            (lambda m, **k: (lambda o: [o.logits, o.pred_boxes])(m(**k))),
            {},
        )

    register(name, build)


owl("owlvit", "OwlViTConfig", "OwlViTForObjectDetection")
owl("owlv2", "Owlv2Config", "Owlv2ForObjectDetection")
add("blip_vision", "BlipVisionConfig", V, IMG(), cls="BlipVisionModel")


def vqa():
    c = T.BlipConfig(
        text_config=dict(H, bos_token_id=1, pad_token_id=0, eos_token_id=2, encoder_hidden_size=32, is_decoder=True),
        vision_config=V,
        projection_dim=24,
    )
    m = T.BlipForConditionalGeneration(c).eval()
    return m, dict(pixel_values=torch.randn(1, 3, 32, 32), input_ids=ids(6)), (lambda m, **k: [m(**k).logits]), {}


register("blip_caption", vqa)


def vilt():
    c = T.ViltConfig(**dict(H), image_size=32, patch_size=8, max_image_length=-1)
    m = T.ViltModel(c).eval()
    return m, dict(input_ids=ids(), attention_mask=ones(), pixel_values=torch.randn(1, 3, 32, 32)), None, {}


register("vilt", vilt)


def ved():
    e = T.ViTConfig(**V)
    d = T.TrOCRConfig(
        vocab_size=200, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=64, max_position_embeddings=32
    )
    c = T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(e, d)
    m = T.VisionEncoderDecoderModel(c).eval()
    return m, dict(pixel_values=torch.randn(1, 3, 32, 32), decoder_input_ids=ids(5)), (lambda m, **k: [m(**k, use_cache=False).logits]), {}


register("trocr_full", ved)
DETR = dict(
    d_model=32,
    encoder_layers=1,
    decoder_layers=2,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    num_queries=10,
)


def detr(name, C, cls, extra={}, feats=None, size=64, outs=("logits", "pred_boxes")):
    def build():
        b = T.ResNetConfig(
            embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=feats or ["stage4"]
        )
        kw = dict(DETR, use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=b, backbone=None)
        kw.update(extra)
        kw = {k: v for k, v in kw.items() if v != "drop"}
        m = getattr(T, cls)(getattr(T, C)(**kw)).eval()
        return m, dict(pixel_values=torch.randn(1, 3, size, size)), (lambda m, **k: (lambda o: [getattr(o, x) for x in outs])(m(**k))), {}

    register(name, build)


detr("detr", "DetrConfig", "DetrForObjectDetection")
detr(
    "detr_seg",
    "DetrConfig",
    "DetrForSegmentation",
    extra=dict(d_model=64, encoder_attention_heads=8, decoder_attention_heads=8),
    feats=["stage1", "stage2", "stage3", "stage4"],
    outs=("logits", "pred_boxes", "pred_masks"),
)
detr("conditional_detr", "ConditionalDetrConfig", "ConditionalDetrForObjectDetection")
detr(
    "deformable_detr",
    "DeformableDetrConfig",
    "DeformableDetrForObjectDetection",
    feats=["stage2", "stage3", "stage4"],
    extra=dict(num_feature_levels=3, encoder_n_points=2, decoder_n_points=2),
)
detr(
    "deformable_detr_two_stage",
    "DeformableDetrConfig",
    "DeformableDetrForObjectDetection",
    feats=["stage2", "stage3", "stage4"],
    extra=dict(
        num_feature_levels=3, encoder_n_points=2, decoder_n_points=2, two_stage=True, with_box_refine=True, two_stage_num_proposals=10
    ),
)
detr("table_transformer", "TableTransformerConfig", "TableTransformerForObjectDetection")


def rt(name, C, cls, extra={}):
    def build():
        b = T.RTDetrResNetConfig(
            embedding_size=8,
            hidden_sizes=[16, 16, 32, 32],
            depths=[2, 2, 2, 2],
            layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        )
        kw = dict(
            backbone_config=b,
            encoder_hidden_dim=32,
            encoder_in_channels=[16, 32, 32],
            feat_strides=[8, 16, 32],
            encoder_layers=1,
            encoder_ffn_dim=64,
            encoder_attention_heads=4,
            d_model=32,
            num_queries=10,
            decoder_in_channels=[32, 32, 32],
            decoder_ffn_dim=64,
            num_feature_levels=3,
            decoder_n_points=4,
            decoder_layers=2,
            decoder_attention_heads=4,
            anchor_image_size=None,
        )
        kw.update(extra)
        m = getattr(T, cls)(getattr(T, C)(**kw)).eval()
        return m, dict(pixel_values=torch.randn(1, 3, 64, 64)), (lambda m, **k: (lambda o: [o.logits, o.pred_boxes])(m(**k))), {}

    register(name, build)


rt("rt_detr", "RTDetrConfig", "RTDetrForObjectDetection")
rt("rt_detr_v2", "RTDetrV2Config", "RTDetrV2ForObjectDetection")
rt("d_fine", "DFineConfig", "DFineForObjectDetection", dict(decoder_n_points=[4, 4, 4]))
add(
    "yolos",
    "YolosConfig",
    dict(V, image_size=[32, 32], num_detection_tokens=6),
    IMG(),
    cls="YolosForObjectDetection",
    fn=lambda m, **k: (lambda o: [o.logits, o.pred_boxes])(m(**k)),
)
add(
    "dpt",
    "DPTConfig",
    dict(
        V,
        hidden_size=32,
        image_size=64,
        num_hidden_layers=4,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[16, 16, 32, 32],
        fusion_hidden_size=16,
        is_hybrid=False,
        num_labels=5,
    ),
    IMG(64),
    cls="DPTForDepthEstimation",
)


def depth():
    b = T.Dinov2Config(
        **dict(V, image_size=56, patch_size=14, num_hidden_layers=4),
        out_features=["stage1", "stage2", "stage3", "stage4"],
        reshape_hidden_states=False,
    )
    c = T.DepthAnythingConfig(
        backbone_config=b,
        patch_size=14,
        reassemble_hidden_size=32,
        neck_hidden_sizes=[16, 16, 32, 32],
        fusion_hidden_size=16,
        head_hidden_size=8,
    )
    return T.DepthAnythingForDepthEstimation(c).eval(), dict(pixel_values=torch.randn(1, 3, 56, 56)), None, {}


register("depth_anything", depth)


def m2f():
    b = T.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    c = T.Mask2FormerConfig(
        backbone_config=b,
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=32,
        encoder_feedforward_dim=64,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=4,
        dim_feedforward=64,
        num_queries=8,
    )
    return (
        T.Mask2FormerForUniversalSegmentation(c).eval(),
        dict(pixel_values=torch.randn(1, 3, 64, 64)),
        (lambda m, **k: (lambda o: [o.class_queries_logits, o.masks_queries_logits])(m(**k))),
        {},
    )


register("mask2former", m2f)


def mf():
    b = T.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    d = T.DetrConfig(**DETR)
    c = T.MaskFormerConfig(backbone_config=b, decoder_config=d, fpn_feature_size=32, mask_feature_size=32)
    return (
        T.MaskFormerForInstanceSegmentation(c).eval(),
        dict(pixel_values=torch.randn(1, 3, 64, 64)),
        (lambda m, **k: (lambda o: [o.class_queries_logits, o.masks_queries_logits])(m(**k))),
        {},
    )


register("maskformer", mf)


def onef():
    b = T.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[2, 2, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    c = T.UperNetConfig(backbone_config=b, hidden_size=32, auxiliary_in_channels=32, num_labels=5)
    return T.UperNetForSemanticSegmentation(c).eval(), dict(pixel_values=torch.randn(1, 3, 64, 64)), (lambda m, **k: [m(**k).logits]), {}


register("upernet", onef)
add(
    "mobilevit",
    "MobileViTConfig",
    dict(image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=4, num_labels=5),
    IMG(64),
    cls="AutoModelForImageClassification",
)
add("mobilevitv2", "MobileViTV2Config", dict(image_size=64, width_multiplier=0.25), IMG(64), cls="AutoModelForImageClassification")
add(
    "sam_vision",
    "SamVisionConfig",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        mlp_dim=64,
        image_size=64,
        patch_size=8,
        window_size=4,
        global_attn_indexes=[1],
        output_channels=16,
    ),
    IMG(64),
    cls="SamVisionModel",
)


def sam():
    c = T.SamConfig(
        vision_config=T.SamVisionConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            mlp_dim=64,
            image_size=64,
            patch_size=8,
            window_size=4,
            global_attn_indexes=[1],
            output_channels=32,
        ),
        prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=8, mask_input_channels=4),
        mask_decoder_config=dict(hidden_size=32, mlp_dim=64, num_hidden_layers=2, num_attention_heads=4, iou_head_hidden_dim=32),
    )
    return (
        T.SamModel(c).eval(),
        dict(image_embeddings=torch.randn(1, 32, 8, 8), input_points=torch.rand(1, 1, 2, 2) * 60, input_labels=torch.tensor([[[1, 0]]])),
        (lambda m, **k: (lambda o: [o.iou_scores, o.pred_masks])(m(**k))),
        {},
    )


register("sam_decoder", sam)
add(
    "sam2_hiera",
    "Sam2HieraDetConfig",
    dict(
        hidden_size=16,
        num_attention_heads=1,
        image_size=[64, 64],
        blocks_per_stage=[1, 1, 1, 1],
        embed_dim_per_stage=[16, 32, 32, 32],
        num_attention_heads_per_stage=[1, 2, 2, 2],
        window_size_per_stage=[4, 4, 4, 4],
        global_attention_blocks=[2],
        window_positional_embedding_background_size=[4, 4],
    ),
    IMG(64),
    cls="Sam2HieraDetModel",
)
add(
    "hiera",
    "HieraConfig",
    dict(
        embed_dim=16,
        image_size=[32, 32],
        patch_size=[7, 7],
        patch_stride=[4, 4],
        patch_padding=[3, 3],
        mlp_ratio=2.0,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        query_stride=[2, 2],
        masked_unit_size=[8, 8],
        num_query_pool=3,
    ),
    IMG(32),
)
add("convnext", "ConvNextConfig", dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]), IMG(64), cls="AutoModelForImageClassification")
add(
    "convnextv2",
    "ConvNextV2Config",
    dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
    IMG(64),
    cls="AutoModelForImageClassification",
)
add(
    "efficientnet",
    "EfficientNetConfig",
    dict(width_coefficient=0.25, depth_coefficient=0.25, image_size=64, hidden_dim=160),
    IMG(64),
    cls="AutoModelForImageClassification",
)
add(
    "resnet",
    "ResNetConfig",
    dict(embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]),
    IMG(64),
    cls="AutoModelForImageClassification",
)
add("regnet", "RegNetConfig", dict(embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], groups_width=8), IMG(64))
add("bit", "BitConfig", dict(embedding_size=32, hidden_sizes=[32, 32, 64, 64], depths=[1, 1, 1, 1], layer_type="preactivation"), IMG(64))
add("mobilenet_v1", "MobileNetV1Config", dict(depth_multiplier=0.25, image_size=64), IMG(64))
add("mobilenet_v2", "MobileNetV2Config", dict(depth_multiplier=0.25, image_size=64), IMG(64))
add(
    "levit",
    "LevitConfig",
    dict(image_size=64, hidden_sizes=[16, 32, 32], num_attention_heads=[2, 2, 2], depths=[1, 1, 1], key_dim=[8, 8, 8]),
    IMG(64),
)
add("poolformer", "PoolFormerConfig", dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1]), IMG(64))
add("cvt", "CvtConfig", dict(embed_dim=[16, 32, 32], num_heads=[1, 2, 2], depth=[1, 1, 1]), IMG(64))
add("focalnet", "FocalNetConfig", dict(image_size=32, embed_dim=16, depths=[1, 1, 1, 1], focal_levels=[2, 2, 2, 2]), IMG(32))
add("swiftformer", "SwiftFormerConfig", dict(image_size=64, depths=[1, 1, 1, 1], embed_dims=[16, 16, 32, 32]), IMG(64))
add(
    "glpn",
    "GLPNConfig",
    dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 32], decoder_hidden_size=16, num_attention_heads=[1, 2, 2, 2]),
    IMG(64),
    cls="GLPNForDepthEstimation",
)
add(
    "vitmatte_like_vitdet",
    "VitDetConfig",
    dict(V, image_size=64, window_size=4, window_block_indices=[0], use_relative_position_embeddings=True),
    IMG(64),
)
add(
    "vitpose_backbone",
    "VitPoseBackboneConfig",
    dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=[32, 24], patch_size=[8, 8]),
    lambda: dict(pixel_values=torch.randn(1, 3, 32, 24)),
    cls="VitPoseBackbone",
)
add(
    "superpoint",
    "SuperPointConfig",
    dict(encoder_hidden_sizes=[8, 8, 16, 16], decoder_hidden_size=16, keypoint_decoder_dim=65, descriptor_decoder_dim=16),
    IMG(64),
    cls="SuperPointForKeypointDetection",
)
add(
    "vit_mae",
    "ViTMAEConfig",
    dict(V, decoder_hidden_size=32, decoder_num_hidden_layers=1, decoder_intermediate_size=64, decoder_num_attention_heads=4),
    lambda: dict(pixel_values=torch.randn(1, 3, 32, 32), noise=torch.rand(1, 16)),
    cls="ViTMAEForPreTraining",
    fn=lambda m, **k: (lambda o: [o.logits, o.mask])(m(**k)),
)
add("videomae", "VideoMAEConfig", dict(V, num_frames=4, tubelet_size=2), lambda: dict(pixel_values=torch.randn(1, 4, 3, 32, 32)))
add("timesformer", "TimesformerConfig", dict(V, num_frames=4), lambda: dict(pixel_values=torch.randn(1, 4, 3, 32, 32)))
add("vivit", "VivitConfig", dict(V, num_frames=4, tubelet_size=[2, 8, 8]), lambda: dict(pixel_values=torch.randn(1, 4, 3, 32, 32)))
add(
    "time_series",
    "PatchTSTConfig",
    dict(
        num_input_channels=3,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        prediction_length=8,
    ),
    lambda: dict(past_values=torch.randn(1, 32, 3)),
    cls="PatchTSTForPrediction",
)
add(
    "patchtsmixer",
    "PatchTSMixerConfig",
    dict(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2, prediction_length=8),
    lambda: dict(past_values=torch.randn(1, 32, 3)),
    cls="PatchTSMixerForPrediction",
)
