"""More networks of transformers, tiny, from configurations: recent decoders of text, encoder-decoders, speech, vision."""

import torch
import transformers as T

import from_transformers as base
from from_transformers import A, B, G, H, IMG, ROWS, T5, TXT, TXT_NC, V, WAV, ids, mask, ones
from from_transformers import DAC, MOONSHINE, PARAKEET, SPEECH_TO_TEXT, SPEECHT5, VITS

NETWORKS = {}


def collected(helper):
    """A helper of from_transformers that adds its networks here."""

    def call(*arguments, **options):
        known = set(base.NETWORKS)
        helper(*arguments, **options)
        for name in [name for name in base.NETWORKS if name not in known]:
            NETWORKS[name] = base.NETWORKS.pop(name)

    return call


add, lm, seq2seq, static, register = map(collected, (base.add, base.lm, base.seq2seq, base.static, base.register))
GQA = dict(G, num_key_value_heads=2, head_dim=16, pad_token_id=0, bos_token_id=1, eos_token_id=2)

# encoders
add("ernie", "ErnieConfig", H, TXT)
add("megatron_bert", "MegatronBertConfig", H, TXT)
add("splinter", "SplinterConfig", H, TXT)
add("roberta_prelayernorm", "RobertaPreLayerNormConfig", H, TXT)
add("xlm_roberta_xl", "XLMRobertaXLConfig", H, TXT)
add("flaubert", "FlaubertConfig", dict(vocab_size=200, emb_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64), TXT)
add("xlm", "XLMConfig", dict(vocab_size=200, emb_dim=64, n_layers=2, n_heads=4, max_position_embeddings=64), TXT)
add("eurobert", "EuroBertConfig", GQA, TXT)
add("yoso", "YosoConfig", dict(H, use_expectation=True), TXT)
add("mra", "MraConfig", dict(H, block_per_row=1, initial_prior_first_n_blocks=1), lambda: dict(input_ids=ids(32), attention_mask=ones(32)))
add("bros", "BrosConfig", H, lambda: dict(input_ids=ids(), bbox=torch.rand(1, ROWS, 8), attention_mask=mask()))
add("t5_encoder", "T5Config", T5, TXT, cls="T5EncoderModel")
add("umt5_encoder", "UMT5Config", T5, TXT, cls="UMT5EncoderModel")
add("bert_padded_left", "BertConfig", H, lambda: dict(input_ids=ids(), attention_mask=mask().flip(1)))
add("bert_choice", "BertConfig", H, lambda: dict(input_ids=torch.randint(3, 200, (1, 2, ROWS))), cls="BertForMultipleChoice")
add("roberta_qa", "RobertaConfig", H, TXT, cls="RobertaForQuestionAnswering")
add(
    "deberta_cls",
    "DebertaConfig",
    dict(H, relative_attention=True, pos_att_type=["c2p", "p2c"], pad_token_id=0),
    TXT,
    cls="DebertaForSequenceClassification",
)

# decoders
for name, config in {
    "olmo": "OlmoConfig",
    "olmo3": "Olmo3Config",
    "exaone4": "Exaone4Config",
    "glm": "GlmConfig",
    "glm4": "Glm4Config",
    "nemotron": "NemotronConfig",
    "persimmon": "PersimmonConfig",
    "helium": "HeliumConfig",
    "diffllama": "DiffLlamaConfig",
    "ernie4_5": "Ernie4_5Config",
    "hunyuan": "HunYuanDenseV1Config",
    "seed_oss": "SeedOssConfig",
    "bitnet": "BitNetConfig",
    "arcee": "ArceeConfig",
    "apertus": "ApertusConfig",
    "cohere2": "Cohere2Config",
    "ministral": "MinistralConfig",
    "vaultgemma": "VaultGemmaConfig",
    "cwm": "CwmConfig",
}.items():
    if hasattr(T, config):
        lm(name, config, GQA)
