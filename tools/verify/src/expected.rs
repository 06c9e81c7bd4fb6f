//! What plans must give on a GPU: the outputs of their host variants and, where they hold PTX, those of a GPU in software.

use anyhow::Result;
use floe::{
    emulated::Emulated,
    inputs::Input,
    outputs::{self, Output},
    selftest::agreement::Agreement,
    session::{DeviceKind, Place, Request, Session},
    tensor::numbers,
};
use floe_engine::plan::{Plan, Variant, format::ImageKind};
use serde::Serialize;
use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

/// Inputs of a plan, and what it must give for them.
pub struct Expected<'p> {
    /// Contents of its inputs.
    pub inputs: Vec<Input>,
    /// Outputs and states of the host variant.
    pub host: Vec<Output<'p>>,
    /// Those of the GPU variant on a GPU in software, or why it cannot run there; absent where it holds machine code.
    pub emulated: Option<Result<Vec<Output<'p>>>>,
}

impl<'p> Expected<'p> {
    /// Runs the host variant, and the GPU variant `target` (the first one without a name) in software if it holds PTX.
    ///
    /// `contents` makes the inputs of a session.
    ///
    /// # Errors
    /// Returns an error if there is no host variant, or a session fails.
    pub fn of(
        plan: &Plan<'p>,
        target: Option<&str>,
        contents: impl FnOnce(&Session<'_, '_>) -> Result<Vec<Input>>,
    ) -> Result<Self> {
        let request = |device, variant| Request { device, variant, ..Request::default() };
        let (mut place, variant) = Place::choose(plan, &request(DeviceKind::Host, None))?;
        let mut session = place.session(variant)?;
        let inputs = contents(&session)?;
        replay(&mut session, &inputs)?;
        let host = outputs::read(&mut session)?;
        drop(session);
        let wanted =
            |variant: &Variant<'_>| !variant.is_host() && target.is_none_or(|target| target == variant.header().target);
        let has_ptx = plan.variants().find(wanted).is_some_and(|gpu| gpu.header().image_kind == ImageKind::Ptx);
        let on = |device| request(device, target.map(str::to_owned));
        let emulated = || {
            let (emulated, variant) = Emulated::choose_as(plan, &on(DeviceKind::Emulated), capability())?;
            let mut place = Place::Emulated(Box::new(emulated));
            let mut session = place.session(variant)?;
            replay(&mut session, &inputs)?;
            outputs::read(&mut session)
        };
        let emulated = has_ptx.then(emulated);
        if has_ptx {
            translate(plan, &on(DeviceKind::Cuda));
        }
        Ok(Self { inputs, host, emulated })
    }
}

/// Compute capability of the GPU at hand, whose arithmetic is emulated; none without a GPU.
fn capability() -> Option<u32> {
    static CAPABILITY: OnceLock<Option<u32>> = OnceLock::new();
    let find = || floe_cuda::Device::open(floe_cuda::Options::default()).ok().map(|gpu| gpu.info().architecture);
    *CAPABILITY.get_or_init(find)
}

/// Lets the driver translate the PTX of a plan, which it keeps: one plan after the other that takes minutes.
fn translate(plan: &Plan<'_>, request: &Request) {
    let session = || Place::choose(plan, request).and_then(|(mut place, variant)| place.session(variant).map(drop));
    if let Err(error) = session() {
        // What is wrong with it is found when the plan runs.
        log::debug!("not translated ahead: {error:#}");
    }
}

