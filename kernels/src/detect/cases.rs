//! Cases that the reference kernel and the GPU are verified on.

use super::{BOX, Detect, Head, PLACE, Parts, ScoreActivation};
use crate::{DType, Kernel, View};

/// Parts of `[rows, candidates of a row, numbers]`, row-major.
pub(super) fn parts(dtype: DType, shapes: &[[u32; 3]]) -> Parts {
    shapes.iter().map(|shape| View::contiguous(dtype, shape).unwrap()).collect()
}

/// A head whose scores, of one class, are probabilities behind the boxes.
pub(super) fn head(boxes: Parts, most: u32, points: u32) -> Detect {
    let candidates = boxes.iter().map(|part| part.shape[0] * part.shape[1]).sum();
    let classes = boxes[0].shape[2] - 4 - 2 * points;
    let head = Head {
        first_point: 4 + classes,
        first_class: 4,
        classes,
        object: None,
        background: false,
        rows_first: false,
        logarithm: None,
        activation: ScoreActivation::None,
        threshold: 0.25,
        overlap: 0.45,
    };
    Detect {
        boxes,
        scores: Parts::new(),
        places: View::contiguous(DType::F32, &[candidates, PLACE]).unwrap(),
        detections: View::contiguous(DType::F32, &[most, BOX + 2 * points]).unwrap(),
        count: View::contiguous(DType::I32, &[1]).unwrap(),
        head,
    }
}

/// The same with another head.
fn with(detect: Detect, change: impl Fn(Head) -> Head) -> Detect {
    Detect { head: change(detect.head), ..detect }
}

/// With scores in parts of their own.
fn apart(detect: Detect, scores: Parts) -> Detect {
    let head = Head { first_point: 4, first_class: 0, classes: scores[0].shape[2], ..detect.head };
    Detect { scores, head, ..detect }
}

/// As a convolution leaves them: channels of a pixel padded to eight.
fn padded(mut parts: Parts) -> Parts {
    for part in &mut parts {
        part.strides[0] = (part.shape[1] * part.shape[2]).next_multiple_of(8) as i32;
    }
    parts
}

/// Kernels of this family: every encoding, one part and many, few candidates and more than are sorted at once.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32};
    let sigmoid = |detect| with(detect, |head| Head { activation: ScoreActivation::Sigmoid, ..head });
    let blaze_face = apart(
        head(padded(parts(F16, &[[256, 2, 16], [64, 6, 16]])), 16, 6),
        padded(parts(F16, &[[256, 2, 1], [64, 6, 1]])),
    );
    let ssd = apart(head(parts(F32, &[[361, 3, 4], [100, 6, 4], [25, 6, 4]]), 100, 0), parts(F16, &[[1, 1833, 21]]));
    let objects = |head| Head { object: Some(4), first_class: 5, ..head };
    let mut cases = vec![
        sigmoid(with(blaze_face, |head| Head { threshold: 0.5, overlap: 0.3, ..head })),
        // y first, logarithms of extents, a background.
        with(ssd, |head| Head {
            activation: ScoreActivation::Softmax,
            background: true,
            rows_first: true,
            logarithm: Some(0.2),
            threshold: 0.06,
            ..head
        }),
        // YOLOX, with many classes and with two.
        sigmoid(with(head(parts(F16, &[[1, 3549, 85]]), 100, 0), |head| Head {
            classes: 80,
            logarithm: Some(1.0),
            ..objects(head)
        })),
        with(head(parts(F32, &[[1, 845, 7]]), 40, 0), |head| Head { classes: 2, ..objects(head) }),
        sigmoid(with(head(parts(F32, &[[1, 77, 9]]), 77, 2), |head| Head { rows_first: true, ..head })),
        head(parts(Bf16, &[[1, 1, 5]]), 1, 0),
        head(parts(Bf16, &[[1, 511, 30]]), 511, 3),
        sigmoid(apart(
            head(parts(F32, &[[10, 3, 6], [20, 2, 6], [1, 7, 6], [33, 1, 6]]), 9, 1),
            parts(F32, &[[1, 50, 11], [13, 2, 11], [34, 1, 11]]),
        )),
        // More good candidates than are sorted at once, with many detections and with few.
        with(head(parts(F32, &[[1, 9000, 5]]), 3000, 0), |head| Head { threshold: -2.0, overlap: 0.9, ..head }),
        with(head(parts(F32, &[[1, 20_000, 6]]), 50, 0), |head| Head { threshold: -2.0, overlap: 0.0, ..head }),
        with(head(parts(F32, &[[1, 100, 5]]), 5, 0), |head| Head { threshold: 2.0, ..head }),
    ];
    // YOLOv8: a number of all candidates together, constants of all candidates the same.
    let mut columns = with(head(parts(F16, &[[1, 8400, 84]]), 300, 0), |head| Head { overlap: 0.7, ..head });
    columns.boxes[0].strides = [84 * 8400, 1, 8400].into_iter().collect();
    columns.places.strides[0] = 0;
    cases.push(columns);
    // A batch's second image, detections with gaps between their numbers.
    let mut turned = head(parts(F32, &[[1, 300, 12]]), 20, 2);
    turned.boxes[0].offset = 12 * 300;
    turned.detections.strides = [1, 20].into_iter().collect();
    turned.count.offset = 3;
    cases.push(turned);
    cases.into_iter().map(Kernel::Detect).collect()
}