EXPERTS = dict(GQA, num_experts_per_tok=2, moe_intermediate_size=48)
lm("olmoe", "OlmoeConfig", dict(GQA, num_experts=4, num_experts_per_tok=2))
lm("qwen2_moe", "Qwen2MoeConfig", dict(EXPERTS, num_experts=4, shared_expert_intermediate_size=48))
lm("granitemoe", "GraniteMoeConfig", dict(GQA, num_local_experts=4, num_experts_per_tok=2))
lm("gpt_oss", "GptOssConfig", dict(GQA, num_local_experts=4, num_experts_per_tok=2, sliding_window=4))
lm("gpt_bigcode", "GPTBigCodeConfig", dict(vocab_size=200, n_embd=64, n_layer=2, n_head=4, n_positions=64))
lm("openai_gpt", "OpenAIGPTConfig", dict(vocab_size=200, n_embd=64, n_layer=2, n_head=4, n_positions=64), past=False)
lm("ctrl", "CTRLConfig", dict(vocab_size=200, n_embd=64, n_layer=2, n_head=4, n_positions=64, dff=96), past=False)
lm("falcon_alibi", "FalconConfig", dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=True), past=False)
lm(
    "llama_rope_scaled",
    "LlamaConfig",
    dict(
        GQA,
        rope_parameters=dict(
            rope_type="llama3", rope_theta=1e4, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
        ),
    ),
)
lm(
    "qwen2_yarn",
    "Qwen2Config",
    dict(GQA, rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16)),
)
lm(
    "bamba",
    "BambaConfig",
    dict(GQA, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=4),
    past=False,
)
lm("falcon_mamba", "FalconMambaConfig", dict(vocab_size=200, hidden_size=32, state_size=8, num_hidden_layers=2), past=False)
lm(
    "falcon_h1",
    "FalconH1Config",
    dict(GQA, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=4),
    past=False,
)
for name, config in [("mistral", "MistralConfig"), ("phi3", "Phi3Config"), ("gemma2", "Gemma2Config"), ("olmo2", "Olmo2Config")]:
    static(name + "_static", config, dict(GQA, **({} if name in ("olmo2",) else dict(sliding_window=32))))
