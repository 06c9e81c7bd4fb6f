//! Experiment: sources of all candidates of some products, as JSON lines.
use floe_kernels::codegen::{Argument, Candidate, Generate, Target};
use floe_kernels::{DType, View, conv::Conv, matmul::MatMul, pointwise::Epilogue};

fn conv(c: u32, size: u32, m: u32, kernel: u32, step: u32) -> Conv {
    let out = (size + 2 * (kernel / 2) - kernel) / step + 1;
    Conv {
        input: View::channels_last(DType::F16, &[1, c, size, size]).unwrap(),
        weights: View::contiguous(DType::F16, &[m, c, kernel, kernel]).unwrap(),
        output: View::channels_last(DType::F16, &[1, m, out, out]).unwrap(),
        strides: [1, step, step],
        dilations: [1; 3],
        pads: [0, kernel / 2, kernel / 2],
        groups: 1,
        epilogue: Epilogue { bias: true, ..Epilogue::default() },
    }
}
fn mm(m: u32, n: u32, k: u32) -> MatMul {
    let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
    let mut b = view(&[k, n]);
    b.strides = floe_kernels::Strides::from_slice(&[1, k as i32]).unwrap();
    MatMul { a: view(&[m, k]), b, output: view(&[m, n]), epilogue: Epilogue::default() }
}
fn target(arch: u32, sms: u32) -> Target {
    let h = arch == 90;
    Target {
        name: "t".into(),
        gpu: String::new(),
        description: String::new(),
        architecture: arch,
        multiprocessors: sms,
        shared_per_block: if h { 232_448 } else { 166_912 },
        shared_per_multiprocessor: if h { 233_472 } else { 167_936 },
        l2_bytes: if h { 52_428_800 } else { 4 << 20 },
        bandwidth: if h { 4800.0 } else { 204.8 },
        clock: if h { 1980.0 } else { 1300.0 },
        f16_tflops: if h { 610.0 } else { 42.6 },
        f32_tflops: if h { 67.0 } else { 5.3 },
        launch: 0.8,
        nvrtc: String::new(),
        driver: 12060,
    }
}
fn esc(s: &str) -> String {
    s.chars()
        .map(|c| match c {
            '\n' => "\\n".into(),
            '"' => "\\\"".into(),
            '\\' => "\\\\".into(),
            '\t' => "\\t".into(),
            c => c.to_string(),
        })
        .collect()
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (arch, sms, most) = (args[0].parse().unwrap(), args[1].parse().unwrap(), args[2].parse::<usize>().unwrap());
    for spec in &args[3..] {
        let f: Vec<u32> = spec[1..].split(',').map(|v| v.parse().unwrap()).collect();
        let t = target(arch, sms);
        let (all, macs): (Vec<Candidate>, f64) = if spec.starts_with('c') || spec.starts_with('f') {
            let mut k = conv(f[0], f[1], f[2], f[3], f[4]);
            if spec.starts_with('f') {
                k.input = View::contiguous(DType::F32, &[1, f[0], f[1], f[1]]).unwrap();
            }
            let n = k.output.elements() as f64 * f64::from(f[0] * f[3] * f[3]);
            (k.candidates(&t).unwrap(), n)
        } else {
            (mm(f[0], f[1], f[2]).candidates(&t).unwrap(), f64::from(f[0]) * f64::from(f[1]) * f64::from(f[2]))
        };
        for c in all.iter().take(most) {
            let l = &c.launches[0];
            let a: Vec<String> = l
                .arguments
                .iter()
                .map(|a| match a {
                    Argument::Input(i) => format!("\"i{i}\""),
                    Argument::Output(i) => format!("\"o{i}\""),
                    Argument::Workspace(i) => format!("\"w{i}\""),
                    Argument::Counters(i) => format!("\"c{i}\""),
                })
                .collect();
            println!(
                "{{\"spec\":\"{spec}\",\"macs\":{macs},\"algorithm\":\"{}\",\"configuration\":\"{}\",\"cost\":{},\"workspace\":{},\"counters\":{},\"entry\":\"{}\",\"grid\":{},\"block\":{},\"shared\":{},\"args\":[{}],\"source\":\"{}\"}}",
                c.algorithm,
                c.configuration,
                c.cost,
                c.workspace,
                c.counters,
                l.entry,
                l.grid[0],
                l.block[0],
                l.shared,
                a.join(","),
                esc(&l.source)
            );
        }
    }
}
