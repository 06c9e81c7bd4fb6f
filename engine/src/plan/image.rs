//! Kernel images as a plan stores them.

use super::{
    error::RecordProblem,
    format::{Image, ImageKind, OPERAND_ALIGNMENT},
    inflate,
};

/// A kernel image in the plan's bytes: as the driver is given it, or deflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredImage<'a> {
    bytes: &'a [u8],
    unpacked: u64,
}

impl<'a> StoredImage<'a> {
    #[cfg(feature = "writer")]
    pub(super) fn new(bytes: &'a [u8], unpacked: u64) -> Self {
        Self { bytes, unpacked }
    }

    /// The image of this range; an empty one if it lies outside `blob`.
    pub(super) fn find(blob: &'a [u8], image: Image) -> Self {
        let range = image.offset.checked_add(image.bytes).map(|end| image.offset as usize..end as usize);
        let bytes = range.and_then(|range| blob.get(range));
        bytes.map_or(Self { bytes: &[], unpacked: 0 }, |bytes| Self { bytes, unpacked: image.unpacked })
    }

    /// What the plan holds.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes that the driver is given.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked
    }

    /// Whether it has to be unpacked.
    pub fn is_packed(&self) -> bool {
        self.unpacked != self.bytes.len() as u64
    }

    /// Unpacks a packed image into the first bytes of `to`, which are returned; `None` if `to` is shorter, or if it does not
    /// hold [`Self::unpacked_bytes`] bytes. An image that is not packed is returned as it is.
    pub fn unpack<'b>(&self, to: &'b mut [u8]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.is_packed() {
            return Some(self.bytes);
        }
        let to = to.get_mut(..usize::try_from(self.unpacked).ok()?)?;
        inflate::unpack(self.bytes, to)?;
        Some(to)
    }

    /// The image as the driver is given it; `None` as for [`Self::unpack`].
    #[cfg(feature = "writer")]
    pub fn to_vec(&self) -> Option<alloc::vec::Vec<u8>> {
        let mut bytes = alloc::vec![0; usize::try_from(self.unpacked).ok()?];
        self.unpack(&mut bytes).map(<[u8]>::to_vec)
    }
}

/// Checks an image's range in its blob, and what can be seen of PTX without unpacking it. Returns where it ends.
pub(super) fn check_image(image: Image, kind: ImageKind, blob: &[u8]) -> Result<u64, RecordProblem> {
    let end = image.offset.checked_add(image.bytes).filter(|&end| end <= blob.len() as u64);
    let end = end.ok_or(RecordProblem::ImageRange)?;
    if image.bytes == 0 || !image.offset.is_multiple_of(OPERAND_ALIGNMENT) {
        return Err(RecordProblem::ImageRange);
    }
    if image.unpacked < image.bytes || image.unpacked / inflate::MOST_EXPANSION > image.bytes {
        return Err(RecordProblem::ImageUnpacked);
    }
    if kind == ImageKind::Ptx && !image.is_packed() && blob.get(end as usize - 1) != Some(&0) {
        return Err(RecordProblem::ImageNotTerminated);
    }
    Ok(end)
}
