//! CUDA candidates: tiles of the output, whose part of the frame goes through shared memory.

use super::pixels::Conversion;
use super::taps::Axis;
use super::{Channels, Frame, PixelFormat, VideoLayout};
use crate::DType;
use crate::codegen::{Candidate, Generate, Target, Unsupported, f32_literal};
use crate::strided::source::{Source, cost, traffic, vector_width};

/// Threads of a block.
const BLOCK: u32 = 256;
/// Rows and columns of a tile.
const TILES: [(u32, u32); 8] = [(16, 64), (8, 64), (8, 32), (4, 64), (4, 32), (2, 32), (1, 32), (1, 8)];
/// Most shared memory of a block: several blocks fit a multiprocessor, and no launch needs more than the default.
const MOST_SHARED: u32 = 48 << 10;

/// A tile, and what it needs of the frame.
struct Tile {
    height: u32,
    width: u32,
    slots: u32,
    chroma_slots: u32,
    /// Bytes of a row in shared memory.
    pitch: u32,
    shared: u32,
    /// Bytes that all tiles read.
    read: u64,
}

impl Generate for Frame {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let tiles = TILES.iter().map(|&(height, width)| self.tile(height, width));
        let tiles: Vec<Tile> = tiles.filter(|tile| tile.shared <= MOST_SHARED).collect();
        if tiles.is_empty() {
            return Err(Unsupported("a tile of one row and eight columns needs more than 48 KiB of the frame".into()));
        }
        Ok(tiles.iter().map(|tile| self.candidate(tile, target)).collect())
    }
}

impl Frame {
    /// Whether rows of chroma below the luma are read.
    fn reads_chroma(&self) -> bool {
        let planes = matches!(self.format, PixelFormat::Video { layout, .. } if layout.has_planes());
        planes && self.channels != Channels::Gray
    }

    /// Rows of chroma that each row of luma has: Cb and Cr, or both in one.
    fn chroma_planes(&self) -> u32 {
        if self.has_separate_chroma() { 2 } else { 1 }
    }

    /// Pixels on every side of a pixel that its colours are made of.
    fn neighbours(&self) -> u32 {
        u32::from(matches!(self.format, PixelFormat::Bayer { .. }))
    }

    /// Bytes of one read of the frame: the most that every row starts and ends at a multiple of.
    fn read_bytes(&self) -> u32 {
        let view = &self.frame;
        let outer = [(view.shape[0], view.strides[0]), (view.shape[1], view.strides[1])];
        let strides = outer.into_iter().filter(|&(extent, _)| extent > 1).map(|(_, stride)| i64::from(stride));
        let row = i64::from(view.shape[2] / self.chroma_planes());
        vector_width(DType::U8, strides.chain([view.offset.into(), row]))
    }

    /// What the starts of tiles in a row are multiples of, so that rows of chroma start at a read too. Pairs of chroma stay together.
    fn alignment(&self) -> u32 {
        let block = self.format.block()[0] as u32 * self.format.bytes_per_pixel();
        let pairs = if matches!(self.format, PixelFormat::Video { .. }) { block } else { 1 };
        (self.chroma_planes() * self.read_bytes()).max(pairs)
    }

    /// Slots of a row of the output where it does not share pixels with the next one.
    fn gathered(&self) -> Option<u32> {
        if self.neighbours() > 0 {
            return None;
        }
        let [rows, _] = self.axes();
        let most = match rows.radius {
            0 => 1,
            radius if radius == rows.target => 2,
            _ => return None,
        };
        (rows.source >= most * rows.target).then_some(most as u32)
    }

