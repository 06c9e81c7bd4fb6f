"""Networks of torchvision: classification, segmentation, video, optical flow and detection."""

import torch
from torch import nn
from torchvision import models

SIZE = 96


class Named(nn.Module):
    """Gives the tensors of the network's output as a tuple, since exporters differ in what they make of dictionaries."""

    def __init__(self, network, single_image=False):
        super().__init__()
        self.network, self.single_image = network, single_image

    def forward(self, *inputs):
        output = self.network([inputs[0][0]] if self.single_image else inputs[0]) if len(inputs) == 1 else self.network(*inputs)
        if isinstance(output, list) and isinstance(output[0], dict):
            output = output[0]
        if isinstance(output, dict):
            output = tuple(output.values())
        return tuple(output) if isinstance(output, list) else output


def classifier(name, size=SIZE):
    def build():
        extra = {"init_weights": False, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
        return models.get_model(name, weights=None, num_classes=16, **extra), (torch.randn(1, 3, size, size),)

    return build


def segmenter(name):
    def build():
        network = models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
        return Named(network), (torch.randn(1, 3, SIZE, SIZE),)

    return build


def video(name, frames=8, size=112):
    return lambda: (models.get_model(name, weights=None, num_classes=16), (torch.randn(1, 3, frames, size, size),))


def flow(name):
    return lambda: (Named(models.get_model(name, weights=None)), (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)))


def detector(name, height=160, width=192, pasted=True, **settings):
    """With class weights that are large enough that some boxes are sure; masks of boxes pasted into the picture or not."""

    def build():
        network = models.get_model(name, weights=None, weights_backbone=None, num_classes=4, **settings)
        if not pasted:
            network.transform.postprocess = lambda result, sizes, originals: result
        for module, layer in network.named_modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)) and any(part in module for part in ("cls_score", "cls_logits", "classification_head")):
                nn.init.normal_(layer.weight, 0, 1.0 / layer.weight[0].numel() ** 0.5)
        return Named(network, single_image=True), (torch.rand(1, 3, height, width),)

    return build


CLASSIFIERS = """
alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3@128 maxvit_t@224 mnasnet0_5 mobilenet_v2 mobilenet_v3_small
regnet_x_400mf regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_0 squeezenet1_1 swin_t swin_v2_t vgg11 vgg11_bn vit_b_16@224 wide_resnet50_2
"""
SEGMENTERS = "deeplabv3_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large"
VIDEOS = {"r3d_18": (8, 112), "mc3_18": (8, 112), "r2plus1d_18": (8, 112), "s3d": (16, 224), "mvit_v1_b": (16, 224), "mvit_v2_s": (16, 224), "swin3d_t": (8, 64)}
SMALL = {"min_size": 160, "max_size": 192}
DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": SMALL,
    "fasterrcnn_mobilenet_v3_large_fpn": SMALL,
    "fasterrcnn_resnet50_fpn": SMALL,
    "fasterrcnn_resnet50_fpn_v2": SMALL,
    "retinanet_resnet50_fpn": SMALL,
    "retinanet_resnet50_fpn_v2": SMALL,
    "fcos_resnet50_fpn": SMALL,
    "maskrcnn_resnet50_fpn": SMALL,
    "keypointrcnn_resnet50_fpn": SMALL,
    "ssd300_vgg16": {},
    "ssdlite320_mobilenet_v3_large": {},
}


def networks():
    for name in CLASSIFIERS.split():
        name, _, size = name.partition("@")
        yield name, classifier(name, int(size or SIZE))
    for name in SEGMENTERS.split():
        yield name, segmenter(name)
    for name, (frames, size) in VIDEOS.items():
        yield name, video(name, frames, size)
    for name in ("raft_small", "raft_large"):
        yield name, flow(name)
    for name, settings in DETECTORS.items():
        yield name, detector(name, **settings)
    yield "maskrcnn_resnet50_fpn+boxes", detector("maskrcnn_resnet50_fpn", pasted=False, **SMALL)


NETWORKS = dict(networks())
