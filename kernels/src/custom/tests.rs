//! What the check refuses.

use super::{Custom, Number, cases::example};
use crate::{DType, Family, KernelError};

#[test]
fn operands_are_dense_and_everything_is_bounded() {
    assert_eq!(example().check(), Ok(()));
    let changed = |change: &dyn Fn(&mut Custom)| {
        let mut custom = example();
        change(&mut custom);
        custom.check().unwrap_err()
    };
    assert_eq!(changed(&|custom| custom.name.clear()), KernelError::Parameter("name of a custom operator"));
    assert_eq!(changed(&|custom| custom.name.push('\n').unwrap()), KernelError::Parameter("name of a custom operator"));
    assert_eq!(changed(&|custom| custom.inputs.clear()), KernelError::OperandCount);
    assert_eq!(changed(&|custom| custom.outputs.clear()), KernelError::OperandCount);
    assert_eq!(changed(&|custom| custom.inputs[0].strides[0] = 4), KernelError::Shape("layout of an operand"));
    assert_eq!(changed(&|custom| custom.outputs[0].offset = 1), KernelError::Shape("layout of an operand"));
    assert_eq!(
        changed(&|custom| custom.inputs[0].dtype = DType::I4),
        KernelError::Type("operand of a custom operator")
    );
    assert_eq!(changed(&|custom| custom.attributes[1] = Number::Real(f32::NAN)), KernelError::Parameter("attribute"));
    assert_eq!(changed(&|custom| custom.workspace = u64::MAX), KernelError::Parameter("workspace"));
}
