//! The text of `--preprocess`: `INPUT=FORMAT:WIDTHxHEIGHT[,OPTION]…`.

use super::{Fit, ImageLayout, Preprocess, PreprocessError};
use floe_models::op::{Channels, ColourMatrix, PixelFormat, Region, Resampling, VideoLayout};

/// What `floec compile --help` says about the options.
pub const HELP: &str = "\
--preprocess INPUT=FORMAT:WIDTHxHEIGHT[,OPTION]… makes INPUT a u8 frame of a camera:
  FORMAT             rgb, bgr, rgba, bgra: [H, W, channels]; gray: [H, W];
                     nv12, nv21, i420: [H·3/2, W]; p010: [H·3/2, W·2]; yuyv, uyvy: [H, W·2];
                     rggb, bggr, grbg, gbrg: [H, W], with 10 or 12 behind for as many bits: [H, W·2]
  stride=BYTES       bytes of a row where that is more than its pixels have: [rows, BYTES]
  bt709, bt2020      video: in place of BT.601
  full               video: all codes in place of 16…235
  crop=WxH+X+Y       only this part of the frame
  letterbox          resize with the aspect kept, padding beside it; letterbox=top-left
  cover              resize with the aspect kept and cut the centre out; cover=256: the shorter
                     side becomes 256 first. Without either, each dimension is stretched
  pad=114            padding, 0…255; one number, or one a channel: 104/117/123
  antialias, nearest filter (Pillow's BILINEAR, NEAREST) in place of bilinear (OpenCV's INTER_LINEAR)
  rgb, bgr, gray, …  what the network wants; rgb, gray or rgba by its channels
  range=0..1         what 0 and 255 become; 0..255 by default
  mean=A/B/C         subtracted then
  std=A/B/C          divides then
  nchw, nhwc         order of the network's dimensions where its extents do not tell";

/// Most pixels along a side of a frame.
const MOST_PIXELS: usize = floe_kernels::frame::MAX_EXTENT as usize;

impl Preprocess {
    /// Reads `INPUT=FORMAT:WIDTHxHEIGHT[,OPTION]…`.
    ///
    /// # Errors
    /// Which part is wrong and what could stand there.
    pub fn parse(text: &str) -> Result<Self, PreprocessError> {
        let fail = |reason: String| PreprocessError { option: text.to_owned(), reason };
        let (input, rest) = text.split_once('=').ok_or_else(|| fail("write INPUT=FORMAT:WIDTHxHEIGHT,…".into()))?;
        let mut items = rest.split(',');
        let first = items.next().unwrap_or_default();
        let (format, width, height) = frame(first).map_err(|reason| fail(format!("'{first}': {reason}")))?;
        let mut result = Self {
            input: input.to_owned(),
            format,
            width,
            height,
            stride: None,
            crop: None,
            fit: Fit::Stretch,
            resampling: Resampling::Bilinear,
            channels: None,
            padding: vec![0.0],
            range: (0.0, 255.0),
            mean: vec![0.0],
            deviation: vec![1.0],
            layout: None,
        };
        let mut seen: Vec<&str> = Vec::new();
        for item in items {
            let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
            let kind = result.option(key, value).map_err(|reason| fail(format!("'{item}': {reason}")))?;
            if seen.contains(&kind) {
                return Err(fail(format!("'{item}': {kind} is given twice")));
            }
            seen.push(kind);
        }
        result.check().map_err(fail)?;
        Ok(result)
    }