    fn tile(&self, height: u32, width: u32) -> Tile {
        let [rows, columns] = self.axes();
        let window = (self.window.top, self.window.left);
        let row_spans = spans(rows, window.0, self.output.shape[2], height);
        let column_spans = spans(columns, window.1, self.output.shape[3], width);
        let longest =
            |spans: &[(i32, i32)]| spans.iter().map(|(first, last)| (last - first + 1) as u32).max().unwrap_or(1);
        let around = 2 * self.neighbours();
        let slots = self.gathered().map_or_else(|| longest(&row_spans) + around, |slots| slots * height);
        // A pixel more on either side for pairs of chroma.
        let columns_read = longest(&column_spans) + 2 + around;
        let pitch = (columns_read * self.format.bytes_per_pixel()).next_multiple_of(16) + self.alignment().max(16);
        let chroma_slots = match (self.reads_chroma(), self.gathered()) {
            (false, _) => 0,
            (true, Some(_)) => slots * self.chroma_planes(),
            (true, None) => (slots / 2 + 1) * self.chroma_planes(),
        };
        let resampled = slots * self.resampled_channels() as u32 * width * 4;
        let share = if self.reads_chroma() { 1.5 } else { 1.0 };
        let bytes = |spans: &[(i32, i32)]| spans.iter().map(|(first, last)| (last - first + 1) as u64).sum::<u64>();
        let read_rows = match self.gathered() {
            Some(_) => (rows.target as u64).min(self.output.shape[2].into()),
            None => bytes(&row_spans),
        };
        let read = read_rows * bytes(&column_spans) * u64::from(self.format.bytes_per_pixel());
        Tile {
            height,
            width,
            slots,
            chroma_slots,
            pitch,
            shared: ((slots + chroma_slots) * pitch).saturating_add(resampled),
            read: (read as f64 * share) as u64 * u64::from(self.output.shape[0]),
        }
    }

    fn candidate(&self, tile: &Tile, target: &Target) -> Candidate {
        let (frame, output) = (&self.frame, &self.output);
        let mut source = Source::spanning(output.dtype, &[output, frame]);
        let [rows, columns] = self.axes();
        let (tiles_x, tiles_y) = (output.shape[3].div_ceil(tile.width), output.shape[2].div_ceil(tile.height));
        let gathered = self.gathered();
        let stored = if output.padded_channels != 0 { output.padded_channels } else { output.shape[1] };
        let width = match output.padded_channels {
            0 => 1,
            padded_channels => {
                let strides = [0, 2, 3].into_iter().filter(|&d| output.shape[d] > 1);
                let strides = strides.map(|d| i64::from(output.strides[d]));
                vector_width(output.dtype, strides.chain([padded_channels.into(), output.offset.into()]))
            }
        };
        let numbers: [(&str, i64); 37] = [
            ("BLOCK", BLOCK.into()),
            ("TILE_H", tile.height.into()),
            ("TILE_W", tile.width.into()),
            ("TILES_X", tiles_x.into()),
            ("TILES_Y", tiles_y.into()),
            ("SLOTS", tile.slots.into()),
            ("CHROMA_SLOTS", tile.chroma_slots.into()),
            ("GATHERED", gathered.is_some().into()),
            ("SLOTS_OF_ROW", gathered.unwrap_or(1).into()),
            ("PITCH", tile.pitch.into()),
            ("ALIGNMENT", self.alignment().into()),
            ("CROP_TOP", self.crop.top.into()),
            ("CROP_LEFT", self.crop.left.into()),
            ("CROP_H", rows.source.into()),
            ("CROP_W", columns.source.into()),
            ("WINDOW_TOP", self.window.top.into()),
            ("WINDOW_LEFT", self.window.left.into()),
            ("WINDOW_H", rows.target.into()),
            ("WINDOW_W", columns.target.into()),
            ("RADIUS_H", rows.radius.into()),
            ("RADIUS_W", columns.radius.into()),
            ("HEIGHT", self.height().into()),
            ("FRAME_W", self.width().into()),
            ("CHROMA_PLANES", self.chroma_planes().into()),
            ("BYTES_PER_PIXEL", self.format.bytes_per_pixel().into()),
            ("RESAMPLED", self.resampled_channels() as i64),
            ("STORED", stored.into()),
            ("WIDTH", width.into()),
            ("INPUT_OFFSET", frame.offset.into()),
            ("INPUT_N", frame.strides[0].into()),
            ("INPUT_ROW", frame.strides[1].into()),
            ("OUTPUT_H", output.shape[2].into()),
            ("OUTPUT_W", output.shape[3].into()),
            ("OUTPUT_OFFSET", output.offset.into()),
            ("OUTPUT_N", output.strides[0].into()),
            ("OUTPUT_CHANNEL", output.strides[1].into()),
            ("OUTPUT_ROW", output.strides[2].into()),
        ];
        for (name, value) in numbers {
            source.define(name, format!("({value})"));
        }
        source.define("OUTPUT_COLUMN", format!("({})", output.strides[3]));
        self.define_pixels(&mut source);
        source.line(&format!("typedef Vector<u8, {}> Read;", self.read_bytes()));
        let blocks = u64::from(tiles_x) * u64::from(tiles_y) * u64::from(output.shape[0]);
        let mut launch = source.launch(include_str!("frame.cu"), "frame", blocks, BLOCK, 1);
        launch.shared = tile.shared;
        // A block has three phases with a barrier between them: few blocks hide little of each other's.
        let resident = (target.shared_per_multiprocessor / (tile.shared + 1024)).clamp(1, 8);
        let waves = (blocks as f64 / f64::from(target.multiprocessors * resident)).ceil();
        let cost = cost(target, tile.read + traffic(&[output]), 1.5) + waves * 1.0;
        Candidate::new("tiled", format!("{}x{}", tile.height, tile.width), vec![launch], cost)
    }

