//! A session calls the functions that C registers for operators from outside of Floe.

#[path = "../../tests/support/mod.rs"]
mod support;

use core::{
    ffi::c_void,
    ptr::{null, null_mut},
};
use floe_c::{
    description::ElementType,
    operators::{Operator, OperatorCall},
    options::SessionOptions,
    plan::*,
    session::*,
    status::{Error, Status},
};
use floe_engine::{host::Block, plan::format::Action};
use floe_kernels::{DType, Kernel, View, custom::Custom, custom::Number};
use support::{ELEMENTS, floats, host_parts, write};

/// A plan whose first step is an operator: `y = f(x, weights, total)`.
fn file() -> support::Aligned {
    let view = View::contiguous(DType::F32, &[1, ELEMENTS as u32]).unwrap();
    let mut parts = host_parts();
    parts.steps[0].action = Action::Host(Kernel::Custom(Custom {
        name: "d.Weighted".try_into().unwrap(),
        inputs: [view.clone(), view.clone(), view.clone()].into_iter().collect(),
        outputs: [view].into_iter().collect(),
        attributes: [Number::Integer(-3), Number::Real(0.5)].into_iter().collect(),
        workspace: 0,
    }));
    write([parts])
}

/// `(x · weights + total) · integer · real`, and counts its calls; fails where `x` begins with 99.
unsafe extern "C" fn weighted(context: *mut c_void, call: *const OperatorCall) -> u32 {
    // SAFETY: the library's promise.
    unsafe {
        *context.cast::<u32>() += 1;
        let call = &*call;
        assert_eq!((call.input_count, call.output_count, call.number_count, call.workspace_bytes), (3, 1, 2, 0));
        let tensor = |number: usize| (*call.inputs.add(number)).data.cast::<f32>();
        let [integer, real] = [&*call.numbers, &*call.numbers.add(1)];
        assert_eq!((integer.integer, integer.real, real.integer), (-3, -3.0, 0));
        let output = &*call.outputs;
        assert_eq!((output.rank, output.shape[..3].to_vec()), (2, vec![1, ELEMENTS as u32, 0]));
        assert_eq!((output.element_type, output.bytes), (ElementType::F32, 4 * ELEMENTS));
        for i in 0..ELEMENTS {
            let sum = *tensor(0).add(i) * *tensor(1).add(i) + *tensor(2).add(i);
            *output.data.cast::<f32>().add(i) = sum * integer.integer as f32 * real.real as f32;
        }
        if *tensor(0) == 99.0 { 42 } else { 0 }
    }
}

fn words(error: &Error) -> String {
    error.text.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect()
}

#[test]
fn functions_are_called_and_missing_ones_are_named() {
    let file = file();
    let mut plan_memory = vec![Block::ZERO; FLOE_PLAN_BYTES / size_of::<Block>()];
    let mut session_memory = vec![Block::ZERO; 1024];
    let room = size_of_val(&*session_memory);
    let (mut plan, mut session) = (null_mut(), null_mut());
    let mut calls = 0u32;
    let operator =
        Operator { name: c"d.Weighted".as_ptr(), function: Some(weighted), context: (&raw mut calls).cast() };
    // SAFETY: all fields may be zero; memory, file and functions stay where they are until the session is destroyed.
    unsafe {
        let mut error: Error = core::mem::zeroed();
        let mut options: SessionOptions = core::mem::zeroed();
        options.struct_bytes = size_of::<SessionOptions>();
        let memory = plan_memory.as_mut_ptr().cast();
        let opened =
            floe_plan_open(memory, FLOE_PLAN_BYTES, file.as_ptr().cast(), file.len(), &raw mut plan, &raw mut error);
        assert_eq!(opened, Status::Ok);
        let memory = session_memory.as_mut_ptr().cast::<c_void>();
        let mut init = |options: &SessionOptions, error: &mut Error| {
            floe_session_init(memory, room, plan, 0, &raw const *options, &raw mut session, &raw mut *error)
        };
        assert_eq!(init(&options, &mut error), Status::Options);
        assert!(words(&error).contains("step 0 is the operator d.Weighted"), "{}", words(&error));

        let other = Operator { name: c"d.Other".as_ptr(), ..operator };
        options.operators = &raw const other;
        options.operator_count = 1;
        assert_eq!(init(&options, &mut error), Status::Options);
        for wrong in [Operator { name: null(), ..operator }, Operator { function: None, ..operator }] {
            options.operators = &raw const wrong;
            assert_eq!(init(&options, &mut error), Status::NullPointer);
        }
        options.operators = null();
        assert_eq!(init(&options, &mut error), Status::NullPointer);

        let operators = [other, operator];
        options.operators = operators.as_ptr();
        options.operator_count = 2;
        assert_eq!(init(&options, &mut error), Status::Ok, "{}", words(&error));
        let none = null_mut();
        let write = |x: f32| {
            let x = floats([x; 4]);
            assert_eq!(floe_session_write(session, 0, x.as_ptr().cast(), x.len(), none), Status::Ok);
        };
        write(2.0);
        assert_eq!(floe_session_replay(session, none), Status::Ok);
        let mut y = [0u8; 16];
        assert_eq!(floe_session_read(session, 2, y.as_mut_ptr().cast(), y.len(), none), Status::Ok);
        assert_eq!(y, floats([-3.0, -6.0, -9.0, -12.0]));
        write(99.0);
        assert_eq!(floe_session_replay(session, &raw mut error), Status::Kernel);
        assert!(words(&error).contains("failed with code 42"), "{}", words(&error));
        assert_eq!(floe_session_destroy(session, none), Status::Ok);
        assert_eq!(floe_plan_close(plan, none), Status::Ok);
    }
    assert_eq!(calls, 2);
}