    /// Takes one option; what kind of option it is.
    fn option(&mut self, key: &str, value: Option<&str>) -> Result<&'static str, String> {
        let needed = || value.filter(|value| !value.is_empty()).ok_or_else(|| format!("write {key}=VALUE"));
        if value.is_some()
            && !matches!(key, "stride" | "crop" | "letterbox" | "cover" | "pad" | "range" | "mean" | "std")
        {
            return Err(if is_known(key) { format!("{key} takes no value") } else { unknown(key) });
        }
        Ok(match key {
            "stride" => {
                self.stride = Some(positive(needed()?)?);
                "stride"
            }
            "bt601" | "bt709" | "bt2020" => {
                *self.video()?.0 = match key {
                    "bt709" => ColourMatrix::Bt709,
                    "bt2020" => ColourMatrix::Bt2020,
                    _ => ColourMatrix::Bt601,
                };
                "the matrix"
            }
            "full" | "limited" => {
                *self.video()?.1 = key == "full";
                "the range of codes"
            }
            "crop" => {
                self.crop = Some(rectangle(needed()?)?);
                "crop"
            }
            "stretch" => {
                self.fit = Fit::Stretch;
                "the fit"
            }
            "letterbox" => {
                self.fit = match value {
                    None | Some("centre" | "center") => Fit::Letterbox { top_left: false },
                    Some("top-left") => Fit::Letterbox { top_left: true },
                    Some(_) => return Err("write letterbox, letterbox=centre or letterbox=top-left".into()),
                };
                "the fit"
            }
            "cover" => {
                self.fit = Fit::Cover { shorter: value.map(positive).transpose()? };
                "the fit"
            }
            "pad" => {
                let values = numbers(needed()?)?;
                if values.iter().any(|value| !(0.0..=255.0).contains(value)) {
                    return Err("padding is between 0 and 255".into());
                }
                self.padding = values.into_iter().map(|value| value as f32).collect();
                "pad"
            }
            "bilinear" | "nearest" | "antialias" => {
                self.resampling = match key {
                    "bilinear" => Resampling::Bilinear,
                    "nearest" => Resampling::Nearest,
                    _ => Resampling::Antialias,
                };
                "the filter"
            }
            "range" => {
                let bounds = needed()?.split_once("..").and_then(|(a, b)| Some((number(a).ok()?, number(b).ok()?)));
                self.range = bounds.ok_or("write range=LOW..HIGH")?;
                "range"
            }
            "mean" => {
                self.mean = numbers(needed()?)?;
                "mean"
            }
            "std" => {
                self.deviation = numbers(needed()?)?;
                if self.deviation.contains(&0.0) {
                    return Err("a deviation of 0".into());
                }
                "std"
            }
            "nchw" | "nhwc" => {
                self.layout = Some(if key == "nchw" { ImageLayout::Nchw } else { ImageLayout::Nhwc });
                "the layout"
            }
            _ => {
                self.channels = Some(Channels::from_word(key).ok_or_else(|| unknown(key))?);
                "the colours"
            }
        })
    }

    /// Matrix and range of a video format.
    fn video(&mut self) -> Result<(&mut ColourMatrix, &mut bool), String> {
        match &mut self.format {
            PixelFormat::Video { matrix, full_range, .. } => Ok((matrix, full_range)),
            other => Err(format!("{other} has none: only video formats, such as nv12, have it")),
        }
    }

    /// What several options say together.
    fn check(&self) -> Result<(), String> {
        let bytes = self.width * self.format.bytes_per_pixel() as usize;
        if let Some(stride) = self.stride
            && !(bytes..=4 * MOST_PIXELS).contains(&stride)
        {
            return Err(format!("stride={stride}: a row of the frame has {bytes} bytes"));
        }
        let i420 = matches!(self.format, PixelFormat::Video { layout: VideoLayout::I420, .. });
        if i420 && self.stride.is_some_and(|stride| stride % 2 != 0 || stride > MOST_PIXELS) {
            return Err(format!(
                "the stride of i420 is even and at most {MOST_PIXELS}: rows of chroma have half of it"
            ));
        }
        if let Some(Region { top, left, height, width }) = self.crop
            && (top as usize + height as usize > self.height || left as usize + width as usize > self.width)
        {
            let frame = format!("{}x{}", self.width, self.height);
            return Err(format!("crop={width}x{height}+{left}+{top} leaves the frame of {frame}"));
        }
        Ok(())
    }
}

fn is_known(key: &str) -> bool {
    let words =
        ["bt601", "bt709", "bt2020", "full", "limited", "stretch", "bilinear", "nearest", "antialias", "nchw", "nhwc"];
    words.contains(&key) || Channels::from_word(key).is_some()
}

fn unknown(key: &str) -> String {
    format!(
        "no option is called '{key}'; there are stride, bt709, bt2020, full, crop, letterbox, cover, stretch, pad, bilinear, \
         antialias, nearest, rgb, bgr, rgba, bgra, gray, range, mean, std, nchw, nhwc"
    )
}

/// `FORMAT:WIDTHxHEIGHT`.
fn frame(text: &str) -> Result<(PixelFormat, usize, usize), String> {
    let (word, size) = text.split_once(':').ok_or("write FORMAT:WIDTHxHEIGHT, for example nv12:1920x1080")?;
    let format = PixelFormat::from_word(word)
        .ok_or_else(|| format!("no format is called '{word}'; there are {}", PixelFormat::WORDS))?;
    let (width, height) = extents(size)?;
    match format.block() {
        [across, down] if width % across == 0 && height % down == 0 => {}
        [_, 1] => return Err(format!("{format} has an even width")),
        _ => return Err(format!("{format} has an even width and height")),
    }
    Ok((format, width, height))
}

/// `WIDTHxHEIGHT`.
fn extents(text: &str) -> Result<(usize, usize), String> {
    let (width, height) = text.split_once('x').ok_or("write extents as WIDTHxHEIGHT")?;
    let extents = (positive(width)?, positive(height)?);
    if extents.0.max(extents.1) > MOST_PIXELS {
        return Err(format!("more than {MOST_PIXELS} pixels along a side"));
    }
    Ok(extents)
}

/// `WIDTHxHEIGHT+X+Y`.
fn rectangle(text: &str) -> Result<Region, String> {
    let mut parts = text.splitn(3, '+');
    let (width, height) = extents(parts.next().unwrap_or_default())?;
    let mut place = || {
        let place = parts.next().and_then(|place| place.parse::<u16>().ok()).filter(|&p| usize::from(p) <= MOST_PIXELS);
        place.map(i32::from).ok_or("write WIDTHxHEIGHT+X+Y, X and Y the place of the upper left corner")
    };
    let (left, top) = (place()?, place()?);
    Ok(Region { top, left, height: height as u32, width: width as u32 })
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("'{text}' is no positive whole number"))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| format!("'{text}' is no number"))
}

/// Numbers with slashes between them.
fn numbers(text: &str) -> Result<Vec<f64>, String> {
    text.split('/').map(number).collect()
}