    /// What a pixel is made of, and `FINISH` and `PADDING`, which put a pixel into `result`.
    fn define_pixels(&self, source: &mut Source) {
        source.define("VIDEO", i32::from(matches!(self.format, PixelFormat::Video { .. })));
        source.define("BAYER", i32::from(matches!(self.format, PixelFormat::Bayer { .. })));
        source.define(
            "LUMA",
            i32::from(self.channels == Channels::Gray && self.format != PixelFormat::Packed(Channels::Gray)),
        );
        match self.format {
            PixelFormat::Packed(channels) => source.define("RED", channels.order()[0]),
            PixelFormat::Video { layout, matrix, full_range } => {
                let places = layout.places();
                let numbers = [
                    ("LUMA_FIRST", places.luma),
                    ("LUMA_STEP", places.step),
                    ("PAIR", places.pair),
                    ("CB", places.cb),
                    ("CR", places.cr),
                    ("SAMPLE_BYTES", places.bytes),
                    ("SHIFT", if layout == VideoLayout::P010 { 6 } else { 0 }),
                ];
                for (name, value) in numbers {
                    source.define(name, value);
                }
                let conversion = Conversion::new(layout, matrix, full_range);
                let factors = [
                    ("BLACK", conversion.black),
                    ("LUMA_FACTOR", conversion.luma),
                    ("CENTRE", conversion.centre),
                    ("RED_CR", conversion.red),
                    ("GREEN_CB", conversion.green[0]),
                    ("GREEN_CR", conversion.green[1]),
                    ("BLUE_CB", conversion.blue),
                ];
                for (name, value) in factors {
                    source.define(name, f32_literal(value));
                }
            }
            PixelFormat::Bayer { mosaic, bits } => {
                let [row, column] = mosaic.red();
                for (name, value) in [("RED_Y", row), ("RED_X", column), ("SHIFT", 0)] {
                    source.define(name, value);
                }
                source.define("SAMPLE_BYTES", self.format.bytes_per_pixel());
                source.define("BAYER_SCALE", f32_literal(255.0 / ((1u32 << bits) - 1) as f32));
            }
        }
        let store = if self.output.dtype == DType::U8 { "store_as<T>(rintf(" } else { "store_as<T>((" };
        let finish = |c: usize, value: String| {
            let [scale, shift] = [self.scale[c], self.shift[c]].map(f32_literal);
            format!(" result[{c}] = {store}{value} * {scale} + {shift}));")
        };
        let sources = self.sources();
        let count = self.channels.count() as usize;
        let value = |c: usize| sources[c].map_or_else(|| "255.0f".to_owned(), |k| format!("sum.v[{k}]"));
        source.define("FINISH", (0..count).map(|c| finish(c, value(c))).collect::<String>());
        source.define("PADDING", (0..count).map(|c| finish(c, f32_literal(self.padding[c]))).collect::<String>());
    }
}

/// First and last source pixel of each tile of `extent` outputs that touches the window.
fn spans(axis: Axis, window: i32, outputs: u32, extent: u32) -> Vec<(i32, i32)> {
    let tile = |start: u32| {
        let first = (start as i32 - window).max(0);
        let last = ((start + extent).min(outputs) as i32 - window).min(axis.target) - 1;
        (first <= last).then(|| (axis.taps(first).first, axis.taps(last).last))
    };
    (0..outputs).step_by(extent as usize).filter_map(tile).collect()
}
