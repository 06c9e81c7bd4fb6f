//! What a binding holds, for programs that show pictures and results: the words of `Binding::content`.

use core::fmt;
use floe_kernels::frame::{ColourMatrix, PixelFormat, Region};

/// What a binding holds. It says nothing that a replay depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A tensor of the network.
    Tensor,
    /// An input: frames of a camera.
    Frame(FrameContent),
    /// f32 `[most, 6 + 2·keypoints]`: a row is left, top, right, bottom, score, class, then x and y of each keypoint, in pixels of
    /// the frame, 0 at its outer edge; the best score first, then rows of zeros.
    Boxes {
        /// The input that holds the frame; empty where coordinates are pixels of the network's input.
        input: &'a str,
    },
    /// i32 `[1]`: rows in use of the boxes.
    Count {
        /// The output that holds the boxes.
        boxes: &'a str,
    },
    /// A score for each class, along the last axis.
    Scores,
    /// The largest scores along the last axis, the best first.
    Best,
    /// The class of each of the largest scores.
    BestClasses {
        /// The output that holds the scores.
        scores: &'a str,
    },
    /// A class for each pixel of the network's input, or a single one.
    Classes,
}

/// A frame, and where it appears on the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameContent {
    /// How its pixels lie in memory.
    pub format: PixelFormat,
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// Bytes from one row to the next.
    pub stride: u32,
    /// What the network sees of it.
    pub crop: Region,
    /// Where it appears on the network's input, and perhaps beyond.
    pub window: Region,
    /// Width and height of the network's input.
    pub network: [u32; 2],
}

impl<'a> Content<'a> {
    /// Reads the words of a binding; `None` where they are none of this version's.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (word, of) = text.split_once(':').unwrap_or((text, ""));
        Some(match word {
            "" if text.is_empty() => Self::Tensor,
            "boxes" => Self::Boxes { input: of },
            "count" if !of.is_empty() => Self::Count { boxes: of },
            "best-classes" if !of.is_empty() => Self::BestClasses { scores: of },
            "scores" if of.is_empty() => Self::Scores,
            "best" if of.is_empty() => Self::Best,
            "classes" if of.is_empty() => Self::Classes,
            _ => Self::Frame(FrameContent::parse(text)?),
        })
    }
}

impl FrameContent {
    /// Of a whole frame that the network sees as it is.
    pub fn new(format: PixelFormat, size: [u32; 2]) -> Option<Self> {
        let whole = Region { top: 0, left: 0, height: size[1], width: size[0] };
        let stride = size[0].checked_mul(format.bytes_per_pixel())?;
        Some(Self { format, size, stride, crop: whole, window: whole, network: size })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut items = text.split(',');
        let (word, extents) = items.next()?.split_once(':')?;
        let mut frame = Self::new(PixelFormat::from_word(word)?, size(extents)?)?;
        for item in items {
            match item.split_once('=') {
                Some(("stride", bytes)) => frame.stride = bytes.parse().ok().filter(|&bytes| bytes >= frame.stride)?,
                Some(("crop", text)) => frame.crop = region(text)?,
                Some(("window", text)) => frame.window = region(text)?,
                Some(("network", text)) => frame.network = size(text)?,
                None => {
                    let PixelFormat::Video { matrix, full_range, .. } = &mut frame.format else { return None };
                    match item {
                        "bt709" => *matrix = ColourMatrix::Bt709,
                        "bt2020" => *matrix = ColourMatrix::Bt2020,
                        "full" => *full_range = true,
                        _ => return None,
                    }
                }
                Some(_) => return None,
            }
        }
        let end = |first: i32, extent: u32| u32::try_from(first).ok()?.checked_add(extent);
        let Region { top, left, height, width } = frame.crop;
        let inside = end(left, width)? <= frame.size[0] && end(top, height)? <= frame.size[1];
        let window = [frame.window.width, frame.window.height];
        (inside && ![width, height].contains(&0) && !window.contains(&0)).then_some(frame)
    }
}

