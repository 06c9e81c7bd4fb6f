//! Loops over few elements, by stretches whose length is known when compiling: a loop of unknown length does most of a short row
//! one element at a time.

use super::Element;

/// `to[i] = f(a[i], b[i])`, as far as all three reach. What does not fill a last stretch is computed again with the end of the one
/// before it.
#[inline(always)]
pub(crate) fn combine<A: Copy, B: Copy, R: Copy>(a: &[A], b: &[B], to: &mut [R], f: impl Fn(A, B) -> R) {
    let count = a.len().min(b.len()).min(to.len());
    let (a, b, to) = (&a[..count], &b[..count], &mut to[..count]);
    match count {
        16.. => stretches::<16, _, _, _>(a, b, to, |a, b| array(a, b, &f)),
        8.. => stretches::<8, _, _, _>(a, b, to, |a, b| array(a, b, &f)),
        4.. => stretches::<4, _, _, _>(a, b, to, |a, b| array(a, b, &f)),
        _ => stretches::<1, _, _, _>(a, b, to, |a, b| array(a, b, &f)),
    }
}

/// `to[i] = f(from[i])`, as [`combine`].
#[inline(always)]
pub(crate) fn map<A: Copy, R: Copy>(from: &[A], to: &mut [R], f: impl Fn(A) -> R) {
    combine(from, from, to, |x, _| f(x));
}

/// [`map`] by [`Element::to_f32`].
#[inline(always)]
pub(crate) fn to_floats<T: Element>(from: &[T], to: &mut [f32]) {
    map_eights(from, to, T::to_floats, T::to_f32);
}

/// [`map`] by [`Element::from_f32`].
#[inline(always)]
pub(crate) fn from_floats<T: Element>(from: &[f32], to: &mut [T]) {
    map_eights(from, to, T::from_floats, T::from_f32);
}

/// [`map`] by a function of eight elements, or where there are fewer by one of an element.
#[inline(always)]
fn map_eights<A: Copy, R: Copy>(
    from: &[A],
    to: &mut [R],
    of_eight: impl Fn([A; 8]) -> [R; 8],
    of_one: impl Fn(A) -> R,
) {
    let count = from.len().min(to.len());
    if count < 8 {
        return map(from, to, of_one);
    }
    let from = &from[..count];
    stretches::<8, _, _, _>(from, from, &mut to[..count], |x, _| of_eight(*x));
}

/// `f` of arrays. The result is an array of its own: else every store might change what is loaded next.
#[inline(always)]
fn array<const N: usize, A: Copy, B: Copy, R: Copy>(a: &[A; N], b: &[B; N], f: &impl Fn(A, B) -> R) -> [R; N] {
    core::array::from_fn(|i| f(a[i], b[i]))
}

/// [`combine`] of slices of one length, of `N` at least, by a function of `N` elements.
#[inline(always)]
pub(crate) fn stretches<const N: usize, A: Copy, B: Copy, R: Copy>(
    a: &[A],
    b: &[B],
    to: &mut [R],
    f: impl Fn(&[A; N], &[B; N]) -> [R; N],
) {
    let pairs = a.as_chunks::<N>().0.iter().zip(b.as_chunks::<N>().0);
    let (whole, rest) = to.as_chunks_mut::<N>();
    for (to, (a, b)) in whole.iter_mut().zip(pairs) {
        *to = f(a, b);
    }
    if !rest.is_empty()
        && let (Some(a), Some(b), Some(to)) = (a.last_chunk::<N>(), b.last_chunk::<N>(), to.last_chunk_mut::<N>())
    {
        *to = f(a, b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_reaches_its_end_and_not_further() {
        for count in 0..70 {
            let from: Vec<i32> = (1..).take(count).collect();
            let mut to = vec![0; count + 1];
            map(&from, &mut to, |x| 2 * x);
            assert!(to.iter().zip(&from).all(|(to, from)| *to == 2 * from) && to[count] == 0, "{count}");
            if count >= 16 {
                to[..count].fill(0);
                stretches::<16, _, _, _>(&from, &from, &mut to[..count], |a, b| core::array::from_fn(|i| a[i] + b[i]));
            }
            assert!(to.iter().zip(&from).all(|(to, from)| *to == 2 * from) && to[count] == 0, "{count}");
            let (bytes, mut floats): (Vec<u8>, _) = (from.iter().map(|x| *x as u8).collect(), vec![0.0; count]);
            let mut back = vec![0; count + 1];
            to_floats(&bytes, &mut floats);
            from_floats(&floats, &mut back);
            assert!(back[..count] == bytes && back[count] == 0, "{count}");
            combine(&from, &to.clone(), &mut to, |a, b| a - b);
            assert!(to.iter().zip(&from).all(|(to, from)| *to == -from) && to[count] == 0, "{count}");
        }
    }
}
