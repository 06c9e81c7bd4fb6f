//! Speed of the convolution reference kernel, single-threaded f32, on the distinct convolutions of resnet50 at 224².
//!
//! `cargo run --release -p floe-kernels --example conv_speed`

use floe_kernels::{
    DType, Family, View,
    conv::{Conv, Geometry},
    pointwise::Epilogue,
};
use std::time::Instant;

/// Input channels, output channels, kernel, stride, input extent, how often the network has it.
const RESNET50: [(u32, u32, u32, u32, u32, u32); 20] = [
    (3, 64, 7, 2, 224, 1),
    (64, 64, 1, 1, 56, 1),
    (64, 64, 3, 1, 56, 3),
    (64, 256, 1, 1, 56, 4),
    (256, 64, 1, 1, 56, 2),
    (256, 128, 1, 1, 56, 1),
    (128, 128, 3, 2, 56, 1),
    (128, 512, 1, 1, 28, 4),
    (256, 512, 1, 2, 56, 1),
    (512, 128, 1, 1, 28, 3),
    (128, 128, 3, 1, 28, 3),
    (512, 256, 1, 1, 28, 1),
    (256, 256, 3, 2, 28, 1),
    (256, 1024, 1, 1, 14, 6),
    (512, 1024, 1, 2, 28, 1),
    (1024, 256, 1, 1, 14, 5),
    (256, 256, 3, 1, 14, 5),
    (1024, 512, 1, 1, 14, 1),
    (512, 512, 3, 2, 14, 1),
    (1024, 2048, 1, 2, 14, 1),
];

/// The last stage.
const RESNET50_LAST: [(u32, u32, u32, u32, u32, u32); 3] =
    [(512, 2048, 1, 1, 7, 3), (2048, 512, 1, 1, 7, 2), (512, 512, 3, 1, 7, 2)];

/// Depthwise convolutions of mobilenet_v2: channels, extent, stride.
const DEPTHWISE: [(u32, u32, u32); 5] = [(32, 112, 1), (96, 112, 2), (144, 56, 1), (384, 14, 1), (960, 7, 1)];

fn main() {
    let mut network = (0.0, 0.0);
    for (c, m, taps, stride, extent, count) in RESNET50.into_iter().chain(RESNET50_LAST) {
        let (seconds, operations) = measure(&conv(c, m, taps, stride, extent, 1));
        println!("{c:5} {m:5} {taps}x{taps}/{stride} {extent:4}  {}", speed(seconds, operations));
        network.0 += seconds * f64::from(count);
        network.1 += operations * f64::from(count);
    }
    println!("resnet50, convolutions only: {}", speed(network.0, network.1));
    for (c, extent, stride) in DEPTHWISE {
        let (seconds, operations) = measure(&conv(c, c, 3, stride, extent, c));
        println!("depthwise {c:5} 3x3/{stride} {extent:4}  {}", speed(seconds, operations));
    }
}

fn speed(seconds: f64, operations: f64) -> String {
    format!("{:9.3} ms {:7.1} GFLOP/s", seconds * 1e3, operations / seconds * 1e-9)
}

fn conv(c: u32, m: u32, taps: u32, stride: u32, extent: u32, groups: u32) -> Conv {
    let view = |shape: &[u32]| View::contiguous(DType::F32, shape).expect("a small shape");
    let output = (extent - 1) / stride + 1;
    let (input, weights) = (view(&[1, c, extent, extent]), view(&[m, c / groups, taps, taps]));
    let geometry = Geometry {
        strides: [1, stride, stride],
        pads: [0, taps / 2, taps / 2],
        groups,
        ..Geometry::plain(input, weights, view(&[1, m, output, output]))
    };
    Conv { geometry, epilogue: Epilogue { bias: true, ..Epilogue::default() } }
}

/// Least time of several runs, in seconds, and floating-point operations.
fn measure(conv: &Conv) -> (f64, f64) {
    let operand = |index: usize| {
        let bytes = conv.input_bytes(index).expect("a valid view").expect("an operand");
        (0..bytes / 4).map(|i| (i % 17) as f32 - 8.0).collect::<Vec<f32>>()
    };
    let (inputs, mut output) = ([0, 1, 2].map(operand), vec![0_f32; conv.geometry.output.elements() as usize]);
    // One line more than needed, to start on a 64-byte border.
    let mut workspace = vec![0_u8; conv.host_workspace() as usize + 64];
    let start = workspace.as_ptr().align_offset(64);
    let inputs = [0, 1, 2].map(|i| bytemuck::cast_slice(&inputs[i]));
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let begin = Instant::now();
        conv.run(&inputs, &mut [bytemuck::cast_slice_mut(&mut output)], &mut workspace[start..])
            .expect("valid operands");
        least = least.min(begin.elapsed().as_secs_f64());
    }
    (least, conv.flops() as f64)
}
