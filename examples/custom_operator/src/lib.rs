//! The operator of this example on the host: what `operators/correlation.cu` does, in Rust.
#![warn(missing_docs)]

use floe_engine::host::Call;

/// Name of the operator, as sessions know it.
pub const NAME: &str = "example.vision.Correlation";

/// The function that sessions on the host call: the mean over channels of the products of `left` and the displaced `right`.
///
/// # Errors
/// 1 where an operand is not what the description says.
pub fn correlation(call: &mut Call<'_, '_>) -> Result<(), u32> {
    let (Some(left), Some(right), Some(reach)) = (call.input::<f32>(0), call.input::<f32>(1), call.integer(0)) else {
        return Err(1);
    };
    let &[_, channels, height, width] = call.operator.inputs[0].shape.as_slice() else { return Err(1) };
    let [channels, height, width] = [channels, height, width].map(i64::from);
    let side = 2 * reach + 1;
    let cost = call.output::<f32>(0).ok_or(1u32)?;
    for (number, cost) in (0..).zip(cost) {
        let (x, y, plane) = (number % width, number / width % height, number / (width * height));
        let (image, displacement) = (plane / (side * side), plane % (side * side));
        let (from_y, from_x) = (y + displacement / side - reach, x + displacement % side - reach);
        let inside = (0..height).contains(&from_y) && (0..width).contains(&from_x);
        let product = |c: i64| {
            let row = (image * channels + c) * height;
            left[((row + y) * width + x) as usize] * right[((row + from_y) * width + from_x) as usize]
        };
        let sum: f32 = if inside { (0..channels).map(product).sum() } else { 0.0 };
        *cost = sum / channels as f32;
    }
    Ok(())
}