/// Writes the inputs and replays once.
///
/// # Errors
/// Returns an error if the session does.
pub fn replay(session: &mut Session<'_, '_>, inputs: &[Input]) -> Result<()> {
    for input in inputs {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()
}

/// Results of `work` for each item in order, by as many threads as there are processors.
///
/// Threads of their own in place of a pool: an emulated GPU belongs to its thread, and waits there for the pool that runs its
/// blocks.
pub fn in_parallel<T: Sync, R: Send + Sync>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let results: Vec<OnceLock<R>> = items.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(items.len()) {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < items.len()) {
                    let _ = results[at].set(work(&items[at]));
                }
            });
        }
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// A GPU in software against the GPU, over the floating-point outputs of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Emulation {
    /// Elements whose bits agree.
    pub same: usize,
    /// All elements.
    pub elements: usize,
    /// Largest relative L2 difference of an output.
    pub l2: f64,
    /// The largest part of the GPU's own relative L2 difference from the host that it is.
    pub part: f64,
}

/// Most that an emulated GPU may differ from a GPU, as a part of what the GPU differs from the host: half types and sums in
/// another order make the latter.
pub const MOST_PART: f64 = 0.1;

impl Emulation {
    /// Compares the GPU's outputs with the emulated ones; `host` is what both should be near.
    pub fn of(host: &[Output<'_>], gpu: &[Output<'_>], emulated: &[Output<'_>]) -> Self {
        let mut all = Self { same: 0, elements: 0, l2: 0.0, part: 0.0 };
        for ((host, gpu), emulated) in host.iter().zip(gpu).zip(emulated) {
            let dtype = gpu.binding.dtype;
            let size = dtype.size();
            all.elements += gpu.bytes.len() / size;
            all.same += gpu.bytes.chunks(size).zip(emulated.bytes.chunks(size)).filter(|(a, b)| a == b).count();
            if !dtype.is_float() || gpu.bytes == emulated.bytes {
                continue;
            }
            let [host, gpu, emulated] = [host, gpu, emulated].map(|output| numbers(dtype, &output.bytes));
            let l2 = Agreement::of(&gpu, &emulated, 0.0).l2;
            // A difference where the GPU agrees with the host is an infinite part of nothing; NaN must not be dropped.
            let part = l2 / Agreement::of(&host, &gpu, 0.0).l2;
            let larger = |a: f64, b: f64| if a > b { a } else { b };
            all = Self { l2: larger(all.l2, l2), part: larger(all.part, part), ..all };
        }
        all
    }

    /// What is wrong, or nothing.
    pub fn violation(&self) -> Option<String> {
        // Not `>`: a part that is no number is wrong as well.
        let within = self.part <= MOST_PART;
        (!within).then(|| {
            format!("emulated: differs by {:.1e}, {:.2} of what f16 costs; at most {MOST_PART}", self.l2, self.part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_engine::plan::format::{Binding, Direction};
    use floe_kernels::{DType, Dims};

    fn output(numbers: [f32; 2]) -> [Output<'static>; 1] {
        let shape = Dims::from_slice(&[1, 2]).unwrap();
        let binding = Binding { name: "y", direction: Direction::Output, dtype: DType::F32, shape, content: "" };
        [Output { binding, bytes: numbers.iter().flat_map(|x| x.to_le_bytes()).collect() }]
    }

    #[test]
    fn an_emulated_gpu_is_held_to_a_tenth_of_what_f16_costs() {
        let (host, gpu) = (output([1.0, 2.0]), output([1.0, 2.01]));
        let of = |emulated| Emulation::of(&host, &gpu, &output(emulated));
        assert_eq!(of([1.0, 2.01]), Emulation { same: 2, elements: 2, l2: 0.0, part: 0.0 });
        let near = of([1.0, 2.0105]);
        assert!(near.same == 1 && near.part > 0.04 && near.violation().is_none(), "{near:?}");
        assert!(of([1.0, 2.012]).violation().unwrap().contains("0.20"));
        assert!(of([1.0, f32::NAN]).violation().is_some());
        // The GPU has the host's bits, the emulator has not.
        assert!(Emulation::of(&host, &host, &gpu).violation().is_some());
    }

    #[test]
    fn results_in_parallel_are_in_order() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(in_parallel(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(in_parallel(&[] as &[usize], |item| *item).is_empty());
    }
}
