//! Any text as PTX: the emulator's parser gives a module or an error that names a place in the text.
#![no_main]

use floe_emulator::ptx::Module;
use floe_fuzz::random::Random;
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    match Module::parse(text) {
        Ok(module) => {
            for kernel in module.kernels() {
                assert!(module.kernel(&kernel.name).is_some(), "kernel {} is not found by its name", kernel.name);
                for pair in kernel.parameters.windows(2) {
                    let [one, next] = pair else { continue };
                    assert!(
                        one.offset.checked_add(one.bytes).is_some_and(|end| end <= next.offset),
                        "parameters overlap"
                    );
                }
            }
        }
        Err(error) => {
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&(error.line as usize)), "{error} in a text of {lines} lines");
            let longest = text.split('\n').map(str::len).max().unwrap_or(0);
            assert!((1..=longest + 1).contains(&(error.column as usize)), "{error}");
        }
    }
    Corpus::Keep
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed);
    let text = std::str::from_utf8(&data[..size]).ok().filter(|text| !text.is_empty());
    match (random.below(4), text.map(|text| words(text, &mut random))) {
        (1.., Some(changed)) if changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(changed.as_bytes());
            changed.len()
        }
        _ => fuzzer_mutate(data, size, max_size),
    }
});

/// Takes words away, repeats them, or puts others of the text or of the language in their places.
fn words(text: &str, random: &mut Random) -> String {
    let mut words: Vec<&str> = text.split_inclusive(|c: char| !(c.is_alphanumeric() || "._%$".contains(c))).collect();
    for _ in 0..=random.below(3) {
        let (at, from) = (random.below(words.len()), random.below(words.len()));
        match random.below(4) {
            0 => drop(words.remove(at)),
            1 => words.insert(at, words[from]),
            2 => words[at] = words[from],
            _ => words.insert(at, WORDS[random.below(WORDS.len())]),
        }
        if words.is_empty() {
            break;
        }
    }
    words.concat()
}

const WORDS: [&str; 24] = [
    ".version 8.5\n",
    ".target sm_87\n",
    ".address_size 64\n",
    ".visible .entry k() {\n",
    ".func f();",
    ".param .u64 p,",
    ".param .align 16 .b8 p[24]",
    ".reg .b32 %r<5>;\n",
    ".reg .pred %p;\n",
    ".shared .align 16 .b8 s[4096];\n",
    ".const .f32 c[2] = {0f3F800000, 1.5};\n",
    "ld.param.u64 %r1, [p+8];\n",
    "@!%p bra L;\n",
    "L:\n",
    "{ ",
    "} ",
    "ret;\n",
    "-9223372036854775808 ",
    "0xffffffffffffffff ",
    "0d7FF0000000000000 ",
    ".loc 1 65 34\n",
    ".file 1 \"k.cu\"\n",
    "/* ",
    ".maxntid 1024, 1, 1\n",
];
