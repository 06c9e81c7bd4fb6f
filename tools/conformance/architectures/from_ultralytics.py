"""Networks of Ultralytics as its exporter prepares them: raw heads, heads without NMS, and NMS inside the graph.

    pip install ultralytics
"""

from types import SimpleNamespace

import torch
from torch import nn
from ultralytics import nn as layers
from ultralytics.engine.exporter import NMSModel
from ultralytics.nn import tasks
from ultralytics.utils import LOGGER

LOGGER.setLevel("ERROR")
SIZE, CLASSES, MOST = 192, 4, 50

MODELS = {
    "detect": (tasks.DetectionModel, "yolov3-tiny yolov5n yolov5n-p6 yolov6n yolov8n yolov8n-p2 yolov8n-ghost yolov9t yolov10n yolo11n yolo12n yolo26n"),
    "segment": (tasks.SegmentationModel, "yolov8n-seg yolo11n-seg yolo26n-seg"),
    "pose": (tasks.PoseModel, "yolov8n-pose yolo11n-pose yolo26n-pose"),
    "obb": (tasks.OBBModel, "yolov8n-obb yolo11n-obb yolo26n-obb"),
    "classify": (tasks.ClassificationModel, "yolov8n-cls yolo11n-cls yolo26n-cls"),
    "semantic": (getattr(tasks, "SemanticSegmentationModel", None), "yolo26n-sem"),
    "depth": (getattr(tasks, "DepthModel", None), "yolo26n-depth"),
    "transformer": (tasks.RTDETRDetectionModel, "rtdetr-l yolov8n-rtdetr"),
}


def spread_scores(network):
    """Class scores on both sides of any threshold."""
    head = network.model[-1]
    for branch in ("cv3", "one2one_cv3"):
        for layer in getattr(head, branch, None) or ():
            layer[-1].bias.data.fill_(-1.5)
            nn.init.normal_(layer[-1].weight, 0, 1.5 / layer[-1].weight[0].numel() ** 0.5)


def build(task, model, name, end2end, nms):
    def made():
        network = model(f"{name}.yaml", ch=3, nc=CLASSES, verbose=False)
        network.task = task
        network.names = dict(enumerate("abcd"))
        network.end2end = end2end
        spread_scores(network)
        for module in network.modules():
            if hasattr(module, "export"):
                module.export, module.format, module.dynamic = True, "onnx", False
            if isinstance(module, layers.modules.Detect):
                module.max_det, module.xyxy, module.shape = MOST, nms, None
            if isinstance(module, layers.modules.C2f):
                module.forward = module.forward_split
        network.float().eval()
        arguments = SimpleNamespace(format="onnx", dynamic=False, batch=1, conf=0.25, iou=0.7, max_det=MOST, agnostic_nms=False, opset=17)
        return (NMSModel(network, arguments) if nms else network), (torch.rand(1, 3, SIZE, SIZE),)

    return made


def networks():
    for task, (model, names) in MODELS.items():
        for name in names.split():
            twofold = name.startswith(("yolov10", "yolo26")) and task not in ("classify", "semantic", "depth")
            yield name, build(task, model, name, twofold, False)
            if task in ("detect", "segment", "pose", "obb"):
                yield name + "+nms", build(task, model, name, False, True)


NETWORKS = dict(networks())