add(
    "llama_padded",
    "LlamaConfig",
    GQA,
    lambda: dict(input_ids=ids(), attention_mask=mask().flip(1)),
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add(
    "gpt2_padded",
    "GPT2Config",
    dict(vocab_size=200, n_embd=64, n_layer=2, n_head=4, n_positions=64),
    lambda: dict(input_ids=ids(), attention_mask=mask().flip(1)),
    cls="AutoModelForCausalLM",
    call=dict(use_cache=False),
)
add("llama_reward", "LlamaConfig", dict(GQA, num_labels=1), TXT_NC, cls="LlamaForSequenceClassification", call=dict(use_cache=False))

# encoder-decoders
seq2seq("umt5", "UMT5Config", T5)
seq2seq("longt5", "LongT5Config", dict(T5, local_radius=4), enc=lambda: dict(input_ids=ids(16), attention_mask=ones(16)))
seq2seq("plbart", "PLBartConfig", B)
seq2seq("blenderbot_small", "BlenderbotSmallConfig", B)
seq2seq("bigbird_pegasus", "BigBirdPegasusConfig", dict(B, attention_type="original_full"))
seq2seq(
    "prophetnet",
    "ProphetNetConfig",
    dict(
        vocab_size=200,
        hidden_size=64,
        encoder_ffn_dim=96,
        num_encoder_layers=2,
        num_encoder_attention_heads=4,
        decoder_ffn_dim=96,
        num_decoder_layers=2,
        num_decoder_attention_heads=4,
        max_position_embeddings=64,
        decoder_start_token_id=0,
    ),
)
seq2seq("switch", "SwitchTransformersConfig", dict(T5, num_experts=4, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1))
del NETWORKS["switch_step"]  # Its routers keep no past.

# speech
seq2seq(
    "moonshine",
    "MoonshineConfig",
    MOONSHINE,
    enc=lambda: dict(input_values=torch.randn(1, 4000)),
    cls="AutoModelForSpeechSeq2Seq",
)
seq2seq(
    "speech_to_text_cached",
    "Speech2TextConfig",
    SPEECH_TO_TEXT,
    enc=lambda: dict(input_features=torch.randn(1, 40, 16)),
    cls="AutoModelForSpeechSeq2Seq",
)
add(
    "speecht5_decoder",
    "SpeechT5Config",
    SPEECHT5,
    lambda: dict(spectrogram=torch.randn(1, 6, 16), speaker=torch.randn(1, 16), hidden=torch.randn(1, ROWS, 32), seen=mask()),
    cls="SpeechT5ForTextToSpeech",
    fn=lambda m, spectrogram, speaker, hidden, seen: m.speecht5.decoder(
        input_values=spectrogram, speaker_embeddings=speaker, encoder_hidden_states=hidden, encoder_attention_mask=seen, use_cache=False
    ),
)
add(
    "wav2vec2_xvector",
    "Wav2Vec2Config",
    dict(A, tdnn_dim=[16, 16, 32], tdnn_kernel=[5, 3, 1], tdnn_dilation=[1, 2, 1], xvector_output_dim=16),
    WAV,
    cls="Wav2Vec2ForXVector",
)
add("wav2vec2_classes", "Wav2Vec2Config", dict(A, use_weighted_layer_sum=True), WAV, cls="Wav2Vec2ForSequenceClassification")
add("wav2vec2_adapter", "Wav2Vec2Config", dict(A, add_adapter=True, num_adapter_layers=1), WAV)
add("hubert_layer", "HubertConfig", dict(A, feat_extract_norm="layer", do_stable_layer_norm=True), WAV, cls="HubertForCTC")
add("unispeech", "UniSpeechConfig", A, WAV)
add(
    "whisper_classes",
    "WhisperConfig",
    dict(B, num_mel_bins=16, max_source_positions=32, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    lambda: dict(input_features=torch.randn(1, 16, 64)),
    cls="WhisperForAudioClassification",
)
add(
    "vits_flow",
    "VitsConfig",
    VITS,
    lambda: dict(x=torch.randn(1, 32, 20), seen=torch.ones(1, 1, 20)),
    fn=lambda m, x, seen: [m.flow(x, seen, reverse=True)],
)
add(
    "vits_durations",
    "VitsConfig",
    VITS,
    lambda: dict(x=torch.randn(1, 32, 20), seen=torch.ones(1, 1, 20)),
    fn=lambda m, x, seen: [m.duration_predictor(x, seen, None, reverse=True, noise_scale=0.0)],
)
add(
    "encodec_stereo",
    "EncodecConfig",
    dict(
        num_filters=4,
        hidden_size=16,
        codebook_dim=16,
        codebook_size=32,
        upsampling_ratios=[4, 2],
        sampling_rate=8000,
        audio_channels=2,
        norm_type="time_group_norm",
        use_causal_conv=False,
        normalize=True,
    ),
    lambda: dict(x=torch.randn(1, 2, 640)),
    fn=lambda m, x: [m.encoder(x)],
)
add(
    "dac_decoder",
    "DacConfig",
    DAC,
    lambda: dict(codes=torch.randint(0, 32, (1, 3, 20))),
    fn=lambda m, codes: [m.decode(audio_codes=codes).audio_values],
)
add(
    "conformer_parakeet_ctc",
    "ParakeetEncoderConfig",
    dict(PARAKEET, subsampling_factor=8),
    lambda: dict(input_features=torch.randn(1, 64, 16), attention_mask=mask(64, 16)),
    cls="ParakeetEncoder",
)

# vision
add("siglip_vision", "SiglipVisionConfig", V, IMG(), cls="SiglipVisionModel")
add("ijepa", "IJepaConfig", V, IMG())
add("aimv2", "Aimv2VisionConfig", V, IMG(), cls="Aimv2VisionModel")
add(
    "vjepa2",
    "VJEPA2Config",
    dict(
        V,
        crop_size=32,
        frames_per_clip=4,
        pred_hidden_size=32,
        pred_num_attention_heads=4,
        pred_num_hidden_layers=1,
        pred_num_mask_tokens=2,
    ),
    lambda: dict(pixel_values_videos=torch.randn(1, 4, 3, 32, 32)),
    call=dict(skip_predictor=True),
)
add("dinov3_convnext", "DINOv3ConvNextConfig", dict(hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], image_size=64), IMG(64))
add("dinov2_classes", "Dinov2Config", V, IMG(), cls="Dinov2ForImageClassification")
add("donut_swin", "DonutSwinConfig", dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), IMG())
add("pvt", "PvtConfig", dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 16, 32, 32], num_attention_heads=[1, 2, 2, 2]), IMG(64))
add(
    "segformer_classes",
    "SegformerConfig",
    dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 32, 32], num_attention_heads=[1, 2, 2, 2]),
    IMG(64),
    cls="SegformerForImageClassification",
)
add(
    "mobilevit_segmentation",
    "MobileViTConfig",
    dict(image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32], num_attention_heads=4, num_labels=5),
    IMG(64),
    cls="MobileViTForSemanticSegmentation",
)
add(
    "beit_segmentation",
    "BeitConfig",
    dict(V, image_size=64, num_hidden_layers=4, out_indices=[1, 2, 3, 4], use_relative_position_bias=True, num_labels=5),
    IMG(64),
    cls="BeitForSemanticSegmentation",
)
add(
    "eomt",
    "EomtConfig",
    dict(V, image_size=64, num_upscale_blocks=1, num_queries=6, num_blocks=1, num_labels=5),
    IMG(64),
    cls="EomtForUniversalSegmentation",
    fn=lambda m, **k: (lambda o: [o.class_queries_logits, o.masks_queries_logits])(m(**k)),
)
add(
    "vitpose_like_seggpt",
    "SegGptConfig",
    dict(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=[64, 32],
        patch_size=8,
        merge_index=0,
        intermediate_hidden_state_indices=[0, 1],
        decoder_hidden_size=16,
        mlp_dim=64,
        pretrain_image_size=32,
    ),
    lambda: dict(
        pixel_values=torch.randn(1, 3, 32, 32), prompt_pixel_values=torch.randn(1, 3, 32, 32), prompt_masks=torch.randn(1, 3, 32, 32)
    ),
    cls="SegGptModel",
)


