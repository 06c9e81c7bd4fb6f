"""Image classifiers of timm: at least one small one for each of its modules, more where a module has several mechanisms."""

import timm
import torch

# NAME or NAME@SIZE; the size is that of the image. Others are as large as the network wants.
NAMES = """
test_vit test_vit2 test_vit3 test_vit4 vit_tiny_patch16_224@96 vit_medium_patch16_clip_224@96 vit_small_patch14_reg4_dinov2@98
vit_xsmall_patch16_clip_224@96 vit_base_patch16_siglip_224@64 vit_small_patch16_36x1_224@64 vit_small_patch16_18x2_224@64 vit_base_patch16_xp_224@64
beit3_base_patch16_224@64 vit_dwee_patch16_reg1_gap_256@96 vit_base_patch16_rpn_224@64 flexivit_small@96
test_byobnet mobileone_s0@96 repvgg_a0@96 gcresnext26ts@96 bat_resnext26ts@128 resnet50_clip@96 resnet51q@96 regnetz_b16@96 regnetz_b16_evos@96 eca_resnext26ts@96
beit_base_patch16_224@64 beitv2_base_patch16_224@64
botnet26t_256 halonet26t@128 lambda_resnet26t@128 lambda_resnet26rpt_256 eca_halonext26ts@128 sebotnet33ts_256 haloregnetz_b@128 lamhalobotnet50ts_256
caformer_s18@96 convformer_s18@96 poolformer_s12@96 poolformerv2_s12@96
cait_xxs24_224@96 coat_lite_tiny@96 coat_tiny@96 test_coatnet@128 test_maxvit@128 coatnet_pico_rw_224@96 maxvit_tiny_tf_224 maxxvit_rmlp_nano_rw_256 maxvit_tiny_pm_256
convit_tiny@96 convmixer_768_32@96 test_convnext test_convnext2 test_convnext3 convnext_atto@96 convnextv2_atto@96 convnext_atto_rms@96 convnext_atto_ols@96
cpubone_nano@96 crossvit_9_240 crossvit_9_dagger_240 cspresnet50@96 cspdarknet53@96 cs3darknet_focus_s@96 csatv2@128 cspnext_tiny@96 davit_tiny@96
deepseek_vit_412m@56 deit_tiny_patch16_224@96 deit_tiny_distilled_patch16_224@96 deit3_small_patch16_224@96 densenet121@96 densenetblur121d@96 dla34@96 dla60_res2net@96
test_nfnet nfnet_l0@96 nf_resnet26@96 nf_regnet_b0@96 dm_nfnet_f0@64 dpn48b@96 dpn68@96 ese_vovnet19b_slim@96 eca_vovnet39b@96
test_resnet resnet18@96 resnet26t@96 ecaresnet26t@96 seresnext26d_32x4d@96 resnetblur18@96 resnetaa34d@96 resnet50_gn@96 resnetrs50@96 wide_resnet50_2@64
edgenext_xx_small@96 efficientformer_l1 efficientformerv2_s0 efficientvim_m1@128 efficientvit_b0@96 efficientvit_l1@96 efficientvit_m0
test_efficientnet test_efficientnet_gn test_efficientnet_ln test_efficientnet_evos efficientnet_b0@96 efficientnet_lite0@96 tf_efficientnet_b0@96 efficientnet_cc_b0_4e@96
efficientnetv2_rw_t@96 mixnet_s@96 tf_mixnet_s@96 mnasnet_small@96 mobilenetv1_100@96 mobilenetv2_035@96 mobilenet_edgetpu_v2_xs@96 fbnetc_100@96 spnasnet_100@96
gc_efficientnetv2_rw_t@96 efficientnet_blur_b0@96 tinynet_e@106
eva02_tiny_patch14_224@98 vit_small_patch16_rope_224@96 vit_small_patch16_rope_mixed_224@96 vit_tiny_patch16_dinov3_qkvb@96 vit_pe_core_tiny_patch16_384@96 vit_small_patch16_lingbot@96
fasternet_t0@96 fastvit_t8@96 fastvit_sa12@96 fastvit_mci0@96 lcnet_035@96 fbnetv3_b@96 mobilenetv3_small_050@96 tf_mobilenetv3_small_minimal_100@96
mobilenetv4_conv_small_035@96 mobilenetv4_conv_blur_medium@96 mobilenetv4_hybrid_medium_075@96 focalnet_tiny_srf@96 focalnet_tiny_lrf@96 gcvit_xxtiny
gemma4_vit_167m@96 ghostnet_050@96 ghostnetv2_100@96 ghostnetv3_050@96
gmixer_12_224 gmlp_ti16_224 mixer_s32_224 resmlp_12_224 hardcorenas_a@96 hgnet_tiny@96 hgnetv2_b0@96 hiera_tiny_224 hiera_small_abswin_256
hieradet_small@128 hrnet_w18_small@96 iformer_t@96 inception_next_atto@96 inception_resnet_v2@128 inception_v3@128 inception_v4@128 lcnetv2_small@96
legacy_seresnet18@96 legacy_seresnext26_32x4d@96 legacy_xception@96 levit_128s levit_conv_128s lowformer_b0@96 test_mambaout mambaout_femto@96
mobilenetv5_300m_enc@256 mobilevit_xxs@128 mobilevitv2_050@128 mvitv2_tiny mvitv2_small_cls naflexvit_base_patch16_gap naflexvit_base_patch16_par_gap nasnetalarge@96
nest_tiny_jx nextvit_small@96 pit_ti_224 pit_ti_distilled_224 pnasnet5large@96 pvt_v2_b0@96 pvt_v2_b2_li@96 qwen3_vit_88m@96 rdnet_tiny@96
regnetx_002@96 regnety_002@96 regnetz_005@96 regnetv_040@64 repghostnet_050@96 repvit_m0_9@96 res2net50_14w_8s@96 res2next50@96 resnest14d@96 resnest50d_4s2x40d@96
resnetv2_18@96 resnetv2_50x1_bit@96 resnetv2_50d_gn@96 resnetv2_50d_evos@96 resnetv2_50d_frn@96 rexnet_100@96 rexnetr_100@96 samvit_base_patch16_224
selecsls42@96 sequencer2d_s@96 shvit_s1@128 skresnet18@96 skresnext50_32x4d@96 starnet_s050@96 swiftformer_xs
swin_tiny_patch4_window7_224 swin_s3_tiny_224 swinv2_tiny_window8_256 swinv2_cr_tiny_ns_224 test_vit_relpos vit_relpos_small_patch16_224 vit_srelpos_small_patch16_224
tiny_vit_5m_224 tnt_s_patch16_224 tresnet_m@96 tresnet_v2_l@64 twins_svt_small twins_pcpvt_small vgg11_bn@64 visformer_tiny vit_tiny_r_s16_p8_224 vit_base_mci_224@128
vitamin_small_224 volo_d1_224 xception41@96 xception41p@96 xcit_nano_12_p16_224@96
"""


def network(name):
    name, _, size = name.partition("@")

    def build():
        options = {"pretrained": False, "num_classes": 16}
        if size:
            try:
                model = timm.create_model(name, img_size=int(size), **options)
            except TypeError:
                # It takes an image of any size.
                model = timm.create_model(name, **options)
        else:
            model = timm.create_model(name, **options)
        channels, height, width = model.pretrained_cfg["input_size"]
        height, width = (int(size), int(size)) if size else (height, width)
        return model, (torch.randn(1, channels, height, width),)

    return name, build


NETWORKS = dict(map(network, NAMES.split()))
