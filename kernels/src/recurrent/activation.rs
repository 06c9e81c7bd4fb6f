//! The activations that recurrent cells may use.

use crate::pointwise::math;
use serde::{Deserialize, Serialize};

/// Kinds of activations, formulas as in ONNX `RNN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ActivationKind {
    /// `max(x, 0)`
    Relu,
    /// `tanh(x)`
    Tanh,
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `alpha·x + beta`
    Affine,
    /// `x` where x ≥ 0, else `alpha·x`
    LeakyRelu,
    /// `x` where x ≥ alpha, else 0
    ThresholdedRelu,
    /// `alpha·tanh(beta·x)`
    ScaledTanh,
    /// `min(max(alpha·x + beta, 0), 1)`
    HardSigmoid,
    /// `x` where x ≥ 0, else `alpha·(eˣ − 1)`
    Elu,
    /// `x / (1 + |x|)`
    Softsign,
    /// `log(1 + eˣ)`
    Softplus,
}

/// An activation with its parameters; those that its kind does not use are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activation {
    /// Which function.
    pub kind: ActivationKind,
    /// First parameter.
    pub alpha: f32,
    /// Second parameter.
    pub beta: f32,
}

impl Activation {
    /// An activation without parameters.
    pub const fn plain(kind: ActivationKind) -> Self {
        Self { kind, alpha: 0.0, beta: 0.0 }
    }

    /// The value of the function.
    #[inline(always)]
    pub(super) fn apply(self, x: f32) -> f32 {
        let Self { kind, alpha, beta } = self;
        match kind {
            ActivationKind::Relu if x < 0.0 => 0.0,
            ActivationKind::Relu => x,
            ActivationKind::Tanh => math::tanh(x),
            ActivationKind::Sigmoid => math::sigmoid(x),
            ActivationKind::Affine => alpha * x + beta,
            ActivationKind::LeakyRelu if x < 0.0 => alpha * x,
            ActivationKind::LeakyRelu => x,
            ActivationKind::ThresholdedRelu if x < alpha => 0.0,
            ActivationKind::ThresholdedRelu => x,
            ActivationKind::ScaledTanh => alpha * math::tanh(beta * x),
            ActivationKind::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
            ActivationKind::Elu if x < 0.0 => alpha * libm::expm1f(x),
            ActivationKind::Elu => x,
            ActivationKind::Softsign => x / (1.0 + x.abs()),
            ActivationKind::Softplus => x.max(0.0) + libm::log1pf(math::exp(-x.abs())),
        }
    }
}