def detection(name, config, cls, **extra):
    def build():
        backbone = T.ResNetConfig(
            embedding_size=8, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
        )
        settings = dict(base.DETR, use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone, backbone=None, **extra)
        network = getattr(T, cls)(getattr(T, config)(**settings)).eval()
        return network, dict(pixel_values=torch.randn(1, 3, 64, 64)), (lambda m, **k: (lambda o: [o.logits, o.pred_boxes])(m(**k))), {}

    register(name, build)


detection("dab_detr", "DabDetrConfig", "DabDetrForObjectDetection", hidden_size=32)


def sam_whole():
    config = T.SamConfig(
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
            num_pos_feats=16,
        ),
        prompt_encoder_config=dict(hidden_size=32, image_size=64, patch_size=8, mask_input_channels=4),
        mask_decoder_config=dict(hidden_size=32, mlp_dim=64, num_hidden_layers=2, num_attention_heads=4, iou_head_hidden_dim=32),
    )
    inputs = dict(pixel_values=torch.randn(1, 3, 64, 64), input_boxes=torch.tensor([[[4.0, 6.0, 40.0, 50.0]]]))
    return T.SamModel(config).eval(), inputs, (lambda m, **k: (lambda o: [o.iou_scores, o.pred_masks])(m(**k))), {}


register("sam_boxes", sam_whole)


def clipseg():
    config = T.CLIPSegConfig(
        text_config=dict(H, eos_token_id=2, bos_token_id=1, pad_token_id=0),
        vision_config=dict(V, num_hidden_layers=3),
        projection_dim=24,
        extract_layers=[0, 1, 2],
        reduce_dim=16,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=32,
    )
    inputs = dict(
        input_ids=torch.cat([ids(ROWS - 1), torch.full((1, 1), 2)], 1), attention_mask=ones(), pixel_values=torch.randn(1, 3, 32, 32)
    )
    return T.CLIPSegForImageSegmentation(config).eval(), inputs, (lambda m, **k: [m(**k).logits]), {}


register("clipseg", clipseg)


def groupvit():
    config = T.GroupViTConfig(
        text_config=dict(H, eos_token_id=2, bos_token_id=1, pad_token_id=0),
        vision_config=dict(
            hidden_size=32,
            intermediate_size=64,
            depths=[2, 1, 1],
            num_hidden_layers=4,
            num_group_tokens=[4, 2, 0],
            num_output_groups=[4, 2, 0],
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
        ),
        projection_dim=24,
        projection_intermediate_dim=32,
    )
    inputs = dict(
        input_ids=torch.cat([ids(ROWS - 1), torch.full((1, 1), 2)], 1), attention_mask=ones(), pixel_values=torch.randn(1, 3, 32, 32)
    )
    return T.GroupViTModel(config).eval(), inputs, (lambda m, **k: (lambda o: [o.text_embeds, o.image_embeds])(m(**k))), {}


register("groupvit", groupvit)


def git():
    config = T.GitConfig(**dict(H, bos_token_id=1, eos_token_id=2, pad_token_id=0), vision_config=V)
    inputs = dict(input_ids=ids(6), attention_mask=ones(6), pixel_values=torch.randn(1, 3, 32, 32))
    return T.GitForCausalLM(config).eval(), inputs, (lambda m, **k: [m(**k, use_cache=False).logits]), {}


register("git_caption", git)


def time_series(name, config, cls, **extra):
    def build():
        network = getattr(T, cls)(
            getattr(T, config)(
                prediction_length=4,
                context_length=8,
                lags_sequence=[1, 2],
                d_model=32,
                encoder_layers=1,
                decoder_layers=1,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=32,
                decoder_ffn_dim=32,
                num_time_features=1,
                **extra,
            )
        ).eval()
        inputs = dict(
            past_values=torch.randn(1, 10),
            past_time_features=torch.randn(1, 10, 1),
            past_observed_mask=torch.ones(1, 10),
            future_values=torch.randn(1, 4),
            future_time_features=torch.randn(1, 4, 1),
        )
        return network, inputs, (lambda m, **k: [m(**k, use_cache=False).last_hidden_state]), {}

    register(name, build)


time_series("time_series_transformer", "TimeSeriesTransformerConfig", "TimeSeriesTransformerModel")
time_series("informer", "InformerConfig", "InformerModel")
time_series("autoformer", "AutoformerConfig", "AutoformerModel", label_length=2, moving_average=3)