/// `WIDTHxHEIGHT`, neither 0.
fn size(text: &str) -> Option<[u32; 2]> {
    let (width, height) = text.split_once('x')?;
    let size = [width.parse().ok()?, height.parse().ok()?];
    (!size.contains(&0)).then_some(size)
}

/// `WIDTHxHEIGHT+X+Y`; X and Y may be negative: `8x8+-3+0`.
fn region(text: &str) -> Option<Region> {
    let mut parts = text.splitn(3, '+');
    let [width, height] = size(parts.next()?)?;
    let [left, top] = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
    Some(Region { top, left, height, width })
}

impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor => Ok(()),
            Self::Frame(frame) => frame.fmt(f),
            Self::Boxes { input: "" } => f.write_str("boxes"),
            Self::Boxes { input } => write!(f, "boxes:{input}"),
            Self::Count { boxes } => write!(f, "count:{boxes}"),
            Self::Scores => f.write_str("scores"),
            Self::Best => f.write_str("best"),
            Self::BestClasses { scores } => write!(f, "best-classes:{scores}"),
            Self::Classes => f.write_str("classes"),
        }
    }
}

/// The words of `--preprocess` for the frame, then `crop`, `window` and `network`.
impl fmt::Display for FrameContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, size: [width, height], stride, crop, window, network } = self;
        write!(f, "{format}:{width}x{height}")?;
        if let PixelFormat::Video { matrix, full_range, .. } = format {
            match matrix {
                ColourMatrix::Bt601 => {}
                ColourMatrix::Bt709 => f.write_str(",bt709")?,
                ColourMatrix::Bt2020 => f.write_str(",bt2020")?,
            }
            if *full_range {
                f.write_str(",full")?;
            }
        }
        if u64::from(*stride) != u64::from(*width) * u64::from(format.bytes_per_pixel()) {
            write!(f, ",stride={stride}")?;
        }
        let mut region = |name: &str, Region { top, left, height, width }: &Region| {
            write!(f, ",{name}={width}x{height}+{left}+{top}")
        };
        region("crop", crop)?;
        region("window", window)?;
        write!(f, ",network={}x{}", network[0], network[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::frame::VideoLayout;
    use std::string::ToString;

    #[test]
    fn words_come_back() {
        let nv12 = PixelFormat::Video { layout: VideoLayout::Nv12, matrix: ColourMatrix::Bt709, full_range: true };
        let frame = FrameContent {
            stride: 2048,
            crop: Region { top: 4, left: 8, height: 1000, width: 1900 },
            window: Region { top: -3, left: 0, height: 360, width: 640 },
            network: [640, 640],
            ..FrameContent::new(nv12, [1920, 1080]).unwrap()
        };
        for (content, text) in [
            (Content::Tensor, ""),
            (Content::Boxes { input: "" }, "boxes"),
            (Content::Boxes { input: "a:b,c" }, "boxes:a:b,c"),
            (Content::Count { boxes: "detections" }, "count:detections"),
            (Content::Scores, "scores"),
            (Content::Best, "best"),
            (Content::BestClasses { scores: "logits" }, "best-classes:logits"),
            (Content::Classes, "classes"),
            (
                Content::Frame(frame),
                "nv12:1920x1080,bt709,full,stride=2048,crop=1900x1000+8+4,window=640x360+0+-3,network=640x640",
            ),
        ] {
            assert_eq!((content.to_string().as_str(), Content::parse(text)), (text, Some(content)));
        }
    }

    #[test]
    fn other_words_are_none() {
        for text in [
            "tensor",
            "count",
            "scores:x",
            "rgb",
            "rgb:0x4",
            "rgb:4294967295x1",
            "rgb:4x4,bt709",
            "rgb:4x4,stride=11",
            "rgb:4x4,crop=4x4+1+0",
            "rgb:4x4,crop=4x4+-1+0",
            "rgb:4x4,crop=1x1+4294967295+0",
            "rgb:4x4,window=0x1+0+0",
            "rgb:4x4,colour=red",
            ":",
        ] {
            assert_eq!(Content::parse(text), None, "{text}");
        }
    }
}
