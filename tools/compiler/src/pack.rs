//! Packs kernel images, which are a large part of a small network's plan.

use floe_engine::plan::{OwnedImage, format::ImageKind};
use miniz_oxide::deflate::compress_to_vec;

/// Of 1 to 10: beyond it, images become hardly smaller and take much longer.
const LEVEL: u8 = 5;

/// An image as a plan stores it: deflated where that is smaller.
pub(crate) fn pack(kind: ImageKind, image: &[u8]) -> OwnedImage {
    let plain = OwnedImage::plain(kind, image.to_vec());
    let packed = compress_to_vec(&plain.bytes, LEVEL);
    if packed.len() < plain.bytes.len() { OwnedImage { bytes: packed, ..plain } } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::inflate::decompress_to_vec;

    #[test]
    fn an_image_is_packed_where_that_is_smaller() {
        assert_eq!(pack(ImageKind::Cubin, b"short"), OwnedImage::plain(ImageKind::Cubin, b"short".to_vec()));
        let text = ".reg .b32 %r<8>;\n".repeat(40);
        let packed = pack(ImageKind::Ptx, text.as_bytes());
        assert!(packed.bytes.len() < text.len() / 4);
        assert_eq!(packed.unpacked, text.len() as u64 + 1);
        assert_eq!(decompress_to_vec(&packed.bytes).unwrap(), format!("{text}\0").into_bytes());
    }
}
